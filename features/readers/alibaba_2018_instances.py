"""Reads the runs of batch instances of the Alibaba cluster trace of 2018: `batch_instance.csv(.gz)`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._text_rows import MAX_TIME_S, TextRows, text_rows

_COLUMNS = ("instance_name", "task_name", "job_name", "task_type", "status", "start_time", "end_time", "machine_id",
            "seq_no", "total_seq_no", "cpu_avg", "cpu_max", "mem_avg", "mem_max")
_HEADER = "instance_name,"
"""How a header line begins, where a copy of the file has one; the publisher's files have none."""
_NEVER_RAN = ("Ready", "Waiting")
_STATUSES = ("Terminated", "Failed", "Cancelled", "Interrupted", "Running", *_NEVER_RAN)
_CORE = 100
"""cpu_avg of one core."""


def read_alibaba_2018_instances(path: str | Path) -> tuple[pd.DataFrame, ReadReport]:
    """One row for each run of an instance, by instance and time; path: the file, or the folder that holds it.

    An instance that was rescheduled has several rows, with rising `seq_no`. Columns: `instance` and `task` (str, with
    the job's name before them), `task_name`, `machine`, `status`, `seq_no` (int64), `start_s` (int64), `end_s` (Int64,
    none where it still runs), `cpu_avg`, `cpu_max` (cores) and `mem_avg`, `mem_max` (shares of a machine, 0 to 100).

    Refused rows: instances that never ran, runs without a machine or a start, an end before the start.

    Raises FileNotFoundError where the file is missing, ValueError where it is not the format or holds no run.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "batch_instance.csv"
    >>> _ = path.write_text("i_1,M1,j_1,1,Failed,100,130,m_7,1,2,50,80,0.1,0.2" + chr(10) +
    ...     "i_1,M1,j_1,1,Terminated,150,200,m_9,2,2,50,80,0.1,0.2")
    >>> runs, report = read_alibaba_2018_instances(path)
    >>> runs[["instance", "machine", "start_s", "end_s", "cpu_max"]].values.tolist()
    [['j_1/M1/i_1', 'm_7', 100, 130, 0.8], ['j_1/M1/i_1', 'm_9', 150, 200, 0.8]]
    """
    source = Path(path)
    table = _found(source) if source.is_dir() else source
    ledger = ReadLedger()
    seen: set[object] = set()
    runs = pd.concat([_runs(rows, seen) for rows in text_rows(
        table, ledger, separator=",", names=_COLUMNS, has_header=False, comment=_HEADER)], ignore_index=True)
    if runs.empty:
        raise ValueError(f"{table}: must hold at least one run of an instance, got none; refused: "
                         f"{dict(ledger.report(0).refused)}")
    runs = runs.sort_values(["instance", "start_s", "seq_no"], kind="stable", ignore_index=True)
    return runs, ledger.report(len(runs))


def _runs(rows: TextRows, seen: set[object]) -> pd.DataFrame:
    """The kept runs of one block."""
    status, job, task, name, machine = (rows.text(column) for column in (
        "status", "job_name", "task_name", "instance_name", "machine_id"))
    rows.refuse("status unknown", ~np.isin(status, _STATUSES))
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
                           seen)
    rows.repair("use missing: 0 taken", np.any([np.isnan(values) for values in used.values()], axis=0))
    kept = rows.is_kept
    cpu_avg, cpu_max, mem_avg, mem_max = (np.nan_to_num(used[column][kept]) for column in used)
    return pd.DataFrame({
        "instance": pd.Series(key[kept], dtype="str"), "task": pd.Series((job + "/" + task)[kept], dtype="str"),
        "task_name": pd.Series(task[kept], dtype="str"), "machine": pd.Series(machine[kept], dtype="str"),
        "status": pd.Series(status[kept], dtype="str"), "seq_no": seq_no[kept].astype(np.int64),
        "start_s": start_s[kept].astype(np.int64),
        "end_s": pd.Series(end_s[kept].astype(np.int64), dtype="Int64").mask(is_running[kept]),
        "cpu_avg": cpu_avg / _CORE, "cpu_max": np.maximum(cpu_avg, cpu_max) / _CORE,
        "mem_avg": mem_avg, "mem_max": np.maximum(mem_avg, mem_max)})


def _found(folder: Path) -> Path:
    for name in ("batch_instance.csv", "batch_instance.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold batch_instance.csv or batch_instance.csv.gz")
