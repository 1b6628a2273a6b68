"""Nodes by their pods: when each will be empty, and what a further pod would add to that (NILAS' temporal cost).

Nodes that are to be drained by a deadline, as their annotation says.

From a pod to the request columns that a bundle reads.

From pods to requests, in the columns of the version that is served now.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol

import numpy as np

from sojourn.serving.answers import Lifetime
from sojourn.serving.inputs import (
    POD_NAMES,
    POD_SIZES,
    Encoder,
    field,
    finished_unix_s,
    is_finished,
    is_part_of_node,
    listed_items,
    mapping,
    node_name,
    pod_resource,
    pod_uid,
    quantity,
    short_text,
    shown_field,
    started_unix_s,
    unix_s,
)
from sojourn.serving.live import N_RUNNING_MAX
from sojourn.serving.predictor import Predictor

EXTENSION_EDGES_S = (1_800, 3_600, 5_400, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400, 604_800)
"""Left-closed buckets of the seconds by which a pod would extend its node's exit: temporal cost 0 to 10 (NILAS)."""
BEST_SCORE = 10
"""Kubernetes' MaxExtenderPriority; its least is 0."""
ABSENT_GRACE_S = 60
"""A pod learnt of more recently than this is not taken to have ended for being absent from a list."""
N_GONE = 65_536
"""How many uids of ended pods are remembered, so that a late or repeated report cannot bring one back."""

_N_VOID_MAX = 1_000


def node_scores(exits_s: np.ndarray, end_s: float) -> np.ndarray:
    """Scores, int64 (n,), 0 to 10, higher = better, of nodes with these exits for a pod with this predicted end.

    exits_s: float64 (n,), seconds, -infinity for an empty node, which scores 0: its cost is never less than that of a
    node in use, so it comes last; costs 9 and 10 of nodes in use share the score 1.

    >>> node_scores(np.array([20_000.0, 10_000.0, 5_800.0, 0.0, -np.inf]), 10_000.0).tolist()
    [10, 10, 8, 6, 0]
    """
    costs = np.searchsorted(EXTENSION_EDGES_S, end_s - exits_s, side="right")
    return np.where(exits_s == -math.inf, 0, np.maximum(BEST_SCORE - costs, 1))


@dataclass(slots=True)
class _Placed:
    """A pod on its node. exit_s: its predicted exit as of asked_s, held until stale_s (it changes then, or is
    outlived)."""

    vm: Lifetime
    node: str
    learnt_s: int
    asked_s: int = 0
    exit_s: float = -math.inf
    stale_s: float = -math.inf

    def ask(self, now_s: int) -> None:
        arrival_s = self.vm.arrival_s  # later than now where the clock was ahead then
        uptime_s = float(max(now_s - arrival_s, 0))
        self.asked_s, self.exit_s = now_s, now_s + self.vm.remaining(uptime_s)
        self.stale_s = max(min(arrival_s + self.vm.next_change(uptime_s), self.exit_s), now_s + 1)


class Requests(Protocol):
    """From a pod to the request of it; ValueError where the pod's value for a column is wrong."""

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]: ...


class Nodes:
    """What runs where, as reported, with predictions kept fresh. One caller at a time.

    Exits are held until they change: a question first asks those pods again, on all nodes, that are due since the last
    one. A clock that was ahead leaves nothing behind: if time goes back, exits that were asked later than now are asked
    again, too. Reports are idempotent by the pod's uid. Times are whole seconds on the bundle's clock, which is
    `epoch_s` behind unix time. n_pods_max bounds the memory.
    """

    def __init__(self, predictor: Predictor, requests: Requests, *, epoch_s: int, n_pods_max: int) -> None:
        if not 1 <= n_pods_max <= N_RUNNING_MAX:
            raise ValueError(f"n_pods_max must be from 1 to {N_RUNNING_MAX}, got {n_pods_max!r}")
        self._predictor = predictor
        self._requests = requests
        self._epoch_s = epoch_s
        self._n_pods_max = n_pods_max
        self._nodes: dict[str, dict[str, _Placed]] = {}  # pods in use by node and uid
        self._exits_s: dict[str, float] = {}  # the latest of their exits
        self._placed: dict[str, _Placed] = {}
        self._gone: dict[str, None] = {}
        self._due: list[tuple[float, str]] = []  # a heap of (stale_s, uid); an entry that is not a pod's own is void
        self._asked_s: float = -math.inf  # the latest time that an exit is held of

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def n_pods(self) -> int:
        """Pods that are running now, as far as was reported."""
        return len(self._placed)

    def predict(self, pod: Mapping[str, Any], now_s: int) -> Lifetime:
        """The prediction for a pod that would start now; records nothing. ValueError where its request is wrong."""
        return self._predictor.predict(self._requests.request(pod), now_s)

    def placed(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Take in a pod as it stands now; returns placed, known, ended, finished or ignored.

        Ignored: not yet on a node, or part of its node (DaemonSet, static pod). A finished pod is taken as `ended`,
        or as `finished` where it was not placed here.
        ValueError: no uid, a wrong type, another node than before, or too many pods.
        """
        uid = pod_uid(pod)
        if is_finished(pod):
            return self.ended(pod, now_s)
        name = field(pod, "spec", "nodeName")
        if not name or is_part_of_node(pod):
            return "ignored"
        known = self._placed.get(uid)
        if known is not None and known.node != name:
            raise ValueError(f"spec.nodeName must stay {known.node!r}, got {shown_field(name)}")
        if known is not None or uid in self._gone:
            return "known"
        if len(self._placed) >= self._n_pods_max:
            raise ValueError(f"pods must be at most {self._n_pods_max}, got one more")
        short_text(name)
        started_s = started_unix_s(pod, now_s + self._epoch_s)
        arrival_s = now_s if started_s is None else started_s - self._epoch_s
        vm = self._predictor.admit(self._requests.request(pod), now_s, arrival_s=arrival_s, request_id=uid)
        placed = self._placed[uid] = _Placed(vm, name, now_s)
        self._nodes.setdefault(name, {})[uid] = placed
        self._ask(uid, placed, now_s)
        return "placed"

    def ended(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Take in that a pod (its uid is enough) has ended: when its last container did, where it says so, else now.

        Returns ended, known (it had before), finished (it says that it has ended, and was never placed here: it ended
        before it was reported) or unknown (nothing of it is known).
        """
        uid = pod_uid(pod)
        finished_s = finished_unix_s(pod, now_s + self._epoch_s)
        end_s = now_s if finished_s is None else finished_s - self._epoch_s
        if uid in self._gone:
            return "known"
        self._gone[uid] = None
        if len(self._gone) > N_GONE:
            del self._gone[next(iter(self._gone))]
        placed = self._placed.pop(uid, None)
        if placed is None:
            return "finished" if is_finished(pod) else "unknown"
        del self._nodes[placed.node][uid]
        self._move(placed.node, placed.exit_s, -math.inf)
        if not self._nodes[placed.node]:
            del self._nodes[placed.node], self._exits_s[placed.node]
        self._predictor.ended(placed.vm, max(end_s, placed.vm.arrival_s))  # last: it may refuse what it has dropped
        return "ended"

    def absent(self, uids: Iterable[str | None], now_s: int) -> list[str]:
        """Uids of all pods that run but these, and but those learnt of within ABSENT_GRACE_S.

        One that was learnt of long after now was so while the clock was ahead: it has no grace left.
        """
        kept = set(uids)
        return [uid for uid, placed in self._placed.items()
                if uid not in kept and abs(now_s - placed.learnt_s) >= ABSENT_GRACE_S]

    def exit_s(self, name: str, now_s: int) -> float | None:
        """When the node is predicted to be empty: the latest exit among its pods; None for an empty node."""
        self._refresh(now_s)
        return self._exits_s.get(name)

    def scores(self, names: Sequence[str], remaining_s: float, now_s: int) -> list[int]:
        """Scores, 0 to 10, higher = better, of nodes for a pod that would stay for `remaining_s` from now."""
        self._refresh(now_s)
        exits_s = np.fromiter(map(self._exits_s.get, names, repeat(-math.inf)), np.float64, len(names))
        scores: list[int] = node_scores(exits_s, now_s + remaining_s).tolist()
        return scores

    def _refresh(self, now_s: int) -> None:
        due, placed = self._due, self._placed
        if now_s < self._asked_s:
            for uid, held in placed.items():
                if held.asked_s > now_s:
                    self._ask(uid, held, now_s)
            self._asked_s = now_s
        while due and due[0][0] <= now_s:
            stale_s, uid = heapq.heappop(due)
            pod = placed.get(uid)
            if pod is not None and pod.stale_s == stale_s:
                self._ask(uid, pod, now_s)
        if len(due) > 2 * len(placed) + _N_VOID_MAX:
            self._due = [(pod.stale_s, uid) for uid, pod in placed.items()]
            heapq.heapify(self._due)

    def _ask(self, uid: str, pod: _Placed, now_s: int) -> None:
        before_s = pod.exit_s
        pod.ask(now_s)
        self._asked_s = max(self._asked_s, now_s)
        self._move(pod.node, before_s, pod.exit_s)
        heapq.heappush(self._due, (pod.stale_s, uid))

    def _move(self, name: str, old_s: float, new_s: float) -> None:
        """One pod's exit has moved (-infinity: it was or is none of them)."""
        latest_s = self._exits_s.get(name, -math.inf)
        if new_s >= latest_s:
            self._exits_s[name] = new_s
        elif old_s == latest_s:
            self._exits_s[name] = max((pod.exit_s for pod in self._nodes[name].values()), default=-math.inf)


DEFAULT_ANNOTATION = "sojourn/drain-by"
N_DRAINS_MAX = 100_000
"""How many nodes may have a deadline."""


class Drains:
    """Deadlines, unix seconds, by node name: read from node objects, whose `annotation` holds an RFC 3339 time.

    >>> drains = Drains("sojourn/drain-by")
    >>> drains.told({"metadata": {"name": "n1", "annotations": {"sojourn/drain-by": "1970-01-01T01:00:00Z"}}})
    {'nodes': 1, 'draining': 1}
    >>> drains.deadline_s("n1"), drains.deadline_s("n2")
    (3600, None)
    """

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation
        self._deadlines: dict[str, int] = {}
        self.n_unreadable = 0

    def told(self, document: Any) -> dict[str, int]:
        """Take in a Node, or a list of all nodes, which forgets the others; ValueError (nothing taken in) if wrong."""
        listed = listed_items(document)
        nodes = [document] if listed is None else listed
        found = {node_name(node): self._read(node) for node in nodes}
        others = self._deadlines if listed is None else {}
        kept = {name: time_s for name, time_s in others.items() if name not in found}
        deadlines = kept | {name: time_s for name, time_s in found.items() if time_s is not None}
        if len(deadlines) > N_DRAINS_MAX:
            raise ValueError(f"nodes with a deadline must be at most {N_DRAINS_MAX}, got {len(deadlines)}")
        self._deadlines = deadlines
        return {"nodes": len(found), "draining": sum(time_s is not None for time_s in found.values())}

    def deadline_s(self, name: str) -> int | None:
        """The deadline that was reported for a node, unix seconds."""
        return self._deadlines.get(name)

    def deadline_of(self, node: Any) -> int | None:
        """The deadline in a node object; one that cannot be read is counted and passes as none."""
        try:
            return self._read(node)
        except ValueError:
            self.n_unreadable += 1
            return None

    def _read(self, node: Any) -> int | None:
        time = mapping(node, "metadata", "annotations").get(self._annotation)
        if time is None:
            return None
        try:
            return unix_s(time)
        except ValueError as error:
            name = shown_field(node_name(node))
            raise ValueError(f"annotation {self._annotation} of node {name}: {error}") from error


DEFAULT_SOURCES: Mapping[str, str] = {
    "cpu_cores": "requests.cpu",
    "mem_gib": "requests.memory",
    "disk_gib": "requests.ephemeral-storage",
    "gpu": "requests.nvidia.com/gpu",
    "user": "metadata.namespace",
    "subscription": "metadata.namespace",
    "tenant": "metadata.namespace",
    "deployment": "label:app.kubernetes.io/name",
    "app_name": "label:app.kubernetes.io/name",
    "priority": "spec.priority",
}
"""Where a trace's columns are looked for in a pod, unless a mapping is given."""
READER_SOURCES: Mapping[str, str] = {
    **{column: f"pod.{column}" for column in (*POD_SIZES, *POD_NAMES)},
    "requested_s": "spec.activeDeadlineSeconds",
}
"""The same for a bundle that was trained on pods (`--reader kubernetes`): what its columns were made from."""
_READER_COLUMN = "controller"
"""Such a bundle is known by this column."""
_UNITS = {"_gib": 2.0**30, "_mib": 2.0**20}
_LOCAL = "metadata.", "spec."


@dataclass(frozen=True, slots=True)
class PodColumns:
    """Which request column comes from where in a pod.

    sources: column -> `requests.RESOURCE` or `limits.RESOURCE` (of the whole pod; in the unit that the column's
    name ends in, `_gib` or `_mib`, else cores, bytes or pieces), `label:KEY`, `annotation:KEY`, or a dotted path from
    `metadata` or `spec`. numbers: the columns that the model reads as numbers; text there is read as a quantity.

    >>> columns = PodColumns({"mem_gib": "requests.memory", "user": "label:app"}, frozenset({"mem_gib"}))
    >>> pod = {"metadata": {"labels": {"app": "web"}},
    ...        "spec": {"containers": [{"resources": {"requests": {"memory": "512Mi"}}}]}}
    >>> columns.request(pod)
    {'mem_gib': 0.5, 'user': 'web'}
    """

    sources: Mapping[str, str]
    numbers: frozenset[str]

    @classmethod
    def of(cls, encoder: Encoder, sources: Any = None) -> PodColumns:
        """The mapping for a bundle's encoder; without `sources`, what it has columns for of READER_SOURCES, where it
        was trained on pods, or of DEFAULT_SOURCES.

        ValueError for an unknown column or a source of no known form.
        """
        known = encoder.columns()
        if sources is None:
            default = READER_SOURCES if _READER_COLUMN in known else DEFAULT_SOURCES
            sources = {column: source for column, source in default.items() if column in known}
        if not isinstance(sources, Mapping):
            raise ValueError(f"columns must be a JSON object from column to source, got {shown_field(sources)}")
        for column, source in sources.items():
            if column not in known:
                raise ValueError(f"columns must be of {', '.join(known)}, got {column!r}")
            if not isinstance(source, str) or not (source in READER_SOURCES.values() or source.startswith(
                    ("requests.", "limits.", "label:", "annotation:", *_LOCAL))):
                raise ValueError(f"{column} must come from requests.R, limits.R, label:KEY, annotation:KEY, "
                                 f"metadata.PATH, spec.PATH or pod.COLUMN, got {shown_field(source)}")
        return cls(dict(sources), frozenset(encoder.numbers))

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod's request: column -> number or text; what the pod does not say is left out.

        ValueError naming the column where the pod's value is of a wrong type.
        """
        request: dict[str, Any] = {}
        for column, source in self.sources.items():
            try:
                value = _value(pod, column, source)
                if column in self.numbers and isinstance(value, str):
                    value = quantity(value)
                if value is not None:
                    request[column] = value if isinstance(value, bool | int | float) else short_text(value)
            except ValueError as error:
                raise ValueError(f"{column} (from {source}): {error}") from error
        return request


def _value(pod: Mapping[str, Any], column: str, source: str) -> Any:
    kind, _, name = source.partition(":")
    if kind in ("label", "annotation"):
        return mapping(pod, "metadata", f"{kind}s").get(name)
    where, _, name = source.partition(".")
    if where == "pod":
        return POD_SIZES[name](pod) if name in POD_SIZES else POD_NAMES[name](pod)
    if where not in ("requests", "limits"):
        return field(pod, *source.split("."))
    total = pod_resource(pod, where, name)
    unit = next((size for ending, size in _UNITS.items() if column.endswith(ending)), 1.0)
    return None if total is None else total / unit


class PodRequests:
    """Follows the predictor's reloads: another version may read other columns. For one thread at a time.

    sources: as for `PodColumns.of`, which raises ValueError where they are wrong for the first version; of a later one,
    columns that it does not read are left out.
    """

    def __init__(self, predictor: Predictor, sources: Any = None) -> None:
        self._predictor = predictor
        self._encoder = predictor.encoder
        self._columns = PodColumns.of(self._encoder, sources)
        self._sources = sources

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod's request; ValueError as `PodColumns.request`."""
        encoder = self._predictor.encoder
        if encoder is not self._encoder:
            sources = self._sources
            if sources is not None:
                known = encoder.columns()
                sources = {column: source for column, source in sources.items() if column in known}
            self._columns, self._encoder = PodColumns.of(encoder, sources), encoder
        return self._columns.request(pod)
