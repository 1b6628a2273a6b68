"""Usage tables: a CSV or Parquet file with a row for each sample and columns of any name.

And tables of public clouds: Azure's readings, Google's task usage of 2011, Alibaba's of 2018.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import n_parquet_rows, read_trace
from sojourn.features.usage._columns import (
    csv_columns,
    first_line,
    numbers,
    parquet_columns,
    request_rows,
    unix_seconds,
)
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, RequestTable, UsageReader, UsageStream
from sojourn.serving.usage import DayClock

_UNIX_MAX_S = 1e11
"""The year 5138, or 1973 in milliseconds: a larger stamp has another unit."""


def stream_table(path: str | Path, *, request: str = "request_id", time: str = "time_s", cpu: str = "cpu_frac",
                 mem: str = "", full: float = 1.0, unit_s: float = 1.0, timezone: str = "UTC",
                 max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of a table, a row each, in any order; path: a Parquet file, or a CSV with a header, plain or gzipped.

    request, time, cpu, mem: names of the columns; mem "" = none. full: the number for the whole reservation, 1 for
    shares, 100 for %. Times are time stamps (UTC without a zone), dates as text (ISO 8601), or numbers of `unit_s`
    seconds (0.001 for ms); fractions of a second are cut. Samples have the table's times, Unix seconds for dates. Sizes
    are not read: a request has 1 core and 0 GiB; a folder of `Trace.save` has them.

    Raises FileNotFoundError if the file is missing, ValueError if it is damaged, lacks a column,
    has no time in any row, or too large times (milliseconds).
    """
    source = Path(path)
    if source.is_dir():
        raise ValueError(f"path must be a CSV or Parquet file, got the folder {str(source)!r}")
    for name, value in (("full", full), ("unit_s", unit_s)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value!r}")
    names = (request, time, cpu, *([mem] if mem else []))
    if len(set(names)) < len(names):
        raise ValueError(f"request, time, cpu and mem must be different columns, got {', '.join(names)}")
    with source.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"

    def columns_of(ledger: ReadLedger) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
        return parquet_columns(source, names) if is_parquet else csv_columns(source, names, ledger)

    stamps = (_seconds(columns[time], unit_s) for _, columns in columns_of(ReadLedger()))
    first = next((block[np.isfinite(block)][0] for block in stamps if np.isfinite(block).any()), None)
    if first is None:
        raise ValueError(f"{source}: {time} must be times or numbers, got none in any row")
    if abs(first) > _UNIX_MAX_S:
        raise ValueError(f"{source}: {time} must be seconds below {_UNIX_MAX_S:g}, got {first:.15g}: if it is in "
                         "milliseconds, set unit_s to 0.001")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in columns_of(ledger):
            ids, rows = request_rows(columns[request], table)
            yield RawSamples(source.name, first_row, ids, rows, _seconds(columns[time], unit_s),
                             numbers(columns[cpu]) / full, numbers(columns[mem]) / full if mem else None)

    return UsageStream(source.name, DayClock(0, timezone), read, max_cpu=max_cpu,
                       n_rows=n_parquet_rows(source, names) if is_parquet else None)


TABLE = UsageReader(stream_table, path="a table of one's own: Parquet, or CSV with a header, plain or gzipped",
                    cpu="`full`; mem: the same", stamp="as its source")


def _seconds(column: pa.Array, unit_s: float) -> np.ndarray:
    """Whole seconds since 1970, or on the table's clock, float64 (n,), NaN where missing."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return np.floor(unix_seconds(column))
    text = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string(text.type) or pa.types.is_large_string(text.type):
        number = np.asarray(pd.to_numeric(pd.Series(text.to_pylist(), dtype=object), errors="coerce"), np.float64)
        if np.isnan(number).any():
            stamp = pd.to_datetime(pd.Series(text.to_pylist(), dtype=object), utc=True, errors="coerce",
                                   format="ISO8601")
            unix_s = stamp.to_numpy("datetime64[s]")
            is_stamp = np.isnan(number) & ~np.isnat(unix_s)
            return np.where(is_stamp, unix_s.astype(np.int64).astype(np.float64), np.floor(number * unit_s))
        return np.floor(number * unit_s)
    return np.floor(numbers(text) * unit_s)


_READINGS = ("time", "vm", "min_cpu", "max_cpu", "avg_cpu")
_TASK_USAGE = (
    "start_time", "end_time", "job_id", "task_index", "machine_id", "cpu_rate", "canonical_memory", "assigned_memory",
    "unmapped_page_cache", "total_page_cache", "max_memory", "disk_io_time", "local_disk_space", "max_cpu_rate",
    "max_disk_io_time", "cpi", "mai", "sample_portion", "aggregation_type", "sampled_cpu_usage")
_TASK_WANTED = ("start_time", "job_id", "task_index", "cpu_rate", "canonical_memory")
_TASK_EVENTS = ("time_us", "missing_info", "job_id", "task_index", "machine", "event", "user", "sched_class",
                "priority", "cpu", "memory", "disk", "different_machine")
_EVENTS_WANTED = ("job_id", "task_index", "cpu", "memory")
_CONTAINER_USAGE = ("container", "machine", "time", "cpu", "mem", "cpi", "mem_gps", "mpki", "net_in", "net_out",
                    "disk_io")
_MACHINE_USAGE = ("machine", "time", "cpu", "mem", "mem_gps", "mpki", "net_in", "net_out", "disk_io")
_START_S = 600
"""Google's trace starts at second 600 of its clock."""
NO_CPU = "its request reserves no cpu"


def stream_azure_vm(path: str | Path, *, reading: str = "avg", only_known: bool = True, timezone: str = "UTC",
                    max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `vm_cpu_readings-file-*-of-*.csv(.gz)`; path: the folder with them and `vmtable.csv(.gz)`.

    reading: "avg", "max" or "min" of the five minutes, % of the VM's cores. only_known: refuse
    samples of a VM that is not in the table; False accepts them with 1 core and 0 GiB. The trace
    has the readings' clock, which starts at midnight.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.
    """
    if reading not in ("avg", "max", "min"):
        raise ValueError(f"reading must be avg, max or min, got {reading!r}")
    folder = Path(path)
    files = sorted(folder.glob("vm_cpu_readings-file-*-of-*.csv*"), key=_file_number)
    if not files:
        raise FileNotFoundError(f"{folder} must hold vm_cpu_readings-file-*-of-*.csv or .csv.gz, got none")
    table = _sizes("azure-vm", folder, only_known)

    def read(file: Path, table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, _READINGS, ledger, has_header=False,
                                              wanted=("time", "vm", f"{reading}_cpu")):
            ids, rows = request_rows(columns["vm"], table)
            yield RawSamples(file.name, first_row, ids, rows, numbers(columns["time"]),
                             numbers(columns[f"{reading}_cpu"]) / 100)

    return UsageStream(f"Azure public dataset, {len(files)} file(s) of readings", DayClock(0, timezone),
                       tuple(partial(read, file) for file in files), table, max_cpu)


def stream_google_2011(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `task_usage*.csv(.gz)`, with the publisher's 20 columns or a header; path: a file, or a folder.

    A request is a task ("job-index"); the time of a sample is its start. If the folder has `task_events` parts, cpu and
    mem are shares of the task's largest request there, and tasks that are not in these parts are refused. Without these
    parts they are shares of the largest machine, as 1 core.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.
    """
    source = Path(path)
    files = sorted(source.glob("task_usage*.csv*")) if source.is_dir() else [source]
    if not files:
        raise FileNotFoundError(f"{source} must hold task_usage*.csv or .csv.gz, got none")
    has_sizes = source.is_dir() and any(source.glob("task_events*"))
    table = RequestTable(is_growing=not has_sizes)
    if has_sizes:
        for file in sorted(source.glob("task_events*")):
            for _, columns in csv_columns(file, _TASK_EVENTS, ReadLedger(), wanted=_EVENTS_WANTED, has_header=False):
                demand = pd.DataFrame({"task": _tasks(columns), "cpu": numbers(columns["cpu"]),
                                       "mem": numbers(columns["memory"])}).groupby("task").max().clip(lower=0).fillna(0)
                table.add(demand.index.tolist(), demand["cpu"].tolist(), demand["mem"].tolist())
    sizes = table.requests()

    def read(file: Path, table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        has_header = first_line(file).startswith("start_time")
        for first_row, columns in csv_columns(file, _TASK_USAGE, ledger, wanted=_TASK_WANTED, has_header=has_header):
            values, codes = np.unique(_tasks(columns).to_numpy(object), return_inverse=True)
            rows = table.rows(values.tolist())[codes]
            cpu, mem = numbers(columns["cpu_rate"]), numbers(columns["canonical_memory"])
            odd = {}
            if has_sizes:
                demand = np.append(sizes.cpu_cores, np.nan)[rows]
                odd = {NO_CPU: demand == 0}
                with np.errstate(divide="ignore", invalid="ignore"):
                    cpu, mem = cpu / demand, mem / np.append(sizes.mem_gib, np.nan)[rows]
            time_s = np.floor(numbers(columns["start_time"]) / 1e6) - _START_S
            yield RawSamples(file.name, first_row, values[codes], rows, time_s, cpu, mem, odd)

    return UsageStream(f"Google ClusterData2011_2 task usage, {len(files)} file(s)", DayClock(0, timezone),
                       tuple(partial(read, file) for file in files), table, max_cpu)


def stream_alibaba_2018(path: str | Path, *, level: str = "container", only_known: bool = True, timezone: str = "UTC",
                        max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `container_usage.csv(.gz)`, or with level="machine" of `machine_usage.csv(.gz)`, without a header.

    path: the folder, with `container_meta.csv(.gz)` for the sizes of containers, or one of the two files. cpu and mem
    are cpu_util_percent and mem_util_percent over 100. only_known: refuse containers that are not in the table of
    sizes; False accepts them with 1 core. A machine, and a container of a file alone, has 1 core and 0 GiB. A folder
    with `machine_usage*grouped*.csv(.gz)` alone has one request, `machines`, the mean of all, a row every 300 s.

    Raises FileNotFoundError if there is no file, ValueError if one has another format.
    """
    if level not in ("container", "machine"):
        raise ValueError(f"level must be container or machine, got {level!r}")
    source = Path(path)
    file = _alibaba_file(source, level) if source.is_dir() else source
    if "grouped" in file.name:
        return _alibaba_machines(file, timezone, max_cpu)
    is_machine = file.name.startswith("machine_usage")
    names = _MACHINE_USAGE if is_machine else _CONTAINER_USAGE
    has_sizes = source.is_dir() and not is_machine and any(source.glob("container_meta.csv*"))
    table = _sizes("alibaba-2018-containers", source, only_known) if has_sizes else RequestTable(is_growing=True)

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, names, ledger, has_header=False,
                                              wanted=(names[0], "time", "cpu", "mem")):
            ids, rows = request_rows(columns[names[0]], table)
            yield RawSamples(file.name, first_row, ids, rows, numbers(columns["time"]), numbers(columns["cpu"]) / 100,
                             numbers(columns["mem"]) / 100)

    return UsageStream(f"Alibaba cluster trace 2018, {file.name}", DayClock(0, timezone), read, table, max_cpu)


AZURE_VM = UsageReader(stream_azure_vm, path="folder of `vm_cpu_readings-file-*-of-*.csv(.gz)` and `vmtable.csv(.gz)`",
                       cpu="the VM's cores")
GOOGLE_2011 = UsageReader(
    stream_google_2011, path="`task_usage*.csv(.gz)`, or the folder of them, with `task_events` parts for the sizes",
    cpu="the task's request; of the largest machine without `task_events`; mem: the same")
ALIBABA_2018 = UsageReader(
    stream_alibaba_2018, path="`container_usage.csv(.gz)` or `machine_usage.csv(.gz)`, or their folder",
    cpu="the container's limit, or the machine; mem: the same", step_s=10)


def _sizes(reader: str, folder: Path, only_known: bool) -> RequestTable:
    options = {"usage": False} if reader == "alibaba-2018-containers" else {}
    requests = read_trace(reader, folder, **options)[0].requests
    table = RequestTable(is_growing=not only_known)
    table.add(requests["request_id"].tolist(), requests["cpu_cores"].tolist(), requests["mem_gib"].tolist())
    return table


def _tasks(columns: Mapping[str, pa.Array]) -> pd.Series:
    job, index = (pd.Series(columns[name].to_pylist(), dtype="str") for name in ("job_id", "task_index"))
    return (job + "-" + index).fillna("")


def _alibaba_machines(file: Path, timezone: str, max_cpu: float) -> UsageStream:
    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, ("cpu_util_percent", "mem_util_percent"), ledger):
            cpu = numbers(columns["cpu_util_percent"]) / 100
            yield RawSamples(file.name, first_row, np.full(len(cpu), "machines", object),
                             np.repeat(table.rows(["machines"]), len(cpu)),
                             (first_row - 1 + np.arange(len(cpu))) * 300.0, cpu,
                             numbers(columns["mem_util_percent"]) / 100)

    return UsageStream(f"Alibaba cluster trace 2018, {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


def _alibaba_file(folder: Path, level: str) -> Path:
    patterns: Sequence[str] = (f"{level}_usage.csv*", "machine_usage.csv*", "machine_usage*grouped*.csv*")
    files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
    if not files:
        raise FileNotFoundError(f"{folder} must hold {level}_usage.csv or a machine_usage file, got none")
    return files[0]


def _file_number(file: Path) -> tuple[int, str]:
    number = re.search(r"file-(\d+)-of", file.name)
    return int(number[1]) if number else 0, file.name
