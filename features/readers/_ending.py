"""The last steps of a reader: all rows as one table, the trace and its report.

`Horizon` is the end of observation: the last time of enough rows, so that one damaged cell does not
change it. `hole_notes` finds long times without an arrival: a clock that jumped, or missing days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.frame_requests import FIRST_STAMP_S, LAST_STAMP_S
from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._rows import MAX_TIME_S
from sojourn.features.readers._stamps import moment
from sojourn.features.trace import Roles, Trace


def all_requests(chunks: Sequence[pd.DataFrame], path: Path, what: str, ledger: ReadLedger, *,
                 last_s: int = 1) -> pd.DataFrame:
    """The rows of all blocks as one table.

    Raises ValueError with the missing `what` if there is no row, or the last time is not above 0.
    """
    requests = pd.concat(chunks, ignore_index=True) if chunks else pd.DataFrame()
    if requests.empty or last_s <= 0:
        counts = dict(ledger.report(0).refused)
        raise ValueError(f"{path}: must hold at least one {what}, got none; refused: {counts}")
    return requests


def trace_of(requests: pd.DataFrame, horizon_s: int, roles: Roles, ledger: ReadLedger, meta: Mapping[str, Any], *,
             others: Sequence[str] = (), hosts: pd.DataFrame | None = None, n_hosts: int = 0,
             usage: pd.DataFrame | None = None, is_event_log: bool = False) -> tuple[Trace, ReadReport]:
    """The trace of these requests, and the report of the ledger; `meta["report"]` has its counts.

    requests, horizon_s, usage: times in seconds since the trace's begin; the trace has Unix seconds if `meta` has
    `start_unix_s`. Owners, categories and `others` become pandas categories. n_hosts: number of rows of hosts.
    is_event_log: a request has several rows.
    """
    names = (*roles.owners, *roles.categories, *others)
    requests = requests.astype(dict.fromkeys(names, "category"))
    report = ledger.report(len(requests), n_hosts=n_hosts, is_event_log=is_event_log)
    trace_meta = {**meta, "report": report.summary()}
    start_unix_s = trace_meta.pop("start_unix_s", None)
    trace = Trace(requests, horizon_s, roles, hosts, usage, trace_meta)
    return (trace if start_unix_s is None else trace.moved(int(start_unix_s), int(start_unix_s))), report


N_TIMES_MIN = 100
"""With fewer times, damaged ones cannot be detected: the horizon is then the last one."""
GAP_SHARE = 0.1
"""A few rows are damaged if the gap before them is more than this share of the time before. A
smaller gap has little effect."""
BEYOND_SHARE = 1e-3
"""Few: this share of the rows, at least one."""
N_CARRYING_MIN = 3
CARRYING_FACTOR = 3
"""If many rows share the end, rows beyond it must be fewer by this factor."""
BEGINS_AFTER = "begins after the horizon"
ENDS_AFTER = "end after the horizon: censored"


@dataclass(frozen=True, slots=True)
class Horizon:
    """The end of observation.

    time_s: the trace's end. n_at: rows with this last time, of n_rows. n_beyond: later rows, up to
    last_s. most_s, n_most: the most frequent time, if the end should be such a time.
    """

    time_s: int
    n_at: int
    n_beyond: int
    last_s: int
    n_rows: int
    is_declared: bool = False
    most_s: int | None = None
    n_most: int = 0

    def lines(self) -> list[str]:
        """Notes for the report."""
        if self.is_declared:
            beyond = f", {self.n_beyond:,} rows beyond it" if self.n_beyond else ""
            return [f"horizon {self.time_s:,} s, as declared (last time in the file {self.last_s:,} s{beyond})"]
        lines = [f"horizon {self.time_s:,} s, carried by {_rows(self.n_at)} of {self.n_rows:,}"]
        if self.n_beyond:
            lines.append(f"{_rows(self.n_beyond)} beyond the horizon, up to {self.last_s:,} s: too few to be the "
                         "trace's end (--horizon-s sets it)")
        elif self.most_s is not None and self.most_s < self.time_s and self.n_most > self.n_at:
            lines.append(f"few rows carry the horizon: next is {self.most_s:,} s, carried by {self.n_most:,} "
                         "(--horizon-s sets it)")
        return lines


def since_start(declared_s: int | None, start_unix_s: int | None, last_s: int) -> int | None:
    """A declared horizon as seconds since the start of a trace, from a Unix second if the trace has dates.

    last_s: the last time in the file, since the start. ValueError with the declared horizon if it
    is at or before the start, or more than 100 years after the last time.

    >>> since_start(1_767_312_000, 1_767_225_600, 7_200), since_start(86_400, 1_767_225_600, 7_200)
    (86400, 86400)
    """
    if declared_s is None:
        return None
    is_stamp = start_unix_s is not None and FIRST_STAMP_S <= declared_s < LAST_STAMP_S
    since_s = declared_s - int(start_unix_s or 0) if is_stamp else declared_s
    if not 0 < since_s <= last_s + MAX_TIME_S:
        clock = "above 0" if start_unix_s is None else (
            f"after the begin, or a Unix second after it, {moment(start_unix_s)} ({start_unix_s})")
        raise ValueError(f"horizon_s must be seconds {clock}, at most 100 years beyond the last time ({last_s:,} s), "
                         f"got {declared_s!r}")
    return since_s


class LatestTimes:
    """The latest of many times, enough for a horizon; memory is for 1/500 of the times."""

    def __init__(self) -> None:
        self.kept = np.zeros(0, np.int64)
        self.n = 0

    def add(self, times: np.ndarray) -> None:
        """Add times, whole numbers of any unit."""
        self.n += len(times)
        self.kept = np.concatenate([self.kept, np.asarray(times, np.int64)])
        n_kept = 1_000 + self.n // 500
        if len(self.kept) > 4 * n_kept:
            self.kept = np.partition(self.kept, len(self.kept) - n_kept)[-n_kept:]


def horizon_of(times_s: np.ndarray, declared_s: int | None = None, *, is_shared: bool = False, tolerance_s: int = 0,
               n_rows: int | None = None) -> Horizon:
    """The horizon of rows with these last times, whole seconds, at least one.

    declared_s: use this horizon. is_shared: all running requests have the end as their last time (within
    `tolerance_s`): the most frequent time is the end, unless a third as many rows are later. Else, or without such a
    time: the last time, without a few rows far beyond all others. n_rows: number of rows with these latest times.

    >>> horizon_of(np.append(np.arange(1, 1001), 5000)).time_s
    1000
    >>> horizon_of(np.append(np.full(900, 1000), np.arange(101)), is_shared=True).lines()
    ['horizon 1,000 s, carried by 900 rows of 1,001']
    """
    if declared_s is not None and declared_s <= 0:
        raise ValueError(f"horizon_s must be above 0, got {declared_s!r}")
    values, counts = np.unique(times_s, return_counts=True)
    total = int(counts.sum()) if n_rows is None else n_rows
    most_s, n_most = _most_carried(values, counts, tolerance_s) if is_shared else (None, 0)
    time_s = int(values[-1])
    if declared_s is not None:
        time_s = declared_s
    elif total >= N_TIMES_MIN:
        n_later = int(counts[values > most_s].sum()) if most_s is not None else 0
        if most_s is not None and n_most >= max(N_CARRYING_MIN, CARRYING_FACTOR * n_later):
            time_s = most_s
        else:
            time_s = _before_gap(values, counts, max(1, int(total * BEYOND_SHARE)))
    is_at = (values > time_s - tolerance_s - 1) & (values <= time_s)
    return Horizon(time_s, int(counts[is_at].sum()), int(counts[values > time_s].sum()), int(values[-1]), total,
                   declared_s is not None, most_s, n_most)


def second_zero(rows: pd.DataFrame) -> int:
    """The start of a log of ends: the first end, or the first start if no time is later. Columns
    arrival_s, departure_s, last_s.

    >>> second_zero(pd.DataFrame({"arrival_s": [0.0, 50.0], "departure_s": [40.0, np.nan], "last_s": [40.0, 90.0]}))
    40
    """
    ends = rows["departure_s"].dropna().to_numpy(np.float64)
    origin_s = origin_of(ends) if len(ends) else None
    if origin_s is None or rows["last_s"].max() <= origin_s:
        origin_s = origin_of(rows["arrival_s"].to_numpy(np.float64))
    return origin_s


def without_ended(rows: pd.DataFrame, name_column: str, ledger: ReadLedger, file: str | None = None) -> pd.DataFrame:
    """The rows without those that ended before second 0, which are refused.

    rows: with departure_s on the trace's clock, and line. name_column: the column of their names.
    file: of all rows; None = the column `file`.
    """
    is_over = (rows["departure_s"] < 0).fillna(False).to_numpy(bool)
    if not is_over.any():
        return rows
    early = rows[is_over]
    for name, of_file in [(file, early)] if file is not None else early.groupby("file", sort=False):
        ledger.refuse("ended before the trace's start", str(name), of_file["line"].to_numpy(np.int64), [
            f"{row}: ended {-end} s before it"
            for row, end in zip(of_file[name_column], of_file["departure_s"], strict=True)])
    return rows[~is_over].reset_index(drop=True)


def origin_of(times: np.ndarray) -> int:
    """The first of these times, whole seconds, without a few far before all others: the mirrored rule of the horizon.

    >>> origin_of(np.append(np.arange(50_000, 51_000), 7)), origin_of(np.array([60, 30]))
    (50000, 30)
    """
    starts = np.sort(times.astype(np.float64)).astype(np.int64)
    last_s = int(np.quantile(starts, 0.999, method="lower")) + 1
    ahead = last_s - starts[starts < last_s]
    return last_s - horizon_of(ahead).time_s if len(ahead) else int(starts[0])


def cut_at(requests: pd.DataFrame, horizon: Horizon, ledger: ReadLedger, file: str) -> pd.DataFrame:
    """The requests that start up to the horizon, censored if they end after it; the ledger counts both.

    A column `line`, if any, has the line of each row and is removed.
    """
    is_later = (requests["arrival_s"] > horizon.time_s).fillna(False).to_numpy(bool)
    is_cut = (requests["departure_s"] > horizon.time_s).fillna(False).to_numpy(bool) & ~is_later
    ledger.repair(ENDS_AFTER, int(is_cut.sum()))
    departure = requests["departure_s"].astype("Int64")
    requests = requests.assign(departure_s=departure.mask(is_cut))
    if is_later.any():
        late = requests[is_later]
        raw = [f"{name}: {start} s to {'' if pd.isna(end) else f'{end} s'}" for name, start, end in zip(
            late["request_id"], late["arrival_s"], departure[is_later], strict=True)]
        lines = late["line"].to_numpy(np.int64) if "line" in late else np.zeros(len(late), np.int64)
        ledger.refuse(BEGINS_AFTER, file, lines, raw)
        requests = requests[~is_later].reset_index(drop=True)
    for line in horizon.lines():
        ledger.note(line)
    return requests.drop(columns="line", errors="ignore")


def _most_carried(values: np.ndarray, counts: np.ndarray, tolerance_s: int) -> tuple[int, int]:
    """The last time of the most frequent group of times, with gaps up to the tolerance; and its number of rows."""
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - tolerance_s - 1) > tolerance_s)
    sums = np.add.reduceat(counts, starts)
    most = len(sums) - 1 - int(np.argmax(sums[::-1]))
    end = starts[most + 1] - 1 if most + 1 < len(starts) else len(values) - 1
    return int(values[end]), int(sums[most])


def _before_gap(values: np.ndarray, counts: np.ndarray, n_beyond_max: int) -> int:
    """The earliest time before a gap with few rows after it; the last time if there is none."""
    time_s, n_beyond = int(values[-1]), 0
    for idx in range(len(values) - 2, -1, -1):
        n_beyond += int(counts[idx + 1])
        if n_beyond > n_beyond_max or values[idx] <= 0:
            break
        if values[idx + 1] - values[idx] > GAP_SHARE * values[idx]:
            time_s = int(values[idx])
    return time_s


def _rows(n: int) -> str:
    return f"{n:,} row{'' if n == 1 else 's'}"


_HOLE_S, _HOLE_SHARE = 7 * 86_400, 0.1
"""The least length of a hole, and its least share of the time from the first arrival to the last."""
_N_MIN = 20


def hole_notes(trace: Trace) -> list[str]:
    """A note on the longest time without an arrival, if it is a hole; none with fewer than 20 requests.

    Requests that began before the trace do not count, since only survivors are recorded.
    """
    start_s = np.sort(trace.start_s()[trace.is_start_known()])
    start_s = start_s[start_s >= trace.begin_s]
    if len(start_s) < _N_MIN:
        return []
    gaps_s = np.diff(start_s)
    longest, span_s = int(np.argmax(gaps_s)), int(start_s[-1] - start_s[0])
    gap_s = int(gaps_s[longest])
    if gap_s < max(_HOLE_S, _HOLE_SHARE * span_s):
        return []
    at = moment(int(start_s[longest])) if trace.is_dated else f"second {start_s[longest]:,}"
    return [f"check: nothing begins for {gap_s / 86_400:,.0f} days after {at}, {100 * gap_s / span_s:.0f} % of the "
            "time from the first start to the last: a clock that jumped, or days that are missing"]
