"""Nodes by their pods: when each will be empty, and how a further pod would change that (NILAS' temporal cost).

`Drains` are nodes with a deadline in their annotation. `PodColumns` turns a pod into the request
columns of a bundle, `PodRequests` into those of the version that is served now.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
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
"""Kubernetes' MaxExtenderPriority; the minimum is 0."""
ABSENT_GRACE_S = 60
"""A pod that was reported more recently does not count as ended if it is absent from a list."""
N_GONE = 65_536
"""Size of the memory of ended pods, so that a late or repeated report cannot add one again."""

_N_VOID_MAX = 1_000


def node_scores(exits_s: np.ndarray, end_s: float) -> np.ndarray:
    """Scores, int64 (n,), 0 to 10, higher = better, of nodes with these exits for a pod with this predicted end.

    exits_s: float64 (n,), seconds, -infinity for an empty node. An empty node costs at least as
    much as one in use, so its score is 0; costs 9 and 10 of nodes in use share the score 1.

    >>> node_scores(np.array([20_000.0, 10_000.0, 5_800.0, 0.0, -np.inf]), 10_000.0).tolist()
    [10, 10, 8, 6, 0]
    """
    costs = np.searchsorted(EXTENSION_EDGES_S, end_s - exits_s, side="right")
    return np.where(exits_s == -math.inf, 0, np.maximum(BEST_SCORE - costs, 1))


@dataclass(slots=True)
class _Placed:
    """A pod on its node. exit_s: its predicted exit as of as_of_s, held until stale_s, when it
    changes or is outlived."""

    vm: Lifetime
    node: str
    learnt_s: int
    as_of_s: int = 0
    exit_s: float = -math.inf
    stale_s: float = -math.inf

    def update(self, now_s: int) -> None:
        arrival_s = self.vm.arrival_s  # later than now if the clock was ahead then
        uptime_s = float(max(now_s - arrival_s, 0))
        self.as_of_s, self.exit_s = now_s, now_s + self.vm.remaining(uptime_s)
        self.stale_s = max(min(arrival_s + self.vm.next_change(uptime_s), self.exit_s), now_s + 1)


class Requests(Protocol):
    """From a pod to its request; ValueError if the pod's value for a column is wrong."""

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]: ...


class Nodes:
    """Reported pods by node, with up-to-date predictions.

    One caller at a time. Exits are held until they change: each call first updates the pods, on all
    nodes, that are due since the last one. If time goes back, exits from later times are computed
    again, too. Reports are idempotent by the pod's uid. Times are whole seconds on the bundle's
    clock, `epoch_s` behind unix time. n_pods_max bounds the memory.
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
        self._updated_s: float = -math.inf  # the latest time of an update

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, uid: str) -> bool:
        """Whether a pod was placed here and has not ended."""
        return uid in self._placed

    @property
    def n_pods(self) -> int:
        """Number of reported pods that run now."""
        return len(self._placed)

    def predict(self, pod: Mapping[str, Any], now_s: int) -> Lifetime:
        """The prediction for a pod that would start now; records nothing. ValueError if its request is wrong."""
        return self._predictor.predict(self._requests.request(pod), now_s)

    def placed(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Add a pod in its present state; returns placed, known, ended, finished or ignored.

        Ignored: not yet on a node, or part of its node (DaemonSet, static pod). A finished pod
        counts as `ended`, or as `finished` if it was not placed here. ValueError: no uid, a wrong
        type, another node than before, or too many pods.
        """
        uid = pod_uid(pod)
        if is_finished(pod):
            return self.ended(pod, now_s)
        name = field(pod, "spec", "nodeName")
        if not name or is_part_of_node(pod):
            return "ignored"
        former = self._placed.get(uid)
        if former is not None and former.node != name:
            raise ValueError(f"spec.nodeName must stay {former.node!r}, got {shown_field(name)}")
        if former is not None or uid in self._gone:
            return "known"
        if len(self._placed) >= self._n_pods_max:
            raise ValueError(f"pods must be at most {self._n_pods_max}, got one more")
        short_text(name)
        started_s = started_unix_s(pod, now_s + self._epoch_s)
        arrival_s = now_s if started_s is None else started_s - self._epoch_s
        vm = self._predictor.admit(self._requests.request(pod), now_s, arrival_s=arrival_s, request_id=uid)
        placed = self._placed[uid] = _Placed(vm, name, now_s)
        self._nodes.setdefault(name, {})[uid] = placed
        self._update(uid, placed, now_s)
        return "placed"

    def ended(self, pod: Mapping[str, Any], now_s: int) -> str:
        """Record that a pod (its uid is enough) has ended: at the end of its last container if present, else now.

        Returns ended, known (it had ended before), finished (it is finished and was never placed
        here) or unknown.
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
        self._predictor.ended(placed.vm, max(end_s, placed.vm.arrival_s))  # last: may raise if it dropped it
        return "ended"

    def absent(self, uids: Iterable[str | None], now_s: int, grace_s: int = ABSENT_GRACE_S) -> list[str]:
        """Uids of all running pods except these, and except those reported within `grace_s`.

        If a pod was reported long after now, the clock was ahead then: it has no grace.
        """
        listed = set(uids)
        return [uid for uid, placed in self._placed.items()
                if uid not in listed and abs(now_s - placed.learnt_s) >= grace_s]

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

    def exits_without(self, uid: str, names: Sequence[str], now_s: int) -> tuple[np.ndarray, float]:
        """Nodes' exits without a placed pod, float64 (n,), -infinity for an empty node; and the pod's own exit."""
        self._refresh(now_s)
        pod = self._placed[uid]
        exits_s = np.fromiter(map(self._exits_s.get, names, repeat(-math.inf)), np.float64, len(names))
        others_s = [each.exit_s for other, each in self._nodes[pod.node].items() if other != uid]
        exits_s[[name == pod.node for name in names]] = max(others_s, default=-math.inf)
        return exits_s, pod.exit_s

    def _refresh(self, now_s: int) -> None:
        due, placed = self._due, self._placed
        if now_s < self._updated_s:
            for uid, each in placed.items():
                if each.as_of_s > now_s:
                    self._update(uid, each, now_s)
            self._updated_s = now_s
        while due and due[0][0] <= now_s:
            stale_s, uid = heapq.heappop(due)
            pod = placed.get(uid)
            if pod is not None and pod.stale_s == stale_s:
                self._update(uid, pod, now_s)
        if len(due) > 2 * len(placed) + _N_VOID_MAX:
            self._due = [(pod.stale_s, uid) for uid, pod in placed.items()]
            heapq.heapify(self._due)

    def _update(self, uid: str, pod: _Placed, now_s: int) -> None:
        before_s = pod.exit_s
        pod.update(now_s)
        self._updated_s = max(self._updated_s, now_s)
        self._move(pod.node, before_s, pod.exit_s)
        heapq.heappush(self._due, (pod.stale_s, uid))

    def _move(self, name: str, old_s: float, new_s: float) -> None:
        """Update a node after a pod's exit changed (-infinity: before it came, or after it left)."""
        latest_s = self._exits_s.get(name, -math.inf)
        if new_s >= latest_s:
            self._exits_s[name] = new_s
        elif old_s == latest_s:
            self._exits_s[name] = max((pod.exit_s for pod in self._nodes[name].values()), default=-math.inf)


DEFAULT_ANNOTATION = "sojourn/drain-by"
N_DRAINS_MAX = 100_000
"""The most nodes with a deadline."""


class Drains:
    """Deadlines, unix seconds, by node name, from an annotation of node objects with an RFC 3339 time.

    >>> drains = Drains("sojourn/drain-by")
    >>> drains.update({"metadata": {"name": "n1", "annotations": {"sojourn/drain-by": "1970-01-01T01:00:00Z"}}})
    {'nodes': 1, 'draining': 1}
    >>> drains.among(["n1", "n2"])
    [('n1', 3600)]
    """

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation
        self._deadlines: dict[str, int] = {}
        self.n_unreadable = 0

    def update(self, document: Any) -> dict[str, int]:
        """Set the deadline of a Node, or replace all by a list of all nodes; ValueError (and no change) if wrong."""
        listed = listed_items(document)
        nodes = [document] if listed is None else listed
        deadline_of = {node_name(node): self._read(node) for node in nodes}
        former = self._deadlines if listed is None else {}
        unlisted = {name: time_s for name, time_s in former.items() if name not in deadline_of}
        deadlines = unlisted | {name: time_s for name, time_s in deadline_of.items() if time_s is not None}
        if len(deadlines) > N_DRAINS_MAX:
            raise ValueError(f"nodes with a deadline must be at most {N_DRAINS_MAX}, got {len(deadlines)}")
        self._deadlines = deadlines
        return {"nodes": len(deadline_of), "draining": sum(time_s is not None for time_s in deadline_of.values())}

    def among(self, names: Iterable[str]) -> list[tuple[str, int]]:
        """Those of these nodes that have a reported deadline, unix seconds, with it."""
        deadlines = self._deadlines
        return [(name, deadlines[name]) for name in names if name in deadlines]

    def deadline_of(self, node: Any) -> int | None:
        """The deadline in a node object; one that cannot be read is counted and ignored."""
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
"""The default sources of a trace's columns in a pod."""
READER_SOURCES: Mapping[str, str] = {
    **{column: f"pod.{column}" for column in (*POD_SIZES, *POD_NAMES)},
    "requested_s": "spec.activeDeadlineSeconds",
}
"""The same for a bundle that was trained on pods (`--reader kubernetes`)."""
_READER_COLUMN = "controller"
"""The column that identifies such a bundle."""
_UNITS = {"_gib": 2.0**30, "_mib": 2.0**20}
_LOCAL = "metadata.", "spec."


@dataclass(frozen=True, slots=True)
class PodColumns:
    """The sources of request columns in a pod.

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
        """The mapping for a bundle's encoder; the default is its columns in READER_SOURCES if it
        was trained on pods, else in DEFAULT_SOURCES.

        ValueError for an unknown column or a source of unknown form.
        """
        columns = encoder.columns()
        if sources is None:
            default = READER_SOURCES if _READER_COLUMN in columns else DEFAULT_SOURCES
            sources = {column: source for column, source in default.items() if column in columns}
        if not isinstance(sources, Mapping):
            raise ValueError(f"columns must be a JSON object from column to source, got {shown_field(sources)}")
        for column, source in sources.items():
            if column not in columns:
                raise ValueError(f"columns must be of {', '.join(columns)}, got {column!r}")
            if not isinstance(source, str) or not (source in READER_SOURCES.values() or source.startswith(
                    ("requests.", "limits.", "label:", "annotation:", *_LOCAL))):
                raise ValueError(f"{column} must come from requests.R, limits.R, label:KEY, annotation:KEY, "
                                 f"metadata.PATH, spec.PATH or pod.COLUMN, got {shown_field(source)}")
        return cls(dict(sources), frozenset(encoder.numbers))

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod's request: column -> number or text, without missing ones.

        ValueError with the column if the pod's value has a wrong type.
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


def read_sources(file: Path | None) -> Any:
    """The document of `--columns`, unchecked, or None without a file; ValueError if it is no JSON."""
    if file is None:
        return None
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"--columns must be a file of JSON, got {file}: {error}") from error


class PodRequests:
    """Follows the predictor's reloads: another version may read other columns. For one thread at a time.

    sources: as for `PodColumns.of`, which raises ValueError if they are wrong for the first
    version; later versions ignore columns that they do not read.
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
                columns = encoder.columns()
                sources = {column: source for column, source in sources.items() if column in columns}
            self._columns, self._encoder = PodColumns.of(encoder, sources), encoder
        return self._columns.request(pod)
