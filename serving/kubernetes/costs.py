"""Writes what an eviction of each running pod would waste, as the annotation that a consumer reads.

    sojourn serve costs --consumer karpenter                     # a dry run: prints a table
    sojourn serve costs --consumer karpenter --write             # each 5 min, until SIGTERM
    sojourn serve costs --consumer karpenter --remove --write    # takes all of it back

The cost of a pod is its uptime over 6 h, or, with a bundle, over its predicted remaining time if that is shorter; as a
power of 2 from 1/16 to 8. Nothing is kept here: what was written is recorded beside the value, on the object itself.
docs/costs.md has the reasons and the sources.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from sojourn.publishing import whole_file
from sojourn.serving.answers import Lifetime
from sojourn.serving.errors import BundleError
from sojourn.serving.extender import PodRequests, Requests, read_sources
from sojourn.serving.http import add_clock, epoch_of
from sojourn.serving.inputs import (
    Encoder,
    controller,
    field,
    is_finished,
    is_part_of_node,
    mapping,
    sequence,
    short_text,
    started_unix_s,
)
from sojourn.serving.kubernetes.cluster import CONNECTION_ERRORS, add_cluster_options, ask, open_cluster
from sojourn.serving.predictor import Predictor
from sojourn.serving.prometheus import Metric, exposition

LEVELS = range(-4, 4)
"""Costs are 2**level: 1/16 to 8. 1 is what Karpenter takes for a pod without an annotation, and 10 its most."""
FREED_S = 21_600
"""Time for which an eviction is taken to free room, at most."""
LEVEL_MARGIN = 0.75
"""A pod keeps its level while the log2 of its ratio is so near: a quarter beyond the edge between two levels."""
KARPENTER_UNIT = 2**27
"""Karpenter adds an annotation's value over this to the cost of 1 (pkg/utils/disruption/disruption.go)."""
WROTE = "sojourn/wrote"
"""The annotation that says what was written here, KEY=VALUE."""
JOB_KINDS = frozenset({"CronJob", "Job"})
N_FAILED_MAX = 3
"""So many writes one after another that fail end a round."""
_PAGE, _N_SHOWN = 500, 40
_CLOCK_APART_S = 60


def cost_level(ratio: float, present: int | None = None) -> int:
    """The level of a ratio; `present` is kept if it is near.

    >>> cost_level(0.0), cost_level(1.0), cost_level(1.5), cost_level(math.inf)
    (-4, 0, 1, 3)
    >>> cost_level(1.5, 0), cost_level(1.7, 0)
    (0, 1)
    """
    least, most = LEVELS[0], LEVELS[-1]
    exact = most if ratio >= 2.0**most else least if ratio <= 2.0**least else math.log2(ratio)
    return present if present is not None and abs(exact - present) <= LEVEL_MARGIN else math.floor(exact + 0.5)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A program that reads costs. key: of the annotation. unit: the value of a cost of 1 more, or 0: how many levels
    it lies above the lowest. A boost below 0 would let workloads that wait evict a running one of their own priority,
    which then waits and does the same, in a circle."""

    key: str
    unit: int
    text: str

    def value(self, level: int) -> str:
        """The annotation's value.

        >>> CONSUMERS["karpenter"].value(3), CONSUMERS["karpenter"].value(-4), CONSUMERS["kueue"].value(-4)
        ('939524096', '-125829120', '0')
        """
        return str(round((2.0**level - 1.0) * self.unit) if self.unit else level - LEVELS[0])

    def level(self, value: str) -> int | None:
        """The level of a value that was written here; None for another one."""
        return next((level for level in LEVELS if self.value(level) == value), None)


CONSUMERS: Mapping[str, Consumer] = MappingProxyType({
    "deletion-cost": Consumer("controller.kubernetes.io/pod-deletion-cost", KARPENTER_UNIT,
                              "ReplicaSets that scale down, and a Karpenter that does not know its own key yet"),
    "karpenter": Consumer("karpenter.sh/disruption-cost", KARPENTER_UNIT, "Karpenter's consolidation, on pods"),
    "kueue": Consumer("kueue.x-k8s.io/priority-boost", 0, "Kueue's preemption, on workloads"),
})
KUEUE = "kueue"
_KEYS = frozenset(consumer.key for consumer in CONSUMERS.values())


class Cost(NamedTuple):
    """Seconds that a pod has run for, and that it is predicted to run on (infinity: not predicted)."""

    uptime_s: float
    remaining_s: float

    @property
    def ratio(self) -> float:
        """Work lost by an eviction, over the time for which it frees room."""
        return self.uptime_s / max(min(self.remaining_s, FREED_S), 1.0)


class Predicts(Protocol):
    """What is asked of a predictor."""

    @property
    def encoder(self) -> Encoder: ...

    def predict(self, request: Mapping[str, Any], now_s: int) -> Lifetime: ...


@dataclass(frozen=True, slots=True)
class PodCosts:
    """Costs of pods, or why a pod has none: a word of `REASONS`. predictor, requests: None = by uptime alone."""

    predictor: Predicts | None = None
    requests: Requests | None = None
    epoch_s: int = 0
    is_any_kind: bool = False

    def of(self, pod: Mapping[str, Any], now_unix_s: int) -> Cost | str:
        """The pod's cost, or the reason. now_unix_s: by the API server's clock."""
        try:
            if is_finished(pod) or field(pod, "metadata", "deletionTimestamp") is not None:
                return "ending"
            if is_part_of_node(pod) or not (self.is_any_kind or controller(pod)[0] in JOB_KINDS):
                return "other_kind"
            started_s = started_unix_s(pod, now_unix_s)
            if started_s is None:
                return "no_start"
            uptime_s = float(now_unix_s - started_s)
            if self.predictor is None or self.requests is None:
                return Cost(uptime_s, math.inf)
            vm = self.predictor.predict(self.requests.request(pod), started_s - self.epoch_s)
        except ValueError:
            return "unreadable"
        keys, lacking = self.predictor.encoder.history.keys, {*vm.not_given}
        if keys and all(key.name in vm.not_seen or lacking & {*key.columns} for key in keys):
            return "unknown"
        return Cost(uptime_s, vm.remaining(uptime_s))


REASONS: Mapping[str, str] = MappingProxyType({
    "ending": "finished or being deleted",
    "no_pod": "a workload of which no pod with a cost was found",
    "no_start": "no start that the API server's clock can be after",
    "other_kind": "no pod of a Job (--any-kind takes others, but pods of a DaemonSet and static ones)",
    "unknown": "of no owner that the bundle has seen: it may be another cluster's",
    "unreadable": "without a name or version, or with a value of a wrong type",
})
"""Why an object gets no cost."""


class Change(NamedTuple):
    """A patch. what: written or removed. edits: annotation -> value, None = taken away. weight: the larger, the sooner.
    """

    what: str
    path: str
    uid: str
    version: str
    edits: Mapping[str, str | None]
    weight: float

    def body(self) -> dict[str, Any]:
        """A merge patch that the API server refuses (409) if the object has changed since it was read."""
        return {"metadata": {"resourceVersion": self.version, "annotations": dict(self.edits)}}


def change_of(target: Mapping[str, Any], path: str, consumer: Consumer, ratio: float | None) -> Change | str:
    """The patch of a pod or workload for its ratio (None: take back what was written), or why there is none:

    kept, foreign (somebody else's value, or they changed or took away ours) or absent (nothing to take back).
    ValueError for an object without a version, or of a wrong type.
    """
    annotations = mapping(target, "metadata", "annotations")
    version, uid = field(target, "metadata", "resourceVersion"), field(target, "metadata", "uid")
    if not isinstance(version, str) or not version:
        raise ValueError(f"metadata.resourceVersion must be given, got {version!r}")
    record = annotations.get(WROTE)
    key, _, value = str(record).partition("=")
    is_ours = key in _KEYS and annotations.get(key) == value
    back: dict[str, str | None] = {} if record is None else {WROTE: None, **({key: None} if is_ours else {})}
    is_others = consumer.key in annotations and not (is_ours and key == consumer.key)
    if ratio is None or (is_others and is_ours):
        return Change("removed", path, str(uid), version, back, math.inf) if back else "absent"
    if is_others or (record is not None and not is_ours):
        return "foreign"
    present = consumer.level(value) if is_ours and key == consumer.key else None
    level = cost_level(ratio, present)
    new = consumer.value(level)
    if is_ours and key == consumer.key and value == new:
        return "kept"
    weight = len(LEVELS) if present is None else abs(level - present)
    edits = {**back, consumer.key: new, WROTE: f"{consumer.key}={new}"}
    return Change("written", path, str(uid), version, edits, weight)


class RoundFailed(RuntimeError):
    """A round that could not be done. is_final: another one would fail, too."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Rules:
    """consumer: a key of CONSUMERS. namespace: "" = all. is_removing: take back instead of write. per_minute: most
    writes; n_max: in a round."""

    consumer: str
    namespace: str = ""
    is_removing: bool = False
    is_writing: bool = False
    per_minute: int = 60
    n_max: int = 300


class Writer:
    """Rounds: read all objects, plan, write. costs: None with is_removing. wait: pauses for so many seconds; True =
    stop. clock: unix seconds, used if the server tells no time. say: takes a line about what is refused."""

    def __init__(self, client: Any, rules: Rules, costs: PodCosts | None, *, wait: Callable[[float], bool],
                 clock: Callable[[], float] = time.time, say: Callable[[str], object] = lambda line: None) -> None:
        self._client, self._rules, self._costs = client, rules, costs
        self._consumer = CONSUMERS[rules.consumer]
        self._wait, self._clock, self._say = wait, clock, say
        self._refused: set[str] = set()
        self._said: set[str] = set()
        self._server_s: int | None = None
        self.totals: Counter[str] = Counter()
        self.rows: list[tuple[str, Cost | None, str]] = []

    def round(self) -> Counter[str]:
        """One round's counts of objects. RoundFailed if they cannot be read, or nothing may be written."""
        counts: Counter[str] = Counter()
        self.rows = []
        changes = sorted(self._planned(counts), key=lambda change: -change.weight)
        wanted = changes[:self._rules.n_max]
        if not self._rules.is_writing:
            counts.update(f"to_be_{change.what}" for change in changes)
            return counts
        n_done = n_failed = 0
        while n_done < len(wanted) and n_failed < N_FAILED_MAX:
            if n_done and self._wait(60.0 / self._rules.per_minute):
                break
            outcome = self._write(wanted[n_done])
            self.totals[outcome] += 1
            counts[outcome] += 1
            n_done += 1
            n_failed = n_failed + 1 if outcome == "failed" else 0
            if outcome == "throttled":
                break
        counts["left"] = len(changes) - n_done
        return counts

    def _planned(self, counts: Counter[str]) -> Iterator[Change]:
        uids: set[str] = set()
        for target, group, cost in self._targets():
            counts["objects"] += 1
            try:
                path, ratio = _path(group, target), cost.ratio if isinstance(cost, Cost) else None
                change = "absent" if cost == "ending" else change_of(target, path, self._consumer, ratio)
            except ValueError:
                counts["unreadable"] += 1
                continue
            if isinstance(change, Change):
                uids.add(change.uid)
                if change.uid in self._refused:
                    change = "refused_before"
            if isinstance(change, Change):
                if not self._rules.is_writing:
                    value = change.edits.get(self._consumer.key)
                    self.rows.append((path, cost if isinstance(cost, Cost) else None, value or "(taken away)"))
                yield change
            if isinstance(cost, str) and cost in REASONS:
                counts[cost] += 1
            elif isinstance(change, str):
                counts[change] += 1
        self._refused &= uids

    def _targets(self) -> Iterator[tuple[Mapping[str, Any], str, Cost | str]]:
        """Pods or workloads, their group's path, and the cost, or the reason for none ("remove": to be taken back)."""
        inside = f"namespaces/{quote(self._rules.namespace, safe='')}/" if self._rules.namespace else ""
        costs, is_kueue = self._costs, self._rules.consumer == KUEUE
        by_owner: dict[str, Cost] = {}
        query = {} if costs is None else {"fieldSelector": "status.phase=Running"}
        for pod in self._listed(f"/api/v1/{inside}pods", query) if costs is not None or not is_kueue else ():
            cost = "remove" if costs is None else costs.of(pod, self._now_s())
            if not is_kueue:
                yield pod, "/api/v1", cost
            elif isinstance(cost, Cost):
                by_owner |= {uid: cost for uid in _uids(pod) if uid not in by_owner or by_owner[uid].ratio < cost.ratio}
        if is_kueue:
            group = f"/apis/{self._kueue_version()}"
            for workload in self._listed(f"{group}/{inside}workloads", {}):
                of_pods = [by_owner[uid] for uid in _uids(workload) if uid in by_owner]
                best: Cost | str = max(of_pods, key=lambda each: each.ratio) if of_pods else "no_pod"
                yield workload, group, "remove" if costs is None else best

    def _listed(self, path: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """All objects of a list, page by page."""
        token: str | None = ""
        while token is not None:
            page = self._read(path, {"limit": _PAGE, **query, **({"continue": token} if token else {})})
            try:
                yield from sequence(page, "items")
                token = field(page, "metadata", "continue") or None
            except ValueError as error:
                raise RoundFailed(f"{path} must answer with a list, got: {error}") from error

    def _kueue_version(self) -> str:
        document = self._read("/apis/kueue.x-k8s.io", {})
        try:
            return short_text(field(document, "preferredVersion", "groupVersion"))
        except ValueError as error:
            raise RoundFailed(f"/apis/kueue.x-k8s.io must name a version, got: {error}") from error

    def _read(self, path: str, query: Mapping[str, str | int]) -> Any:
        try:
            response = ask(self._client, "GET", path, query)
            status, data = response.status, response.data
        except CONNECTION_ERRORS as error:
            raise RoundFailed(f"the API server did not answer: {_line(error)}") from error
        if status != 200:  # before it is read: a path that the server does not have is answered in plain text
            raise RoundFailed(f"{path}: {status} {_message(data)}", is_final=status in (401, 403, 404))
        try:
            document = json.loads(data)
        except ValueError as error:
            raise RoundFailed(f"{path} must answer in JSON, got: {_line(error)}") from error
        with_date = response.headers.get("Date")
        try:
            self._server_s = None if with_date is None else int(parsedate_to_datetime(with_date).timestamp())
        except ValueError:
            self._server_s = None
        own_s = int(self._clock())
        if self._server_s is not None and abs(self._server_s - own_s) > _CLOCK_APART_S:
            self._once(f"clock    {self._server_s - own_s:+,} s from this machine's to the API server's, which is used")
        return document

    def _now_s(self) -> int:
        return int(self._clock()) if self._server_s is None else self._server_s

    def _write(self, change: Change) -> str:
        """The outcome of a patch. RoundFailed if this client may not patch at all."""
        try:
            response = ask(self._client, "PATCH", change.path, body=change.body(),
                           headers={"Content-Type": "application/merge-patch+json"})
            status, data = response.status, response.data
        except CONNECTION_ERRORS as error:
            self._once(f"failed   {_line(error)}")
            return "failed"
        if status == 200:
            return change.what
        message = _message(data)
        if status == 401 or (status == 403 and _RBAC.search(message)):
            raise RoundFailed(f"{status} {message}", is_final=True)
        outcome = _OUTCOMES.get(status, "failed" if status >= 500 else "refused")
        if outcome in ("failed", "refused"):
            self._once(f"{outcome:<8} {status} {message}")
        if outcome == "refused":  # by a webhook or a rule: not again, until this program starts again
            self._refused.add(change.uid)
        return outcome

    def _once(self, line: str) -> None:
        kind = re.sub(r"[0-9]+|\"[^\"]*\"", "", line)  # names and numbers apart, it is the same reason
        if kind not in self._said and len(self._said) < _N_SHOWN:
            self._said.add(kind)
            self._say(line)


_OUTCOMES = MappingProxyType({404: "gone", 409: "conflict", 429: "throttled"})
OUTCOMES: Mapping[str, str] = MappingProxyType({
    "conflict": "changed by others since it was read; planned anew in the next round",
    "failed": "no answer, or an error of the server; tried again in the next round",
    "gone": "deleted meanwhile",
    "refused": "by a webhook or a rule of the API server; not tried again",
    "removed": "what was written is taken back",
    "throttled": "the server is busy (429): the round ended",
    "written": "a value is new or has changed",
})
"""What became of a patch."""
_STATES = ("objects", "kept", "foreign", "left", "refused_before")
_RBAC = re.compile(r" cannot (?:patch|list|get) resource ")


def _path(group: str, target: Any) -> str:
    """An object's path; ValueError if it has no name."""
    space, name = (quote(short_text(field(target, "metadata", each)), safe="") for each in ("namespace", "name"))
    return f"{group}/namespaces/{space}/{'pods' if group == '/api/v1' else 'workloads'}/{name}"


def _uids(target: Any) -> set[str]:
    """Uids of an object and of its owners: a pod and a workload of one Job share the Job's. Empty if it has none."""
    try:
        owners = sequence(target, "metadata", "ownerReferences")
        uids = (field(target, "metadata", "uid"), *(field(owner, "uid") for owner in owners))
        return {short_text(uid) for uid in uids if uid}
    except ValueError:
        return set()


def _message(data: bytes) -> str:
    try:
        return _line(field(json.loads(data), "message"))
    except ValueError:
        return _line(data[:200].decode("utf-8", "replace"))


def _line(reason: object) -> str:
    return " ".join(str(reason).split())[:300]


def table(rows: Sequence[tuple[str, Cost | None, str]]) -> Iterator[str]:
    """Lines of 80 columns: what would be written, the dearest first."""
    yield f"{'namespace/name':<38} {'uptime':>8} {'remains':>8} {'cost':>6} {'value':>15}"
    dearest = sorted(rows, key=lambda row: (-math.inf if row[1] is None else -row[1].ratio, row[0]))
    for path, cost, value in dearest[:_N_SHOWN]:
        parts = path.split("/")
        name = f"{parts[-3]}/{parts[-1]}"
        name = name if len(name) <= 38 else f"~{name[-37:]}"
        uptime, remains, level = "-", "-", "-"
        if cost is not None:
            uptime, level = f"{cost.uptime_s / 3_600:.1f} h", f"{2.0 ** cost_level(cost.ratio):g}"
            remains = f"{cost.remaining_s / 3_600:.1f} h" if cost.remaining_s < math.inf else "-"
        yield f"{name:<38} {uptime:>8} {remains:>8} {level:>6} {value:>15}"
    if len(rows) > _N_SHOWN:
        yield f"and {len(rows) - _N_SHOWN:,} more"


def costs_metrics(last: Mapping[str, int], totals: Mapping[str, int], n_failed_rounds: int, now_s: float) -> str:
    """The text for Prometheus' textfile collector."""
    return exposition([
        Metric("sojourn_costs_writes_total", "counter", "Patches by outcome.",
               tuple(({"outcome": name}, totals.get(name, 0)) for name in OUTCOMES)),
        Metric("sojourn_costs_objects", "gauge", "Objects of the last round by state.",
               tuple(({"state": name}, last.get(name, 0)) for name in (*_STATES, *REASONS))),
        Metric.of("sojourn_costs_failed_rounds_total", "counter", "Rounds that could not be done.", n_failed_rounds),
        Metric.of("sojourn_costs_last_round_seconds", "gauge", "Unix time of the last round.", now_s),
    ])


_SPAN = re.compile(r"([0-9]{1,6})(s|m|h)")


def _span_s(text: str) -> int:
    match = _SPAN.fullmatch(text)
    seconds = int(match[1]) * {"s": 1, "m": 60, "h": 3_600}[match[2]] if match else 0
    if not 10 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"must be from 10s to 24h, such as 5m, got {text!r}")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 6_000:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 6000, got {text!r}")
    return int(text)


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog, description="Write what an eviction of each running pod would waste, as an "
                                                       "annotation. A dry run by default: a table is printed.")
    parser.add_argument("bundle", type=Path, nargs="?", help="bundle folder (default: none, costs by uptime alone)")
    parser.add_argument("--consumer", required=True, choices=sorted(CONSUMERS),
                        help="; ".join(f"{name}: {each.text}" for name, each in sorted(CONSUMERS.items())))
    parser.add_argument("--write", action="store_true", help="write (default: a dry run)")
    parser.add_argument("--remove", action="store_true", help="take back all that was written, and nothing else")
    parser.add_argument("--once", action="store_true", help="end after one round (default: go on until SIGTERM)")
    parser.add_argument("--every", type=_span_s, default=300, metavar="SPAN",
                        help="pause between two rounds, such as 5m (default: %(default)s s)")
    parser.add_argument("--writes-per-minute", type=_count, default=60, metavar="N",
                        help="most writes; a round makes what fits into its pause (default: %(default)s)")
    parser.add_argument("--namespace", default="", metavar="NAME", help="only objects of one namespace (default: all)")
    parser.add_argument("--any-kind", action="store_true",
                        help="pods of all controllers (default: of Jobs and CronJobs)")
    parser.add_argument("--columns", type=Path, metavar="FILE",
                        help="JSON file: request column -> where it comes from in a pod (default: none)")
    add_clock(parser)
    parser.add_argument("--metrics-file", type=Path, metavar="FILE",
                        help="for Prometheus' textfile collector, written after each round (default: none)")
    add_cluster_options(parser)
    return parser


def costs_main(arguments: Sequence[str] | None = None, prog: str | None = "sojourn serve costs") -> int:
    """Rounds until SIGTERM; 0, 1 if a single round failed or not all was taken back, 2 if it cannot work."""
    options = _parser(prog).parse_args(arguments)
    is_over = threading.Event()
    try:
        rules = Rules(options.consumer, options.namespace, options.remove, options.write, options.writes_per_minute,
                      sys.maxsize if options.remove else max(options.every * options.writes_per_minute // 60, 1))
        costs = None if options.remove else _pod_costs(options)
        client = open_cluster(options.kubeconfig, options.context)
    except (ValueError, OSError, BundleError) as error:
        return _end(error)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    writer = Writer(client, rules, costs, wait=is_over.wait, say=lambda line: print(line, file=sys.stderr, flush=True))
    return rounds(writer, is_once=options.once or not options.write, is_removing=options.remove, every_s=options.every,
                  wait=is_over.wait, metrics_file=options.metrics_file)


def rounds(writer: Writer, *, is_once: bool, is_removing: bool, every_s: int, wait: Callable[[float], bool],
           metrics_file: Path | None = None, clock: Callable[[], float] = time.time) -> int:
    """Rounds until `wait` says stop, or nothing is left to be taken back; the exit code, 1 if that was refused."""
    n_failed = 0
    while True:
        counts: Counter[str] = Counter()
        failure: RoundFailed | None = None
        try:
            counts = writer.round()
        except RoundFailed as error:
            failure = error
            n_failed += 1
        if metrics_file is not None:
            try:
                with whole_file(metrics_file) as temporary:
                    temporary.write_text(costs_metrics(counts, writer.totals, n_failed, clock()), encoding="utf-8")
            except OSError as error:  # a full disk does not end the rounds
                print(f"error: {_line(error)}", file=sys.stderr, flush=True)
        if failure is not None:
            print(f"error: {failure}", file=sys.stderr, flush=True)
            if failure.is_final or is_once:
                return 2 if failure.is_final else 1
        else:
            for line in table(writer.rows) if writer.rows else ():
                print(line)
            round_ = {"time_s": int(clock())} | {name: n for name, n in sorted(counts.items()) if n}
            print(json.dumps(round_), flush=True)
            is_left = any(counts[name] for name in ("left", "conflict", "failed", "throttled"))
            if is_once or (is_removing and not is_left):
                return int(is_removing and counts["refused"] + counts["refused_before"] > 0)
        if wait(float(every_s)):
            return 0


def _pod_costs(options: argparse.Namespace) -> PodCosts:
    if options.bundle is None:
        return PodCosts(is_any_kind=options.any_kind)
    predictor = Predictor.load(options.bundle)
    predictor.watch()
    requests = PodRequests(predictor, read_sources(options.columns))
    return PodCosts(predictor, requests, epoch_of(predictor, options.epoch_s), options.any_kind)


def _end(error: Exception) -> int:
    print(f"error: {error}", file=sys.stderr)
    return 2
