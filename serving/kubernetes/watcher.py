"""Feeds the scheduler extender from a cluster's API server.

    python -m sojourn.serving.kubernetes BUNDLE [--kubeconfig FILE] [--context NAME] [options of the extender]

Two threads, one for pods and one for nodes, each list all objects page by page, and then watch
from the list's resource version on. A broken watch goes on at the last version; if the server no
longer has it (410), all is listed anew, and what is absent has ended. See docs/extender/watcher.md.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Protocol, TypedDict

import msgspec
from kubernetes.client import ApiClient
from urllib3 import HTTPResponse

from sojourn.serving.extender import Choices, Drains, ExtenderCalls, start_order
from sojourn.serving.extender import main as serve
from sojourn.serving.http import Turns
from sojourn.serving.inputs import field, mapping, node_name, pod_uid
from sojourn.serving.kubernetes.cluster import CONNECTION_ERRORS, add_cluster_options, ask, open_cluster
from sojourn.serving.prometheus import Metric

PAGE_SIZE = 500
"""Objects of one answer to a list, as client-go asks."""
WATCH_S = 60
"""The server ends a watch after so long; a connection that is dead without a sign is noticed 15 s later."""
STALE_S = 900
"""The extender stays ready for so long after the last sign of the API server."""
FORBIDDEN_S = 60.0
N_FORBIDDEN = 5
"""The least wait after so many 403 in a row: a role is missing until a person adds it. A server that has just started
says 403, too, until it knows its roles."""
BACKOFF_S = (0.5, 30.0)
"""The first and the longest wait after a failure; it doubles, and is drawn from its upper half."""
CONNECTION_MAX_S = 5.0
"""The same while no server answers: a try costs nothing."""
RETRY_AFTER_MAX_S = 300.0
N_REASONS_MAX = 30

_N_ANSWERED_MAX = 3
"""After so many failures in a row that the server answered, all is listed anew."""
_LINE_BYTES_MAX = 8 << 20
"""Above etcd's limit for an object, 1.5 MiB."""
_PAGE_BYTES_MAX = 256 << 20
_PIECE_BYTES = 1 << 16
_KINDS = frozenset({"ADDED", "MODIFIED", "DELETED"})
_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers"})
_CLAIMS = frozenset({"persistentVolumeClaim", "ephemeral"})
_log = logging.getLogger(__name__)


class _Page(msgspec.Struct):
    """A list, or a page of one; its items are texts."""

    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None


class _Event(msgspec.Struct):
    """An event of a watch; its object is a text."""

    type: str
    object: msgspec.Raw


class _Container(TypedDict, total=False):
    """What is kept of a container."""

    name: Any
    image: Any
    resources: Any
    restartPolicy: Any


class _Status(TypedDict, total=False):
    """What is kept of a pod's status."""

    phase: Any
    startTime: Any
    qosClass: Any
    containerStatuses: Any


class _Pod(msgspec.Struct):
    """A pod whose fields are read one by one: most of its text is dropped, and to make objects of it takes longest."""

    metadata: dict[str, msgspec.Raw] | None = None
    spec: dict[str, msgspec.Raw] | None = None
    status: _Status | None = None


_page_of = msgspec.json.Decoder(_Page).decode
_event_of = msgspec.json.Decoder(_Event).decode
_pod_of = msgspec.json.Decoder(_Pod).decode
_containers_of = msgspec.json.Decoder(list[_Container] | None).decode
_object_of = msgspec.json.Decoder(dict[str, Any]).decode
_value_of = msgspec.json.Decoder().decode


def page_of(pieces: Iterable[bytes]) -> _Page:
    """A page of a list from the pieces of its text; ValueError for anything else.

    >>> page = page_of([b'{"metadata":{"continue":"c"},"ite', b'ms":[{"a":1},{', b'"a":2}]}'])
    >>> page.metadata, [bytes(item) for item in page.items]
    ({'continue': 'c'}, [b'{"a":1}', b'{"a":2}'])
    """
    kept, n_bytes = [], 0
    for piece in pieces:
        kept.append(piece)
        n_bytes += len(piece)
        if n_bytes > _PAGE_BYTES_MAX:
            raise ValueError(f"a page must have at most {_PAGE_BYTES_MAX} bytes, got more")
    return _page_of(b"".join(kept))


def watched_objects(pieces: Iterable[bytes]) -> Iterator[tuple[str, msgspec.Raw]]:
    """Type and object, a text, of each event of a watch as its lines come in; ValueError for a line that is none.

    >>> [(kind, bytes(text)) for kind, text in watched_objects([b'{"type":"ADDED","obj', b'ect":{}}\\n'])]
    [('ADDED', b'{}')]
    """
    begun = b""
    for piece in pieces:
        *lines, begun = (begun + piece).split(b"\n")
        for line in filter(bytes.strip, lines):
            event = _event_of(line)
            yield event.type, event.object
        if len(begun) > _LINE_BYTES_MAX:
            raise ValueError(f"a line must have at most {_LINE_BYTES_MAX} bytes, got more")
    if begun.strip():
        raise ValueError("the last line of the watch is cut")


class Taker(Protocol):
    """Takes in one kind of object."""

    resource: str
    accept: str
    """Media types of an answer; `{}` stands for `List` in a list, else for nothing."""

    def kept(self, text: bytes | msgspec.Raw) -> Any:
        """What of an object is worth keeping in memory, and may be taken in; ValueError if it is no JSON."""

    def take(self, item: Any, is_deleted: bool) -> str:
        """Take in an object; the result, as it is counted. ValueError if it is refused. The caller has the turn."""
        ...

    def take_all(self, items: list[Any], take: Callable[[Any], None]) -> None:
        """Empty a list of all objects; `take` waits for a turn and takes in one. What is absent has ended."""


class PodTaker:
    """Pods, into the extender. It must be the only one that reports them: then what is absent from a list has ended."""

    resource = "pods"
    accept = "application/json"

    def __init__(self, calls: ExtenderCalls, turns: Turns, sources: Mapping[str, str] | None) -> None:
        self._calls, self._turns = calls, turns
        fields = _Container.__annotations__
        for column, source in (sources or {}).items():
            parts = source.split(".")
            is_kept = parts[3:4] and parts[3] in fields if parts[1:2] and parts[1] in _CONTAINERS else (
                parts[1:2] != ["volumes"] and parts[:2] != ["metadata", "managedFields"])
            if source.startswith(("metadata.", "spec.")) and not is_kept:
                raise ValueError(f"{column} must not come from volumes, managedFields, or of containers from else than "
                                 f"{', '.join(fields)}: a watcher does not keep these; got {source!r}")

    def kept(self, text: bytes | msgspec.Raw) -> Any:
        """The pod without what no column can come from; as it is, if a part has a wrong type (it is refused later)."""
        try:
            pod = _pod_of(text)
            metadata = {key: _value_of(value) for key, value in (pod.metadata or {}).items() if key != "managedFields"}
            spec = {key: _containers_of(value) if key in _CONTAINERS else _value_of(value)
                    for key, value in (pod.spec or {}).items()}
        except msgspec.ValidationError:
            return _value_of(text)
        claims = [each for each in spec.pop("volumes", None) or () if isinstance(each, dict) and each.keys() & _CLAIMS]
        if claims:  # a dry run does not know which nodes they can be on
            spec["volumes"] = claims
        return {"metadata": metadata, "spec": spec, "status": pod.status or {}}

    def take(self, item: Any, is_deleted: bool) -> str:
        """Place it, or end it."""
        return self._calls.take(item, is_deleted)

    def take_all(self, items: list[Any], take: Callable[[Any], None]) -> None:
        """In the order of their starts, as the owner history needs it."""
        uids: list[str | None] = []
        items.sort(key=start_order, reverse=True)
        while items:  # each is freed when it is taken in
            item = items.pop()
            try:
                uids.append(pod_uid(item))
            except ValueError:
                uids.append(None)  # nobody knows which one it is: none is absent
            take(item)
        with self._turns:
            self._calls.end_absent(uids, grace_s=0)


class NodeTaker:
    """Drain deadlines of nodes, into the extender, and their room for a dry run. A deadline that cannot be read counts
    as none."""

    resource = "nodes"
    accept = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
    """Without status and spec: a node's images alone may have 10 KB."""

    def __init__(self, drains: Drains, choices: Choices | None = None) -> None:
        self._drains = drains
        self._choices = choices
        if choices is not None:
            self.accept = "application/json"
        self._draining: set[str] = set()

    def kept(self, text: bytes | msgspec.Raw) -> Any:
        """Name and annotations; as it is, if it has a wrong type (it is refused later)."""
        item = _value_of(text)
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if not isinstance(metadata, dict):
            return item
        kept: dict[str, Any] = {"metadata": {
            key: metadata[key] for key in ("name", "annotations", "resourceVersion") if key in metadata}}
        if self._choices is not None:
            kept["metadata"]["labels"] = metadata.get("labels")
            kept["spec"] = item.get("spec")
            with suppress(ValueError):
                kept["status"] = {"allocatable": field(item, "status", "allocatable")}
        return kept

    def take(self, item: Any, is_deleted: bool) -> str:
        """Set or lift its deadline."""
        name = node_name(item)
        is_draining = not is_deleted and self._drains.deadline_of(item) is not None
        if is_draining or name in self._draining:
            self._drains.update(item if is_draining else {"metadata": {"name": name}})
            (self._draining.add if is_draining else self._draining.discard)(name)
        if self._choices is not None:
            self._choices.seen({"metadata": {"name": name}} if is_deleted else item)
        return "draining" if is_draining else "ended" if is_deleted else "known"

    def take_all(self, items: list[Any], take: Callable[[Any], None]) -> None:
        """Absent nodes lose their deadlines."""
        absent = set(self._draining if self._choices is None else self._draining | self._choices.node_names())
        for item in items:
            take(item)
            with suppress(ValueError):
                absent.discard(node_name(item))
        items.clear()
        for name in absent:
            take({"metadata": {"name": name}})


class _Refused(Exception):
    """The server's answer is no. reason: for the metrics. wait_s: the least wait until the next try."""

    def __init__(self, reason: str, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.reason, self.wait_s = reason, wait_s


def _refused(code: Any, status: Mapping[str, Any], retry_after: str | None = None) -> _Refused:
    """What a Status, as an answer or as an event, means."""
    text = f"{code} {status.get('message') or status.get('reason') or ''}"
    wait_s = min(float(retry_after), RETRY_AFTER_MAX_S) if retry_after and retry_after.isdecimal() else 0.0
    if code == HTTPStatus.GONE or status.get("reason") in ("Expired", "Gone"):
        return _Refused("expired", text)
    if code == HTTPStatus.FORBIDDEN:
        return _Refused("forbidden", text)
    if code == HTTPStatus.UNAUTHORIZED:
        return _Refused("unauthorized", text)
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return _Refused("throttled", text, wait_s)
    # 504: also a version that the server does not have yet, as after a restored backup
    is_server = isinstance(code, int) and code >= 500 and code != HTTPStatus.GATEWAY_TIMEOUT
    return _Refused("server" if is_server else "status", text, wait_s)


def _version(metadata: Mapping[str, Any]) -> str:
    version = metadata.get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise ValueError(f"metadata.resourceVersion must be given, got {version!r}")
    return version


class Reflector:
    """Lists and watches one resource of the API server, until it is stopped, and hands it to a taker.

    clock: seconds, never falling. say: gets a line when something changes for the worse or the better.
    """

    def __init__(self, client: ApiClient, taker: Taker, turns: Turns, rng: random.Random | None = None,
                 clock: Callable[[], float] = time.monotonic, say: Callable[[str], None] = print) -> None:
        self._client, self._taker, self._turns, self._clock, self._say = client, taker, turns, clock, say
        self._rng = random.Random() if rng is None else rng
        self._over = threading.Event()
        self._response: HTTPResponse | None = None
        self._version: str | None = None
        self._n_failed = self._n_answered = self._n_forbidden = 0
        self._was_away = False
        self._reason = "start"
        self._seen_s: float | None = None
        self.failure = ""
        self.list_s = 0.0
        self.lists: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.events: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[str] = Counter()

    def run(self) -> None:
        """List and watch until `stop` is called; failures are waited out."""
        while not self._over.is_set():
            wait_s = self.step()
            if wait_s:
                self._over.wait(wait_s)

    def stop(self) -> None:
        """End `run` soon, from another thread; it cuts what is being read."""
        self._over.set()
        response = self._response
        if response is not None:
            with suppress(Exception):  # it may have been read to its end meanwhile
                response.shutdown()

    def age_s(self) -> float | None:
        """Seconds since the server last gave a sign that the view is complete; None before the first list."""
        return None if self._seen_s is None else self._clock() - self._seen_s

    def missing(self) -> str:
        """Why the view must not be used; empty if it may."""
        age_s = self.age_s()
        if age_s is not None and age_s <= STALE_S:
            return ""
        view = "have not been listed yet" if age_s is None else f"were last heard of {age_s:.0f} s ago"
        return f"{self._taker.resource} {view}" + (f": {self.failure}" if self.failure else "")

    def step(self) -> float:
        """List, or watch until the watch ends; the seconds to wait until the next step."""
        try:
            if self._version is not None:
                return self._watch()
            gc.disable()  # documents have no cycles, and to look for some in a whole cluster takes a second
            try:
                self._list()
            finally:
                gc.enable()
            gc.freeze()  # what runs now is not looked through again
            return 0.0
        except _Refused as error:
            return self._failed(error.reason, str(error), error.wait_s)
        except CONNECTION_ERRORS as error:
            return self._failed("connection", f"{type(error).__name__}: {error}")
        except (ValueError, RecursionError) as error:
            return self._failed("garbage", str(error) or type(error).__name__)
        except Exception as error:  # the thread must go on
            _log.exception("%s failed", self._taker.resource)
            self._version = None
            return self._failed("internal", type(error).__name__)
        finally:
            if self._response is not None:
                self._response.close()
                self._response = None

    def _list(self) -> None:
        started_s, version = self._clock(), ""
        items: list[Any] = []
        query: dict[str, str | int] = {"limit": PAGE_SIZE}
        self.lists[self._reason] += 1
        while True:
            page = page_of(self._pieces("List", query))
            items += map(self._taker.kept, page.items or ())
            page_version = _version(page.metadata)
            # of the first page: what changed during the others comes again, which changes nothing
            version = version or page_version
            query["continue"] = page.metadata.get("continue") or ""
            del page  # before the next one comes
            if not query["continue"]:
                break
        n_items = len(items)
        self._taker.take_all(items, lambda item: self._take("LISTED", item, is_deleted=False))
        self._version, self._seen_s = version, self._clock()
        self.list_s = self._seen_s - started_s
        self._say(f"{self._taker.resource}: listed {n_items} in {self.list_s:.1f} s ({self._reason})")

    def _watch(self) -> float:
        started_s, n_before = self._clock(), sum(self.events.values())
        pieces = self._pieces("", {"watch": "true", "resourceVersion": self._version or "", "timeoutSeconds": WATCH_S,
                                   "allowWatchBookmarks": "true"})
        for kind, text in watched_objects(pieces):
            if kind == "ERROR":
                self.events[kind, "refused"] += 1
                status = _object_of(text)
                raise _refused(status.get("code"), status)
            item = self._taker.kept(text)
            version = _version(mapping(item, "metadata"))
            if kind in _KINDS:
                self._take(kind, item, is_deleted=kind == "DELETED")
            else:
                self.events["BOOKMARK" if kind == "BOOKMARK" else "other", "known"] += 1
            self._version = version
            self._goes_well()
        if self._clock() - started_s < 1.0 and sum(self.events.values()) == n_before:
            raise _Refused("short", "the watch ended at once")
        self._goes_well()
        return 0.0

    def _pieces(self, listed: str, query: Mapping[str, str | int]) -> Iterator[bytes]:
        """The body of the server's answer, as it comes."""
        accept = self._taker.accept.format(listed)
        response = self._response = ask(self._client, "GET", f"/api/v1/{self._taker.resource}", query,
                                        headers={"Accept": accept}, timeouts_s=(10.0, WATCH_S + 15.0))
        if self._over.is_set():
            return
        if response.status != HTTPStatus.OK:
            text = response.read(_PIECE_BYTES)
            try:
                status: Mapping[str, Any] = _object_of(text)
            except (ValueError, RecursionError):
                status = {}
            raise _refused(response.status, status, response.headers.get("Retry-After"))
        if not listed:
            self._seen_s = self._clock()
        for piece in response.stream(_PIECE_BYTES):
            if not listed:
                self._seen_s = self._clock()
            yield piece
        response.release_conn()

    def _take(self, kind: str, item: Any, is_deleted: bool) -> None:
        with self._turns:
            try:
                outcome = self._taker.take(item, is_deleted)
            except ValueError as error:
                outcome = "refused"
                reason = str(error).partition(" must ")[0][:80]
                is_new = reason not in self.refusals and len(self.refusals) >= N_REASONS_MAX
                self.refusals["other" if is_new else reason] += 1
            except Exception:  # one bad object must not end the view of all others
                _log.exception("%s failed", kind)
                outcome = "failed"
        self.events[kind, outcome] += 1

    def _goes_well(self) -> None:
        if self.failure:
            self._say(f"{self._taker.resource}: watched again")
        self._n_failed = self._n_answered = self._n_forbidden = 0
        self.failure = ""

    def _failed(self, reason: str, text: str, least_s: float = 0.0) -> float:
        if self._over.is_set():
            return 0.0
        self.failures[reason] += 1
        # the waits begin anew with the first answer of a server that was away
        self._n_failed = 1 if reason != "connection" and self._was_away else self._n_failed + 1
        self._was_away = reason == "connection"
        self._n_forbidden = self._n_forbidden + 1 if reason == "forbidden" else 0
        self._n_answered += reason in ("garbage", "internal", "status")
        failure = f"{reason}: {' '.join(text.split())[:300]}"
        if failure != self.failure:
            self._say(f"{self._taker.resource}: {failure}")
        self.failure = failure
        if reason == "expired" or self._n_answered >= _N_ANSWERED_MAX:
            self._version = None
        if self._version is None and self._seen_s is not None:
            self._reason = "expired" if reason == "expired" else "failures"
        first_s, longest_s = BACKOFF_S
        wait_s = min(first_s * 2.0 ** min(self._n_failed - 1, 16), CONNECTION_MAX_S if self._was_away else longest_s)
        if self._n_forbidden > N_FORBIDDEN:
            least_s = FORBIDDEN_S
        return max(wait_s * self._rng.uniform(0.5, 1.0), least_s)


class Watcher:
    """The extender's feed from an API server: pods and nodes, each by a `Reflector` in a thread.

    client: instead of the one that the options lead to. The rest: see Reflector.
    """

    def __init__(self, client: ApiClient | None = None, rng: random.Random | None = None,
                 clock: Callable[[], float] = time.monotonic, say: Callable[[str], None] = print) -> None:
        self._client, self._rng, self._clock, self._say = client, rng, clock, say
        self.reflectors: dict[str, Reflector] = {}
        self._threads: list[threading.Thread] = []

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add --kubeconfig and --context."""
        parser.description = "A Kubernetes scheduler extender over a bundle, that watches the cluster's pods and nodes."
        add_cluster_options(parser)

    def configure(self, options: argparse.Namespace) -> None:
        """Set up the client; nothing is sent yet. ValueError if there is no such cluster."""
        self._client = open_cluster(options.kubeconfig, options.context)

    def attach(self, calls: ExtenderCalls, drains: Drains, turns: Turns, sources: Mapping[str, str] | None) -> None:
        """Report to these; ValueError for a source that is not kept in memory."""
        if self._client is None:
            raise ValueError("client must be given, or configured, got none")
        takers: tuple[Taker, ...] = (PodTaker(calls, turns, sources), NodeTaker(drains, calls.choices))
        for taker in takers:
            self.reflectors[taker.resource] = Reflector(self._client, taker, turns, self._rng, self._clock, self._say)

    def start(self) -> None:
        """List and watch in two threads. They end with the process, if nobody stops them."""
        for resource, reflector in self.reflectors.items():
            thread = threading.Thread(target=reflector.run, name=f"watch {resource}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the threads; one that is about to connect is left alone after 5 s."""
        for reflector in self.reflectors.values():
            reflector.stop()
        for thread in self._threads:
            thread.join(5.0)

    def missing(self) -> str:
        """Why the view must not be used; empty if it may."""
        return "; ".join(filter(None, (each.missing() for each in self.reflectors.values())))

    def metrics(self) -> list[Metric]:
        """`sojourn_cluster_*`."""
        def counted(counter: str, *labels: str) -> tuple[tuple[dict[str, str], float], ...]:
            return tuple((dict(zip(("resource", *labels), (resource, *((key,) if isinstance(key, str) else key)),
                                   strict=True)), float(count))
                         for resource, each in self.reflectors.items()
                         for key, count in sorted(getattr(each, counter).copy().items()))

        ages = {resource: each.age_s() for resource, each in self.reflectors.items()}
        return [
            Metric("sojourn_cluster_events_total", "counter", "Objects by event (LISTED: of a list) and outcome.",
                   counted("events", "event", "outcome")),
            Metric("sojourn_cluster_refused_total", "counter", "Refused objects by what of them was wrong.",
                   counted("refusals", "reason")),
            Metric("sojourn_cluster_lists_total", "counter", "Lists by why all was listed.",
                   counted("lists", "reason")),
            Metric("sojourn_cluster_failures_total", "counter",
                   "Lists and watches that failed, by reason; after a wait, each is tried again.",
                   counted("failures", "reason")),
            Metric("sojourn_cluster_list_seconds", "gauge", "Seconds that the last whole list took.",
                   tuple(({"resource": resource}, each.list_s) for resource, each in self.reflectors.items())),
            Metric("sojourn_cluster_view_age_seconds", "gauge",
                   "Seconds since the API server last gave a sign: an event, a bookmark or a new watch.",
                   tuple(({"resource": resource}, age_s) for resource, age_s in ages.items() if age_s is not None)),
        ]


def main(arguments: Sequence[str] | None = None, prog: str | None = "python -m sojourn.serving.kubernetes") -> int:
    """Serve until SIGTERM or Ctrl-C; 0, or 2 with one line on standard error if it cannot start."""
    sys.setswitchinterval(0.001)  # a scheduler's call waits less for Python's lock while events come
    return serve(arguments, prog, Watcher(say=lambda line: print(line, flush=True)))
