"""Usage of the SURF Lisa jobs as OpenDC publishes them: fragments of a job, one after another from its submission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import n_parquet_rows
from sojourn.features.usage._columns import numbers, parquet_columns, request_rows
from sojourn.features.usage.usage_block import RequestTable
from sojourn.features.usage.usage_reader import UsageReader
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, UsageStream
from sojourn.serving.usage import DayClock

_TASKS = ("id", "submission_time", "duration", "cpu_count", "cpu_capacity", "mem_capacity")
_FRAGMENTS = ("id", "duration", "cpu_usage")
_MS = 1000.0
_MIB_PER_GIB = 1024
BAD_DURATION = "fragment's duration not above 0"
AFTER_END = "fragment after its task's end"


def stream_surf(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `*fragments.parquet`; path: the table of tasks beside it, or the folder of both.

    A fragment is a sample at the begin of its interval; it begins where the one before of its task ended, the first at
    the submission. cpu is cpu_usage (MHz) over the task's cpu_capacity. Fragments
    without a duration above 0, and those at or after their task's end, are refused.

    Raises FileNotFoundError where a file is missing, ValueError where one is not the format.
    """
    source = Path(path)
    tasks = _tasks_in(source) if source.is_dir() else source
    fragments = tasks.with_name("fragments".join(tasks.name.rsplit("tasks", 1)))
    if fragments == tasks or not fragments.is_file():
        raise FileNotFoundError(f"{tasks} must have its fragments beside it, got none")
    table = RequestTable()
    parts = []
    for _, columns in parquet_columns(tasks, _TASKS):
        submitted, duration, cores, capacity, mem = (numbers(columns[name]) for name in _TASKS[1:])
        is_good = np.isfinite(submitted) & (duration >= 0) & (capacity > 0) & (cores >= 0) & (mem >= 0)
        ids = np.array(columns["id"].to_pylist(), object)[is_good]
        before = len(table)
        table.add(ids.tolist(), cores[is_good].tolist(), (mem[is_good] / _MIB_PER_GIB).tolist())
        if len(table) - before != len(ids):
            raise ValueError(f"{tasks} must name each id once, got one twice")
        parts.append(np.stack([submitted, duration, capacity])[:, is_good])
    submitted_ms, duration_ms, capacity_mhz = np.concatenate([*parts, np.zeros((3, 0))], axis=1)
    if not len(table):
        raise ValueError(f"{tasks} must hold at least one task with a time and a capacity, got none")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        elapsed_ms = np.zeros(len(table))
        for first_row, columns in parquet_columns(fragments, _FRAGMENTS):
            ids, rows = request_rows(columns["id"], table)
            long_ms = numbers(columns["duration"])
            is_short = ~(long_ms > 0)
            before_ms = _before(rows, np.where(is_short, 0.0, long_ms), elapsed_ms)
            time_s = np.floor((submitted_ms[rows] + before_ms) / _MS)
            yield RawSamples(fragments.name, first_row, ids, rows, time_s,
                             numbers(columns["cpu_usage"]) / capacity_mhz[rows],
                             odd={BAD_DURATION: is_short, AFTER_END: before_ms >= duration_ms[rows]})

    return UsageStream(f"SURF Lisa (OpenDC), {fragments.name}", DayClock(0, timezone), read, table,
                       max_cpu, n_parquet_rows(fragments, _FRAGMENTS))


SURF = UsageReader(stream_surf, path="table of tasks with its `*fragments.parquet` beside it, or their folder",
                   cpu="the task's capacity (MHz)", step_s=30)


def _before(rows: np.ndarray, long_ms: np.ndarray, elapsed_ms: np.ndarray) -> np.ndarray:
    """Time of the same task's samples above each, ms (n,); `elapsed_ms` (n_tasks,) carries it between blocks."""
    before = np.zeros(len(rows))
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    if len(order):
        task, long = rows[order], long_ms[order]
        total = np.cumsum(long)
        begins = np.flatnonzero(np.diff(task, prepend=-1))
        base = (total[begins] - long[begins])[np.cumsum(np.diff(task, prepend=-1) != 0) - 1]
        before[order] = total - long - base + elapsed_ms[task]
        elapsed_ms[task[begins]] += np.add.reduceat(long, begins)
    return before


def _tasks_in(folder: Path) -> Path:
    found = [file for file in sorted(folder.glob("*tasks.parquet"))
             if file.with_name("fragments".join(file.name.rsplit("tasks", 1))).is_file()]
    if len(found) != 1:
        raise FileNotFoundError(f"{folder} must hold one *tasks.parquet with fragments, got {len(found)}")
    return found[0]
