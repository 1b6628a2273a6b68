"""Usage of the Bitbrains VMs: one or several months of `rnd` (GWA-T-12) as one trace, and OpenDC's small folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import n_parquet_rows, read_trace
from sojourn.features.usage._columns import numbers, parquet_columns, request_rows, unix_seconds
from sojourn.features.usage.usage_block import RequestTable
from sojourn.features.usage.usage_reader import UsageReader
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, UsageStream
from sojourn.serving.usage import DayClock

_RND = ("vm", "ts", "cpu_pct", "mem_use_mb")
_SMALL = ("id", "timestamp", "duration", "cpu_usage")
_META = ("id", "cpu_count", "cpu_capacity", "mem_capacity")
_MIB_PER_GIB = 1024
_STEP_S = 300
_MAX_INTERVALS = 31 * 288
BAD_DURATION = "duration not within 1 s .. 31 days"


def stream_bitbrains(path: str | Path, *, month: str | None = None, timezone: str = "UTC",
                     max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `rnd_<month>.parquet`; path: one file, or the folder of all and `vm_meta.parquet`.

    month: "2013-7", or several with commas ("2013-7,2013-8") as one trace in the order of time; by default all of a
    folder. A VM is one request over all months, with its largest size.
    cpu is cpu_pct / 100, mem mem_use_mb over the VM's memory.

    Raises FileNotFoundError where a file is missing, ValueError where one is not the format.
    """
    source = Path(path)
    files = _months(source, month) if source.is_dir() else [source]
    table = RequestTable()
    for file in files:
        trace, _ = read_trace("bitbrains", file, usage=False)
        requests = trace.requests
        table.add(requests["request_id"].tolist(), requests["cpu_cores"].tolist(), requests["mem_gib"].tolist())
    mem_mb = table.requests().mem_gib * _MIB_PER_GIB

    def read(file: Path, table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in parquet_columns(file, _RND):
            ids, rows = request_rows(columns["vm"], table)
            with np.errstate(divide="ignore", invalid="ignore"):
                mem = numbers(columns["mem_use_mb"]) / mem_mb[rows]
            yield RawSamples(file.name, first_row, ids, rows, numbers(columns["ts"]),
                             numbers(columns["cpu_pct"]) / 100, mem)

    return UsageStream(f"Bitbrains rnd (GWA-T-12), {', '.join(file.stem for file in files)}",
                       DayClock(0, timezone), tuple(partial(read, file) for file in files), table, max_cpu,
                       sum(n_parquet_rows(file, _RND) for file in files))


def stream_bitbrains_small(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of OpenDC's `bitbrains_small_trace.parquet` (fastStorage); path: that file or its folder.

    cpu is cpu_usage over the VM's cpu_capacity (MHz); memory in use is not published. A row
    is the mean over its `duration` before its stamp, 300 s or a multiple, where OpenDC joined equal intervals: it
    becomes one sample for each 300 s. A duration outside 1 s .. 31 days is refused.

    Raises FileNotFoundError where a file is missing, ValueError where one is not the format.
    """
    source = Path(path)
    file = source / "bitbrains_small_trace.parquet" if source.is_dir() else source
    meta = file.with_name("bitbrains_small_meta.parquet")
    table, capacity = RequestTable(), np.zeros(0)
    for _, columns in parquet_columns(meta, _META):
        mem_gib = numbers(columns["mem_capacity"]) / _MIB_PER_GIB
        table.add(columns["id"].to_pylist(), numbers(columns["cpu_count"]).tolist(), mem_gib.tolist())
        capacity = np.append(capacity, numbers(columns["cpu_capacity"]))
    if len(capacity) != len(table):
        raise ValueError(f"{meta} must name each id once, got {len(capacity)} rows of {len(table)}")
    stamps = (unix_seconds(columns["timestamp"]) for _, columns in parquet_columns(file, ("timestamp",)))
    if not any(np.isfinite(block).any() for block in stamps):
        raise ValueError(f"{file} must hold at least one sample with a timestamp, got none")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in parquet_columns(file, _SMALL):
            ids, rows = request_rows(columns["id"], table)
            with np.errstate(divide="ignore", invalid="ignore"):
                cpu = numbers(columns["cpu_usage"]) / np.append(capacity, np.nan)[rows]
            long_s = numbers(columns["duration"]) / 1000
            is_bad = ~((long_s >= 1) & (long_s <= _MAX_INTERVALS * _STEP_S))
            n_intervals = np.where(is_bad, 1, np.maximum(np.round(np.where(is_bad, 0, long_s) / _STEP_S), 1))
            n_intervals = n_intervals.astype(np.int64)
            row = np.repeat(np.arange(len(ids)), n_intervals)
            back = np.cumsum(n_intervals)[row] - 1 - np.arange(len(row))  # intervals before the row's stamp
            time_s = np.floor(unix_seconds(columns["timestamp"]))[row] - back * float(_STEP_S)
            yield RawSamples(file.name, first_row, ids[row], rows[row], time_s, cpu[row],
                             odd={BAD_DURATION: is_bad[row]}, row_of=row)

    return UsageStream(f"Bitbrains fastStorage, {file.name} (OpenDC)", DayClock(0, timezone), read, table,
                       max_cpu)


BITBRAINS = UsageReader(
    stream_bitbrains,
    path="`rnd_<month>.parquet`, or the folder of all months and `vm_meta.parquet`",
    cpu="the VM's capacity; mem: of its memory",
    stamp="end of its interval",
)
BITBRAINS_SMALL = UsageReader(
    stream_bitbrains_small,
    path="folder of `bitbrains_small_trace.parquet` and `bitbrains_small_meta.parquet`",
    cpu="the VM's capacity (MHz)",
    stamp="end of its interval",
)


def _months(folder: Path, month: str | None) -> list[Path]:
    found = {file.stem.removeprefix("rnd_"): file for file in folder.glob("rnd_*.parquet")}
    wanted = list(found) if month is None else [name.strip() for name in month.split(",")]
    missing = [name for name in wanted if name not in found]
    if missing or not found:
        raise FileNotFoundError(f"{folder} must hold rnd_{(missing or ['<month>'])[0]}.parquet, "
                                f"got {', '.join(sorted(file.name for file in found.values())) or 'no usage file'}")
    return [found[name] for name in sorted(set(wanted), key=_by_number)]


def _by_number(month: str) -> tuple[int, ...]:
    """Year and month, so that 2013-10 follows 2013-9."""
    return tuple(int(part) if part.isdigit() else 0 for part in month.split("-"))
