"""Lives of pods: start and end of each, from lists, events and containers.

`PodSight` is a pod in one document: its checked times, state and attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from sojourn.features.frame_requests import LAST_STAMP_S
from sojourn.features.readers._ending import horizon_of
from sojourn.serving.inputs import (
    NONE,
    POD_NAMES,
    POD_SIZES,
    is_finished,
    is_part_of_node,
    mapping,
    pod_time_s,
    pod_uid,
    sequence,
    shown_field,
)
from sojourn.serving.inputs import (
    field as pod_field,
)

_NEVER = math.inf


@dataclass(slots=True)
class PodLife:
    """The data of one pod; Unix seconds, NaN or None where missing.

    names, sizes, requested_s: at its first sight, see POD_NAMES and POD_SIZES. seen_s: the last time at which
    it ran. ended_s: its exact end, if known. gone_s: a time after the end of a deleted pod. from_s:
    a time from which its deletion ran.
    """

    uid: str
    label: str
    namespace: str
    node: str
    file: str
    line: int
    names: tuple[str, ...]
    sizes: tuple[float, ...]
    requested_s: float
    created_s: float
    placed_s: float | None
    started_s: float | None
    is_turned_away: bool
    phase: str
    n_restarts: int
    seen_s: float = -math.inf
    ended_s: float | None = None
    from_s: float = -math.inf
    gone_s: float = _NEVER

    @property
    def arrival_s(self) -> float | None:
        """The start of its use of the node, as far as known."""
        return self.placed_s if self.started_s is None else self.started_s

    @property
    def is_over(self) -> bool:
        """Whether its end is known."""
        return self.ended_s is not None or self.gone_s < _NEVER


@dataclass(frozen=True, slots=True)
class PodEnd:
    """after_s, by_s: the end is between them; equal if it is known. Both are infinite for a running pod."""

    after_s: float
    by_s: float


@dataclass(slots=True)
class PodLives:
    """All pods of a recording. part_of_node: node, controller and sizes of pods of a node. lists_s: times of lists."""

    lives: dict[str, PodLife] = field(default_factory=dict)
    part_of_node: dict[str, tuple[str, str, tuple[float, ...]]] = field(default_factory=dict)
    lists_s: list[float] = field(default_factory=list)
    last_s: float = -math.inf
    _everywhere_s: list[float] = field(default_factory=list)
    _of_namespace_s: dict[str, list[float]] = field(default_factory=dict)
    _interned: dict[str, str] = field(default_factory=dict)

    def add(self, sight: PodSight, pod: Any, file: str, line: int) -> PodLife | None:
        """Add a sight of a pod; None for a pod that belongs to its node. RefusedPod as `pod_values`."""
        if sight.is_of_node:
            if sight.uid not in self.part_of_node:
                names, sizes, _ = pod_values(pod)
                self.part_of_node[sight.uid] = sight.node, names[1], sizes
            return None
        life = self.lives.get(sight.uid)
        if life is None:
            names, sizes, requested_s = pod_values(pod)
            names = tuple(self._interned.setdefault(name, name) for name in names)
            life = PodLife(sight.uid, sight.label, names[0], sight.node, file, line, names, sizes, requested_s,
                           math.nan if sight.created_s is None else sight.created_s, sight.placed_s,
                           sight.started_s, sight.is_turned_away, sight.phase, sight.n_restarts)
            self.lives[sight.uid] = life
        elif sight.ended_s is None and life.ended_s is not None:
            return life  # an older list, read later
        life.node = sight.node or life.node
        life.placed_s = sight.placed_s if life.placed_s is None else life.placed_s
        life.started_s = sight.started_s if life.started_s is None else life.started_s
        life.is_turned_away |= sight.is_turned_away
        life.n_restarts = max(life.n_restarts, sight.n_restarts)
        life.phase = sight.phase
        if sight.asked_s is not None:
            life.from_s = sight.asked_s
        if sight.ended_s is not None:
            life.ended_s = sight.ended_s if life.ended_s is None else min(life.ended_s, sight.ended_s)
        return life

    def listed(self, lives: Sequence[PodLife], time_s: float) -> None:
        """Add a list of all pods, or of one namespace, at a time: earlier pods that are not in it have ended.

        A list with pods of several namespaces is of all namespaces.
        """
        self.lists_s.append(time_s)
        self.last_s = max(self.last_s, time_s)
        for life in lives:
            if not life.is_over:
                life.seen_s = max(life.seen_s, time_s)
        namespaces = {life.namespace for life in lives}
        if len(namespaces) == 1:
            self._of_namespace_s.setdefault(namespaces.pop(), []).append(time_s)
        else:
            self._everywhere_s.append(time_s)

    def followed(self, file: str, time_s: float) -> None:
        """Record that the watch of this file has all ends of its pods up to that time."""
        for life in self.lives.values():
            if life.file == file and not life.is_over:
                life.seen_s = max(life.seen_s, time_s)

    def seen(self, life: PodLife, time_s: float) -> None:
        """Record an event of a running pod."""
        self.last_s = max(self.last_s, time_s)
        if not life.is_over:
            life.seen_s = max(life.seen_s, time_s)

    def deleted(self, life: PodLife, time_s: float, deadline_s: float | None) -> None:
        """Record that the pod was deleted: by then, or by its deadline if that is earlier."""
        if time_s < _NEVER:
            self.last_s = max(self.last_s, time_s)
        if life.ended_s is None:
            from_s = max(life.from_s, -math.inf if life.arrival_s is None else life.arrival_s)
            life.gone_s = max(from_s, time_s if deadline_s is None else min(time_s, deadline_s))
            life.from_s = life.gone_s  # the stream reports it at once

    def n_running(self, namespaces: Collection[str] | None) -> int:
        """Number of pods of these namespaces (None: of all) without a known end so far."""
        return sum(not life.is_over and (namespaces is None or life.namespace in namespaces)
                   for life in self.lives.values())

    def end_of(self, life: PodLife) -> PodEnd:
        """The end of the pod from all lists and events."""
        if life.ended_s is not None:
            return PodEnd(life.ended_s, life.ended_s)
        if life.gone_s < _NEVER:
            return PodEnd(life.gone_s, life.gone_s)
        missed_s = min(_first_after(self._everywhere_s, life.seen_s),
                       _first_after(self._of_namespace_s.get(life.namespace, ()), life.seen_s))
        return PodEnd(max(life.seen_s, min(life.from_s, missed_s)), missed_s)

    def close(self) -> None:
        """Finish reading: sort the lists by time."""
        self._everywhere_s.sort()
        for times_s in self._of_namespace_s.values():
            times_s.sort()


def list_time_s(newest_s: Sequence[float]) -> float:
    """The time of a list, from the newest time of each of its pods, without a few far beyond all others."""
    times_s = np.array([when for when in newest_s if when > -math.inf], np.float64)
    if not len(times_s):
        return -math.inf
    first_s = float(times_s.min())
    behind = (times_s - first_s).astype(np.int64) + 1
    return first_s + horizon_of(behind).time_s - 1


def drawn_s(uid: str, after_s: float, by_s: float, seed: int) -> float:
    """A uniform time in (after_s, by_s], rounded up to whole seconds; `by_s` if they are equal.

    It is a hash of the seed and the pod's uid: with a generator's stream, a missing pod would change all later ones.

    >>> drawn_s("a", 100.0, 160.0, 0), drawn_s("b", 100.0, 160.0, 0), drawn_s("a", 5.0, 5.0, 0)
    (101.0, 131.0, 5.0)
    """
    if by_s <= after_s:
        return by_s
    digest = blake2b(f"{seed}/{uid}".encode(errors="surrogatepass"), digest_size=8).digest()
    share = ((int.from_bytes(digest, "little") >> 11) + 1) * 2.0**-53
    return min(by_s, float(math.ceil(after_s + share * (by_s - after_s))))


def _first_after(sorted_s: Sequence[float], time_s: float) -> float:
    at = int(np.searchsorted(np.asarray(sorted_s, np.float64), time_s, side="right")) if len(sorted_s) else 0
    return sorted_s[at] if at < len(sorted_s) else _NEVER


MAX_SIZE = 1e9
TEXT_MAX = 512
"""The longest name; names in Kubernetes have at most 253 characters."""
_Read = TypeVar("_Read")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_CONTAINERS = "containerStatuses"
_REJECTED = ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "PodTopologySpread")
"""Reasons of a node to reject a pod; also `OutOfcpu` and similar ones."""


class RefusedPod(ValueError):
    """A pod that cannot be read. rule: the broken rule. shown: the value, and its pod."""

    def __init__(self, rule: str, shown: str) -> None:
        super().__init__(f"{rule}, got {shown}")
        self.rule, self.shown = rule, shown


@dataclass(frozen=True, slots=True)
class PodSight:
    """A pod in one document; times are Unix seconds, None where missing.

    placed_s: when it was assigned to its node, or created, if it has a node. started_s: when the node accepted it.
    ended_s: the end of its last container, if it has ended. asked_s, deadline_s: when its deletion was requested, and
    its deadline. newest_s: the newest of all its times except the deadline. is_turned_away: its node did not run it.
    is_of_node: it belongs to its node (DaemonSet, static pod).
    """

    uid: str
    label: str
    namespace: str
    node: str
    phase: str
    is_of_node: bool
    is_turned_away: bool
    created_s: float | None
    placed_s: float | None
    started_s: float | None
    ended_s: float | None
    asked_s: float | None
    deadline_s: float | None
    newest_s: float | None
    n_restarts: int


def pod_sight(pod: Any) -> PodSight:
    """The sight of a Pod object; RefusedPod if it cannot be read.

    >>> seen = pod_sight({"metadata": {"uid": "u", "name": "a", "creationTimestamp": "2026-03-01T06:00:00Z"},
    ...                   "spec": {"nodeName": "n"}, "status": {"phase": "Running",
    ...                   "startTime": "2026-03-01T06:00:01Z"}})
    >>> seen.started_s - seen.created_s, seen.ended_s
    (1.0, None)
    """
    return _read_pod(pod, lambda: _sight(pod))


def pod_values(pod: Any) -> tuple[tuple[str, ...], tuple[float, ...], float]:
    """A pod's names and sizes, in the order of POD_NAMES and POD_SIZES, and its limit, s (NaN: none).

    RefusedPod if it cannot be read.
    """
    return _read_pod(pod, lambda: _values(pod))


def full_pod_name(pod: Any) -> str:
    """NAMESPACE/NAME of a pod, as far as present.

    >>> full_pod_name({"metadata": {"name": "a", "namespace": "b"}}), full_pod_name(7)
    ('b/a', 'pod ?')
    """
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return "pod ?"
    label = f"{metadata.get('namespace') or NONE}/{metadata['name']}"
    return label if len(label) <= TEXT_MAX else "pod ?"


def _read_pod(pod: Any, read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except RefusedPod:
        raise
    except ValueError as error:
        rule, _, shown = str(error).partition(", got ")
        rule = rule.replace("object must be an object", "elements of lists must be objects")
        raise RefusedPod(rule, f"{shown} in {full_pod_name(pod)}") from None


def _sight(pod: Any) -> PodSight:
    if not isinstance(pod, dict):
        raise ValueError(f"pod must be an object, got {shown_field(pod)}")
    uid = pod_uid(pod)
    created_s, started_s = _time(pod, "metadata", "creationTimestamp"), _time(pod, "status", "startTime")
    if created_s is not None and started_s is not None:
        started_s = max(started_s, created_s)  # as `started_unix_s`
    conditions = {_name(each, "type"): (pod_field(each, "status"), _time(each, "lastTransitionTime"))
                  for each in sequence(pod, "status", "conditions")}
    bound, bound_s = conditions.get("PodScheduled", ("", None))
    node, phase = _name(pod, "spec", "nodeName"), _name(pod, "status", "phase")
    placed_s = None
    if node:
        placed_s = bound_s if bound == "True" and bound_s is not None else created_s
    ends, begins, n_restarts, n_left, n_own = [], [], 0, 0, 0
    for kind in _STATUSES:
        for status in sequence(pod, "status", kind):
            state = mapping(status, "state")
            over = mapping(state, "terminated")
            ends.append(_time(over, "finishedAt"))
            begins.append(_time(mapping(state, "running"), "startedAt"))
            n_restarts += _whole(status, "restartCount")
            if kind == _CONTAINERS:
                n_own += 1
                n_left += not over
    deadline_s = _time(pod, "metadata", "deletionTimestamp")
    grace_s = _whole(pod, "metadata", "deletionGracePeriodSeconds")
    asked_s = None if deadline_s is None else deadline_s - grace_s
    times = [created_s, started_s, asked_s, *(when for _, when in conditions.values()), *ends, *begins]
    newest_s = max((when for when in times if when is not None), default=None)
    known_ends = [when for when in ends if when is not None]
    ended_s = None
    if is_finished(pod) or (deadline_s is not None and n_own and not n_left):
        changes = [when for _, when in conditions.values() if when is not None]
        ended_s = max(known_ends) if known_ends else max(changes) if changes else newest_s
    reason = _name(pod, "status", "reason")
    is_turned_away = phase == "Failed" and not known_ends and (reason in _REJECTED or reason.startswith("OutOf"))
    return PodSight(
        uid, full_pod_name(pod), _name(pod, "metadata", "namespace"), node, phase, is_part_of_node(pod), is_turned_away,
        created_s, placed_s, started_s, ended_s, asked_s, deadline_s, newest_s, n_restarts)


def _values(pod: Any) -> tuple[tuple[str, ...], tuple[float, ...], float]:
    names = tuple(each(pod) for each in POD_NAMES.values())
    sizes = []
    for column, each in POD_SIZES.items():
        try:
            size = each(pod)
        except ValueError as error:
            raise ValueError(f"{column}: {error}") from None
        if size > MAX_SIZE:
            raise ValueError(f"{column} must be from 0 to 1e9, got {size!r}")
        sizes.append(size)
    deadline = pod_field(pod, "spec", "activeDeadlineSeconds")
    if deadline is not None and not (isinstance(deadline, int) and not isinstance(deadline, bool)
                                     and 0 < deadline < LAST_STAMP_S):
        raise ValueError(f"spec.activeDeadlineSeconds must be seconds, got {shown_field(deadline)}")
    return names, tuple(sizes), math.nan if deadline is None else float(deadline)


def _time(document: Any, *path: str) -> float | None:
    value = pod_field(document, *path)
    if value is None:
        return None
    try:
        when_s = pod_time_s(value)
    except (ValueError, OverflowError):
        when_s = int(LAST_STAMP_S)
    if when_s is None:
        return None
    if when_s >= LAST_STAMP_S:
        raise ValueError(f"{path[-1]} must be a time such as 2026-03-01T06:00:00Z, got {shown_field(value)}")
    return float(when_s)


def _whole(document: Any, *path: str) -> int:
    value = pod_field(document, *path)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise ValueError(f"{path[-1]} must be a whole number from 0 on, got {shown_field(value)}")
    return value


def _name(document: Any, *path: str) -> str:
    value = pod_field(document, *path)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{path[-1]} must be text, got {shown_field(value)}")
    return value or ""
