"""When the jobs of a queue will start: from a table of jobs, `squeue` or Kueue, predicted by a served bundle."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape

from sojourn.features.readers import SLURM_RUNNING
from sojourn.flows.console import FittedTable, console
from sojourn.flows.placement.snapshot import (
    MAX_UPTIME_S,
    N_BYTES_MAX,
    SnapshotTable,
    lives_of,
    table_of,
    unknown_words,
    unread_words,
)
from sojourn.inflated import text_of
from sojourn.models.curve_table import drawn_left
from sojourn.publishing import whole_file
from sojourn.serving import Predictor
from sojourn.serving.answers import Lifetime
from sojourn.serving.inputs import FIRST_POD_S, field, kueue_workload, sequence, shown_field
from sojourn.serving.prometheus import Metric, exposition
from sojourn.simulator.queueing import QUANTILES, QueueNow, QueueRules, start_times

JOB_COLUMNS = ("job_id", "processors", "limit_s", "waited_s", "uptime_s")
SQUEUE = 'squeue -a -r -o "%i|%T|%C|%l|%V|%S|%M|%u|%a|%P|%q|%j"'
"""The command whose output is read, with its header; fields in any order, those after %M may be missing."""
KUEUE = "kubectl get workloads -A -o json"
_SQUEUE_NEEDED = ("JOBID", "STATE", "CPUS", "TIME_LIMIT", "SUBMIT_TIME", "START_TIME", "TIME")
_ATTRIBUTES = {"USER": "user", "ACCOUNT": "account", "PARTITION": "partition", "QOS": "qos", "NAME": "job_name"}
"""Fields of squeue, and the columns of a trace that `sacct -P` gives."""
_ASSUMED = {"cpu_cores": "processors", "requested_cores": "processors", "requested_procs": "processors",
            "requested_s": "limit_s"}
"""Columns of a trace of jobs, and what they are if a table does not have them."""
_UNLIMITED = ("UNLIMITED", "NOT_SET", "Partition_Limit", "N/A", "")
_OWNERS = ("owner", "user")
_YEAR_S = 365 * 86_400
_MOST_PROCESSORS = 2**31
_DURATION = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Waiting:
    """now: the queue. owner: numbers of its jobs' owners, -1 = none. lives: a prediction for each, in order. warnings:
    of what was assumed or not read."""

    now: QueueNow
    owner: np.ndarray
    lives: list[Lifetime]
    warnings: tuple[str, ...]


def read_waiting(file: Path, predictor: Predictor, n_processors: int, now_s: int | None) -> Waiting:
    """The queue of a file: a CSV or Parquet table with JOB_COLUMNS and the attributes that the model reads, or the
    output of SQUEUE or KUEUE.

    Of a table, uptime_s is missing where a job waits, waited_s counts where it does. A job without limit_s counts with
    a year, as in Slurm's backfilling. A job that asks for more than the machine has is left out. Column `owner`, else
    `user`: whose jobs end alike. Each job is predicted as at its start, or as if it started now; now_s: the model's
    clock, None = the end of its history; with KUEUE, in Unix time, also the moment. ValueError names file, line, column
    and value.
    """
    if not file.is_file():
        raise ValueError(f"jobs must be a file that is there, got {str(file)!r}")
    of_model, told = predictor.encoder.columns(), list[str]()
    text = "" if file.suffix == ".parquet" else text_of(file, N_BYTES_MAX)
    if text.lstrip().startswith("{"):
        table = _of_kueue(file, text, predictor.encoder.names, now_s, told)
    elif "JOBID|" in text.partition("\n")[0] + "|":
        table = _of_squeue(file, text, told)
    else:
        table = table_of(file, JOB_COLUMNS, (*of_model, *_OWNERS))
    if now_s is None:
        now_s = int(predictor.info()["training"].get("history_to_s", 0))
    for name, column in _ASSUMED.items():
        table.cells.setdefault(name, table.cells[column])
    ids = table.unique_ids("job_id")
    if not ids:
        raise ValueError(f"jobs must be at least one, got none in {table.file}")
    size = table.numbers("processors", _MOST_PROCESSORS)
    if (is_bad := (size < 1) | (size != np.floor(size))).any():
        row = int(np.argmax(is_bad))
        raise ValueError(f"{table.at(row)}: processors must be a whole number from 1 on, got {size[row]:g}")
    uptime, waited, limit = (np.array(table.optional_numbers(name, 0.0, MAX_UPTIME_S), np.float64)
                             for name in ("uptime_s", "waited_s", "limit_s"))
    has_no_wait = np.isnan(uptime) & np.isnan(waited)
    if has_no_wait.any():
        raise ValueError(f"{table.at(int(np.argmax(has_no_wait)))}: waited_s must be a number if uptime_s is missing, "
                         "got neither")
    told.append(unread_words(table, (*JOB_COLUMNS, *_OWNERS, *of_model)))
    is_kept = size <= n_processors
    for n, words in (
            (np.isnan(limit).sum(), "jobs have no limit: they count with a year"),
            ((uptime >= limit).sum(), "jobs have run past their limit: they count as ending in a second"),
            ((~is_kept).sum(), f"jobs ask for more than the machine's {n_processors} processors: left out")):
        told.append(f"{n} of {len(ids)} {words}" if n else "")
    limit = np.maximum(np.where(np.isnan(limit), _YEAR_S, limit), 1)
    clock_s = int(max(np.nanmax(np.append(uptime, 0)), np.nanmax(np.append(waited, 0)))) + 1  # no time is below 0
    runs = ~np.isnan(uptime)
    lives = lives_of(table, np.where(runs, uptime, 0.0), predictor, now_s)
    submission = np.where(runs, 0, clock_s - np.nan_to_num(waited)).astype(np.int64)
    begun = np.where(runs, clock_s - np.nan_to_num(uptime), -1).astype(np.int64)
    limit_s = np.rint(limit).astype(np.int64)
    now = QueueNow(clock_s, submission[is_kept], begun[is_kept], size[is_kept], limit_s[is_kept], n_processors,
                   pd.Index(ids)[is_kept])
    named = next((table.texts(name) for name in _OWNERS if name in table.cells), [None] * len(ids))
    told.append(unknown_words(lives))
    kept = [life for life, is_own in zip(lives, is_kept.tolist(), strict=True) if is_own]
    return Waiting(now, pd.factorize(np.array(named, object))[0][is_kept], kept, tuple(filter(None, told)))


def waiting_table(queue: Waiting, rules: QueueRules, n_draws: int, seed: int) -> pd.DataFrame:
    """A row for each job that waits, in the order of its median start: `job_id`, `processors`, `waited_s`, and seconds
    from now to its start, `low_s`, `median_s` and `high_s` (an 80 % interval), and `by_limits_s`, if every job ran to
    its limit, which is what `squeue --start` plans."""
    now = queue.now
    uptime_s = now.uptime_s.astype(float).tolist()
    left_s = drawn_left(lambda q: np.array([life.quantile(q, own) for life, own in zip(
        queue.lives, uptime_s, strict=True)]), n_draws, queue.owner, seed=seed)
    starts = np.quantile(start_times(now, rules, left_s), QUANTILES, axis=0)
    found = pd.DataFrame({
        "job_id": now.request_ids[now.waits], "processors": now.size[now.waits],
        "waited_s": now.now_s - now.submission_s[now.waits],
        **{name: np.rint(values).astype(np.int64) for name, values in zip(("low_s", "median_s", "high_s"), starts,
                                                                           strict=True)},
        "by_limits_s": start_times(now, rules, now.left_by_limit_s[None])[0]})
    return found.sort_values(["median_s", "high_s"], kind="stable", ignore_index=True)


def print_waiting(table: pd.DataFrame) -> None:
    """Print the table in hours."""
    if len(table) == 0:
        console.print("no job waits")
        return
    shown = FittedTable(
        "Start of the waiting jobs, hours from now",
        ("job", "proces-\nsors", "waits\nfor, h", "from", "median", "to", "by\nlimits"),
        "From, to: 80 % of the draws start between them. By limits: if each job ran to its limit, as squeue --start "
        "plans. Jobs that are submitted later are not counted: under an order that lets them pass, starts are later.",
        n_text=1, least=("by\nlimits", "waits\nfor, h"), wrapped=("job",))
    for row in table.to_dict("records"):
        shown.add_row(escape(str(row["job_id"])), f"{row['processors']:,}", *(f"{row[name] / 3_600:,.2f}" for name in (
            "waited_s", "low_s", "median_s", "high_s", "by_limits_s")))
    console.print(shown)


def write_waiting(table: pd.DataFrame, out: Path) -> None:
    """Write the table by the file's ending: .csv; .json, a list of objects; .prom, Prometheus text."""
    if out.suffix == ".json":
        text = json.dumps(table.to_dict("records"), indent=2) + "\n"
    elif out.suffix == ".prom":
        columns = {"0.1": "low_s", "0.5": "median_s", "0.9": "high_s", "limits": "by_limits_s"}
        samples = tuple(({"job": str(row["job_id"]), "quantile": label}, row[column])
                        for row in table.to_dict("records") for label, column in columns.items())
        about = "Seconds until a waiting job starts: quantiles, and by the limits."
        text = exposition([Metric("sojourn_job_start_seconds", "gauge", about, samples)])
    else:
        text = table.to_csv(index=False)
    with whole_file(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _of_squeue(file: Path, text: str, told: list[str]) -> SnapshotTable:
    """What SQUEUE printed, as a table of jobs. A job waits in the state PENDING and runs in those of SLURM_RUNNING;
    others are left out, and told. The moment is START_TIME and TIME of the running jobs; without any, the last
    SUBMIT_TIME."""
    lines = text.splitlines()
    header = [name.strip() for name in lines[0].split("|")]
    missing = [name for name in _SQUEUE_NEEDED if name not in header]
    if missing:
        raise ValueError(f"{file.name}, line 1: must have the fields {', '.join(missing)}, got {lines[0][:160]!r}; "
                         f"print it with: {SQUEUE}")
    rows: list[dict[str, str]] = []
    numbers: list[int] = []
    others: Counter[str] = Counter()
    for number, line in enumerate(lines[1:], 2):
        cells = [cell.strip() for cell in line.split("|", len(header) - 1)]
        if not line.strip() or cells == header:
            continue
        if len(cells) != len(header):
            raise ValueError(f"{file.name}, line {number}: must have {len(header)} fields as the header, got "
                             f"{line[:80]!r}")
        row = dict(zip(header, cells, strict=True))
        if "[" in row["JOBID"]:
            raise ValueError(f"{file.name}, line {number}: JOBID must be one job, got the array {row['JOBID'][:80]!r}; "
                             f"print it with: {SQUEUE}")
        if row["STATE"] == "PENDING" or row["STATE"] in SLURM_RUNNING:
            rows.append(row)
            numbers.append(number)
        else:
            others[row["STATE"]] += 1
    moments = [_read(file, number, row, "START_TIME", _moment) + _read(file, number, row, "TIME", _seconds)
               for number, row in zip(numbers, rows, strict=True) if row["STATE"] in SLURM_RUNNING]
    submitted = [_read(file, number, row, "SUBMIT_TIME", _moment) for number, row in zip(numbers, rows, strict=True)]
    now = max(moments or submitted or [0.0])
    if others:
        named = ", ".join(f"{n} {state}" for state, n in others.items())
        told.append(f"left out, neither waiting nor running: {named}")
    if submitted and not moments:
        told.append("no job runs: the latest SUBMIT_TIME counts as now")
    cells_of: dict[str, list[Any]] = {name: [] for name in JOB_COLUMNS}
    for number, row, at in zip(numbers, rows, submitted, strict=True):
        runs = row["STATE"] in SLURM_RUNNING
        limit = "" if row["TIME_LIMIT"] in _UNLIMITED else f"{_read(file, number, row, 'TIME_LIMIT', _seconds):.0f}"
        values = {"job_id": row["JOBID"], "processors": row["CPUS"], "limit_s": limit,
                  "waited_s": "" if runs else f"{max(now - at, 0.0):.0f}",
                  "uptime_s": f"{_read(file, number, row, 'TIME', _seconds):.0f}" if runs else ""}
        for name, value in values.items():
            cells_of[name].append(value)
    for name, column in _ATTRIBUTES.items():
        if name in header:
            cells_of[column] = [row[name] for row in rows]
    return SnapshotTable(file.name, cells_of, numbers, [], is_text=True)


def _of_kueue(file: Path, text: str, names: Sequence[str], now_s: int | None, told: list[str]) -> SnapshotTable:
    """What KUEUE printed, as a table of jobs; a job has the columns of a pod of its first pod set. names: texts that
    the model reads; one that no pod has is a label. The moment: now_s in Unix time, else the file's latest time."""
    try:
        document = json.loads(text)
        if document.get("kind") not in ("List", "WorkloadList"):
            raise ValueError(f"kind must be List or WorkloadList, got {shown_field(document.get('kind'))}")
        items = sequence(document, "items")
        is_own = [field(item, "kind") == "Workload" for item in items]
        found = [kueue_workload(item) for item, is_kept in zip(items, is_own, strict=True) if is_kept]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name}: {str(error)[:400]}; print it with: {KUEUE}") from None
    latest_s = max((each.newest_s for each in found if each.newest_s is not None), default=FIRST_POD_S)
    moment_s = latest_s if now_s is None or now_s < FIRST_POD_S else now_s
    if moment_s < latest_s:
        raise ValueError(f"now_s must be at least the latest time in {file.name}, {latest_s}, got {now_s}")
    reasons = [each.state if each.state in ("finished", "inactive") else "" if each.cores > 0 else "without cpu"
               for each in found]
    kept, others = [each for each, why in zip(found, reasons, strict=True) if not why], Counter(filter(None, reasons))
    others["of another kind"] = len(items) - len(found)
    for n, words in ((sum(each.state == "reserved" for each in kept),
                      "have a quota but are not admitted yet: they count as running since they have it"),
                     (sum(each.since_s is None for each in kept), "have no time: they count from now on"),
                     (sum(each.columns["gpu"] > 0 for each in kept),
                      "ask for GPUs, which do not count: the pool is of processors")):
        told.append(f"{n} of {len(kept)} workloads {words}" if n else "")
    told.append(f"left out: {', '.join(f'{n} {state}' for state, n in others.items() if n)}" if others.total() else "")
    ages = [moment_s - (moment_s if each.since_s is None else each.since_s) for each in kept]
    cells: dict[str, list[Any]] = {
        "job_id": [each.label for each in kept],
        "processors": [math.ceil(round(each.cores, 6)) for each in kept],
        "limit_s": [each.limit_s for each in kept],
        "waited_s": [age if each.state == "waits" else None for each, age in zip(kept, ages, strict=True)],
        "uptime_s": [None if each.state == "waits" else age for each, age in zip(kept, ages, strict=True)]}
    for name in kept[0].columns if kept else ():
        cells[name] = [each.columns[name] for each in kept]
    labels = [name for name in names if name not in cells]
    cells |= {name: [each.labels.get(name) for each in kept] for name in labels}
    cells["owner"] = [next((each.labels[name] for name in labels if name in each.labels),
                           f"{each.columns['namespace']}/{each.columns['queue']}") for each in kept]
    return SnapshotTable(file.name, cells, range(1, len(kept) + 1), [], is_text=False)


def _read(file: Path, number: int, row: dict[str, str], name: str, convert: Any) -> float:
    try:
        return float(convert(row[name]))
    except ValueError:
        raise ValueError(
            f"{file.name}, line {number}: {name} must be as squeue prints it, got {row[name][:80]!r}") from None


def _moment(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()


def _seconds(text: str) -> float:
    """Days, hours, minutes and seconds as Slurm prints them.

    >>> [_seconds(text) for text in ("2:05", "1:00:00", "1-00:00:30")]
    [125.0, 3600.0, 86430.0]
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(86_400 * days + 3_600 * hours + 60 * minutes + seconds)
