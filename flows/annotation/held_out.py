"""What bounds are worth: their coverage on requests that the model has not seen, and the level that corrects it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.split import Examples, known_at
from sojourn.flows.annotation.bounds import total_bounds
from sojourn.flows.annotation.replayed import Replayed
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures import BoundedRows, Coverage, OwnerDraws, drawn_owners

AGES_S = (0.0, 3_600.0, 21_600.0)
"""Ages at which the bounds of running requests are checked: 0 = at the start."""
WHOLE_TOLERANCE, DECILE_TOLERANCE = 0.02, 0.05
"""How far from the level coverage may be, overall and in a tenth of the rows."""
LEAST_ROWS = 100
"""With fewer rows nothing is concluded."""


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """Coverage of bounds of one level on held-out requests.

    used: the level that the model was asked for. overall: of all rows at their start. by_decile: of predicted median
    lifetime, rising: the largest prediction (s) and its coverage. by_age: of those that outlived an age, the bound
    given there.
    """

    level: float
    used: float
    overall: Coverage
    by_decile: Sequence[tuple[float, Coverage]]
    by_age: Sequence[tuple[float, Coverage]]

    @property
    def faults(self) -> list[str]:
        """Why the bounds should not be relied on; empty where they may be."""
        n = self.overall.n_rows
        if n < LEAST_ROWS or np.isnan(self.overall.share):
            return [f"coverage is not known: {n:,} held-out requests, at least {LEAST_ROWS} with ends are needed"]
        found = []
        if abs(self.overall.share - self.level) > WHOLE_TOLERANCE:
            found.append(f"{_percent(self.overall.share)} of held-out requests stayed within their "
                         f"{_percent(self.level)} bound (tolerance {100 * WHOLE_TOLERANCE:g} points)")
        odd = [idx for idx, (_, each) in enumerate(self.by_decile, 1)
               if not abs(each.share - self.level) <= DECILE_TOLERANCE]
        if odd:
            found.append(f"{len(odd)} of {len(self.by_decile)} tenths by predicted lifetime lie outside "
                         f"{100 * DECILE_TOLERANCE:g} points: {', '.join(map(str, odd))}")
        return found

    @property
    def is_enough(self) -> bool:
        """Whether the coverage of all rows is known and falls short of the level by no more than the tolerance."""
        return self.overall.n_rows >= LEAST_ROWS and self.overall.share >= self.level - WHOLE_TOLERANCE


def coverage_report(replayed: Replayed, level: float, *, seed: int = 0) -> CoverageReport:
    """Coverage of the model's own quantile on all held-out requests."""
    rows = replayed.held_out()
    return _of_model(replayed, rows, level, level, seed)


def corrected_report(replayed: Replayed, level: float, *, seed: int = 0) -> CoverageReport:
    """The level to ask for so that the earlier half of the held-out requests is covered, judged on the later half.

    Ends in the later half are not seen by the first: its labels are those of the cut. One number for all requests: a
    model that is wrong by another amount for short requests than for long ones stays so.
    """
    every, decided = replayed.rows, replayed.rows.decided_s
    held = decided >= replayed.held_out_s
    if not held.any():
        return coverage_report(replayed, level, seed=seed)
    cut_s = int(np.quantile(decided[held], 0.5, method="higher"))
    earlier, later = known_at(every, held & (decided < cut_s), cut_s), known_at(every, decided >= cut_s, None)
    used = level if len(earlier) < LEAST_ROWS else level_for(replayed.table(earlier.features), earlier, level)
    return _of_model(replayed, later, level, used, seed)


def level_for(table: CurveTable, rows: Examples, level: float) -> float:
    """The level whose bound `level` of the rows stayed within: the quantile of their PIT, in (0, 1)."""
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
    """Coverage of any bounds at the start of `rows`, float64 (n,) seconds. table: what the model predicts of them."""
    if len(rows) == 0 or not rows.is_event.any():
        return CoverageReport(level, used, Coverage(np.nan, np.nan, np.nan, len(rows), np.nan), (), ())
    codes, _ = drawn_owners(rows, replayed.bundle.schema.encoder.history)
    bounded = BoundedRows.of(table, rows, bound_s, used)
    overall = bounded.coverage(OwnerDraws(codes, seed=seed))
    return CoverageReport(level, used, overall, bounded.by_decile(table.quantile(0.5, 0.0)), ())


def _of_model(replayed: Replayed, rows: Examples, level: float, used: float, seed: int) -> CoverageReport:
    """Coverage of the model's own quantile, at the start and at later ages."""
    table = replayed.table(rows.features)
    bound_s = total_bounds(table, used, 0.0) if len(rows) else np.empty(0)
    report = report_of(replayed, rows, table, bound_s, level, used, seed)
    if np.isnan(report.overall.share):
        return report
    by_age = []
    for age_s in AGES_S:
        is_old = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
        if int(is_old.sum()) >= LEAST_ROWS:
            some, aged = rows.take(is_old), table.take(is_old)
            by_age.append((age_s, BoundedRows.of(aged, some, total_bounds(aged, used, age_s), used, age_s).coverage()))
    return replace(report, by_age=by_age)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"
