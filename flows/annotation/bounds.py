"""Bounds of lifetimes: a share of requests like this one, after the same uptime, end within it.

Held-out requests, which the model has not seen, give a bound's coverage; it can correct the level.
For coming jobs, Slurm's job_submit.lua reads a table of limits by owner. A group of requests has
the same account, user, job name and partition; then without the name; then without the partition,
too. Its limit is a quantile of the mixture of the curves of its latest requests. The file is data:
keys are encoded, so that a job's name cannot end one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, build_rows, decision_times
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.flows.console import duration
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures import BoundedRows, Coverage, OwnerDraws, drawn_owners
from sojourn.models.served_curves import ServedCurves
from sojourn.serving.bundle import Bundle
from sojourn.serving.inputs import HistoryState, key_code

OWN_SHARE = 0.9
"""A trace with this share of the training requests gives the history; else the bundle's goes on."""
AGES_S = (0.0, 3_600.0, 21_600.0)
"""Ages at which bounds of running requests are checked; 0 = the start."""
WHOLE_TOLERANCE, DECILE_TOLERANCE = 0.02, 0.05
"""The greatest distance of coverage from the level, overall and in a tenth of the rows."""
LEAST_ROWS = 100
"""With fewer rows coverage is not known."""
COLUMNS = ("account", "user", "job_name", "partition")
LEFT_OUT = ((), ("job_name",), ("job_name", "partition"))
"""Columns that a group leaves open, finest first: the script looks keys up in this order."""
LEAST_REQUESTS = 5
"""A group of fewer has no limit of its own."""
N_LATEST = 30
"""A limit comes from so many requests of a group, the latest."""
MOST_MINUTES = 999_999
"""The script reads no higher limit: two years."""
LEAST_RENEWED_S, N_TABLES = 7 * 86_400, 12
"""Coverage is of tables renewed each week; on long traces less often, at most so many."""
_STEPS = 50
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@+-")


@dataclass(frozen=True, slots=True)
class Bound:
    """uptime_s: at the trace's horizon, 0 before the start. total_s: from the start, the greater.

    name: in other programs: NAMESPACE/POD of a pod, else the request id. end_unix_s: time of the
    bound, None if trace or request has no date. kind: of a pod's controller, None if unknown.
    """

    request_id: str
    level: float
    uptime_s: int
    total_s: int
    end_unix_s: int | None
    name: str
    kind: str | None = None

    @property
    def remaining_s(self) -> int:
        """From the horizon on, at least 1."""
        return self.total_s - self.uptime_s

    def at_most(self, limit_s: int) -> Bound | None:
        """The bound, at most so many seconds from the start; None if the request has run so long.

        >>> Bound("1", 0.9, 60, 7_200, 9_000, "a/b").at_most(3_600)
        Bound(request_id='1', level=0.9, uptime_s=60, total_s=3600, end_unix_s=5400, name='a/b', kind=None)
        """
        if self.total_s <= limit_s:
            return self
        if self.uptime_s >= limit_s:
            return None
        end_unix_s = None if self.end_unix_s is None else self.end_unix_s - self.total_s + limit_s
        return replace(self, total_s=limit_s, end_unix_s=end_unix_s)


def total_bounds(table: CurveTable, level: float, uptime_s: np.ndarray | float) -> np.ndarray:
    """Total lifetimes, float64 (n,) whole seconds, that `level` of the requests alive at the uptime do not exceed."""
    return np.asarray(uptime_s + np.maximum(table.quantile(level, uptime_s), 1.0), np.float64)


def coming_bounds(replayed: Replayed, requests: Mapping[str, Mapping[str, Any]], level: float,
                  named_level: float) -> list[Bound]:
    """A bound of each coming request, decided at the trace's horizon, in the order of `requests`.

    requests: place in the input -> `request_id` and columns that the bundle reads. level,
    named_level: see `running_bounds`. ValueError with the place of an unknown column, a wrong type,
    or an id that is missing or a duplicate.
    """
    if not requests:
        return []
    encoder, now_s = replayed.bundle.schema.encoder, replayed.trace.horizon_s
    ids: dict[str, str] = {}
    features, keys = [], []
    for place, request in requests.items():
        name = request.get("request_id")
        if not isinstance(name, str) or not name or name in ids:
            first = f", as in {ids[name]}" if isinstance(name, str) and name in ids else ""
            raise ValueError(f"{place}: request_id must be text and differ from request to request, got "
                             f"{repr(name)[:80]}{first}")
        ids[name] = place
        try:
            known = encoder.parse({column: value for column, value in request.items() if column != "request_id"})
            features.append(encoder.encode(known, now_s, replayed.history))
            keys.append(known.keys)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
    total_s = total_bounds(replayed.coming(np.array(features), keys), level, 0.0)
    return [Bound(name, named_level, 0, int(total), None, name, _kind(request.get("kind")))
            for name, total, request in zip(ids, total_s, requests.values(), strict=True)]


def running_bounds(replayed: Replayed, level: float, named_level: float) -> list[Bound]:
    """A bound of each request that runs at the horizon, in the trace's order.

    level: of the model's quantile. named_level: the user's level, which the bounds name.
    """
    idx = replayed.running()
    idx = idx[np.argsort(replayed.rows.idx_request[idx], kind="stable")]
    if len(idx) == 0:
        return []
    rows, trace = replayed.rows, replayed.trace
    uptime_s = np.maximum(rows.lifetime_s[idx], 0).astype(np.float64)
    total_s = total_bounds(replayed.table(idx), level, uptime_s)
    requests = trace.requests.iloc[rows.idx_request[idx]]
    ids = requests["request_id"].astype(str)
    names = requests["pod"].astype(str) if "pod" in requests else ids
    kinds = requests["kind"] if "kind" in requests else [None] * len(idx)
    return [Bound(request_id, named_level, int(uptime), int(total),
                  int(arrival) + int(total) if trace.is_dated else None, name, _kind(kind))
            for request_id, name, uptime, total, arrival, kind in zip(ids, names, uptime_s, total_s,
                                                                      rows.arrival_s[idx], kinds, strict=True)]


def _kind(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace on the bundle's clock, its rows by the bundle's encoder, and its final owner history.

    trace: has all columns that the bundle reads; `missing` names those that it lacked, now empty.
    held_out_s: neither the model nor its history has seen requests decided from then on.
    has_own_history: the history comes from this trace alone; else the bundle's history goes on.
    """

    bundle: Bundle
    curves: ServedCurves
    trace: Trace
    rows: FeatureRows
    history: HistoryState
    held_out_s: int
    has_own_history: bool
    is_clock_known: bool
    missing: tuple[str, ...]

    @classmethod
    def of(cls, bundle: Bundle, trace: Trace) -> Replayed:
        """Replay the trace; ValueError if the bundle has no training window, or no request is left.

        If one of them has no dates, both are taken to begin at the same moment. If the trace does
        not hold the training requests, only requests after the bundle's history are held out. That
        history knows the earlier ends, so requests that had ended by then are not replayed.
        """
        training = bundle.schema.training
        if not {"to_s", "n_requests", "history_to_s"} <= training.keys():
            raise ValueError("bundle must say what it was trained on (`to_s`, `n_requests`, `history_to_s`), got "
                             f"version {bundle.version} without")
        learnt_begins = training.get("start_unix_s")
        moved = trace
        if learnt_begins is None:
            moved = trace.since_begin()
        elif not trace.is_dated:
            moved = trace.moved(int(learnt_begins), int(learnt_begins))
        elif trace.horizon_s <= int(learnt_begins):
            raise ValueError(f"trace must end after the bundle's training trace began, got one that ended "
                             f"{int(learnt_begins) - trace.horizon_s:,} s before")
        missing = tuple(name for name in bundle.schema.encoder.columns() if name not in moved.requests)
        if missing:
            blank = {name: pd.Series([None] * len(moved), dtype=object) for name in missing}
            moved = Trace(moved.requests.assign(**blank), moved.horizon_s, moved.roles, moved.hosts, None, moved.meta)
        n_learnt = int((decision_times(moved) < int(training["to_s"])).sum())
        has_own = n_learnt >= OWN_SHARE * int(training["n_requests"])
        if not has_own:  # the bundle's history has the earlier ends
            is_later = (moved.end_s() > int(training["history_to_s"])) | ~moved.is_event()
            moved = moved.select(is_later | (decision_times(moved) >= int(training["history_to_s"])))
        history = HistoryState(bundle.schema.encoder.history) if has_own else bundle.history
        rows = build_rows(moved, bundle.schema.encoder, history)
        if len(rows) == 0:
            raise ValueError("trace must hold a request whose start is known, got none")
        held_out_s = int(training["to_s"] if has_own else training["history_to_s"])
        curves = ServedCurves(bundle, rows, held_out_s, goes_on=not has_own)
        return cls(bundle, curves, moved, rows, history, held_out_s, has_own,
                   trace.is_dated and learnt_begins is not None, missing)

    def table(self, idx: np.ndarray) -> CurveTable:
        """The model's curves of the rows at these positions."""
        return self.curves.at(idx)

    def coming(self, features: np.ndarray, keys: Sequence[Sequence[tuple[str, ...] | None]]) -> CurveTable:
        """The model's curves of requests that begin at the horizon: encoded, float64 (m, n_features), with their
        history keys."""
        rows, m = self.rows, len(features)
        codes = tuple(np.array([-1 if key is None else key_code(key) for key in each], np.int64)
                      for each in zip(*keys, strict=True))
        now_s, none = np.full(m, self.trace.horizon_s, np.int64), np.zeros(m, np.int64)
        added = FeatureRows(features, rows.names, codes, rows.key_names, now_s, now_s, none, none.astype(bool), none)
        every = FeatureRows.joined((rows, added), np.arange(len(rows) + m))
        return self.curves.with_rows(every).at(len(rows) + np.arange(m))

    def held_out(self) -> Examples:
        """The requests that the model has not seen, as known at the trace's end."""
        return known_at(self.rows, self.rows.decided_s >= self.held_out_s, None)

    def running(self) -> np.ndarray:
        """Positions in `rows`, int64, of requests that run at the horizon."""
        return np.flatnonzero(~self.rows.is_event)


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """Coverage of bounds of one level on held-out requests.

    used: the level of the model's quantile. overall: all rows at their start. by_decile: tenths by
    predicted median lifetime, rising: the largest prediction (s) and the coverage. by_age: age (s)
    and the coverage of the bounds at that age, of requests that outlived it.
    """

    level: float
    used: float
    overall: Coverage
    by_decile: Sequence[tuple[float, Coverage]]
    by_age: Sequence[tuple[float, Coverage]]

    @property
    def faults(self) -> list[str]:
        """Reasons not to rely on the bounds; empty if there are none."""
        n = self.overall.n_rows
        if n < LEAST_ROWS or np.isnan(self.overall.share):
            return [f"coverage is not known: {n:,} held-out requests, at least {LEAST_ROWS} with ends are needed"]
        reasons = []
        if abs(self.overall.share - self.level) > WHOLE_TOLERANCE:
            reasons.append(f"{_percent(self.overall.share)} of held-out requests stayed within their "
                           f"{_percent(self.level)} bound (tolerance {100 * WHOLE_TOLERANCE:g} points)")
        odd = [idx for idx, (_, each) in enumerate(self.by_decile, 1)
               if not abs(each.share - self.level) <= DECILE_TOLERANCE]
        if odd:
            reasons.append(f"{len(odd)} of {len(self.by_decile)} tenths by predicted lifetime lie outside "
                           f"{100 * DECILE_TOLERANCE:g} points: {', '.join(map(str, odd))}")
        return reasons

    @property
    def is_enough(self) -> bool:
        """Whether the coverage of all rows is known and falls short of the level by no more than the tolerance."""
        return self.overall.n_rows >= LEAST_ROWS and self.overall.share >= self.level - WHOLE_TOLERANCE


def coverage_report(replayed: Replayed, level: float, *, seed: int = 0) -> CoverageReport:
    """Coverage of the model's own quantile on all held-out requests."""
    rows = replayed.held_out()
    return _of_model(replayed, rows, level, level, seed)


def corrected_report(replayed: Replayed, level: float, *, seed: int = 0) -> CoverageReport:
    """The level that covers the earlier half of the held-out requests, judged on the later half.

    The earlier half has its labels as of the cut, without ends in the later half. One level for all
    requests does not help a model that is too low for short requests and too high for long ones.
    """
    every, decided = replayed.rows, replayed.rows.decided_s
    held = decided >= replayed.held_out_s
    if not held.any():
        return coverage_report(replayed, level, seed=seed)
    cut_s = int(np.quantile(decided[held], 0.5, method="higher"))
    earlier, later = known_at(every, held & (decided < cut_s), cut_s), known_at(every, decided >= cut_s, None)
    used = level if len(earlier) < LEAST_ROWS else level_for(replayed.table(earlier.idx_row), earlier, level)
    return _of_model(replayed, later, level, used, seed)


def level_for(table: CurveTable, rows: Examples, level: float) -> float:
    """The level whose bounds cover a share `level` of the rows: their PIT's quantile, in (0, 1)."""
    low, high = 0.001, 0.999
    for _ in range(20):  # coverage rises with the level
        middle = (low + high) / 2.0
        share = BoundedRows.of(table, rows, total_bounds(table, middle, 0.0), middle).share()
        if share < level:
            low = middle
        else:
            high = middle
    return round((low + high) / 2.0, 4)


def report_of(replayed: Replayed, rows: Examples, table: CurveTable, bound_s: np.ndarray, level: float, used: float,
              seed: int) -> CoverageReport:
    """Coverage of any bounds, float64 (n,) seconds, at the start of `rows`. table: their curves."""
    if len(rows) == 0 or not rows.is_event.any():
        return CoverageReport(level, used, Coverage(np.nan, np.nan, np.nan, len(rows), np.nan), (), ())
    codes, _ = drawn_owners(rows, replayed.bundle.schema.encoder.history)
    bounded = BoundedRows.of(table, rows, bound_s, used)
    overall = bounded.coverage(OwnerDraws(codes, seed=seed))
    return CoverageReport(level, used, overall, bounded.by_decile(table.quantile(0.5, 0.0)), ())


def _of_model(replayed: Replayed, rows: Examples, level: float, used: float, seed: int) -> CoverageReport:
    table = replayed.table(rows.idx_row)
    bound_s = total_bounds(table, used, 0.0) if len(rows) else np.empty(0)
    report = report_of(replayed, rows, table, bound_s, level, used, seed)
    if np.isnan(report.overall.share):
        return report
    by_age = []
    for age_s in AGES_S:
        is_old = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
        if int(is_old.sum()) >= LEAST_ROWS:
            aged = table.take(is_old)
            bounded = BoundedRows.of(aged, rows.take(is_old), total_bounds(aged, used, age_s), used, age_s)
            by_age.append((age_s, bounded.coverage()))
    return replace(report, by_age=by_age)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def coverage_lines(report: CoverageReport) -> list[str]:
    """Coverage overall with its interval, by tenth, and by age."""
    overall = report.overall
    lines = []
    if report.used != report.level:
        lines.append(f"level     {report.used:g} is asked for, since earlier held-out requests stayed within it to "
                     f"{100 * report.level:g} %; judged on the later ones")
    if np.isnan(overall.share):
        return [*lines, f"coverage  not known: {overall.n_rows:,} held-out requests, none with an end"]
    lines.append(f"coverage  {100 * overall.share:.1f} % of {overall.n_rows:,} held-out requests end within their "
                 f"{100 * report.level:g} % bound (95 % over owners: {100 * overall.low:.1f} to "
                 f"{100 * overall.high:.1f} %){_unfollowed(overall)}")
    if report.by_decile:
        lines.append("by tenth of the predicted median lifetime:")
        lines += [f"  up to {duration(edge):>8}  {_share(each)}  of {each.n_rows:,}{_unfollowed(each)}"
                  for edge, each in report.by_decile]
    aged = [(age_s, each) for age_s, each in report.by_age if age_s > 0.0]
    if aged:
        lines.append("of those that had run so long, their bound given then:")
        lines += [f"  {duration(age_s):>14}  {_share(each)}  of {each.n_rows:,}{_unfollowed(each)}"
                  for age_s, each in aged]
    return lines


def _share(coverage: Coverage) -> str:
    return "  ----" if np.isnan(coverage.share) else f"{100 * coverage.share:5.1f} %"


def _unfollowed(coverage: Coverage) -> str:
    return f"; {100 * coverage.unfollowed:.1f} % still ran before it" if coverage.unfollowed > 0.0 else ""


@dataclass(frozen=True, slots=True)
class LimitTable:
    """columns: those of COLUMNS that the trace has. minutes: encoded key -> whole minutes, >= 1."""

    columns: tuple[str, ...]
    minutes: Mapping[str, int]
    level: float

    def lines(self, made_unix_s: int) -> list[str]:
        """The file's lines, keys in order. made_unix_s: the script ignores too old a table."""
        head = [("made", str(made_unix_s)), ("level", f"{self.level:g}"), ("columns", ",".join(self.columns))]
        return ["\t".join(pair) for pair in [*head, *((key, str(self.minutes[key])) for key in sorted(self.minutes))]]

    def of(self, requests: pd.DataFrame) -> np.ndarray:
        """Each request's limit by the script's rule, float64 (n,) seconds; NaN if there is none."""
        limit_s = np.full(len(requests), np.nan)
        for left_out in LEFT_OUT:
            minutes = [self.minutes.get(key, np.nan) for key in _keys(requests, self.columns, left_out)]
            limit_s = np.where(np.isnan(limit_s), np.array(minutes, np.float64) * 60.0, limit_s)
        return limit_s


def encoded(name: str) -> str:
    """A name as part of a key: other than plain characters are %XX.

    >>> encoded("run 7|*")
    'run%207%7C%2A'
    """
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def limit_table(replayed: Replayed, level: float) -> LimitTable:
    """The limits as of the trace's end; ValueError if the trace has none of COLUMNS."""
    return _table(replayed, replayed.trace.horizon_s + 1, level)


@dataclass(frozen=True, slots=True)
class TableCoverage:
    """Coverage of tables that were renewed every `renewed_s` seconds while held-out requests came.

    has_limit: share of these requests with a limit; the report is on them.
    """

    report: CoverageReport
    has_limit: float
    renewed_s: int


def table_coverage(replayed: Replayed, level: float, *, seed: int = 0) -> TableCoverage:
    """Check each held-out request against the latest earlier table, of earlier requests alone."""
    rows = replayed.held_out()
    requests = replayed.trace.requests.iloc[replayed.rows.idx_request[rows.idx_row]]
    decided_s = replayed.rows.decided_s[rows.idx_row]
    span_s = int(decided_s.max()) + 1 - replayed.held_out_s if len(rows) else 0
    renewed_s = max(LEAST_RENEWED_S, -(-span_s // N_TABLES))
    bound_s = np.full(len(rows), np.nan)
    for cut_s in range(replayed.held_out_s, replayed.held_out_s + span_s, renewed_s):
        is_of = (decided_s >= cut_s) & (decided_s < cut_s + renewed_s)
        if is_of.any():
            bound_s[is_of] = _table(replayed, cut_s, level).of(requests[is_of])
    has_limit = ~np.isnan(bound_s)
    known = rows.take(has_limit)
    report = report_of(replayed, known, replayed.table(known.idx_row), bound_s[has_limit], level, level, seed)
    return TableCoverage(report, float(has_limit.mean()) if len(rows) else 0.0, renewed_s)


def _table(replayed: Replayed, cut_s: int, level: float) -> LimitTable:
    """The limits by requests decided before the cut, by their features at decision."""
    every = replayed.rows
    rows = np.flatnonzero(every.decided_s < cut_s)  # in the order of decision
    requests = replayed.trace.requests.iloc[every.idx_request[rows]]
    columns = tuple(name for name in COLUMNS if name in requests and name not in replayed.missing)
    if not columns:
        raise ValueError(f"trace must have one of the columns {', '.join(COLUMNS)}, so that limits can be by owner, "
                         f"got {', '.join(map(str, requests.columns))}")
    groups = {left_out: _latest(_keys(requests, columns, left_out)) for left_out in LEFT_OUT}
    used = np.unique(np.concatenate([at for each in groups.values() for at in each.values()] or [np.empty(0, int)]))
    if len(used) == 0:
        return LimitTable(columns, {}, level)
    table = replayed.table(rows[used])
    minutes: dict[str, int] = {}
    for latest in groups.values():
        names = [name for name in latest if name not in minutes]
        at = np.concatenate([np.searchsorted(used, latest[name]) for name in names] or [np.empty(0, np.int64)])
        group = np.repeat(np.arange(len(names)), [len(latest[name]) for name in names])
        limit_s = mixture_quantiles(table.take(at), group, level) if names else np.empty(0)
        minutes |= {name: int(np.clip(np.ceil(limit / 60.0), 1, MOST_MINUTES))
                    for name, limit in zip(names, limit_s, strict=True)}
    return LimitTable(columns, minutes, level)


def mixture_quantiles(table: CurveTable, group: np.ndarray, level: float) -> np.ndarray:
    """The `level` quantile of each group's curves, mixed in equal parts, float64 (k,) seconds.

    group: int64 (n,), 0 to k - 1, each at least once.

    >>> from sojourn.models.curve_table import OnceTable
    >>> table = OnceTable(np.array([1.0, 3.0]), 1.0, np.linspace(-0.01, 0.01, 3))
    >>> limit_s = mixture_quantiles(table, np.array([0, 0]), 0.75)  # one half about 10 s, one about 1,000 s
    >>> bool(990.0 < limit_s[0] < 1_010.0)
    True
    """
    n_of = np.bincount(group).astype(np.float64)
    quantile_s = np.maximum(table.quantile(level, 0.0), 1.0)
    low, high = np.full(len(n_of), np.inf), np.zeros(len(n_of))
    np.minimum.at(low, group, quantile_s)
    np.maximum.at(high, group, quantile_s)
    for _ in range(_STEPS):  # the mixture's quantile lies between those of its parts
        middle = (low + high) / 2.0
        left = np.bincount(group, table.survival(middle[group], 0.0)) / n_of
        is_short = left > 1.0 - level
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    return high


def _latest(keys: list[str]) -> dict[str, np.ndarray]:
    """Positions of the latest requests of each group that is large enough, rising."""
    groups = pd.Series(np.arange(len(keys))).groupby(np.array(keys, object), sort=False)
    return {str(name): at.to_numpy()[-N_LATEST:] for name, at in groups if len(at) >= LEAST_REQUESTS}


def _keys(requests: pd.DataFrame, columns: tuple[str, ...], left_out: tuple[str, ...]) -> list[str]:
    parts = []
    for name in columns:
        if name in left_out:
            parts.append(["*"] * len(requests))
            continue
        codes, names = pd.factorize(requests[name].astype(str))
        known = [encoded(each) for each in names]
        parts.append([known[code] if code >= 0 else "" for code in codes])
    return ["|".join(each) for each in zip(*parts, strict=True)]
