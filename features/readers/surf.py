"""Reads jobs of the SURF Lisa cluster as OpenDC publishes them: a table of tasks, and usage as fragments beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import LatestTimes, all_requests, horizon_of, since_start, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, MAX_USAGE_ROWS, NO_USAGE, NumberRows, n_parquet_rows, number_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_TASKS = ("id", "submission_time", "duration", "cpu_count", "cpu_capacity", "mem_capacity")
_FRAGMENTS = ("id", "duration", "cpu_usage")
_MS = 1000
_MAX_MS = MAX_TIME_S * _MS
_MAX_SIZE = 1e9
_MIB_PER_GIB = 1024
_MAX_FRAC = 10.0
"""Usage above ten times the capacity is a damaged cell."""


def read_surf(path: str | Path, *, usage: bool | None = None, cut_tail_s: int = 0,
              horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one table of tasks; path: that file, or a folder with exactly one `*tasks.parquet`.

    Arrival is the submission (the wait is not published), departure submission + duration; time 0 is the first
    submission (`meta["start_unix_s"]`). Every job has the same size and owner, so there are no roles.

    Fragments (`*fragments.parquet` beside the tasks) become `Trace.usage`: MHz over the task's
    capacity, each at the start of its interval, in order from the task's submission. usage: None =
    if there is such a file with at most 5,000,000 rows, True = any size, False = not.

    A table with fragments is a window of a longer record: tasks submitted at its first time ran before (start unknown),
    those that end at its last time still run (censored). A table without fragments lists the jobs that had *ended* by
    its end, so of late submissions only short jobs are there. cut_tail_s: end the trace so many seconds earlier, with
    running jobs censored; the longest duration (5.05 days in the half year) removes the bias. horizon_s: end of
    observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"id": [7, 8], "submission_time": [60_000, 90_000], "duration": [60_000, 90_000], "cpu_count": 16,
    ...               "cpu_capacity": 33600.0, "mem_capacity": 102400}).to_parquet(folder / "x_tasks.parquet")
    >>> trace, report = read_surf(folder)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "mem_gib"]].values.tolist()
    [[7, 60, 120, 100.0], [8, 90, 180, 100.0]]
    """
    source = Path(path)
    table = _file_in(source) if source.is_dir() else source
    if cut_tail_s < 0:
        raise ValueError(f"cut_tail_s must be at least 0, got {cut_tail_s!r}")
    fragments = table.with_name("fragments".join(table.name.rsplit("tasks", 1)))
    has_fragments = fragments != table and fragments.is_file()
    if horizon_s is not None and cut_tail_s:
        raise ValueError(f"horizon_s must be given without cut_tail_s, got {horizon_s!r} and {cut_tail_s!r}")
    first_ms, latest = _first_and_latest(table)
    horizon_s = since_start(horizon_s, int(first_ms) // _MS, int(latest.kept.max() - first_ms) // _MS)
    horizon = horizon_of(latest.kept - first_ms, None if horizon_s is None else horizon_s * _MS, n_rows=latest.n)
    horizon_ms = horizon.time_s - cut_tail_s * _MS
    if horizon_ms <= 0:
        raise ValueError(f"cut_tail_s must leave some of the {horizon.time_s // _MS} s, got {cut_tail_s!r}")
    ledger = ReadLedger()
    for line in replace(horizon, time_s=horizon.time_s // _MS, last_s=horizon.last_s // _MS).lines():
        ledger.note(line)
    ids: set[int] = set()
    chunks = [_tasks(rows, first_ms, horizon_ms, has_fragments, ids) for rows in number_rows(table, _TASKS, ledger)]
    requests = all_requests(chunks, table, "task", ledger)
    has_usage = has_fragments and usage is not False and (
        usage is True or n_parquet_rows(fragments, _FRAGMENTS) <= MAX_USAGE_ROWS)
    if usage is True and not has_fragments:
        raise FileNotFoundError(f"{fragments} must stand beside {table.name} for usage")
    series = _usage(fragments, requests, horizon_ms // _MS, ledger) if has_usage else None
    meta = {"source": f"SURF Lisa, OpenDC, {table.name}", "licence": "MIT (OpenDC)",
            "start_unix_s": int(first_ms) // _MS,
            "usage": "MHz over capacity, at the start of each interval" if has_usage else "none",
            "is_window": has_fragments, "cut_tail_s": cut_tail_s,
            "known_at_end": []}
    requests = requests.drop(columns=["start_ms", "duration_ms", "capacity_mhz"])
    return trace_of(requests, horizon_ms // _MS, Roles(), ledger, meta, usage=series, is_event_log=has_usage)


SURF = Reader(
    read_surf,
    path="task table of SURF Lisa as OpenDC publishes it, or the folder of one",
    arrival="submission; none where it is the first of a window",
    departure="submission + duration; none where it runs past the end",
)


def _tasks(rows: NumberRows, first_ms: int, horizon_ms: int, is_window: bool, ids: set[int]) -> pd.DataFrame:
    task, submitted, duration, cores, capacity, memory = (rows.number(name) for name in _TASKS)
    rows.refuse("time outside 0 .. 100 years", _is_odd(submitted) | (submitted > _MAX_MS) | (duration > _MAX_MS))
    rows.refuse("negative duration", duration < 0)
    rows.refuse("id not a whole number", (task % 1 != 0) | (np.abs(task) > MAX_TIME_S))
    rows.refuse("negative size", (cores < 0) | (capacity < 0) | (memory < 0))
    rows.refuse(f"size above {_MAX_SIZE:g}", np.any([x > _MAX_SIZE for x in (cores, capacity, memory)], axis=0))
    start = submitted - first_ms
    rows.refuse("submitted in the tail that is cut", start > horizon_ms)
    is_again = np.zeros(len(task), bool)
    for i in np.flatnonzero(rows.is_kept):
        is_again[i] = int(task[i]) in ids
        ids.add(int(task[i]))
    rows.refuse("duplicate id", is_again)
    is_kept = rows.is_kept
    start, end = start[is_kept].astype(np.int64), (start + duration)[is_kept].astype(np.int64)
    is_running = (end > horizon_ms) | (is_window & (end == horizon_ms))
    arrival = pd.Series(start // _MS, dtype="Int64")
    return pd.DataFrame({
        "request_id": task[is_kept].astype(np.int64),
        "arrival_s": arrival.mask(start == 0) if is_window else arrival,
        "departure_s": pd.Series(end // _MS, dtype="Int64").mask(is_running),
        "cpu_cores": cores[is_kept],
        "mem_gib": memory[is_kept] / _MIB_PER_GIB,
        "start_ms": start, "duration_ms": duration[is_kept], "capacity_mhz": capacity[is_kept],
    })


def _usage(path: Path, requests: pd.DataFrame, horizon_s: int, ledger: ReadLedger) -> pd.DataFrame:
    """The kept fragments as `request_id`, `time_s` (int64), `cpu_frac` (float64), in file order."""
    of = requests.set_index("request_id")
    elapsed_ms: dict[float, float] = {}
    chunks = []
    for rows in number_rows(path, _FRAGMENTS, ledger):
        task, duration, mhz = (rows.number(name) for name in _FRAGMENTS)
        place = of.index.get_indexer(pd.Index(task))
        rows.refuse("fragment of a task that is not kept", place < 0)
        rows.refuse("fragment's duration not above 0", (duration <= 0) | (duration > _MAX_MS))
        capacity = of["capacity_mhz"].to_numpy()[place]
        fraction = np.divide(mhz, capacity, out=np.full(len(mhz), np.inf), where=capacity > 0)
        before = _before(rows, task, duration, elapsed_ms)
        # A fragment that is refused for its usage keeps its time, so that later ones keep theirs.
        rows.refuse(f"usage outside 0 .. {_MAX_FRAC:g} of the capacity", (mhz < 0) | (fraction > _MAX_FRAC))
        rows.refuse("fragment after its task's end", before >= of["duration_ms"].to_numpy()[place])
        time_s = (of["start_ms"].to_numpy()[place] + before) // _MS
        rows.refuse("submitted in the tail that is cut", time_s > horizon_s)
        is_kept = rows.is_kept
        chunks.append(pd.DataFrame({
            "request_id": task[is_kept].astype(np.int64), "time_s": time_s[is_kept].astype(np.int64),
            "cpu_frac": fraction[is_kept]}))
    return pd.concat(chunks, ignore_index=True) if chunks else NO_USAGE


def _before(rows: NumberRows, task: np.ndarray, duration: np.ndarray, elapsed_ms: dict[float, float]) -> np.ndarray:
    """Total time of the same task's kept fragments before each, ms, float64 (n,); `elapsed_ms`
    keeps it between blocks."""
    before = np.zeros(len(task))
    index = np.flatnonzero(rows.is_kept)
    index = index[np.argsort(task[index], kind="stable")]
    starts = np.flatnonzero(np.diff(task[index], prepend=np.nan) != 0)
    for lo, hi in zip(starts, np.append(starts[1:], len(index)), strict=False):
        members = index[lo:hi]
        name = float(task[members[0]])
        total = elapsed_ms.get(name, 0.0) + np.cumsum(duration[members])
        before[members] = total - duration[members]
        elapsed_ms[name] = float(total[-1])
    return before


def _first_and_latest(path: Path) -> tuple[int, LatestTimes]:
    """The first plausible submission and the latest ends, ms, from one pass over the file."""
    first, latest = np.inf, LatestTimes()
    for rows in number_rows(path, _TASKS, ReadLedger()):
        start, duration = rows.columns["submission_time"], rows.columns["duration"]
        is_good = ~_is_odd(start) & (start <= _MAX_MS) & (duration >= 0) & (duration <= _MAX_MS)
        if is_good.any():
            first = min(first, start[is_good].min())
            latest.add((start + duration)[is_good])
    if not (latest.n and latest.kept.max() > first):
        raise ValueError(f"{path}: must hold at least one task with a submission_time and a duration above 0, got none")
    return int(first), latest


def _is_odd(time_ms: np.ndarray) -> np.ndarray:
    return ~(time_ms >= 0)


def _file_in(folder: Path) -> Path:
    names = sorted(path.name for path in folder.glob("*tasks.parquet"))
    if not names:
        raise FileNotFoundError(f"{folder} must hold a *tasks.parquet")
    if len(names) > 1:
        raise ValueError(f"{folder} must hold one *tasks.parquet (else give the file), got {', '.join(names)}")
    return folder / names[0]
