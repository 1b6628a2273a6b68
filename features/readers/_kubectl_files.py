"""Files of kubectl: lists of pods at a time, and watches; each pod is given to `PodLives`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._json_documents import FAULT, JsonPart, json_parts
from sojourn.features.readers._pod_lives import PodLife, PodLives, PodSight, RefusedPod, list_time_s, pod_sight
from sojourn.serving.inputs import shown_field

COMMAND = "kubectl get pods -A -o json > pods-$(date -u +%Y%m%dT%H%M%SZ).json"
WATCH_COMMAND = "kubectl get pods -A -o json --watch --output-watch-events > watch.json"
_STAMP = re.compile(r"(?<![0-9])(20[0-9]{2})-?([01][0-9])-?([0-3][0-9])[T_ -]?([0-2][0-9])[:_.-]?([0-5][0-9])"
                    r"(?:[:_.-]?([0-6][0-9]))?(Z)?(?![0-9])")
_UNIX_STAMP = re.compile(r"(?<![0-9])(1[0-9]{9})(?![0-9])")
_ENDINGS = (".json", ".jsonl", ".ndjson", ".gz", ".log", ".txt")
_EVENTS = frozenset(("ADDED", "MODIFIED", "DELETED"))
_TOLD_SHARE = 0.5
"""A run of ADDED events with at least this share of the running pods is a list of all pods."""


def recorded_files(path: Path) -> list[Path]:
    """The file, or the possible files of kubectl in a folder, in the order of their stamps and names."""
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.name.endswith(_ENDINGS)]
    if not files:
        raise ValueError(f"{path} must hold files of kubectl ({', '.join(_ENDINGS[:4])}), got none; write one with\n"
                         f"{COMMAND}")
    return sorted(files, key=lambda file: stamp_s(file.name) or -math.inf)


def stamp_s(name: str, timezone: str | None = None) -> float | None:
    """Unix seconds of a time in a file's name, in UTC or the zone unless it ends in Z; None without one.

    >>> stamp_s("pods-20260301T060000Z.json"), stamp_s("pods-2026-03-01-06-00.json.gz"), stamp_s("pods.json")
    (1772344800.0, 1772344800.0, None)
    """
    match = _STAMP.search(name)
    if match is None:
        unix = _UNIX_STAMP.search(name)
        return float(unix[1]) if unix else None
    zone = UTC if match[7] or timezone is None else ZoneInfo(timezone)
    year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()
    except ValueError:
        return None


@dataclass(slots=True)
class KubectlFiles:
    """Reads files into `lives`; refused rows go to the ledger.

    nodes: by name, of the last list. n_stamped: lists with the time of their file name; n_early: of these, those with a
    later time inside. n_plain: pods of streams without types of events. n_other: objects of other kinds. n_faults:
    documents that are no JSON. breaks_s: of restarted watches, from the last event to the new list, s.
    """

    lives: PodLives
    ledger: ReadLedger
    timezone: str | None = None
    nodes: dict[str, Any] = field(default_factory=dict)
    n_lists: int = 0
    n_empty: int = 0
    n_stamped: int = 0
    n_early: int = 0
    n_events: int = 0
    n_plain: int = 0
    n_other: int = 0
    n_faults: int = 0
    breaks_s: list[float] = field(default_factory=list)

    def refuse(self, error: RefusedPod, file: str, line: int) -> None:
        """Count one row as refused, by its rule, with the value and its pod."""
        self.ledger.refuse(error.rule, file, np.array([line], np.int64), [error.shown])

    def read(self, path: Path) -> None:
        """Read one file; OSError, or ValueError if it has nothing from kubectl."""
        file = _File(self, path)
        for part in json_parts(path):
            file.take(part)
        file.close()


class _File:
    """One file: the present list or run of ADDED events, and the newest time so far."""

    def __init__(self, files: KubectlFiles, path: Path) -> None:
        self._files, self._file, self._path = files, path.name, path
        self._stamp_s = stamp_s(path.name, files.timezone)
        self._clock_s = -math.inf
        self._listed: list[PodLife] = []
        self._newest_s: list[float] = []
        self._uids: set[str] = set()
        self._n_items = self._n_whole = 0
        self._nodes: dict[str, Any] = {}
        self._run: list[tuple[PodLife, bool]] = []
        self._plain: list[tuple[PodLife, PodSight]] = []
        self._is_stream = False
        self._is_first_run = True
        self._before_run_s: float | None = None
        self._fault: ValueError | None = None

    def take(self, part: JsonPart) -> None:
        """Add one part of the file."""
        if part.key == FAULT:
            self._spoilt(part)
        elif part.key:
            self._item(part)
        elif self._n_items or part.value is None or _is_list(part.value):
            self._n_whole += 1
            self._end_list()
        else:
            self._document(part)

    def close(self) -> None:
        """Finish the file."""
        self._end_run()
        if self._plain:
            self._newest_s = [-math.inf if sight.newest_s is None else sight.newest_s for _, sight in self._plain]
            self._listed, self._n_whole = [life for life, _ in self._plain], 1
            self._files.n_plain -= len(self._plain)
            self._end_list()
        if self._fault is not None and not self._n_whole:
            raise self._fault

    def _spoilt(self, part: JsonPart) -> None:
        """Handle a document that is no JSON: the pods of a list up to there count, but the list is not whole."""
        self._fault = self._fault or part.value
        self._files.n_faults += 1
        self._files.ledger.read(1)
        self._files.refuse(RefusedPod("document must be JSON", str(part.value)), self._file, part.line)
        time_s = max(list_time_s(self._newest_s), self._stamp_s or -math.inf)
        for life in self._listed:
            self._files.lives.seen(life, time_s)
        self._forget_list()

    def _item(self, part: JsonPart) -> None:
        self._n_items += 1
        self._files.ledger.read(1)
        if _kind(part.value) not in ("Pod", ""):
            self._other(part.value)
            return
        try:
            sight = pod_sight(part.value)
            if sight.uid in self._uids:
                raise RefusedPod("uid must stand once in a list", f"{sight.uid!r} in {sight.label}")
            life = self._files.lives.add(sight, part.value, self._file, part.line)
        except RefusedPod as error:
            self._files.refuse(error, self._file, part.line)
            return
        self._uids.add(sight.uid)
        self._newest_s.append(-math.inf if sight.newest_s is None else sight.newest_s)
        if life is not None:
            self._listed.append(life)

    def _end_list(self) -> None:
        files = self._files
        if self._uids:
            time_s = list_time_s(self._newest_s)
            if self._stamp_s is not None and self._n_whole == 1:
                files.n_stamped += 1
                files.n_early += self._stamp_s < time_s
                time_s = max(time_s, self._stamp_s)
            files.n_lists += 1
            if time_s > -math.inf:
                files.lives.listed(self._listed, time_s)
        elif not self._n_items:
            files.n_empty += 1
        if self._nodes:
            files.nodes = self._nodes  # the last list counts
        self._forget_list()

    def _forget_list(self) -> None:
        self._listed, self._newest_s, self._uids, self._n_items, self._nodes = [], [], set(), 0, {}

    def _document(self, part: JsonPart) -> None:
        files, value = self._files, part.value
        files.ledger.read(1)
        kind = value.get("type") if "object" in value else None
        if "object" not in value and (_kind(value) == "Pod" or {"metadata", "spec"} <= value.keys()):
            files.n_plain += 1
            self._event("", value, part.line)
        elif isinstance(kind, str) and kind in _EVENTS and _kind(value["object"]) in ("Pod", ""):
            files.n_events += 1
            self._event(kind, value["object"], part.line)
        elif isinstance(value.get("object"), dict) or ("object" not in value and _kind(value)):
            self._n_whole += 1
            self._other(value.get("object", value))
        else:
            files.refuse(RefusedPod("document must be a List, a Pod or an event of a watch",
                                    f"an object of {shown_field(', '.join(map(str, value)))}"), self._file, part.line)

    def _event(self, kind: str, pod: Any, line: int) -> None:
        """Add one event; kind: "" if the stream has no types."""
        self._n_whole += 1
        lives = self._files.lives
        try:
            sight = pod_sight(pod)
            is_new = sight.uid not in lives.lives
            if kind != "ADDED":
                self._end_run()
            life = lives.add(sight, pod, self._file, line)
        except RefusedPod as error:
            self._files.refuse(error, self._file, line)
            return
        before_s = self._clock_s
        if sight.newest_s is not None:
            self._clock_s = max(self._clock_s, sight.newest_s)
        if kind == "ADDED" and self._before_run_s is None:  # also for pods of a node, which come with the others
            self._before_run_s = before_s
        if life is None:
            return
        if kind == "ADDED":
            self._run.append((life, is_new))
        elif kind == "DELETED":
            lives.deleted(life, self._clock_s, sight.deadline_s)
        elif kind == "":
            self._plain_pod(life, sight)
        else:
            lives.seen(life, self._clock_s)

    def _plain_pod(self, life: PodLife, sight: PodSight) -> None:
        """Add a pod without a type of event: of a list in single documents, until a pod repeats."""
        if not self._is_stream:
            self._is_stream = sight.uid in self._uids
            self._uids.add(sight.uid)
            self._plain.append((life, sight))
            if not self._is_stream:
                return
        for each, each_sight in self._plain or [(life, sight)]:
            if each_sight.deadline_s is not None:  # the last document of a pod in such a stream
                self._files.lives.deleted(each, math.inf, each_sight.deadline_s)
            else:
                self._files.lives.seen(each, self._clock_s)
        self._plain = []

    def _end_run(self) -> None:
        """End a run of ADDED events: it was a list if it has most of the running pods, as at the start of a watch."""
        run, lives = [life for life, _ in self._run], self._files.lives
        before_s, self._before_run_s = self._before_run_s, None
        if not run:
            return
        namespaces = {life.namespace for life in run}
        n_new, n_again = (sum(is_new is is_first and not life.is_over for life, is_new in self._run)
                          for is_first in (True, False))
        is_list = False
        if self._is_first_run or n_again:
            n_before = lives.n_running(namespaces if len(namespaces) == 1 else None) - n_new
            is_list = n_again >= _TOLD_SHARE * n_before
        if is_list and self._clock_s > -math.inf:
            if not self._is_first_run and before_s is not None and before_s < self._clock_s:
                self._files.breaks_s.append(self._clock_s - before_s)
                lives.followed(self._file, before_s)  # until then the watch ran, without other ends
            lives.listed(run, self._clock_s)
        else:
            for life in run:
                lives.seen(life, self._clock_s)
        self._run, self._is_first_run = [], False

    def _other(self, value: Mapping[str, Any]) -> None:
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if _kind(value) == "Node" and isinstance(name, str):
            self._nodes[name] = value
        else:
            self._files.n_other += 1


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def _is_list(value: Mapping[str, Any]) -> bool:
    return "items" in value or _kind(value).endswith("List")
