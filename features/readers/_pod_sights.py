"""One pod as one document shows it: its times, its state and its attributes, checked; what is wrong is named."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sojourn.features.frame_requests import LAST_STAMP_S
from sojourn.serving.pods import (
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
from sojourn.serving.pods import (
    field as pod_field,
)

MAX_SIZE = 1e9
TEXT_MAX = 512
"""A longer name is none of Kubernetes, whose own have 253 characters at most."""
_Read = TypeVar("_Read")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_CONTAINERS = "containerStatuses"
_REJECTED = ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "PodTopologySpread")
"""Reasons with which a node turns a pod away; `OutOfcpu` and its like too."""


class RefusedPod(ValueError):
    """A pod that cannot be read. rule: what must hold. shown: the value that does not, and whose it is."""

    def __init__(self, rule: str, shown: str) -> None:
        super().__init__(f"{rule}, got {shown}")
        self.rule, self.shown = rule, shown


@dataclass(frozen=True, slots=True)
class PodSight:
    """A pod as it stood when it was seen; times are Unix seconds, None where it does not say.

    placed_s: when it was given to its node, or created, of a pod that has one. started_s: when the node took it.
    ended_s: when the last of its containers ended, of a pod that has ended. asked_s, deadline_s: when its deletion was
    asked for, and by when it is to be gone. newest_s: the newest of all its times but the deadline. is_turned_away: its
    node did not run it. is_of_node: it belongs to its node (DaemonSet, static pod).
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
    """What a Pod object says of itself; RefusedPod where it cannot be read.

    >>> seen = pod_sight({"metadata": {"uid": "u", "name": "a", "creationTimestamp": "2026-03-01T06:00:00Z"},
    ...                   "spec": {"nodeName": "n"}, "status": {"phase": "Running",
    ...                   "startTime": "2026-03-01T06:00:01Z"}})
    >>> seen.started_s - seen.created_s, seen.ended_s
    (1.0, None)
    """
    return _named(pod, lambda: _sight(pod))


def pod_values(pod: Any) -> tuple[tuple[str, ...], tuple[float, ...], float]:
    """A pod's names and sizes, in the order of POD_NAMES and POD_SIZES, and how long it may run, s (NaN: for ever).

    RefusedPod where it cannot be read.
    """
    return _named(pod, lambda: _values(pod))


def full_pod_name(pod: Any) -> str:
    """NAMESPACE/NAME of a pod, as far as it says.

    >>> full_pod_name({"metadata": {"name": "a", "namespace": "b"}}), full_pod_name(7)
    ('b/a', 'pod ?')
    """
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return "pod ?"
    label = f"{metadata.get('namespace') or NONE}/{metadata['name']}"
    return label if len(label) <= TEXT_MAX else "pod ?"


def _named(pod: Any, read: Callable[[], _Read]) -> _Read:
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
    known = [when for when in ends if when is not None]
    ended_s = None
    if is_finished(pod) or (deadline_s is not None and n_own and not n_left):
        changes = [when for _, when in conditions.values() if when is not None]
        ended_s = max(known) if known else max(changes) if changes else newest_s
    reason = _name(pod, "status", "reason")
    is_turned_away = phase == "Failed" and not known and (reason in _REJECTED or reason.startswith("OutOf"))
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
