"""Pods as Kubernetes writes them: who they are, where and when they ran. Every reader checks the type it finds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

TEXT_MAX = 512
"""Longest name or text that is taken from a pod, in characters; Kubernetes' own names have at most 253."""
FIRST_POD_S = 1_401_580_800
"""2014-06-01, unix seconds: no cluster is older than Kubernetes. Earlier times say that there is none, as Go's zero
time (year 1) does, and 1970 of containers that never ran."""


def pod_uid(pod: Any) -> str:
    """The pod's uid; ValueError where it has none."""
    return _name(pod, "metadata", "uid")


def node_name(node: Any) -> str:
    """A node's name; ValueError where it has none."""
    return _name(node, "metadata", "name")


def is_finished(pod: Any) -> bool:
    """True once all its containers have ended for good."""
    return field(pod, "status", "phase") in ("Succeeded", "Failed")


def is_part_of_node(pod: Any) -> bool:
    """True for what runs on a node as long as there is a node: pods of a DaemonSet, and static ones."""
    owners = sequence(pod, "metadata", "ownerReferences")
    return (any(field(owner, "kind") == "DaemonSet" for owner in owners)
            or "kubernetes.io/config.mirror" in mapping(pod, "metadata", "annotations"))


def started_unix_s(pod: Any, now_unix_s: float = math.inf) -> int | None:
    """When its node took it (status.startTime), unix seconds; None if the pod does not say, see `pod_time_s`.

    Never before it was created: a node's clock may be behind, or wrong.

    >>> started_unix_s({"metadata": {"creationTimestamp": "2026-03-01T06:00:00Z"},
    ...                 "status": {"startTime": "2025-01-01T00:00:00Z"}})
    1772344800
    """
    started_s = pod_time_s(field(pod, "status", "startTime"), now_unix_s)
    if started_s is None:
        return None
    created_s = pod_time_s(field(pod, "metadata", "creationTimestamp"), now_unix_s)
    return started_s if created_s is None else max(started_s, created_s)


def finished_unix_s(pod: Any, now_unix_s: float = math.inf) -> int | None:
    """When the last of its containers ended, unix seconds; None if the pod does not say, see `pod_time_s`."""
    ends = (pod_time_s(field(status, "state", "terminated", "finishedAt"), now_unix_s)
            for status in sequence(pod, "status", "containerStatuses"))
    return max((end_s for end_s in ends if end_s is not None), default=None)


def pod_time_s(time: Any, now_unix_s: float = math.inf) -> int | None:
    """Unix seconds of a time that has passed for a pod; None if there is none, and for a time that cannot be one.

    No time of a pod is before FIRST_POD_S or after now. ValueError if it is no RFC 3339 time.

    >>> pod_time_s("2026-03-01T06:00:00Z"), pod_time_s("0001-01-01T00:00:00Z"), pod_time_s("1970-01-01T00:00:00Z")
    (1772344800, None, None)
    >>> pod_time_s("2026-03-01T06:00:00Z", now_unix_s=1_772_344_799)
    """
    if time is None:
        return None
    time_s = unix_s(time)
    return time_s if FIRST_POD_S <= time_s <= now_unix_s else None


def unix_s(time: Any) -> int:
    """Unix seconds, rounded down, of an RFC 3339 time such as 2026-03-01T06:00:00Z.

    >>> unix_s("2026-03-01T06:00:00Z")
    1772344800
    """
    try:
        moment = datetime.fromisoformat(time)
    except (TypeError, ValueError):
        moment = datetime.min
    if moment.tzinfo is None:
        raise ValueError(f"time must be one such as 2026-03-01T06:00:00Z, got {shown_field(time)}")
    return int(moment.timestamp() // 1)


def field(document: Any, *path: str) -> Any:
    """The value at a path of names (or list positions), None where a part is missing; ValueError for a wrong type."""
    for depth, name in enumerate(path):
        if isinstance(document, list) and name.isdecimal():
            document = document[int(name)] if int(name) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(name)
        else:
            raise ValueError(f"{'.'.join(path[:depth]) or 'object'} must be an object, got {shown_field(document)}")
        if document is None:
            return None
    return document


def mapping(document: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, empty where missing; ValueError for a wrong type."""
    found = field(document, *path)
    if not isinstance(found, dict | None):
        raise ValueError(f"{'.'.join(path)} must be an object, got {shown_field(found)}")
    return found or {}


def sequence(document: Any, *path: str) -> Sequence[Any]:
    """The list at a path, empty where missing; ValueError for a wrong type."""
    found = field(document, *path)
    if not isinstance(found, list | None):
        raise ValueError(f"{'.'.join(path)} must be a list, got {shown_field(found)}")
    return found or ()


def listed_items(document: Any) -> Sequence[Any] | None:
    """The objects of a list, as Kubernetes writes it ({"items": [...]}) or bare ([...]); None for a single object."""
    if isinstance(document, list):
        return document
    return sequence(document, "items") if isinstance(document, dict) and "items" in document else None


def short_text(value: Any) -> str:
    """The value, if it is a text of at most TEXT_MAX characters; else ValueError."""
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise ValueError(f"value must be text of at most {TEXT_MAX} characters, got {shown_field(value)}")
    return value


def shown_field(value: Any) -> str:
    """A value of a caller's document in an error message, cut to 80 characters; the type of a list or an object."""
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def _name(document: Any, *path: str) -> str:
    value = field(document, *path)
    if not value:
        raise ValueError(f"{'.'.join(path)} must be given, got {shown_field(value)}")
    return short_text(value)
