"""The calls that a scheduler extender answers: JSON documents in, JSON documents out, no HTTP.

`filter` and `prioritize` take and give the types of `k8s.io/kube-scheduler/extender/v1`, which have no JSON tags: their
fields go by their Go names, and Go's decoder ignores the case.

Who works: one at a time; whoever works for long lets those who wait go first now and then.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from operator import itemgetter
from typing import Any, TypeVar

from sojourn.serving.extender.nodes import Drains, Nodes
from sojourn.serving.inputs import (
    listed_items,
    node_name,
    pod_uid,
    sequence,
    short_text,
    shown_field,
    started_unix_s,
)

_N_REASONS = 20
_N_AT_ONCE = 64
"""Pods of a list that are taken in before others may go first: some 10 ms."""
N_NODES_MAX = 100_000
"""Nodes of one call; kube-scheduler's own limits are below it."""
_Element = TypeVar("_Element")
REPORTS = frozenset({"/placed", "/ended", "/running"})
"""Calls that may be long, and pause: not to be mixed with one another."""


class ExtenderCalls:
    """Each call takes a JSON document and gives a status and a JSON document; one caller at a time.

    clock: unix seconds now. drain_quantile: a pod is refused a node that is to be drained unless it is predicted to
    have ended by then with this probability. pause: called now and then amid a long list; other calls may be made
    meanwhile, but none of REPORTS.
    """

    def __init__(self, nodes: Nodes, drains: Drains, *, epoch_s: int, drain_quantile: float = 0.9,
                 clock: Callable[[], float] = time.time, pause: Callable[[], None] = lambda: None) -> None:
        if not 0.0 < drain_quantile < 1.0:
            raise ValueError(f"drain_quantile must be between 0 and 1, got {drain_quantile!r}")
        self._nodes = nodes
        self._drains = drains
        self._epoch_s = epoch_s
        self._drain_quantile = drain_quantile
        self._clock = clock
        self._pause = pause
        self.n_nodes_refused = 0
        self.is_told = False  # true once a list of all pods was taken in: until then every node looks empty
        self.posts: dict[str, Callable[[Any], tuple[int, Any]]] = {
            "/filter": self.filter, "/prioritize": self.prioritize, "/placed": self.placed, "/ended": self.ended,
            "/running": self.running, "/nodes": self.nodes,
        }  # fmt: skip

    def filter(self, document: Any) -> tuple[int, Any]:
        """ExtenderArgs -> ExtenderFilterResult: all nodes but those whose drain the pod is predicted to outlive."""
        try:
            pod, names, items = _arguments(document)
            refused = self._outlived(pod, names, items)
        except ValueError as error:
            return 200, {"Error": str(error)}  # the scheduler shows this text, and not that of another status
        self.n_nodes_refused += len(refused)
        return 200, {
            "Nodes": None if items is None else _node_list(items, names, refused),
            "NodeNames": [name for name in names if name not in refused] if items is None else None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": refused,  # evicting others from the node would not help
            "Error": "",
        }

    def prioritize(self, document: Any) -> tuple[int, Any]:
        """ExtenderArgs -> HostPriorityList: a score of 0 to 10 for each node."""
        pod, names, _ = _arguments(document)
        now_s = self._now_s()
        remaining_s = self._nodes.predict(pod, now_s).remaining(0.0)
        scores = self._nodes.scores(names, remaining_s, now_s)
        return 200, [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]

    def placed(self, document: Any) -> tuple[int, Any]:
        """A Pod, or a list of them, as they stand now -> what came of each."""
        starts = [(_start_order(pod), idx, pod) for idx, pod in enumerate(self._pausing(_items(document)))]
        return self._tally([pod for *_, pod in sorted(starts, key=itemgetter(0, 1))], self._nodes.placed)

    def ended(self, document: Any) -> tuple[int, Any]:
        """A Pod (metadata.uid is enough), or a list of them, that have ended -> what came of each."""
        return self._tally(_items(document), self._nodes.ended)

    def running(self, document: Any) -> tuple[int, Any]:
        """The list of all pods -> what came of each; pods that are not in it have ended.

        If an element has no uid, nobody knows which pod it is: then none has ended for being absent.
        """
        listed = listed_items(document)
        if listed is None:
            raise ValueError(f"document must be a list of all pods, got {shown_field(document)}")
        uids = [_uid(pod) for pod in self._pausing(listed)]
        status, tally = self.placed(document)
        self.is_told |= status == HTTPStatus.OK
        now_s = self._now_s()
        absent = [] if None in uids else self._nodes.absent(uids, now_s)
        for uid in self._pausing(absent):
            self._nodes.ended({"metadata": {"uid": uid}}, now_s)
        return status, tally | {"absent": len(absent)}

    def nodes(self, document: Any) -> tuple[int, Any]:
        """A Node, or the list of all nodes, with their annotations -> how many, and how many with a deadline."""
        return 200, self._drains.told(document)

    def _outlived(self, pod: Any, names: Sequence[str], items: Sequence[Any] | None) -> dict[str, str]:
        told = self._drains
        deadlines = map(told.deadline_s, names) if items is None else map(told.deadline_of, items)
        known = [(name, time_s) for name, time_s in zip(names, deadlines, strict=True) if time_s is not None]
        if not known:
            return {}
        now_s = self._now_s()
        stay_s = self._nodes.predict(pod, now_s).quantile(self._drain_quantile, 0.0)
        left = {name: time_s - self._epoch_s - now_s for name, time_s in known}
        return {name: f"to be drained in {max(left_s, 0)} s; the pod is predicted to stay for at most {stay_s:.0f} s "
                      f"with probability {self._drain_quantile:g}" for name, left_s in left.items() if stay_s > left_s}

    def _tally(self, pods: Sequence[Any], take: Callable[[Any, int], str]) -> tuple[int, dict[str, Any]]:
        """Counts by what came of each pod, and reasons for the first refused; 422 where none was taken."""
        counts: dict[str, Any] = {}
        reasons = []
        now_s = self._now_s()
        for pod in self._pausing(pods):
            try:
                outcome = take(pod, now_s)
            except ValueError as error:
                outcome = "refused"
                reasons.append(str(error))
            counts[outcome] = counts.get(outcome, 0) + 1
        if reasons:
            counts["reasons"] = reasons[:_N_REASONS]
        return 422 if reasons and len(reasons) == len(pods) else 200, counts

    def _pausing(self, elements: Sequence[_Element]) -> Iterator[_Element]:
        """The elements, with a pause between some of them."""
        for idx, element in enumerate(elements):
            if idx and idx % _N_AT_ONCE == 0:
                self._pause()
            yield element

    def _now_s(self) -> int:
        return int(self._clock() // 1) - self._epoch_s


def _node_list(items: Sequence[Any], names: Sequence[str], refused: dict[str, str]) -> dict[str, Any]:
    """A NodeList of the nodes that were not refused, as they were given."""
    return {"metadata": {}, "items": [item for item, name in zip(items, names, strict=True) if name not in refused]}


def _arguments(document: Any) -> tuple[Any, list[str], Sequence[Any] | None]:
    """Pod, names and (where given) objects of the nodes, of an ExtenderArgs."""
    if not isinstance(document, dict):
        raise ValueError(f"ExtenderArgs must be an object, got {shown_field(document)}")
    fields = {name.lower(): value for name, value in document.items()}
    pod, nodes, names = fields.get("pod"), fields.get("nodes"), fields.get("nodenames")
    if not isinstance(pod, dict):
        raise ValueError(f"Pod must be an object, got {shown_field(pod)}")
    if nodes is not None:
        items = sequence(nodes, "items")
        _check_number(items)
        return pod, [node_name(item) for item in items], items
    if not isinstance(names, list):
        raise ValueError(f"Nodes or NodeNames must be given, got {shown_field(names)}")
    _check_number(names)
    return pod, list(map(short_text, names)), None


def _check_number(nodes: Sequence[Any]) -> None:
    if len(nodes) > N_NODES_MAX:
        raise ValueError(f"nodes must be at most {N_NODES_MAX}, got {len(nodes)}")


def _items(document: Any) -> Sequence[Any]:
    listed = listed_items(document)
    return [document] if listed is None else listed


def _uid(pod: Any) -> str | None:
    """The pod's uid; None if it has none that can be read: it is refused later."""
    try:
        return pod_uid(pod)
    except ValueError:
        return None


def _start_order(pod: Any) -> float:
    """Earlier starts first, as the owner history wants them; a pod that cannot be read is refused later."""
    try:
        started_s = started_unix_s(pod)
    except ValueError:
        started_s = None
    return math.inf if started_s is None else float(started_s)


class Turns:
    """A lock, to be used with `with`, whose holder can let another one go first.

    >>> turns = Turns()
    >>> with turns:
    ...     turns.pass_on()  # nobody waits
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by whoever is next
        self._work = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._work.acquire()

    def __exit__(self, *_: object) -> None:
        self._work.release()

    def pass_on(self) -> None:
        """Let one who waits work first; called by the holder. A plain lock would mostly come back to its holder."""
        self.__exit__()
        self.__enter__()
