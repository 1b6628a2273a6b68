"""A trace that SimKube's tracer exported (msgpack, or JSON) as a table of pods.

It holds the objects that own pods, as they changed, and when their pods began and ended; of pods neither names nor
sizes, which are those of the owner's template. Format: docs/ref/trace-files.md of acrlabs/simkube, versions 2 and 3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.frame_requests import FIRST_STAMP_S, LAST_STAMP_S
from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._json_documents import FAULT, json_parts
from sojourn.features.readers._pod_lives import RefusedPod, pod_values
from sojourn.features.readers._pod_table import TIMES, PodTable
from sojourn.serving.pods import POD_NAMES, POD_SIZES, shown_field

VERSIONS = (2, 3)
_MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_ARRAYS = frozenset((*range(0x90, 0xA0), 0xDC, 0xDD))
"""First bytes of a msgpack map and array; no JSON begins with one."""
_KEYS = ('"version"', '"config"', '"events"')


def is_simkube(path: Path) -> bool:
    """Whether a file begins as such a trace: a msgpack map or array, or JSON whose first key is one of its own.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "trace"
    >>> _ = file.write_bytes(bytes([0x85])), is_simkube(file)
    >>> is_simkube(file)
    True
    """
    if path.is_dir():
        return False
    with path.open("rb") as stream:
        head = stream.read(400)
    if head[:1] and head[0] in (_MAPS | _ARRAYS):
        return True
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    return text.startswith("{") and text[1:].lstrip().startswith(_KEYS)


def simkube_table(path: Path, ledger: ReadLedger) -> PodTable:
    """The pods of an exported trace; ValueError where it is none, or of a version that is not read."""
    trace = _loaded(path)
    version = trace.get("version")
    if version not in VERSIONS:
        raise ValueError(f"{path}: version must be 2 or 3, got {shown_field(version)}")
    owners = _Owners(path, ledger, _templates(trace))
    first_s, last_s = math.inf, -math.inf
    for event in _list(trace.get("events")):
        time_s = _time(event.get("ts") if isinstance(event, dict) else None)
        if time_s is None:
            ledger.read(1)
            ledger.refuse("event must have a time ts", path.name, np.zeros(1, np.int64), [shown_field(event)])
            continue
        first_s, last_s = min(first_s, time_s), max(last_s, time_s)
        owners.change(event, time_s)
    found = list(_lifecycles(trace, path, ledger))
    rows, names, sizes, requested, ids = [], [], [], [], []
    for kind, owner, since_s, idx, lifecycle in found:
        ledger.read(1)
        try:
            start_s, end_s = _times(lifecycle)
            values = owners.values_at(kind, owner, since_s)
        except RefusedPod as error:
            ledger.refuse(error.rule, path.name, np.zeros(1, np.int64), [f"{error.shown} in {kind} {owner}"])
            continue
        rows.append((start_s, end_s, end_s, end_s, start_s if math.isnan(end_s) else end_s, math.nan))
        names.append(values[0])
        sizes.append(values[1])
        requested.append(values[2])
        ids.append(f"{owner}/{kind}-{idx}")
    columns = np.array(rows, np.float64).reshape(-1, len(TIMES)).T
    requests = pd.DataFrame({
        "file": path.name, "line": np.zeros(len(rows), np.int64), "request_id": pd.Series(ids, dtype="str"),
        **dict(zip(TIMES, columns, strict=True)),
        **{name: np.array([row[idx] for row in sizes], np.float64) for idx, name in enumerate(POD_SIZES)},
        "requested_s": np.array(requested, np.float64),
        **{name: pd.Series([row[idx] for row in names], dtype="str") for idx, name in enumerate(POD_NAMES)},
    })
    if owners.n_types:
        ledger.note(f"check: {owners.n_types:,} kinds of owners have pods of several types, which SimKube does not "
                    "distinguish: all have the size of the first")
    if not found:
        ledger.note("no lifecycles of pods: SimKube records them where trackLifecycle is set")
    return PodTable(requests, first_s, last_s)


@dataclass(slots=True)
class _Owners:
    """Objects that own pods, and what their templates say from each change on. n_types: of those with several."""

    path: Path
    ledger: ReadLedger
    templates: Mapping[str, list[str]]
    n_types: int = 0
    _values: dict[tuple[str, str], list[tuple[float, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.n_types = sum(len(paths) > 1 for paths in self.templates.values())

    def change(self, event: Mapping[str, Any], time_s: float) -> None:
        """Take in the objects that an event says were applied."""
        for owner in _list(event.get("applied_objs")):
            if not isinstance(owner, dict) or not isinstance(owner.get("metadata"), dict):
                continue
            kind = f"{owner.get('apiVersion')}.{owner.get('kind')}"
            metadata = owner["metadata"]
            namespace, name = metadata.get("namespace"), metadata.get("name")
            for pointer in self.templates.get(kind, ())[:1]:
                template = _at(owner, pointer)
                pod = {"metadata": {
                    "namespace": namespace, "name": name, "labels": _part(template, "metadata", "labels"),
                    "annotations": _part(template, "metadata", "annotations"),
                    "ownerReferences": [{"kind": owner.get("kind"), "name": name}]}, "spec": _part(template, "spec")}
                self._values.setdefault((kind, f"{namespace}/{name}"), []).append((time_s, pod))

    def values_at(self, kind: str, owner: str, time_s: float | None) -> Any:
        """Names and sizes of the owner's pods as of a time; None = at first. RefusedPod where it is not known."""
        known = self._values.get((kind, owner))
        if not known:
            raise RefusedPod("owner must be in the trace with a template", "none")
        at = [pod for when_s, pod in known if time_s is None or when_s <= time_s]
        return pod_values(at[-1] if at and time_s is not None else known[0][1])


def _loaded(path: Path) -> dict[str, Any]:
    """The whole trace; its events are changes of owners, which are few."""
    with path.open("rb") as stream:
        is_packed = stream.read(1)[0] in (_MAPS | _ARRAYS)
    if is_packed:
        trace = _unpacked(path)
    else:
        trace, events = {}, []
        for part in json_parts(path):
            if part.key == FAULT:
                raise part.value
            if part.key == "events":
                events.append(part.value)
            elif part.key == "" and isinstance(part.value, dict):
                trace |= part.value
        trace["events"] = events
    if not isinstance(trace, dict):
        raise ValueError(f"{path}: must be a map with a version, got a {type(trace).__name__} (traces before SimKube 2 "
                         "are not read: export them again)")
    return trace


def _unpacked(path: Path) -> Any:
    try:
        import msgpack
    except ImportError:
        raise ValueError(f"{path}: is msgpack, which needs the library msgpack: pip install msgpack, or convert the "
                         "file with `msgpack2json -di FILE`") from None
    try:
        return _listed(msgpack.unpackb(path.read_bytes(), strict_map_key=False, use_list=False))
    except (ValueError, TypeError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        raise ValueError(f"{path}: must be whole msgpack, got {type(error).__name__}: {error}") from None


def _listed(value: Any) -> Any:
    """Tuples as lists, but for keys: SimKube 2 has tuples for keys, which msgpack gives as such only for all arrays."""
    if isinstance(value, tuple):
        return [_listed(each) for each in value]
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return value


def _templates(trace: Mapping[str, Any]) -> dict[str, list[str]]:
    """Per kind of owner, where its templates of pods stand."""
    found = {}
    config = trace.get("config")
    tracked = config.get("trackedObjects") if isinstance(config, dict) else None
    for kind, settings in (tracked.items() if isinstance(tracked, dict) else ()):
        if isinstance(settings, dict):
            paths = settings.get("podSpecTemplatePaths", settings.get("podSpecTemplatePath"))
            paths = [paths] if isinstance(paths, str) else _list(paths)
            found[str(kind)] = [each for each in paths if isinstance(each, str)]
    return found


def _lifecycles(trace: Mapping[str, Any], path: Path,
                ledger: ReadLedger) -> Iterator[tuple[str, str, float | None, int, Any]]:
    """Kind and name of the owner, since when it was so (None: not told), a number, and the lifecycle of each pod."""
    if trace["version"] == VERSIONS[0]:
        cycles = trace.get("pod_lifecycles")
        for key, by_hash in sorted(_items(cycles), key=lambda item: str(item[0])):
            if not (isinstance(key, tuple) and len(key) == 2):
                raise ValueError(f"{path}: keys of pod_lifecycles must be pairs, got {shown_field(str(key))} (JSON has "
                                 "no such keys: give the msgpack file that SimKube wrote)")
            several = [each for _, row in _items(by_hash) for each in _list(row)]
            for idx, lifecycle in enumerate(several):
                yield str(key[0]), str(key[1]), None, idx, lifecycle
        return
    for kind, owners in _items(trace.get("index")):
        for owner, by_time in _items(owners):
            idx = 0
            for changed, pods in sorted(_items(by_time), key=lambda item: str(item[0])):
                for pod in _list(pods):
                    yield str(kind), str(owner), _time(changed), idx, pod.get("lifecycle") if isinstance(
                        pod, dict) else pod
                    idx += 1


def _times(lifecycle: Any) -> tuple[float, float]:
    """Start and end, Unix seconds; NaN = still runs."""
    start_s = end_s = None
    if isinstance(lifecycle, dict) and "Finished" in lifecycle:
        pair = _list(lifecycle["Finished"])
        start_s, end_s = (_time(pair[0]), _time(pair[1])) if len(pair) == 2 else (None, None)
    elif isinstance(lifecycle, dict) and "Running" in lifecycle:
        start_s, end_s = _time(lifecycle["Running"]), math.nan
    elif isinstance(lifecycle, dict) and "start_ts" in lifecycle:
        start_s = _time(lifecycle["start_ts"])
        end_s = math.nan if lifecycle.get("end_ts") is None else _time(lifecycle["end_ts"])
    elif lifecycle == "Empty":
        raise RefusedPod("never ran (Empty)", "Empty")
    if start_s is None or end_s is None:
        raise RefusedPod("lifecycle must be Finished with start and end, or Running with a start",
                         json.dumps(lifecycle, default=str)[:80])
    if end_s < start_s:
        raise RefusedPod("end before start", f"{start_s:.0f} to {end_s:.0f}")
    return start_s, end_s


def _time(value: Any) -> float | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not FIRST_STAMP_S <= value < LAST_STAMP_S:
        return None
    return float(math.floor(value))


def _at(document: Any, pointer: str) -> Any:
    """What stands at a JSON pointer (RFC 6901); None where there is nothing."""
    for name in pointer.split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            document = document.get(name) if isinstance(document, dict) else None
    return document


def _part(document: Any, *path: str) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
