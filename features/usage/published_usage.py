"""Published usage series.

Bitbrains VMs: one or several months of `rnd` (GWA-T-12) as one trace, and OpenDC's small folder. SURF Lisa jobs as
OpenDC publishes them: fragments of a job, in order from its submission. Files of few series: aggregates of Azure 2019
and Google 2019, and the CloudWatch series of NAB. VMs over one day each, with a row of 288 samples for each VM:
PlanetLab, and the GCD VMs of Google 2011.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import n_parquet_rows, read_trace, record_batches
from sojourn.features.usage._columns import csv_columns, numbers, parquet_columns, request_rows, unix_seconds
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, RequestTable, UsageReader, UsageStream
from sojourn.serving.usage import DAY_S, DayClock

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

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.
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

    cpu is cpu_usage over the VM's cpu_capacity (MHz); memory in use is not published. A row is the
    mean over its `duration` before its stamp, 300 s or a multiple if OpenDC joined equal intervals:
    it becomes one sample for each 300 s. A duration outside 1 s .. 31 days is refused.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.
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
    files = {file.stem.removeprefix("rnd_"): file for file in folder.glob("rnd_*.parquet")}
    names = list(files) if month is None else [name.strip() for name in month.split(",")]
    missing = [name for name in names if name not in files]
    if missing or not files:
        raise FileNotFoundError(f"{folder} must hold rnd_{(missing or ['<month>'])[0]}.parquet, "
                                f"got {', '.join(sorted(file.name for file in files.values())) or 'no usage file'}")
    return [files[name] for name in sorted(set(names), key=_by_number)]


def _by_number(month: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in month.split("-"))


_TASKS = ("id", "submission_time", "duration", "cpu_count", "cpu_capacity", "mem_capacity")
_FRAGMENTS = ("id", "duration", "cpu_usage")
_MS = 1000.0

BAD_FRAGMENT = "fragment's duration not above 0"

AFTER_END = "fragment after its task's end"


def stream_surf(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `*fragments.parquet`; path: the table of tasks beside it, or the folder of both. A
    fragment is a sample at the begin of its interval, which is the end of the task's fragment
    before, or the submission. cpu is cpu_usage (MHz) over the task's cpu_capacity. Fragments
    without a duration above 0, and those at or after their task's end, are refused.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.
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
                             odd={BAD_FRAGMENT: is_short, AFTER_END: before_ms >= duration_ms[rows]})

    return UsageStream(f"SURF Lisa (OpenDC), {fragments.name}", DayClock(0, timezone), read, table,
                       max_cpu, n_parquet_rows(fragments, _FRAGMENTS))


SURF = UsageReader(stream_surf, path="table of tasks with its `*fragments.parquet` beside it, or their folder",
                   cpu="the task's capacity (MHz)", step_s=30)


def _before(rows: np.ndarray, long_ms: np.ndarray, elapsed_ms: np.ndarray) -> np.ndarray:
    """Total time of the same task's samples before each, ms (n,); `elapsed_ms` (n_tasks,) keeps it between blocks."""
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
    files = [file for file in sorted(folder.glob("*tasks.parquet"))
             if file.with_name("fragments".join(file.name.rsplit("tasks", 1))).is_file()]
    if len(files) != 1:
        raise FileNotFoundError(f"{folder} must hold one *tasks.parquet with fragments, got {len(files)}")
    return files[0]


_NAB = ("timestamp", "value", "series")
_IS_CPU = "cpu_utilization"


def stream_azure_2019(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """The one series of `vm_cpu_readings_month_aggregated*.csv(.gz)`, the use of all VMs; path: it, or its folder.

    cpu is cpu_usage over its maximum, since the capacity is not published: the shape of the month,
    without a level. The assigned memory is not use, and is not read.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.
    """
    file = _one(Path(path), "vm_cpu_readings_month_aggregated*.csv*")
    blocks = csv_columns(file, ("timestamp", "cpu_usage"), ReadLedger())
    largest = max(float(np.nanmax(numbers(columns["cpu_usage"]), initial=0.0)) for _, columns in blocks)
    if not 0 < largest < np.inf:
        raise ValueError(f"{file}: cpu_usage must have a finite maximum above 0, got {largest!r}")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, ("timestamp", "cpu_usage"), ledger):
            cpu = numbers(columns["cpu_usage"]) / largest
            yield _one_series(file, first_row, "all VMs", table, numbers(columns["timestamp"]), cpu)

    return UsageStream(f"Azure 2019, {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


def stream_google_2019(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """The one series of `instance_usage_grouped_*.csv(.gz)`, a cell's mean every 300 s; path: it, or its folder.

    cpu and mem are avg_cpu and avg_mem, shares of the cell. Times are not published: the first row is at 0.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.
    """
    file = _one(Path(path), "instance_usage_grouped_*.csv*")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in csv_columns(file, ("avg_cpu", "avg_mem"), ledger):
            cpu = numbers(columns["avg_cpu"])
            yield _one_series(file, first_row, "cell", table, (first_row - 1 + np.arange(len(cpu))) * float(_STEP_S),
                              cpu, numbers(columns["avg_mem"]))

    return UsageStream(f"Google 2019, {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


def stream_aws_nab(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """The CPU series of `aws_cloudwatch_5min.parquet` (EC2 and RDS); path: it, or its folder.

    A request is a series whose name holds `cpu_utilization`, cpu its value / 100; sizes are not
    published. The other series are bytes and counts, no usage of a request, and are not read. The
    series are of different weeks. Time stamps are in UTC.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.
    """
    file = _one(Path(path), "aws_cloudwatch*.parquet")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in parquet_columns(file, _NAB):
            is_cpu = _is_cpu(columns)
            ids, rows = request_rows(columns["series"].filter(is_cpu), table)
            time_s = np.floor(unix_seconds(columns["timestamp"])[is_cpu])
            yield RawSamples(file.name, first_row, ids, rows, time_s,
                             numbers(columns["value"])[is_cpu] / 100)

    return UsageStream(f"AWS CloudWatch (NAB), {file.name}", DayClock(0, timezone), read, max_cpu=max_cpu)


AZURE_2019 = UsageReader(stream_azure_2019, path="`vm_cpu_readings_month_aggregated*.csv(.gz)` or its folder",
                         cpu="the series' own maximum (capacity not published)")
GOOGLE_2019 = UsageReader(stream_google_2019, path="`instance_usage_grouped_*.csv(.gz)` or its folder",
                          cpu="the cell; mem: the same")
AWS_NAB = UsageReader(stream_aws_nab, path="`aws_cloudwatch_5min.parquet` or its folder", cpu="the instance")


def _one_series(file: Path, first_row: int, name: str, table: RequestTable, time_s: np.ndarray, cpu: np.ndarray,
                mem: np.ndarray | None = None) -> RawSamples:
    return RawSamples(file.name, first_row, np.full(len(cpu), name, object), np.repeat(table.rows([name]), len(cpu)),
                      time_s, cpu, mem)


def _is_cpu(columns: Mapping[str, pa.Array]) -> np.ndarray:
    coded = columns["series"].dictionary_encode()
    is_cpu = np.array([_IS_CPU in str(name) for name in coded.dictionary.to_pylist()] + [False])
    return is_cpu[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


def _one(path: Path, pattern: str) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob(pattern))
    if len(files) != 1:
        names = ", ".join(file.name for file in files)
        raise FileNotFoundError(f"{path} must hold one {pattern}, got {names or 'none'}")
    return files[0]


_N_SAMPLES = 288

_DAY_STEP_S = DAY_S // _N_SAMPLES

_BLOCK = 512
_SHAPE = f"not {_N_SAMPLES} samples in the row"
_AGAIN = "second row of the same VM"


def stream_planetlab(path: str | Path, *, day: str | None = None, timezone: str = "UTC",
                     max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of one day of `planetlab_cpu_5min.parquet`; path: the file, or its folder.

    day: eight digits ("20110303"); by default the first of the file. The days are weeks apart, so
    each is a separate trace. A request is a VM (node and slice). cpu is cpu_pct / 100; the sizes
    are not published: 1 core and 0 GiB. The day starts at midnight.

    Raises FileNotFoundError if the file is missing, ValueError if it lacks the day or has another format.
    """
    source = Path(path)
    file = source / "planetlab_cpu_5min.parquet" if source.is_dir() else source
    days = planetlab_days(file)
    the_day = day if day is not None else next(iter(days), "")
    if the_day not in days:
        raise ValueError(f"day must be one of {', '.join(days)[:200] or 'none'}, got {the_day!r}")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        yield from _rows(file, "vm", "cpu_pct", None, table, ledger, the_day)

    return UsageStream(f"PlanetLab (CoMon), {the_day}", DayClock(0, timezone), read, max_cpu=max_cpu)


def planetlab_days(path: str | Path) -> list[str]:
    """The days for `stream_planetlab`, in order; raises the same errors."""
    source = Path(path)
    file = source / "planetlab_cpu_5min.parquet" if source.is_dir() else source
    return sorted({str(value) for batch in record_batches(file, ("day",)) for value in batch.column(0).to_pylist()})


def stream_gcd_vms(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of `gcd_vms_5min.parquet`, VMs built from Google's 2011 tasks; path: the file or its folder.

    A request is a row's `file`. cpu and mem are cpu_pct / 100 and mem_pct / 100; the sizes are not
    published: 1 core and 0 GiB. The authors kept VMs of 5 to 90 % use. The day starts at midnight.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.
    """
    source = Path(path)
    file = source / "gcd_vms_5min.parquet" if source.is_dir() else source
    n_rows = n_parquet_rows(file, ("file", "cpu_pct", "mem_pct")) * _N_SAMPLES

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        yield from _rows(file, "file", "cpu_pct", "mem_pct", table, ledger)

    return UsageStream("Google 2011, GCD VMs", DayClock(0, timezone), read, max_cpu=max_cpu, n_rows=n_rows)


PLANETLAB = UsageReader(stream_planetlab, path="`planetlab_cpu_5min.parquet` or its folder, one day of it",
                        cpu="the node (sizes not published)")
GCD_VMS = UsageReader(stream_gcd_vms, path="`gcd_vms_5min.parquet` or its folder",
                      cpu="the VM (sizes not published); mem: the same")


def _rows(file: Path, name: str, cpu: str, mem: str | None, table: RequestTable, ledger: ReadLedger,
          day: str | None = None) -> Iterator[RawSamples]:
    """The samples of each block of rows; a row with another length is refused as a whole, as 288 samples."""
    names = [name, cpu, *([mem] if mem else []), *(["day"] if day is not None else [])]
    first_row = 1
    vms: set[str] = set()
    for batch in record_batches(file, names, _BLOCK):
        ids: list[str] = []
        series: list[np.ndarray] = []
        memory: list[np.ndarray] = []
        places: list[int] = []
        values = batch.column(name).to_pylist()
        of_day = batch.column("day").to_pylist() if day is not None else [None] * batch.num_rows
        for i, vm in enumerate(values):
            if of_day[i] != day:
                continue  # other days are other traces, no refused rows
            row = [_numbers(batch.column(column)[i]) for column in names[1:3 if mem else 2]]
            rule = _SHAPE if any(len(each) != _N_SAMPLES for each in row) else _AGAIN if vm in vms else ""
            if rule:
                ledger.read(_N_SAMPLES)
                lines = np.full(_N_SAMPLES, first_row + i)
                ledger.refuse(rule, file.name, lines, [str(vm)] * _N_SAMPLES)
                continue
            vms.add(vm)
            ids.append(str(vm))
            places.append(i)
            series.append(row[0])
            memory += row[1:]
        if ids:
            time_s = np.tile(np.arange(_N_SAMPLES) * float(_DAY_STEP_S), len(ids))
            yield RawSamples(file.name, first_row, np.repeat(np.array(ids, object), _N_SAMPLES),
                             np.repeat(table.rows(ids), _N_SAMPLES), time_s, np.concatenate(series) / 100,
                             np.concatenate(memory) / 100 if mem else None,
                             row_of=np.repeat(np.array(places), _N_SAMPLES))
        first_row += batch.num_rows


def _numbers(row: pa.Scalar) -> np.ndarray:
    return numbers(row.values) if row.is_valid and row.values is not None else np.zeros(0)
