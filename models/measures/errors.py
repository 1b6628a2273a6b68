"""Errors of predicted times in log10 seconds; lower is better, and 0.3 is a factor of two.

`Coverage` is how often lifetimes stay within their predicted bound, under censoring. A row censored before its bound
may still stay within it, with a probability that follows from F(C | x), its predicted share that ends by then.
Kaplan-Meier over such shares (PIT, see `calibration`) uses this, and allows censoring to depend on x.

`class_scores` measures the classes of a scheduler from any lifetime curve, at creation and for the remaining time at 1
h. A request's class is the number of thresholds that it outlives; the predicted class the number that it outlives with
a probability above 0.5. DVLA reports plain accuracy, although one class holds most requests: macro-recall is the mean
of each class's recall, and with core-hours as weight each request counts with its cores and observed lifetime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.censoring import KaplanMeier, censoring_curve, outliving_weights, weighted_mean
from sojourn.models.measures.measure import CLASS_THRESHOLDS_S, OwnerDraws, interval, time_label
from sojourn.models.outcomes import CensoringCurve

FLOOR_S = 30.0
"""Shorter times count as this long, since errors below it cost a scheduler nothing (specs, Measures)."""


def log_errors(predicted_s: np.ndarray, observed_s: np.ndarray) -> np.ndarray:
    """log10(predicted / observed), float64 (n,), both floored at 30 s; above 0 = predicted too long."""
    return np.log10(np.maximum(predicted_s, FLOOR_S)) - np.log10(np.maximum(observed_s, FLOOR_S))


def mae_log10(predicted_s: np.ndarray, observed_s: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean absolute error of log10 seconds, both floored at 30 s; NaN for no rows.

    weight: float64 (n,), how often a row counts. Among observed ends long lifetimes are rarer;
    `censoring.end_weights` times the row weights correct this.

    >>> mae_log10(np.array([100.0, 1.0]), np.array([1000.0, 20.0]))
    0.5
    >>> mae_log10(np.array([100.0, 1.0]), np.array([1000.0, 20.0]), np.array([3.0, 1.0]))
    0.75
    """
    return weighted_mean(np.abs(log_errors(predicted_s, observed_s)), weight)


N_DECILES = 10


@dataclass(frozen=True, slots=True)
class Coverage:
    """The share of rows that ended within their bound, and its 95 % interval over owners (NaN: without draws).

    share: NaN if no row was followed far enough. n_rows: number of rows. unfollowed: share of them
    that were censored before their bound.
    """

    share: float
    low: float
    high: float
    n_rows: int
    unfollowed: float


@dataclass(frozen=True, slots=True)
class BoundedRows:
    """Rows with a bound each, prepared for shares of any selection.

    value: float64 (n,), up to `level` = within the bound. is_event, is_followed: bool (n,);
    is_followed: the end was observed, or the row outlasts the bound.
    """

    value: np.ndarray
    is_event: np.ndarray
    is_followed: np.ndarray
    level: float

    @classmethod
    def of(cls, table: CurveTable, rows: Examples, bound_s: np.ndarray, level: float,
           age_s: float = 0.0) -> BoundedRows:
        """Bounds of total lifetimes, float64 (n,) seconds, that `level` of the rows should stay within.

        age_s: the age at which the bounds were predicted; ValueError unless all rows have outlived
        it under observation. An end at the bound is within it.

        >>> from sojourn.models.curve_table import OnceTable
        >>> rows = Examples(np.zeros((4, 1)), (), np.array([5.0, 50.0, 5.0, 20.0]),
        ...                 np.array([True, True, False, False]), np.zeros(4), np.zeros(4, np.int64), np.arange(4))
        >>> table = OnceTable(np.ones(4), 1.0, np.array([-0.5, 0.0, 0.5]))
        >>> rows_at_bound = BoundedRows.of(table, rows, np.full(4, 10.0), 0.5)
        >>> rows_at_bound.is_followed.tolist(), round(rows_at_bound.share(), 3)
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
        most = np.where(rows.is_event, level, np.nextafter(level, 0.0))  # a row censored at the bound outlasts it
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

        Equal predictions stay together, so there may be fewer."""
        edges = np.unique(np.quantile(predicted_s, np.arange(1, N_DECILES + 1) / N_DECILES, method="higher"))
        decile_of = np.searchsorted(edges, predicted_s)
        return [(float(edge), self.take(decile_of == idx).coverage()) for idx, edge in enumerate(edges)]


N_EACH_MIN = 20
"""A threshold needs so many rows that outlive it, and so many that do not, for classes and classifiers."""
CLASS_AGES_S = (0, 3_600)


def has_each(outlives: np.ndarray) -> bool:
    """Whether enough rows outlive a threshold, and enough do not. outlives: bool (n,).

    >>> has_each(np.arange(40) < 20), has_each(np.arange(40) < 19)
    (True, False)
    """
    n_long = int(outlives.sum())
    return min(n_long, len(outlives) - n_long) >= N_EACH_MIN


def shown_thresholds(past: Examples, test: Examples) -> Mapping[str, tuple[int, ...]]:
    """For each scheduler the thresholds, s, that both windows show, at creation and at 1 h; without empty ones.

    A window shows a threshold if at least 20 observed rows outlive it, and 20 do not.
    """
    windows = [(rows, censoring_curve(rows)) for rows in (past, test)]
    common = {name: tuple(each for each in thresholds_s
                          if all(_is_shown(*window, each, age_s) for window in windows for age_s in CLASS_AGES_S))
              for name, thresholds_s in CLASS_THRESHOLDS_S.items()}
    return {name: thresholds_s for name, thresholds_s in common.items() if thresholds_s}


def class_scores(table: CurveTable, test: Examples, cores: np.ndarray,
                 thresholds: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """`dvla.accuracy`, `dvla.macro_recall`, `dvla.core_hours` and the same at 1 h (`dvla.age_1h.*`), of each scheduler.

    cores: float64 (n,), of the test rows. thresholds: from `shown_thresholds`. Higher is better, in
    [0, 1]. Rows censored below the last threshold have an unknown class; inverse probability of
    censoring replaces them.
    """
    curve = censoring_curve(test)
    scores: dict[str, float] = {}
    for name, thresholds_s in thresholds.items():
        for age_s in CLASS_AGES_S:
            weight, _ = outliving_weights(curve, test, age_s + thresholds_s[-1], age_s)
            idx = np.flatnonzero(weight > 0.0)
            if len(idx) == 0:
                continue
            rows, curves, weight = test.take(idx), table.take(idx), weight[idx]
            left_s = rows.lifetime_s - age_s
            truth = sum(((left_s > each).astype(np.int64) for each in thresholds_s), np.zeros(len(idx), np.int64))
            called = sum(((curves.survival(float(each), float(age_s)) > 0.5).astype(np.int64) for each in thresholds_s),
                         np.zeros(len(idx), np.int64))
            prefix = name if age_s == 0 else f"{name}.age_{time_label(age_s)}"
            is_right = (truth == called).astype(np.float64)
            recalls = [np.average(is_right[truth == each], weights=weight[truth == each]) for each in np.unique(truth)]
            hours = weight * np.maximum(cores[idx], 0.0) * left_s
            scores[f"{prefix}.accuracy"] = float(np.average(is_right, weights=weight))
            scores[f"{prefix}.macro_recall"] = float(np.mean(recalls))
            if hours.sum() > 0.0:
                scores[f"{prefix}.core_hours"] = float(np.average(is_right, weights=hours))
    return scores


def _is_shown(rows: Examples, curve: CensoringCurve, threshold_s: int, age_s: int) -> bool:
    weight, _ = outliving_weights(curve, rows, age_s + threshold_s, age_s)
    return has_each(rows.lifetime_s[weight > 0.0] > age_s + threshold_s)
