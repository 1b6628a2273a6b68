"""Pods as Kubernetes writes them, and the maker of recordings that the examples show."""

from __future__ import annotations

import importlib.util
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

SIX_S = 1_772_344_800
"""2026-03-01 06:00 UTC."""
MAKER = Path(__file__).parents[1] / "examples" / "kubernetes" / "made_recording.py"


def maker() -> ModuleType:
    """The module that writes the example's recording."""
    name = "made_recording"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, MAKER)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # its dataclasses look for it
        spec.loader.exec_module(module)
    return sys.modules[name]


def stamp(unix_s: float) -> str:
    """2026-03-01T06:00:00Z"""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name: str, start_s: float | None = 0, end_s: float | None = None, *, phase: str = "", node: str = "n",
        namespace: str = "a", owner: tuple[str, str] | None = None, labels: dict[str, str] | None = None,
        **metadata: Any) -> dict[str, Any]:
    """A pod of one core and 2 GiB that started and ended so many seconds after 06:00, with the uid `uid-NAME`.

    node: "" for one that waits. phase: Running, or Succeeded where it ended, unless it is given.
    """
    owners = [] if owner is None else [{"kind": owner[0], "name": owner[1], "controller": True}]
    status: dict[str, Any] = {"phase": phase or ("Running" if end_s is None else "Succeeded")}
    if start_s is not None:
        status["startTime"] = stamp(SIX_S + start_s)
        state: dict[str, Any] = {"running": {"startedAt": stamp(SIX_S + start_s)}}
        if end_s is not None:
            state = {"terminated": {"finishedAt": stamp(SIX_S + end_s), "exitCode": 0}}
        status["containerStatuses"] = [{"name": "main", "restartCount": 0, "state": state}]
    created_s = SIX_S + (0 if start_s is None else start_s)
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": stamp(created_s),
                     "labels": labels or {}, "ownerReferences": owners, **metadata},
        "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {
            "requests": {"cpu": "1", "memory": "2Gi"}}}], **({"nodeName": node} if node else {})},
        "status": status,
    }  # fmt: skip


def listed(*pods: Any, kind: str = "List") -> str:
    """A list as `kubectl get pods -o json` prints it."""
    return json.dumps({"apiVersion": "v1", "items": list(pods), "kind": kind, "metadata": {"resourceVersion": ""}},
                      indent=4) + "\n"


def event(kind: str, of: Any) -> str:
    """An event as `--output-watch-events` prints it."""
    return json.dumps({"type": kind, "object": of}, separators=(",", ":")) + "\n"


def recording(folder: Path) -> Path:
    """A watch of five pods: one finished, one was deleted, one waits, one still runs, one belongs to its node."""
    path = folder / "watch.json"
    path.write_text("".join([
        event("ADDED", pod("old", -7_200)), event("ADDED", pod("agent", -90_000, owner=("DaemonSet", "agent"))),
        event("ADDED", pod("etl-29367840-x7k2p", 0, owner=("Job", "etl-29367840"), namespace="b")),
        event("ADDED", pod("waits", None, node="")),
        event("MODIFIED", pod("old", -7_200, deletionTimestamp=stamp(SIX_S + 630), deletionGracePeriodSeconds=30)),
        event("MODIFIED", pod("etl-29367840-x7k2p", 0, 620, owner=("Job", "etl-29367840"), namespace="b")),
        event("DELETED", pod("old", -7_200, deletionTimestamp=stamp(SIX_S + 630), deletionGracePeriodSeconds=30)),
        event("ADDED", pod("late", 3_600, namespace="b")),
    ]))  # fmt: skip
    return path
