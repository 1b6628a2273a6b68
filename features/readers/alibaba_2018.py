"""Reads the batch tasks of the Alibaba cluster traces of 2018 and 2017: `batch_task.csv(.gz)`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, trace_of
from sojourn.features.readers._horizon import cut_at, horizon_of
from sojourn.features.readers._text_rows import MAX_TIME_S, TextRows, line_blocks, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_COLUMNS_2018 = ("task_name", "n_instances", "job_name", "task_type", "status", "start", "end", "plan_cpu", "plan_mem")
_COLUMNS_2017 = ("start", "end", "job_name", "task_name", "n_instances", "status", "plan_cpu", "plan_mem")
_HEADERS = {9: "task_name,", 8: "task_create_time,"}
"""How a header line begins, where a copy of the file has one; the publisher's files have none."""
_STATUSES = ("Terminated", "Failed", "Cancelled", "Interrupted", "Running", "Ready", "Waiting")
_NEVER_RAN = ("Ready", "Waiting")
_CORE = 100
"""plan_cpu of one core."""
_MAX_SIZE = 1e9
"""Instances of one task, or its planned size; more is a damaged cell."""


def read_alibaba_2018(path: str | Path, *, size: Literal["instance", "task"] = "instance",
                      censor_cut: bool = True, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one table of batch tasks; path: the file, or the folder that holds `batch_task.csv(.gz)`.

    One row is one request: a task, from its start (2018) or creation (2017) to the end of its last instance. The
    plan is per instance and the table does not say when each instance ran or where, so by default a request has
    the size of one instance: what a scheduler places. size: "task" takes plan x instances, the most that the task
    can hold at once; no host holds the largest.

    A Terminated task ended. One without an end (0, or an end before the start, where it still runs) is censored:
    running at the horizon, the last time in the file. Others that stopped (Failed, or Running with an end, which
    is that of their failed job) left their hosts then, so they keep that departure. censor_cut: mark them by
    `is_cut` (bool), so that their end counts as a competing one.

    horizon_s: when observation ended, seconds on the trace's clock, where that is known; else it is found in the file
    as docs/traces.md says.

    `mem_gib` is a share of a machine (2018: of 100; 2017: of 1), no GiB. Owners: `task_name` (2018, where it recurs
    from job to job), `job_name` (tasks of one job are siblings). Category: `task_type` (2018). Number: `n_instances`.

    Raises FileNotFoundError where the file is missing, ValueError where it is not the format.

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
    table = _found(source) if source.is_dir() else source
    n_columns = _n_columns(table)
    names = _COLUMNS_2018 if n_columns == len(_COLUMNS_2018) else _COLUMNS_2017
    ledger = ReadLedger()
    seen: set[object] = set()
    chunks = []
    last_s = 0
    for rows in text_rows(table, ledger, separator=",", names=names, has_header=False, comment=_HEADERS[n_columns]):
        chunk, latest_s = _tasks(rows, size, seen)
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


def _tasks(rows: TextRows, size: str, seen: set[object]) -> tuple[pd.DataFrame, int]:
    """The kept tasks of one block, and the last time among them."""
    status, job, task = (rows.text(name) for name in ("status", "job_name", "task_name"))
    rows.refuse("status unknown", ~np.isin(status, _STATUSES))
    rows.refuse("never ran (Waiting or Ready)", np.isin(status, _NEVER_RAN))
    start_s, end_s, n_instances = (rows.number(name) for name in ("start", "end", "n_instances"))
    cpu, mem = (rows.number(name, is_required=False) for name in ("plan_cpu", "plan_mem"))
    for times in (start_s, end_s):
        rows.refuse("time not a whole number within 100 years", (np.abs(times) > MAX_TIME_S) | (times % 1 != 0))
    if "task_type" in rows.names:  # 2018, whose clock has no task at 0; in 2017 it begins below 0
        rows.refuse("start missing (0)", start_s == 0)
    rows.refuse("n_instances not a whole number >= 1", (n_instances < 1) | (n_instances % 1 != 0))
    rows.refuse("negative size", (cpu < 0) | (mem < 0))
    rows.refuse(f"size above {_MAX_SIZE:g}", np.any([(x > _MAX_SIZE) for x in (n_instances, cpu, mem)], axis=0))
    is_running = (status == "Running") & ((end_s == 0) | (end_s < start_s))
    rows.refuse("departure before arrival", ~is_running & (end_s < start_s))
    rows.refuse("departure before the trace", ~is_running & (end_s < 0))
    rows.refuse("name missing", (job == "") | (task == ""))
    rows.refuse_duplicates("duplicate task", job + "/" + task, seen)
    rows.repair("plan_cpu or plan_mem missing: 0 taken", np.isnan(cpu) | np.isnan(mem))
    rows.repair("no end, or one before the start, of a running task: censored", is_running)
    kept = rows.is_kept
    n = n_instances[kept]
    factor = n if size == "task" else np.ones(len(n))
    departure = pd.Series(np.where(is_running, 0, end_s)[kept].astype(np.int64), dtype="Int64")
    latest_s = int(max(start_s[kept].max(initial=0), departure.max() if len(departure) else 0))
    table = pd.DataFrame({
        "line": rows.line[kept],
        "request_id": pd.Series((job + "/" + task)[kept], dtype="str"),
        "arrival_s": pd.Series(start_s[kept].astype(np.int64), dtype="Int64"),
        "departure_s": departure.mask(is_running[kept]),
        "cpu_cores": np.nan_to_num(cpu[kept]) / _CORE * factor,
        "mem_gib": np.nan_to_num(mem[kept]) * factor,
        "n_instances": n,
    })
    for name in ("job_name", "status", *(["task_name", "task_type"] if "task_type" in rows.names else [])):
        text = rows.text(name)[kept]
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


def _found(folder: Path) -> Path:
    for name in ("batch_task.csv", "batch_task.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold batch_task.csv or batch_task.csv.gz (its containers are read by the "
                            "reader alibaba-2018-containers)")
