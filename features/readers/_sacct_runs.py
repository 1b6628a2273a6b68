"""Blocks of a `sacct -P` export as runs of jobs: what each field says, rows refused by rule, what to tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._cells import A_DURATION, Cells, durations_s, is_missing
from sojourn.features.readers._horizon import Horizon
from sojourn.features.readers._repeated_hour import ChosenTimes, chosen_times
from sojourn.features.readers._stamps import StampForm, later_times_s, moment, stamp_form, stamps_s
from sojourn.features.readers._text_rows import TextRows
from sojourn.features.readers._tres import counts, requested_gib, tres

_FIELDS = {"account": "account", "user": "user", "job_name": "jobname", "partition": "partition", "qos": "qos"}
_READ = frozenset((
    *_FIELDS.values(), "jobid", "submit", "start", "end", "elapsed", "elapsedraw", "suspended", "state", "exitcode",
    "timelimit", "timelimitraw", "reqcpus", "alloccpus", "ncpus", "reqmem", "nnodes", "allocnodes", "reqnodes",
    "alloctres", "reqtres", "nodelist"))  # fmt: skip
_WAITING = ("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT", "STOPPED")
CUT = ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL", "REQUEUED", "REVOKED", "RESIZING", "BOOT_FAIL")
_OWN = ("COMPLETED", "FAILED", "OUT_OF_MEMORY", "LAUNCH_FAILED", "RECONFIG_FAIL")
_JOB_ID = r"[0-9]+(?:_(?:[0-9]+|\[.*\]))?(?:\+[0-9]+)?"
_NO_NAME = frozenset({"", "(null)", "none", "n/a"})
_HOUR_S = 3_600
_MAX_SIZE = 1e9


@dataclass(slots=True)
class SacctExport:
    """What the first blocks of an export decide for all others, and what is counted on the way.

    n_chosen: int64 (3,), runs with a time in a repeated hour, decided by Elapsed, by Submit, and by neither.
    """

    path: Path
    timezone: str | None
    form: StampForm | None = None
    fields: list[str] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    n_moved: int = 0
    n_chosen: np.ndarray = field(default_factory=lambda: np.zeros(3, np.int64))

    def runs(self, rows: TextRows) -> pd.DataFrame:
        """The kept runs of one block, times in Unix seconds; `last_s` is the last time at which a run was seen."""
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
        for name, found in (("start", start), ("end", end)):
            rows.refuse(f"{name.capitalize()} must be a time", found.is_bad, name)
        rows.refuse("never ran (Start missing)", start.is_missing)
        rows.refuse("no cores", ~(cores > 0))
        spent_s = self._spent_s(rows)
        is_running = np.isin(state, _RUNNING) | end.is_missing
        submit = self._times(rows, "submit") if "submit" in rows.names else None
        chosen = self._chosen(rows, start, end, submit, np.where(is_running, np.nan, spent_s))
        began = chosen.start_s
        departure = self._without_clock_change(rows, began, chosen.end_s, spent_s, is_running)
        rows.refuse("End before Start", departure < began, "end")
        rows.repair("still running, with an end (sacct -T): censored", is_running & ~np.isnan(departure))
        seen = np.where(np.isnan(departure), began + np.nan_to_num(np.maximum(spent_s, 0)), departure)
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
            asked = counts(rows.text("reqcpus"))
            columns["requested_cores"] = np.where(asked > 0, asked, np.nan)
        if "suspended" in rows.names:
            columns["suspended_s"] = np.nan_to_num(_durations(rows, "suspended"))
        kept = rows.is_kept
        names = {name: rows.text(column) for name, column in _FIELDS.items() if column in rows.names}
        names = {name: np.where(is_missing(cells, _NO_NAME), "missing", cells) for name, cells in names.items()}
        if "exitcode" in rows.names:
            names["exit_code"] = rows.text("exitcode")
        names["state"] = state
        self.states.update(Counter(state[kept].tolist()))
        decided = (chosen.is_by_spent, chosen.is_by_submit, chosen.is_left)
        self.n_chosen += np.array([int((mask & kept).sum()) for mask in decided])
        return pd.DataFrame({
            "line": rows.line[kept],
            "request_id": pd.Series(ids[kept], dtype="str"),
            "arrival_s": np.floor(began[kept]),
            "departure_s": np.floor(np.where(is_running, np.nan, departure)[kept]),
            "last_s": np.floor(seen[kept]),
            **{name: values[kept] for name, values in columns.items()},
            **{name: pd.Series(cells[kept], dtype="str") for name, cells in names.items()},
        })  # fmt: skip

    def at_end_names(self) -> tuple[str, ...]:
        """The columns of names that are known only at the end."""
        return ("state", *(["exit_code"] if "exitcode" in self.fields else []))

    def tell(self, runs: pd.DataFrame, horizon: Horizon, origin_s: int, ledger: ReadLedger) -> None:
        """What a reader of the report should know."""
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
        unknown = {name: n for name, n in self.states.items() if name not in (*_RUNNING, *CUT, *_OWN)}
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
        """Fields of the header that are not read."""
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
        """Starts and ends, those of a repeated hour as the rest of the row says."""
        none = np.full(len(rows.raw), np.nan)
        later_start, later_end = (
            none if self.form is None else later_times_s(rows.text(name), first.values, self.form, self.timezone)
            for name, first in (("start", start), ("end", end)))
        return chosen_times(start.values, end.values, later_start, later_end, spent_s,
                            none if submit is None else submit.values)

    def _spent_s(self, rows: TextRows) -> np.ndarray:
        """Seconds from start to end, or to the export, by the fields of durations; NaN without Elapsed."""
        for name in ("elapsed", "elapsedraw"):
            if name in rows.names:
                found = _durations(rows, name)
                if "suspended" in rows.names:
                    found = found + np.nan_to_num(_durations(rows, "suspended"))
                return found
        return np.full(len(rows.raw), np.nan)

    def _without_clock_change(self, rows: TextRows, start: np.ndarray, departure: np.ndarray, spent_s: np.ndarray,
                              is_running: np.ndarray) -> np.ndarray:
        """Ends, where they are one hour off the elapsed time replaced by what that says."""
        off = departure - start - spent_s
        is_moved = (off == -_HOUR_S) | ((off == _HOUR_S) & ("suspended" in rows.names))
        is_moved &= ~is_running
        self.n_moved += int((rows.is_kept & is_moved).sum())
        rows.repair("End an hour off Elapsed (clocks changed): start + elapsed taken", is_moved)
        return np.where(is_moved, start + spent_s, departure)


def _states(rows: TextRows) -> np.ndarray:
    """First words of the states (`CANCELLED by 1000`), in capitals, as an object array."""
    codes, kinds = pd.factorize(rows.text("state"))
    words = [(each.split() or [""])[0].upper().rstrip("+") for each in kinds.tolist()]
    return np.array(["" if word in ("UNKNOWN", "NONE") else word for word in words], object)[codes]


def _sizes(rows: TextRows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cores, GPUs, GiB and nodes (NaN = missing), and whether the run was given a place.

    A number of nodes below 1 or above that of the cores is none.
    """
    nothing = np.full(len(rows.raw), np.nan)
    cores, gpu, mem_gib, nodes, asked_nodes = (nothing.copy() for _ in range(5))
    is_placed = np.full(len(rows.raw), bool({"alloctres", "nodelist"} & set(rows.names)))
    for name, title in (("alloctres", "AllocTRES"), ("reqtres", "ReqTRES")):
        if name in rows.names:
            cells = rows.text(name)
            found = tres(cells)
            rows.refuse(f"{title} must be cpu=N,mem=N,...", found.is_bad, name)
            if name == "alloctres":
                is_placed &= cells != ""
                nodes = found.node
            else:
                asked_nodes = found.node
            has_cpu = ~np.isnan(cores)
            cores = np.where(has_cpu, cores, found.cpu)
            mem_gib = np.where(np.isnan(mem_gib), found.mem_gib, mem_gib)
            gpu = np.where(has_cpu, gpu, found.gpu)  # of the list that gave the cores
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
        asked, is_bad = requested_gib(rows.text("reqmem"), cores, nodes)
        rows.refuse("ReqMem must be a size of memory", is_bad, "reqmem")
        mem_gib = np.where(np.isnan(mem_gib), asked, mem_gib)
    for size in (cores, gpu, mem_gib):
        rows.refuse("size above 1e9", size > _MAX_SIZE)
    return cores, gpu, mem_gib, np.where((nodes >= 1) & (nodes <= cores), nodes, np.nan), is_placed


def _limits_s(rows: TextRows) -> np.ndarray:
    """Time limits, seconds; NaN where there is none."""
    for name, title in (("timelimit", "Timelimit"), ("timelimitraw", "TimelimitRaw")):
        if name in rows.names:
            found = durations_s(rows.text(name), unit_s=60, pair="mm:ss")
            rows.refuse(f"{title} must be {A_DURATION}", found.is_bad, name)
            return np.where(found.values > 0, found.values, np.nan)
    return np.full(len(rows.raw), np.nan)


def _durations(rows: TextRows, name: str) -> np.ndarray:
    """Seconds; NaN where a cell says none. Rows whose cell is no duration are refused."""
    found = durations_s(rows.text(name), pair="mm:ss")
    rows.refuse(f"{name.capitalize()} must be {A_DURATION}", found.is_bad, name)
    return found.values
