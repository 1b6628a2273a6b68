"""Reads the Alibaba cluster traces of 2018 and 2017.

Batch tasks (2018 and 2017): `batch_task.csv(.gz)`. Runs of batch instances: `batch_instance.csv(.gz)`.
Containers: `container_meta.csv(.gz)`, optionally with their CPU usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, TextRows, line_blocks, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_COLUMNS_2018 = ("task_name", "n_instances", "job_name", "task_type", "status", "start", "end", "plan_cpu", "plan_mem")
_COLUMNS_2017 = ("start", "end", "job_name", "task_name", "n_instances", "status", "plan_cpu", "plan_mem")
_HEADERS = {9: "task_name,", 8: "task_create_time,"}
"""The start of a header line, in copies of the file; the publisher's files have none."""

_TASK_STATUSES = ("Terminated", "Failed", "Cancelled", "Interrupted", "Running", "Ready", "Waiting")

_NEVER_RAN = ("Ready", "Waiting")
_CORE = 100
"""plan_cpu of one core."""
_MAX_SIZE = 1e9
"""The most instances of one task, or its planned size; more is a damaged cell."""


def read_alibaba_2018(path: str | Path, *, size: Literal["instance", "task"] = "instance",
                      censor_cut: bool = True, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one table of batch tasks; path: the file, or the folder with `batch_task.csv(.gz)`.

    One row is one request: a task, from its start (2018) or creation (2017) to the end of its last
    instance. The plan is per instance, and the table has no times and machines of instances, so by
    default a request has the size of one instance, which a scheduler places. size: "task" is plan x
    instances, the maximum of a task at one time; the largest fit on no host.

    A Terminated task ended. One without an end (0, or, if it still runs, an end before the start)
    is censored: running at the horizon, the last time in the file. Others that stopped (Failed, or
    Running with the end of their failed job) left their hosts then, so they keep that departure.
    censor_cut: mark them by `is_cut` (bool), so that their end counts as a competing one.

    horizon_s: end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    `mem_gib` is a share of a machine (2018: of 100; 2017: of 1), no GiB. Owners: `task_name` (2018, if it recurs in
    several jobs), `job_name` (tasks of one job are siblings). Category: `task_type` (2018). Number: `n_instances`.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "batch_task.csv"
    >>> _ = path.write_text("M1,4,j_1,1,Terminated,100,160,50,0.2" + chr(10) + "R2_1,2,j_1,1,Running,160,0,100,0.3")
    >>> trace, report = read_alibaba_2018(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "n_instances"]].values.tolist()
    [['j_1/M1', 100, 160, 0.5, 4.0], ['j_1/R2_1', 160, <NA>, 1.0, 2.0]]
    """
    if size not in ("instance", "task"):
        raise ValueError(f"size must be instance or task, got {size!r}")
    source = Path(path)
    table = _task_file(source) if source.is_dir() else source
    n_columns = _n_columns(table)
    names = _COLUMNS_2018 if n_columns == len(_COLUMNS_2018) else _COLUMNS_2017
    ledger = ReadLedger()
    ids: set[object] = set()
    chunks = []
    last_s = 0
    for rows in text_rows(table, ledger, separator=",", names=names, has_header=False, comment=_HEADERS[n_columns]):
        chunk, latest_s = _tasks(rows, size, ids)
        chunks.append(chunk)
        last_s = max(last_s, latest_s)
    requests = all_requests(chunks, table, "task after time 0", ledger, last_s=last_s)
    times = pd.concat([requests["arrival_s"], requests["departure_s"].dropna()])
    horizon = horizon_of(times.to_numpy(np.int64), horizon_s)
    requests = cut_at(requests, horizon, ledger, table.name)
    is_2018 = names is _COLUMNS_2018
    owners, categories = (("task_name", "job_name"), ("task_type",)) if is_2018 else (("job_name",), ())
    if censor_cut:
        requests["is_cut"] = (requests["status"] != "Terminated") & requests["departure_s"].notna()
    meta = {"source": f"Alibaba cluster trace {2018 if is_2018 else 2017}, {table.name}", "licence": "none stated",
            "units": f"mem_gib is a share of one machine ({'0-100' if is_2018 else '0-1'})",
            "request_size": "one instance" if size == "instance" else "all instances of the task",
            "known_at_end": ["status", *(["is_cut"] if censor_cut else [])]}
    return trace_of(requests, horizon.time_s, Roles(owners, categories, ("n_instances",)), ledger, meta,
                    others=("status",))


ALIBABA_2018 = Reader(
    read_alibaba_2018,
    path="`batch_task.csv` of the Alibaba cluster traces of 2018 or 2017, or its folder",
    arrival="start (2018), creation (2017) of the task",
    departure="its end; none where a running task has none",
    owners="`task_name` (2018), `job_name`",
    categories="`task_type` (2018)",
    numbers="`n_instances`",
    no_role="`status`, `is_cut`",
)


def _tasks(rows: TextRows, size: str, ids: set[object]) -> tuple[pd.DataFrame, int]:
    status, job, task = (rows.text(name) for name in ("status", "job_name", "task_name"))
    rows.refuse("status unknown", ~np.isin(status, _TASK_STATUSES))
    rows.refuse("never ran (Waiting or Ready)", np.isin(status, _NEVER_RAN))
    start_s, end_s, n_instances = (rows.number(name) for name in ("start", "end", "n_instances"))
    cpu, mem = (rows.number(name, is_required=False) for name in ("plan_cpu", "plan_mem"))
    for times in (start_s, end_s):
        rows.refuse("time not a whole number within 100 years", (np.abs(times) > MAX_TIME_S) | (times % 1 != 0))
    if "task_type" in rows.names:  # 2018, without a task at 0; in 2017 the clock starts below 0
        rows.refuse("start missing (0)", start_s == 0)
    rows.refuse("n_instances not a whole number >= 1", (n_instances < 1) | (n_instances % 1 != 0))
    rows.refuse("negative size", (cpu < 0) | (mem < 0))
    rows.refuse(f"size above {_MAX_SIZE:g}", np.any([(x > _MAX_SIZE) for x in (n_instances, cpu, mem)], axis=0))
    is_running = (status == "Running") & ((end_s == 0) | (end_s < start_s))
    rows.refuse("departure before arrival", ~is_running & (end_s < start_s))
    rows.refuse("departure before the trace", ~is_running & (end_s < 0))
    rows.refuse("name missing", (job == "") | (task == ""))
    rows.refuse_duplicates("duplicate task", job + "/" + task, ids)
    rows.repair("plan_cpu or plan_mem missing: 0 taken", np.isnan(cpu) | np.isnan(mem))
    rows.repair("no end, or one before the start, of a running task: censored", is_running)
    is_kept = rows.is_kept
    n = n_instances[is_kept]
    factor = n if size == "task" else np.ones(len(n))
    departure = pd.Series(np.where(is_running, 0, end_s)[is_kept].astype(np.int64), dtype="Int64")
    latest_s = int(max(start_s[is_kept].max(initial=0), departure.max() if len(departure) else 0))
    table = pd.DataFrame({
        "line": rows.line[is_kept],
        "request_id": pd.Series((job + "/" + task)[is_kept], dtype="str"),
        "arrival_s": pd.Series(start_s[is_kept].astype(np.int64), dtype="Int64"),
        "departure_s": departure.mask(is_running[is_kept]),
        "cpu_cores": np.nan_to_num(cpu[is_kept]) / _CORE * factor,
        "mem_gib": np.nan_to_num(mem[is_kept]) * factor,
        "n_instances": n,
    })
    for name in ("job_name", "status", *(["task_name", "task_type"] if "task_type" in rows.names else [])):
        text = rows.text(name)[is_kept]
        table[name] = pd.Series(np.where(text == "", "missing", text), dtype="str")
    return table, latest_s


def _n_columns(path: Path) -> int:
    """9 for the table of 2018, 8 for that of 2017: columns of the first line that is not blank."""
    for first_line, lines in line_blocks(path):
        for offset, line in enumerate(lines):
            if line.strip():
                got = len(line.split(","))
                if got not in _HEADERS:
                    raise ValueError(f"{path}: line {first_line + offset} must have 9 columns (2018: task_name .. "
                                     f"plan_mem) or 8 (2017: create time .. memory), got {got} in {line[:80]!r}")
                return got
    raise ValueError(f"{path}: must hold at least one row of 9 or 8 columns, got an empty file")


def _task_file(folder: Path) -> Path:
    for name in ("batch_task.csv", "batch_task.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold batch_task.csv or batch_task.csv.gz (its containers are read by the "
                            "reader alibaba-2018-containers)")


_COLUMNS = ("instance_name", "task_name", "job_name", "task_type", "status", "start_time", "end_time", "machine_id",
            "seq_no", "total_seq_no", "cpu_avg", "cpu_max", "mem_avg", "mem_max")

_INSTANCE_HEADER = "instance_name,"
"""The start of a header line, in copies of the file; the publisher's files have none."""

_INSTANCE_STATUSES = ("Terminated", "Failed", "Cancelled", "Interrupted", "Running", *_NEVER_RAN)


def read_alibaba_2018_instances(path: str | Path) -> tuple[pd.DataFrame, ReadReport]:
    """One row for each run of an instance, by instance and time; path: the file, or its folder.

    A rescheduled instance has several rows, with rising `seq_no`. Columns: `instance` and `task` (str, with the job's
    name before them), `task_name`, `machine`, `status`, `seq_no` (int64), `start_s` (int64), `end_s` (Int64, missing if
    it still runs), `cpu_avg`, `cpu_max` (cores) and `mem_avg`, `mem_max` (shares of a machine, 0 to 100).

    Refused rows: instances that never ran, runs without a machine or a start, an end before the start.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format or no run.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "batch_instance.csv"
    >>> _ = path.write_text("i_1,M1,j_1,1,Failed,100,130,m_7,1,2,50,80,0.1,0.2" + chr(10) +
    ...     "i_1,M1,j_1,1,Terminated,150,200,m_9,2,2,50,80,0.1,0.2")
    >>> runs, report = read_alibaba_2018_instances(path)
    >>> runs[["instance", "machine", "start_s", "end_s", "cpu_max"]].values.tolist()
    [['j_1/M1/i_1', 'm_7', 100, 130, 0.8], ['j_1/M1/i_1', 'm_9', 150, 200, 0.8]]
    """
    source = Path(path)
    table = _instance_file(source) if source.is_dir() else source
    ledger = ReadLedger()
    ids: set[object] = set()
    runs = pd.concat([_runs(rows, ids) for rows in text_rows(
        table, ledger, separator=",", names=_COLUMNS, has_header=False, comment=_INSTANCE_HEADER)], ignore_index=True)
    if runs.empty:
        raise ValueError(f"{table}: must hold at least one run of an instance, got none; refused: "
                         f"{dict(ledger.report(0).refused)}")
    runs = runs.sort_values(["instance", "start_s", "seq_no"], kind="stable", ignore_index=True)
    return runs, ledger.report(len(runs))


def _runs(rows: TextRows, ids: set[object]) -> pd.DataFrame:
    status, job, task, name, machine = (rows.text(column) for column in (
        "status", "job_name", "task_name", "instance_name", "machine_id"))
    rows.refuse("status unknown", ~np.isin(status, _INSTANCE_STATUSES))
    rows.refuse("never ran (Waiting or Ready)", np.isin(status, _NEVER_RAN))
    rows.refuse("name missing", (job == "") | (task == "") | (name == ""))
    rows.refuse("machine missing", machine == "")
    start_s, end_s, seq_no = (rows.number(column) for column in ("start_time", "end_time", "seq_no"))
    used = {column: rows.number(column, is_required=False) for column in ("cpu_avg", "cpu_max", "mem_avg", "mem_max")}
    for times in (start_s, end_s):
        rows.refuse("time not a whole number in 0 .. 100 years", (times < 0) | (times > MAX_TIME_S) | (times % 1 != 0))
    rows.refuse("start missing (0)", start_s == 0)
    rows.refuse("seq_no not a whole number", seq_no % 1 != 0)
    is_running = (status == "Running") & (end_s < start_s)
    rows.refuse("end before start", ~is_running & (end_s < start_s))
    rows.refuse("negative use", np.any([values < 0 for values in used.values()], axis=0))
    key = job + "/" + task + "/" + name
    rows.refuse_duplicates("duplicate run", np.array([f"{k} {s}" for k, s in zip(key, seq_no, strict=True)], object),
                           ids)
    rows.repair("use missing: 0 taken", np.any([np.isnan(values) for values in used.values()], axis=0))
    is_kept = rows.is_kept
    cpu_avg, cpu_max, mem_avg, mem_max = (np.nan_to_num(used[column][is_kept]) for column in used)
    return pd.DataFrame({
        "instance": pd.Series(key[is_kept], dtype="str"), "task": pd.Series((job + "/" + task)[is_kept], dtype="str"),
        "task_name": pd.Series(task[is_kept], dtype="str"), "machine": pd.Series(machine[is_kept], dtype="str"),
        "status": pd.Series(status[is_kept], dtype="str"), "seq_no": seq_no[is_kept].astype(np.int64),
        "start_s": start_s[is_kept].astype(np.int64),
        "end_s": pd.Series(end_s[is_kept].astype(np.int64), dtype="Int64").mask(is_running[is_kept]),
        "cpu_avg": cpu_avg / _CORE, "cpu_max": np.maximum(cpu_avg, cpu_max) / _CORE,
        "mem_avg": mem_avg, "mem_max": np.maximum(mem_avg, mem_max)})


def _instance_file(folder: Path) -> Path:
    for name in ("batch_instance.csv", "batch_instance.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold batch_instance.csv or batch_instance.csv.gz")


_META = ("container_id", "machine", "time", "app_du", "status", "cpu_request", "cpu_limit", "mem_size")
_USAGE = ("container_id", "machine", "time", "cpu_util", "mem_util", "cpi", "mem_gps", "mpki", "net_in", "net_out",
          "disk_io")

_CONTAINER_HEADER = "container_id,"
"""The start of a header line, in copies of the file; the publisher's files have none."""
_PLACED = ("started", "allocated")

_CONTAINER_STATUSES = (*_PLACED, "stopped", "unknown")

_MAX_CPU = 1e9
MAX_USAGE_BYTES = 200_000_000
"""The largest usage file that is read by default: about five million samples; the publisher's is far larger."""
MAX_SERIES = 1000
"""The most containers with usage: 8 days of 300 s means are 2.3 M rows, 75 MB."""
STEP_S = 300
_MAX_PENDING = 1_000_000
"""After so many samples, sums by step are formed."""


def read_alibaba_2018_containers(path: str | Path, *, usage: bool | None = None,
                                 max_series: int = MAX_SERIES,
                                 horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one table of containers; path: the file, or the folder with `container_meta.csv(.gz)`.

    A row is the state of a container at a time; a container has about five rows in the 8 days. One
    container is one request, from the first row that places it (started or allocated) to the first
    `stopped` row without a later placing row. If its first row is at time 0 and placed or of
    unknown state, it ran before, with unknown start. Without such a stop it is censored at the
    horizon, the last time in the file. Containers without a placing row are no requests (joined).

    `cpu_limit_cores` and the sizes are those of the first row that places it. `mem_gib` is a share of the largest
    machine (0-100), no GiB. Owner: `app_du`, the deploy unit. `machine` and `status` (the last seen) have no role.

    horizon_s: end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    `Trace.usage`: means of cpu_util_percent / 100 and mem_util_percent / 100 over steps of 300 s, at each step's start,
    for the first `max_series` containers of the table, from `container_usage.csv(.gz)` beside it. usage: None = if that
    file has at most 200 MB, True = any size, False = not.

    Raises FileNotFoundError if a file is missing, ValueError if one has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "container_meta.csv"
    >>> _ = path.write_text("c_1,m_1,0,app_1,started,400,400,1.5" + chr(10) + "c_2,m_1,60,app_1,started,50,100,3" +
    ...     chr(10) + "c_2,m_1,90,app_1,stopped,50,100,3" + chr(10) + "c_1,m_1,120,app_1,started,400,400,1.5")
    >>> trace, report = read_alibaba_2018_containers(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [['c_1', <NA>, <NA>, 4.0, 1.5], ['c_2', 60, 90, 0.5, 3.0]]
    """
    if max_series < 1:
        raise ValueError(f"max_series must be at least 1, got {max_series!r}")
    source = Path(path)
    table = _container_file(source) if source.is_dir() else source
    ledger = ReadLedger()
    first_rows: dict[str, tuple[str, str]] = {}
    keys: set[object] = set()
    states = pd.concat([_states(rows, first_rows, keys) for rows in text_rows(
        table, ledger, separator=",", names=_META, has_header=False, comment=_CONTAINER_HEADER)], ignore_index=True)
    last_s = int(states["time"].max()) if len(states) else 0
    requests = _requests(states, ledger) if len(states) else states
    if requests.empty or last_s <= 0:
        raise ValueError(f"{table}: must hold at least one started or allocated container and a time after 0, got "
                         f"none; refused: {dict(ledger.report(0).refused)}")
    n_placed = len(requests)
    horizon = horizon_of(states["time"].to_numpy(np.int64), horizon_s)
    requests = cut_at(requests, horizon, ledger, table.name)
    usage_file = next((file for file in _beside(table, "container_usage") if file.is_file()), None)
    if usage is True and usage_file is None:
        raise FileNotFoundError(f"{table.parent} must hold container_usage.csv or container_usage.csv.gz for usage")
    series = None
    if usage_file is not None and usage is not False and (usage or usage_file.stat().st_size <= MAX_USAGE_BYTES):
        series = _usage(usage_file, requests.head(max_series), pd.Index(list(first_rows)), horizon.time_s, ledger)
    meta = {"source": f"Alibaba cluster trace 2018, {table.name}", "licence": "none stated",
            "units": "mem_gib is a share of the largest machine (0-100)",
            "n_never_placed": len(first_rows) - n_placed, "known_at_end": ["status"],
            "usage": "not read" if series is None else f"means over {STEP_S} s of the first {max_series} containers"}
    return trace_of(requests, horizon.time_s, Roles(owners=("app_du",), numbers=("cpu_limit_cores",)), ledger, meta,
                    usage=series, is_event_log=True)


ALIBABA_2018_CONTAINERS = Reader(
    read_alibaba_2018_containers,
    path="`container_meta.csv` of the Alibaba cluster trace of 2018, or its folder",
    arrival="first state that places it (started or allocated); none where it was placed at 0",
    departure="first `stopped` after which none places it; none without",
    owners="`app_du`",
    numbers="`cpu_limit_cores`",
    no_role="`machine`, `status`",
)


def _states(rows: TextRows, first_rows: dict[str, tuple[str, str]], earlier: set[object]) -> pd.DataFrame:
    """The kept states of one block; adds its containers to `first_rows` (container -> machine, app_du)."""
    container, status = rows.text("container_id"), rows.text("status")
    time, cpu, limit, mem = (rows.number(name, is_required=name == "time") for name in (
        "time", "cpu_request", "cpu_limit", "mem_size"))
    machine, app = (np.where(rows.text(name) == "", "missing", rows.text(name)) for name in ("machine", "app_du"))
    rows.refuse("container_id missing", container == "")
    rows.refuse("status not started, allocated, stopped or unknown", ~np.isin(status, _CONTAINER_STATUSES))
    rows.refuse("time not a whole number in 0 .. 100 years", (time < 0) | (time > MAX_TIME_S) | (time % 1 != 0))
    rows.refuse("negative size", (cpu < 0) | (limit < 0) | (mem < 0))
    rows.refuse(f"cpu above {_MAX_CPU:g}", (cpu > _MAX_CPU) | (limit > _MAX_CPU))
    rows.refuse("mem_size above 100", mem > 100)
    is_other = np.zeros(len(time), bool)
    for i in np.flatnonzero(rows.is_kept).tolist():
        is_other[i] = first_rows.setdefault(container[i], (machine[i], app[i])) != (machine[i], app[i])
    rows.refuse("machine or app_du not that of the container's first row", is_other)
    keys = np.array([f"{c} {t:.0f} {s}" for c, t, s in zip(container, time, status, strict=True)], object)
    rows.refuse_duplicates("duplicate state", keys, earlier)
    rows.repair("cpu_request, cpu_limit or mem_size missing: 0 taken", np.isnan(cpu) | np.isnan(limit) | np.isnan(mem))
    is_kept = rows.is_kept
    return pd.DataFrame({
        "container": pd.Series(container[is_kept], dtype="str"), "time": time[is_kept].astype(np.int64),
        "status": pd.Series(status[is_kept], dtype="str"), "app_du": pd.Series(app[is_kept], dtype="str"),
        "machine": pd.Series(machine[is_kept], dtype="str"), "cpu_cores": np.nan_to_num(cpu[is_kept]) / _CORE,
        "cpu_limit_cores": np.nan_to_num(limit[is_kept]) / _CORE, "mem_gib": np.nan_to_num(mem[is_kept])})


def _requests(states: pd.DataFrame, ledger: ReadLedger) -> pd.DataFrame:
    """One request for each placed container, in the order of their first rows.

    states: kept rows in file order; rows of one container are sorted by time.
    """
    code, _ = pd.factorize(states["container"])
    time = states["time"].to_numpy()
    order = np.lexsort((time, code))  # stable: states of the same second stay in file order
    ledger.repair("time before the container's row above: sorted",
                  int(((np.diff(order) < 0) & (np.diff(code[order]) == 0)).sum()))
    states, code, time = states.iloc[order].reset_index(drop=True), code[order], time[order]
    status = states["status"].to_numpy()
    row = np.arange(len(states))
    n = int(code[-1]) + 1 if len(code) else 0
    is_placed, is_stop = np.isin(status, _PLACED), status == "stopped"
    first, last = np.full(n, len(row)), np.full(n, -1)
    np.minimum.at(first, code[is_placed], row[is_placed])
    np.maximum.at(last, code[is_placed], row[is_placed])
    stop = np.full(n, len(row))
    is_end = is_stop & (row > last[code])
    np.minimum.at(stop, code[is_end], row[is_end])
    is_restart = np.zeros(n, bool)
    is_restart[code[is_stop & (row > first[code]) & (row < last[code])]] = True
    opening, closing = np.searchsorted(code, np.arange(n)), np.searchsorted(code, np.arange(n), "right") - 1
    is_request = last >= 0
    ledger.repair("stopped and placed again on its machine: taken as running through", int(is_restart.sum()))
    first, stop, opening, closing = (index[is_request] for index in (first, stop, opening, closing))
    has_stop = stop < len(row)
    requests = states.iloc[first][["container", "app_du", "machine", "cpu_cores", "cpu_limit_cores", "mem_gib"]]
    requests = requests.reset_index(drop=True).rename(columns={"container": "request_id"})
    requests["status"] = status[closing]
    for name in ("app_du", "machine", "status"):
        requests[name] = requests[name].astype("category")
    is_before = (time[opening] == 0) & (status[opening] != "stopped")
    requests["arrival_s"] = pd.Series(time[first], dtype="Int64").mask(is_before)
    requests["departure_s"] = pd.Series(time[np.where(has_stop, stop, 0)], dtype="Int64").mask(~has_stop)
    return requests


def _usage(path: Path, requests: pd.DataFrame, of_table: pd.Index, horizon_s: int, ledger: ReadLedger) -> pd.DataFrame:
    """Means over each step as `request_id`, `time_s` (int64), `cpu_frac`, `mem_frac` (NaN if none), float64.

    requests: those with a series. of_table: all containers of the table of states; samples of others are
    refused, samples of these without a series count as joined.
    """
    index = pd.Index(requests["request_id"])
    begin = requests["arrival_s"].fillna(0).to_numpy(np.int64)
    end = requests["departure_s"].fillna(horizon_s).to_numpy(np.int64)
    n_steps = horizon_s // STEP_S + 1
    sums: list[pd.DataFrame] = []
    for rows in text_rows(path, ledger, separator=",", names=_USAGE, has_header=False, comment=_CONTAINER_HEADER):
        container = pd.Index(rows.text("container_id"))
        place = index.get_indexer(container)
        rows.refuse("sample of a container that is not in container_meta", of_table.get_indexer(container) < 0)
        rows.is_kept &= place >= 0
        time, cpu, mem = (rows.number(name, is_required=name != "mem_util") for name in (
            "time", "cpu_util", "mem_util"))
        rows.refuse("sample outside its container's arrival .. departure", (time < begin[place]) | (time > end[place]))
        rows.refuse("cpu_util_percent or mem_util_percent outside 0 .. 100",
                    (cpu < 0) | (cpu > 100) | (mem < 0) | (mem > 100))
        is_kept = rows.is_kept
        sums.append(pd.DataFrame({
            "cell": place[is_kept] * n_steps + (time[is_kept] // STEP_S).astype(np.int64), "cpu": cpu[is_kept],
            "n_cpu": 1, "mem": np.nan_to_num(mem[is_kept]), "n_mem": np.isfinite(mem[is_kept]).astype(np.int64)}))
        if sum(map(len, sums[1:])) > _MAX_PENDING:
            sums = [_added(sums)]
    total = _added(sums)
    cell = total["cell"].to_numpy()
    return pd.DataFrame({
        "request_id": pd.Series(index.to_numpy()[cell // n_steps], dtype="str"), "time_s": cell % n_steps * STEP_S,
        "cpu_frac": total["cpu"] / total["n_cpu"] / 100,
        "mem_frac": total["mem"] / total["n_mem"].where(total["n_mem"] > 0) / 100})


def _added(sums: list[pd.DataFrame]) -> pd.DataFrame:
    """One row for each cell, ordered by cell, so memory grows with the steps, not with the samples."""
    return pd.concat(sums, ignore_index=True).groupby("cell", as_index=False).sum()


def _beside(table: Path, name: str) -> tuple[Path, Path]:
    return table.with_name(f"{name}.csv"), table.with_name(f"{name}.csv.gz")


def _container_file(folder: Path) -> Path:
    for name in ("container_meta.csv", "container_meta.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold container_meta.csv or container_meta.csv.gz")
