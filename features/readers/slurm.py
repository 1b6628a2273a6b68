"""Reads exports of Slurm's accounting: `sacct -P`, plain or gzipped.

`sacct_rows` are its lines as blocks of cells, without steps. `SacctExport` turns blocks into runs
of jobs, with refused rows by rule and notes. `tres` and `requested_gib` read lists of trackable
resources (`cpu=8,mem=32G,gres/gpu=2,node=1`) and requests of memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._cells import A_DURATION, MAX_NUMBER, Cells, durations_s, is_missing, sizes_gib
from sojourn.features.readers._ending import (
    Horizon,
    all_requests,
    cut_at,
    horizon_of,
    second_zero,
    since_start,
    trace_of,
    without_ended,
)
from sojourn.features.readers._rows import N_PROBED, TextRows, line_blocks
from sojourn.features.readers._stamps import (
    ChosenTimes,
    StampForm,
    checked_timezone,
    chosen_times,
    later_times_s,
    moment,
    stamp_form,
    stamps_s,
)
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_NEEDED = (("JobID",), ("State",), ("Start",), ("End",), ("AllocCPUS", "NCPUS", "AllocTRES", "ReqCPUS", "ReqTRES"))
_OWNERS = ("account", "user", "job_name")
_CATEGORIES = ("partition", "qos")
_SHARE_RECORDED = 0.5
"""A name column has no role if it is recorded for fewer of the kept runs, or fewer rows share their name."""


def read_slurm(path: str | Path, *, timezone: str | None = None, censor_cut: bool = False,
               horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one export of `sacct -P`, fields in any order; a run is a request, so a requeued job is several.

    Arrival is Start, departure End; a run without an end runs at the horizon. Time 0 is the first
    end, since an export from a day on has the runs of that time, but no earlier ended ones; if no
    time is later, the first start. See docs/traces/slurm_and_swf.md for details.

    timezone: IANA name of the cluster's zone; None = UTC. censor_cut: add `is_cut` (bool):
    cancelled, timed out, preempted, requeued or lost with its node, so that the observed end is a
    competing one; `departure_s` stays. horizon_s: end of observation, seconds on the trace's clock.

    Raises OSError if the file cannot be opened, and ValueError with the command to type if it is no such export.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "sacct.txt"
    >>> _ = file.write_text("JobID|State|Start|End|Elapsed|AllocCPUS|ReqMem|Timelimit\\n"
    ...     "7|COMPLETED|2026-01-05T03:00:00|2026-01-05T04:00:00|01:00:00|4|2Gc|1-00:00:00\\n"
    ...     "8_1|RUNNING|2026-01-05T04:30:00|Unknown|00:30:00|1|8G|UNLIMITED\\n"
    ...     "9|PENDING|Unknown|Unknown|00:00:00|1|8G|UNLIMITED\\n")
    >>> trace, report = read_slurm(file)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "mem_gib", "requested_s"]].values.tolist()
    [['7', 1767582000, 1767585600, 8.0, 86400.0], ['8_1', 1767587400, <NA>, 8.0, nan]]
    >>> trace.span_s, dict(report.refused)
    (3600, {'never ran (pending)': 1})
    """
    source, ledger = Path(path), ReadLedger()
    export = SacctExport(source, checked_timezone(timezone) if timezone else None)
    chunks = [export.runs(rows) for rows in sacct_rows(source, ledger, _NEEDED)]
    runs = all_requests([chunk for chunk in chunks if len(chunk)], source, "run of a job", ledger)
    runs = _once(runs, ledger, source.name)
    runs, origin_s = _on_clock(runs, ledger, source.name)
    last_s = runs["last_s"].to_numpy(np.int64)
    if horizon_s is None and int(last_s.max(initial=0)) <= 0:
        raise ValueError(f"{source}: the last time must lie after the first, got one moment alone")
    horizon = horizon_of(last_s, since_start(horizon_s, origin_s, int(last_s.max(initial=0))))
    runs = cut_at(runs.drop(columns="last_s"), horizon, ledger, source.name)
    roles = _roles(runs)
    if censor_cut:
        runs["is_cut"] = runs["state"].isin(CUT).to_numpy(bool) & runs["departure_s"].notna().to_numpy(bool)
    if not (runs["gpu"] > 0).any():
        del runs["gpu"]
    if runs["n_nodes"].isna().all():
        del runs["n_nodes"]
    export.tell(runs, horizon, origin_s, ledger)
    return trace_of(runs, horizon.time_s, roles, ledger, _meta(export, runs, origin_s), others=export.at_end_names(),
                    is_event_log=True)


SLURM = Reader(
    read_slurm,
    path="what `sacct -P` prints of Slurm's accounting, plain or gzipped",
    arrival="Start",
    departure="End; none where the run still goes on",
    owners="`account`, `user`, `job_name`",
    categories="`partition`, `qos`",
    numbers="`requested_s`, `requested_cores`",
    no_role="`submit_s`, `n_nodes`, `state`, `exit_code`, `suspended_s`, `is_cut`",
)


def _once(runs: pd.DataFrame, ledger: ReadLedger, file: str) -> pd.DataFrame:
    """Each run of a job once, further runs of a job named JOB/2, JOB/3, by their starts.

    If a run is there several times, as in joined exports, the latest line is kept.
    """
    is_several = runs["request_id"].duplicated(keep=False).to_numpy(bool)
    if not is_several.any():
        return runs
    several = runs[is_several].assign(row=np.flatnonzero(is_several), has_end=runs["departure_s"].notna())
    several = several.sort_values(["request_id", "arrival_s", "has_end", "last_s"], kind="stable")
    is_again = several.duplicated(["request_id", "arrival_s"], keep="last").to_numpy(bool)
    again = several[is_again].sort_values("row")
    ledger.refuse("run twice", file, again["line"].to_numpy(np.int64), [
        f"{name}: {moment(int(start))}" for name, start in zip(again["request_id"], again["arrival_s"], strict=True)])
    kept_runs = several[~is_again]
    n_before = kept_runs.groupby("request_id", sort=False).cumcount().to_numpy(np.int64)
    ids = [name if n == 0 else f"{name}/{n + 1}" for name, n in zip(kept_runs["request_id"], n_before, strict=True)]
    is_later = n_before > 0
    if is_later.any():
        ledger.note(f"{int(is_later.sum()):,} further runs of requeued jobs, each a request of its own")
    names = runs["request_id"].to_numpy(object, copy=True)
    names[kept_runs["row"].to_numpy()] = ids
    runs = runs.assign(request_id=pd.Series(names, dtype="str", index=runs.index))
    return runs.drop(index=runs.index[again["row"].to_numpy()]).reset_index(drop=True)


def _on_clock(runs: pd.DataFrame, ledger: ReadLedger, file: str) -> tuple[pd.DataFrame, int]:
    """The runs on the trace's clock, and its second 0: the first end, or the first start if no time is later."""
    origin_s = second_zero(runs)
    for name in ("arrival_s", "departure_s", "last_s", *(["submit_s"] if "submit_s" in runs else [])):
        runs[name] = pd.Series(runs[name] - origin_s, dtype="Float64").astype("Int64")
    runs = without_ended(runs, "request_id", ledger, file)
    if "submit_s" in runs:
        runs["submit_s"] = runs["submit_s"].astype(np.int64)
    return runs, origin_s


def _roles(runs: pd.DataFrame) -> Roles:
    """The roles of recurring names; other name columns are dropped in place."""
    recorded = []
    for name in (*_OWNERS, *_CATEGORIES):
        if name not in runs:
            continue
        n_of = runs[name].value_counts()
        is_recurring = n_of.drop("missing", errors="ignore")
        n_shared = int(is_recurring[is_recurring > 1].sum())
        if len(n_of) > 1 and n_shared >= _SHARE_RECORDED * len(runs):
            recorded.append(name)
        else:
            del runs[name]
    numbers = ("requested_s", *(["requested_cores"] if "requested_cores" in runs else []))
    return Roles(owners=tuple(name for name in _OWNERS if name in recorded),
                 categories=tuple(name for name in _CATEGORIES if name in recorded), numbers=numbers)


def _meta(export: SacctExport, runs: pd.DataFrame, origin_s: int) -> dict[str, Any]:
    at_end = [*export.at_end_names(), *(["suspended_s"] if "suspended_s" in runs else [])]
    meta: dict[str, Any] = {
        "source": f"Slurm accounting, {export.path.name}", "licence": "the user's own", "known_at_end": at_end,
        "start_unix_s": origin_s, "time_zone": export.timezone or "UTC",
        "not_read": export.unread(),
        "spans_hosts": True,  # a job's cores may be on several nodes
    }
    if "n_nodes" in runs:
        meta["hosts_column"] = "n_nodes"
    if "submit_s" in runs:
        meta["submit_column"] = "submit_s"
    return meta


COMMAND = ("sacct -a -X -D -P -S 2026-01-01 -o JobID,JobName,User,Account,Partition,QOS,Submit,Start,End,Elapsed,"
           "Suspended,State,ExitCode,Timelimit,ReqCPUS,AllocCPUS,ReqMem,NNodes,AllocTRES")
"""The command for an export with all fields."""
SEPARATORS = ("|", ";", "\t")
NAME_REPAIR = "separator in JobName: cells joined"
_TEXTS = frozenset(("comment", "admincomment", "systemcomment", "constraints", "extra", "reason", "submitline", "wckey",
                    "workdir"))
"""Fields that may have separators, besides JobName."""
_MAX_SURPLUS = 20


def sacct_rows(path: Path, ledger: ReadLedger, needed: Sequence[Sequence[str]]) -> Iterator[TextRows]:
    """Blocks of rows in file order, fields under their names in lower case.

    needed: the header must have at least one field of each. Lines of steps (`12.batch`) count as
    read and are dropped; a repeated header, in joined files, is no row. `sacct` does not quote: a
    row with too many cells has the separator in its job name, if no other field is free text.

    Raises OSError if the file cannot be opened, and ValueError with the command to type if it is no such export.
    """
    header: list[str] = []
    names: list[str] = []
    separator = SEPARATORS[0]
    n_rows = n_good = n_steps = 0
    for first_line, lines in line_blocks(path):
        raw, cells, number = [], [], []
        wrong: list[tuple[int, str]] = []
        n_joined, n_steps_before = 0, n_steps
        for at, line in enumerate(lines, first_line):
            if not line or line.isspace():
                continue
            if not names:
                line = line.removeprefix("\ufeff")
                separator = max(SEPARATORS, key=line.count)
                header = line.split(separator)
                names = _checked_names(path, at, header, needed)
                id_at = names.index("jobid")
                name_at = names.index("jobname") if "jobname" in names and not _TEXTS & set(names) else -1
                continue
            fields = line.split(separator)
            surplus = len(fields) - len(names)
            if 0 < surplus <= _MAX_SURPLUS and name_at >= 0:
                end = name_at + surplus + 1
                fields[name_at:end] = [separator.join(fields[name_at:end])]
                n_joined += 1
                surplus = 0
            if surplus:
                wrong.append((at, line))
            elif "." in fields[id_at]:
                n_steps += 1
            elif fields != header:
                raw.append(line)
                cells.append(fields)
                number.append(at)
        n_rows += len(raw) + len(wrong)
        n_good += len(raw)
        if not n_good and not n_steps and n_rows >= N_PROBED:
            raise _no_row_fits(path, names, wrong[0][0], wrong[0][1])
        ledger.read(len(raw) + len(wrong) + n_steps - n_steps_before)
        ledger.repair(NAME_REPAIR, n_joined)
        ledger.refuse(f"not {len(names)} columns", path.name, np.array([at for at, _ in wrong], np.int64),
                      [line for _, line in wrong])
        if raw:
            yield TextRows(path.name, names, np.array(number, np.int64), raw, cells, ledger)
        elif wrong and not n_good and not n_steps:
            last = wrong[0]
    if not names:
        raise ValueError(f"{path}: line 1 must be a header of `sacct -P`, got an empty file; export it with: {COMMAND}")
    if n_steps:
        ledger.note(f"{n_steps:,} lines of steps left out (sacct -X lists none)")
    if not n_good and n_rows and not n_steps:
        raise _no_row_fits(path, names, last[0], last[1])
    if not n_good:
        raise ValueError(f"{path}: must hold at least one job below its header, got none; export it with: {COMMAND}")


def _checked_names(path: Path, line: int, header: list[str], needed: Sequence[Sequence[str]]) -> list[str]:
    names = [name.strip().casefold() for name in header]
    if "jobid" not in names and "jobidraw" in names:
        names[names.index("jobidraw")] = "jobid"
    missing = [" or ".join(any_of) for any_of in needed if not any(name.casefold() in names for name in any_of)]
    got = "|".join(header)[:160]
    if missing:
        hint = "" if len(names) > 1 else " (separated by |: with -P)"
        raise ValueError(f"{path}: line {line} must have the fields {', '.join(missing)}{hint}, got {got!r}; export it "
                         f"with: {COMMAND}")
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: line {line} must have each field once, got {twice[0]!r} twice in {got!r}")
    return names


def _no_row_fits(path: Path, names: Sequence[str], line: int, raw: str) -> ValueError:
    return ValueError(f"{path}: line {line} must have {len(names)} columns as the header, got {raw[:80]!r}")


_FIELDS = {"account": "account", "user": "user", "job_name": "jobname", "partition": "partition", "qos": "qos"}
_READ = frozenset((
    *_FIELDS.values(), "jobid", "submit", "start", "end", "elapsed", "elapsedraw", "suspended", "state", "exitcode",
    "timelimit", "timelimitraw", "reqcpus", "alloccpus", "ncpus", "reqmem", "nnodes", "allocnodes", "reqnodes",
    "alloctres", "reqtres", "nodelist"))  # fmt: skip
_WAITING = ("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
SLURM_RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT", "STOPPED")
CUT = ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL", "REQUEUED", "REVOKED", "RESIZING", "BOOT_FAIL")
_OWN = ("COMPLETED", "FAILED", "OUT_OF_MEMORY", "LAUNCH_FAILED", "RECONFIG_FAIL")
_JOB_ID = r"[0-9]+(?:_(?:[0-9]+|\[.*\]))?(?:\+[0-9]+)?"
_NO_NAME = frozenset({"", "(null)", "none", "n/a"})
_HOUR_S = 3_600
_MAX_SIZE = 1e9


@dataclass(slots=True)
class SacctExport:
    """Decisions from the first blocks of an export for all blocks, and counts. n_chosen: int64
    (3,), runs with a time in a repeated hour, resolved by Elapsed, by Submit, and by neither.
    """

    path: Path
    timezone: str | None
    form: StampForm | None = None
    fields: list[str] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    n_moved: int = 0
    n_chosen: np.ndarray = field(default_factory=lambda: np.zeros(3, np.int64))

    def runs(self, rows: TextRows) -> pd.DataFrame:
        """The kept runs of one block, times in Unix seconds; `last_s` is the last time with data on a run."""
        self.fields = list(rows.names)
        state, ids = _states(rows), rows.text("jobid")
        start, end = self._times(rows, "start"), self._times(rows, "end")
        cores, gpu, mem_gib, nodes, is_placed = _sizes(rows)
        is_job = pd.Series(ids, dtype="str").str.fullmatch(_JOB_ID).to_numpy(bool)
        rows.refuse("JobID must be a job's", ~is_job, "jobid")
        rows.refuse("State missing", state == "", "state")
        rows.refuse("never ran (pending)", np.isin(state, _WAITING))
        is_at_once = (start.values == end.values) & ~is_placed
        rows.refuse("never ran (cancelled before its start)", np.isin(state, CUT) & (start.is_missing | is_at_once))
        for name, stamps in (("start", start), ("end", end)):
            rows.refuse(f"{name.capitalize()} must be a time", stamps.is_bad, name)
        rows.refuse("never ran (Start missing)", start.is_missing)
        rows.refuse("no cores", ~(cores > 0))
        spent_s = self._spent_s(rows)
        is_running = np.isin(state, SLURM_RUNNING) | end.is_missing
        submit = self._times(rows, "submit") if "submit" in rows.names else None
        resolved = self._chosen(rows, start, end, submit, np.where(is_running, np.nan, spent_s))
        began = resolved.start_s
        departure = self._without_clock_change(rows, began, resolved.end_s, spent_s, is_running)
        rows.refuse("End before Start", departure < began, "end")
        rows.repair("still running, with an end (sacct -T): censored", is_running & ~np.isnan(departure))
        last_s = np.where(np.isnan(departure), began + np.nan_to_num(np.maximum(spent_s, 0)), departure)
        columns: dict[str, Any] = {}
        if submit is not None:
            rows.refuse("Submit must be a time", submit.is_bad, "submit")
            submitted = np.where(submit.is_missing, began, submit.values)
            ahead = submitted - began
            rows.refuse("Start before Submit", ahead > _HOUR_S, "submit")
            rows.repair("Start at most an hour before Submit (clocks changed): start taken", ahead > 0)
            rows.repair("Submit missing: start taken", submit.is_missing)
            columns["submit_s"] = np.minimum(submitted, began)
        columns |= {"cpu_cores": cores, "mem_gib": np.nan_to_num(mem_gib), "gpu": np.nan_to_num(gpu), "n_nodes": nodes}
        rows.repair("memory missing: 0 taken", np.isnan(mem_gib))
        columns["requested_s"] = _limits_s(rows)
        if "reqcpus" in rows.names:
            requested = counts(rows.text("reqcpus"))
            columns["requested_cores"] = np.where(requested > 0, requested, np.nan)
        if "suspended" in rows.names:
            columns["suspended_s"] = np.nan_to_num(_durations(rows, "suspended"))
        is_kept = rows.is_kept
        names = {name: rows.text(column) for name, column in _FIELDS.items() if column in rows.names}
        names = {name: np.where(is_missing(cells, _NO_NAME), "missing", cells) for name, cells in names.items()}
        if "exitcode" in rows.names:
            names["exit_code"] = rows.text("exitcode")
        names["state"] = state
        self.states.update(Counter(state[is_kept].tolist()))
        reasons = (resolved.is_by_spent, resolved.is_by_submit, resolved.is_left)
        self.n_chosen += np.array([int((mask & is_kept).sum()) for mask in reasons])
        return pd.DataFrame({
            "line": rows.line[is_kept],
            "request_id": pd.Series(ids[is_kept], dtype="str"),
            "arrival_s": np.floor(began[is_kept]),
            "departure_s": np.floor(np.where(is_running, np.nan, departure)[is_kept]),
            "last_s": np.floor(last_s[is_kept]),
            **{name: values[is_kept] for name, values in columns.items()},
            **{name: pd.Series(cells[is_kept], dtype="str") for name, cells in names.items()},
        })  # fmt: skip

    def at_end_names(self) -> tuple[str, ...]:
        """The columns of names that are known only at the end."""
        return ("state", *(["exit_code"] if "exitcode" in self.fields else []))

    def tell(self, runs: pd.DataFrame, horizon: Horizon, origin_s: int, ledger: ReadLedger) -> None:
        if self.timezone is None:
            ledger.note("check: times have no zone and are taken as UTC (--timezone Europe/Berlin sets the cluster's)")
            if self.n_moved:
                ledger.note(f"check: of {self.n_moved:,} runs, the end is an hour off the elapsed time: the cluster's "
                            "clocks changed (--timezone)")
        if self.n_chosen.any():
            by_spent, by_submit, n_left = self.n_chosen.tolist()
            ledger.note(f"{'check: ' if n_left else ''}{by_spent + by_submit + n_left:,} runs begin or end in an hour "
                        f"that a change of clocks repeats: {by_spent:,} decided by Elapsed, {by_submit:,} by Submit, "
                        f"{n_left:,} by neither and taken the first time")
        unknown = {name: n for name, n in self.states.items() if name not in (*SLURM_RUNNING, *CUT, *_OWN)}
        if unknown:
            ledger.note(f"check: states that are not known, taken as ended: {', '.join(sorted(unknown))[:200]}")
        if not {"elapsed", "elapsedraw"} & set(self.fields):
            ledger.note("check: no field Elapsed: when the export was made is not known, and the last time is taken; "
                        "runs across a change of the cluster's clocks may be an hour too long or too short")
        elif "suspended" not in self.fields:
            ledger.note("check: no field Suspended: a run that is an hour longer than its Elapsed may have been "
                        "suspended, or the cluster's clocks changed; it is left as Start and End say")
        n_before = int((runs["arrival_s"] < 0).sum())
        ledger.note(f"second 0 is {moment(origin_s)}; {n_before:,} runs began before it")
        n_running = int(runs["departure_s"].isna().sum())
        ledger.note(f"{n_running:,} of {len(runs):,} runs have no end and still run at the horizon, "
                    f"{horizon.time_s:,} s = {moment(origin_s + horizon.time_s)}")
        if "suspended_s" in runs and (runs["suspended_s"] > 0).any():
            ledger.note(f"{int((runs['suspended_s'] > 0).sum()):,} runs were suspended; that time is in their lifetime")
        unread = self.unread()
        if unread:
            ledger.note(f"not read: {', '.join(unread)}")

    def unread(self) -> list[str]:
        return [name for name in self.fields if name and name not in _READ]

    def _times(self, rows: TextRows, name: str) -> Cells:
        cells = rows.text(name)
        if self.form is None:
            try:
                self.form = stamp_form(name.capitalize(), cells)
            except ValueError as error:
                raise ValueError(f"{self.path}: {error}") from error
            if self.form is not None and not self.form.is_dated:
                shown = next(cell for cell in cells if cell and not is_missing([cell])[0])
                raise ValueError(f"{self.path}: {name.capitalize()} must be dates (2026-01-05T03:04:05), got {shown!r}")
        if self.form is None:
            return Cells(np.full(len(cells), np.nan), np.ones(len(cells), bool), np.zeros(len(cells), bool))
        return stamps_s(cells, self.form, self.timezone)

    def _chosen(self, rows: TextRows, start: Cells, end: Cells, submit: Cells | None,
                spent_s: np.ndarray) -> ChosenTimes:
        """Starts and ends; the rest of the row resolves those in a repeated hour."""
        none = np.full(len(rows.raw), np.nan)
        later_start, later_end = (
            none if self.form is None else later_times_s(rows.text(name), first.values, self.form, self.timezone)
            for name, first in (("start", start), ("end", end)))
        return chosen_times(start.values, end.values, later_start, later_end, spent_s,
                            none if submit is None else submit.values)

    def _spent_s(self, rows: TextRows) -> np.ndarray:
        """Seconds from start to end, or to the export, from the fields of durations; NaN without Elapsed."""
        for name in ("elapsed", "elapsedraw"):
            if name in rows.names:
                spent_s = _durations(rows, name)
                if "suspended" in rows.names:
                    spent_s = spent_s + np.nan_to_num(_durations(rows, "suspended"))
                return spent_s
        return np.full(len(rows.raw), np.nan)

    def _without_clock_change(self, rows: TextRows, start: np.ndarray, departure: np.ndarray, spent_s: np.ndarray,
                              is_running: np.ndarray) -> np.ndarray:
        """Ends; if one differs by an hour from start + elapsed time, that sum replaces it."""
        off = departure - start - spent_s
        is_moved = (off == -_HOUR_S) | ((off == _HOUR_S) & ("suspended" in rows.names))
        is_moved &= ~is_running
        self.n_moved += int((rows.is_kept & is_moved).sum())
        rows.repair("End an hour off Elapsed (clocks changed): start + elapsed taken", is_moved)
        return np.where(is_moved, start + spent_s, departure)


def _states(rows: TextRows) -> np.ndarray:
    """First words of the states (`CANCELLED by 1000`), in upper case, as an object array."""
    codes, kinds = pd.factorize(rows.text("state"))
    words = [(each.split() or [""])[0].upper().rstrip("+") for each in kinds.tolist()]
    return np.array(["" if word in ("UNKNOWN", "NONE") else word for word in words], object)[codes]


def _sizes(rows: TextRows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cores, GPUs, GiB and nodes (NaN = missing), and whether the run was placed. A number of nodes
    below 1 or above the number of cores is invalid.
    """
    nothing = np.full(len(rows.raw), np.nan)
    cores, gpu, mem_gib, nodes, asked_nodes = (nothing.copy() for _ in range(5))
    is_placed = np.full(len(rows.raw), bool({"alloctres", "nodelist"} & set(rows.names)))
    for name, title in (("alloctres", "AllocTRES"), ("reqtres", "ReqTRES")):
        if name in rows.names:
            cells = rows.text(name)
            amounts = tres(cells)
            rows.refuse(f"{title} must be cpu=N,mem=N,...", amounts.is_bad, name)
            if name == "alloctres":
                is_placed &= cells != ""
                nodes = amounts.node
            else:
                asked_nodes = amounts.node
            has_cpu = ~np.isnan(cores)
            cores = np.where(has_cpu, cores, amounts.cpu)
            mem_gib = np.where(np.isnan(mem_gib), amounts.mem_gib, mem_gib)
            gpu = np.where(has_cpu, gpu, amounts.gpu)  # from the list with the cores
    for name in ("alloccpus", "ncpus", "reqcpus"):
        if name in rows.names:
            cells = rows.text(name)
            cpus = counts(cells)
            rows.refuse("CPUs must be a number", np.isnan(cpus) & (cells != ""), name)
            cores = np.where(cores > 0, cores, cpus)
    if "nodelist" in rows.names:
        is_placed &= rows.text("nodelist") != "None assigned"
    for name in ("allocnodes", "nnodes", "reqnodes"):
        if name in rows.names:
            nodes = np.where(nodes > 0, nodes, counts(rows.text(name)))
    nodes = np.where(nodes > 0, nodes, asked_nodes)
    if "reqmem" in rows.names:
        requested, is_bad = requested_gib(rows.text("reqmem"), cores, nodes)
        rows.refuse("ReqMem must be a size of memory", is_bad, "reqmem")
        mem_gib = np.where(np.isnan(mem_gib), requested, mem_gib)
    for size in (cores, gpu, mem_gib):
        rows.refuse("size above 1e9", size > _MAX_SIZE)
    return cores, gpu, mem_gib, np.where((nodes >= 1) & (nodes <= cores), nodes, np.nan), is_placed


def _limits_s(rows: TextRows) -> np.ndarray:
    for name, title in (("timelimit", "Timelimit"), ("timelimitraw", "TimelimitRaw")):
        if name in rows.names:
            limits = durations_s(rows.text(name), unit_s=60, pair="mm:ss")
            rows.refuse(f"{title} must be {A_DURATION}", limits.is_bad, name)
            return np.where(limits.values > 0, limits.values, np.nan)
    return np.full(len(rows.raw), np.nan)


def _durations(rows: TextRows, name: str) -> np.ndarray:
    """Seconds; NaN where missing. Rows with another cell are refused."""
    durations = durations_s(rows.text(name), pair="mm:ss")
    rows.refuse(f"{name.capitalize()} must be {A_DURATION}", durations.is_bad, name)
    return durations.values


_COUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?)([KMG]?)")
_FACTORS = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}


@dataclass(frozen=True, slots=True)
class Tres:
    """Amounts of n lists, float64, shape (n,), NaN where a list lacks it. is_bad: bool, not a list."""

    cpu: np.ndarray
    mem_gib: np.ndarray
    gpu: np.ndarray
    node: np.ndarray
    is_bad: np.ndarray


def tres(text: Sequence[str] | np.ndarray) -> Tres:
    """The amounts of lists of TRES; GPUs by their total, or the sum over their types without a total.

    >>> amounts = tres(["billing=8,cpu=8,mem=32G,gres/gpu=2,node=1", "cpu=1,gres/gpu:a100=1,gres/gpu:v100=2", "", "x"])
    >>> amounts.cpu.tolist(), amounts.mem_gib.tolist(), amounts.gpu.tolist()
    ([8.0, 1.0, nan, nan], [32.0, nan, nan, nan], [2.0, 3.0, nan, nan])
    >>> amounts.is_bad.tolist()
    [False, False, False, True]
    """
    codes, kinds = pd.factorize(np.asarray(text, object))
    lists = [_pairs(each) for each in kinds]
    mem = sizes_gib([pairs.get("mem", "") for pairs in lists], unit="MiB")
    cpu, gpu, node = (counts([pairs.get(name, "") for pairs in lists]) for name in ("cpu", "gres/gpu", "node"))
    is_bad = np.array(["" in pairs for pairs in lists], bool) | mem.is_bad
    for values, name in ((cpu, "cpu"), (gpu, "gres/gpu"), (node, "node")):
        is_bad |= np.isnan(values) & np.array([name in pairs for pairs in lists], bool)
    return Tres(*(np.asarray(values)[codes] for values in (cpu, mem.values, gpu, node, is_bad)))


def counts(text: Sequence[str] | np.ndarray) -> np.ndarray:
    """Plain counts as float64, NaN where a cell is none; `1K` is 1024, as in sacct.

    >>> counts(["8", "1K", "", "-1", "inf"]).tolist()
    [8.0, 1024.0, nan, nan, nan]
    """
    codes, kinds = pd.factorize(np.asarray(text, object))
    values = np.full(len(kinds), np.nan)
    for idx, each in enumerate(kinds):
        match = _COUNT.fullmatch(str(each).strip())
        if match:
            values[idx] = float(match[1]) * _FACTORS[match[2]]
    values[values > MAX_NUMBER] = np.nan
    return values[codes]


def requested_gib(text: Sequence[str] | np.ndarray, cores: np.ndarray,
                  nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ReqMem as GiB of a whole job, NaN where missing; and a mask of bad cells. Shapes (n,).

    `4Gc` is of each core, `16Gn` of each node, `32G` of the job (Slurm 21.08 and later); plain numbers are MiB.

    >>> requested_gib(["4Gc", "16Gn", "32G", "2048", "0n", "?"], np.full(6, 2.0), np.full(6, 3.0))[0].tolist()
    [8.0, 48.0, 32.0, 2.0, nan, nan]
    """
    codes, kinds = pd.factorize(np.asarray(text, object))
    plain = [str(each).strip() for each in kinds]
    is_amount = [bool(re.search(r"[0-9]", each)) for each in plain]
    per = np.array([each[-1] if each[-1:] in ("c", "n") else "" for each in plain], object)
    sizes = sizes_gib([each.rstrip("cn") if is_there else "" for each, is_there in zip(plain, is_amount, strict=True)],
                      unit="MiB")
    is_none = is_missing(plain) | np.array([each in ("?", "n", "c") for each in plain], bool)
    is_bad = sizes.is_bad | ~(np.array(is_amount, bool) | is_none)
    values = np.where(sizes.values > 0, sizes.values, np.nan)[codes]
    factor = np.where(per[codes] == "c", cores, np.where(per[codes] == "n", np.nan_to_num(nodes, nan=1.0), 1.0))
    return values * factor, is_bad[codes]


def _pairs(text: str) -> dict[str, str]:
    """Amounts by name; the name "" if the text is no list of TRES."""
    amounts: dict[str, str] = {}
    typed = 0.0
    for pair in text.split(",") if text.strip() else ():
        name, is_pair, amount = pair.strip().partition("=")
        if not is_pair:
            return {"": text}
        amounts[name] = amount
        if name.startswith("gres/gpu:"):
            typed += float(counts([amount])[0])
    if typed and "gres/gpu" not in amounts:
        amounts["gres/gpu"] = str(typed)
    return amounts
