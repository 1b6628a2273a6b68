"""Coverage: how often lifetimes stayed within a bound that was predicted for them, under censoring.

A row censored before its bound may or may not stay within it. Its predicted share that ends by then, F(C | x), says
how likely that still is; Kaplan-Meier over such shares (PIT, see `calibration`) counts it so, and lets censoring
depend on x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.bootstrap import OwnerDraws, interval
from sojourn.models.measures.kaplan_meier import KaplanMeier

N_DECILES = 10


@dataclass(frozen=True, slots=True)
class Coverage:
    """The share of rows that ended within their bound, and its 95 % interval over owners (NaN: not asked for).

    share: NaN where no row was followed far enough. n_rows: rows asked. unfollowed: share of them that were censored
    before their bound.
    """

    share: float
    low: float
    high: float
    n_rows: int
    unfollowed: float


@dataclass(frozen=True, slots=True)
class BoundedRows:
    """Rows with a bound each, prepared for shares of any part of them.

    value: float64 (n,), up to `level` = within the bound. is_event, is_followed: bool (n,); is_followed: the end was
    observed, or outlasts the bound.
    """

    value: np.ndarray
    is_event: np.ndarray
    is_followed: np.ndarray
    level: float

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, bound_s: np.ndarray, level: float,
           age_s: float = 0.0) -> BoundedRows:
        """Bounds of total lifetimes, float64 (n,) seconds, that `level` of the rows should stay within.

        age_s: all rows must have outlived it under observation; their bound was given at that age. An end at the bound
        is within it. ValueError where a row has not.

        >>> from sojourn.models.curve_table import OnceTable
        >>> rows = Examples(np.zeros((4, 1)), (), np.array([5.0, 50.0, 5.0, 20.0]),
        ...                 np.array([True, True, False, False]), np.zeros(4), np.zeros(4, np.int64), np.arange(4))
        >>> table = OnceTable(np.ones(4), 1.0, np.array([-0.5, 0.0, 0.5]))
        >>> found = BoundedRows.of(table, rows, np.full(4, 10.0), 0.5)
        >>> found.is_followed.tolist(), round(found.share(), 3)
        ([True, True, False, True], 0.25)
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be above 0 and below 1, got {level!r}")
        is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
        if len(rows) == 0 or not is_asked.all():
            raise ValueError(f"age_s must be outlived under observation by each of at least one row, got {age_s!r} for "
                             f"{len(rows):,} rows, {int((~is_asked).sum()):,} of them not")
        pit = 1.0 - table.survival(rows.lifetime_s - age_s, age_s)
        is_within = np.where(rows.is_event, rows.lifetime_s <= bound_s, rows.lifetime_s < bound_s)
        most = np.where(rows.is_event, level, np.nextafter(level, 0.0))  # what is censored at the bound outlasts it
        value = np.where(is_within, np.minimum(pit, most), np.maximum(pit, np.nextafter(level, 1.0)))
        return cls(value, rows.is_event, rows.is_event | ~is_within, level)

    def take(self, idx: np.ndarray) -> BoundedRows:
        """The rows at `idx` (positions or a bool mask)."""
        return BoundedRows(self.value[idx], self.is_event[idx], self.is_followed[idx], self.level)

    def share(self, draws: OwnerDraws | None = None) -> float:
        """The share within the bound, in [0, 1]."""
        return self.coverage(draws).share

    def coverage(self, draws: OwnerDraws | None = None) -> Coverage:
        """The share within the bound. draws: of owners, for an interval."""
        n = len(self.value)
        if n == 0:
            return Coverage(np.nan, np.nan, np.nan, 0, np.nan)
        over, at = KaplanMeier.of(self.value, self.is_event, np.full(n, -1.0)), np.array([self.level])
        share = 1.0 - float(over.survival_at(at)[0])
        low, high = (np.nan, np.nan) if draws is None else interval(
            [1.0 - float(over.survival_at(at, weight)[0]) for weight in draws])
        return Coverage(share, low, high, n, 1.0 - float(self.is_followed.mean()))

    def by_decile(self, predicted_s: np.ndarray) -> Sequence[tuple[float, Coverage]]:
        """For each tenth of the rows by predicted lifetime, float64 (n,): its largest prediction and its coverage.

        Equal predictions stay together, so that there may be fewer.
        """
        edges = np.unique(np.quantile(predicted_s, np.arange(1, N_DECILES + 1) / N_DECILES, method="higher"))
        found = np.searchsorted(edges, predicted_s)
        return [(float(edge), self.take(found == idx).coverage()) for idx, edge in enumerate(edges)]
