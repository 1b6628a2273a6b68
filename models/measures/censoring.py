"""Inverse-probability-of-censoring weights of test rows, and how far the test can be followed.

There is one censoring curve G for all test rows, as in scikit-survival. Training weights have one
per week of arrival (models.outcomes). But a test window ends with the trace: no row of its last
week can be followed past a week, so that week's G would be 0 at longer thresholds. With a pooled G,
earlier rows have the weight of these; this supposes no drift of lifetimes within the window.

`KaplanMeier` is survival under censoring and late entry, prepared for new row weights, as in a bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.outcomes import WEIGHT_LIMIT, CensoringCurve


def censoring_curve(rows: Examples) -> CensoringCurve:
    """The pooled G of test rows (reverse Kaplan-Meier, late entries at risk from their entry)."""
    return CensoringCurve.fit(rows.lifetime_s, rows.is_event, rows.entry_s)


def follow_up_s(rows: Examples, share: float = 0.95) -> float:
    """The time, seconds, by which `share` of the rows have ended or are censored; NaN for no rows.

    If 5 % of all rows are still under observation, without late entries, G is at least 0.05:
    weights before it never reach WEIGHT_LIMIT.
    """
    return float(np.quantile(rows.lifetime_s, share, method="lower")) if len(rows) else float("nan")


def outliving_weights(curve: CensoringCurve, rows: Examples, threshold_s: float, age_s: float = 0.0,
                      before: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Weights float64 (n,) for "outlives the threshold" among rows alive at an age, and the clipped share.

    Cumulative/dynamic: rows observed beyond the threshold have weight G(u) / G(T), ends at L <= T
    have G(u) / G(L-), at most WEIGHT_LIMIT; rows censored by T, and rows not under observation at
    the age u, have 0. The share is of the rows with a weight. before: G(L-) of each row, (n,); None
    = computed here. Source: Uno, Cai, Tian and Wei 2007; Blanche, Dartigues and Jacqmin-Gadda 2013.

    >>> curve = CensoringCurve(np.array([5.0]), np.array([0.5]))
    >>> rows = Examples(np.zeros((3, 1)), (), np.array([4.0, 5.0, 9.0]), np.array([True, False, True]), np.zeros(3),
    ...                 np.zeros(3, np.int64), np.arange(3))
    >>> outliving_weights(curve, rows, 8.0)
    (array([1., 0., 2.]), 0.0)
    """
    _check_age(threshold_s, age_s)
    is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
    is_long = is_asked & (rows.lifetime_s > threshold_s)
    is_short = is_asked & rows.is_event & ~is_long
    before = curve.before(rows.lifetime_s) if before is None else before
    followed = np.where(is_long, curve.at(np.array([threshold_s])), before)
    return _inverse(curve, is_long | is_short, followed, age_s)


def end_weights(curve: CensoringCurve, rows: Examples, age_s: float = 0.0) -> tuple[np.ndarray, float]:
    """Weights G(u) / G(L-) of observed ends among rows alive at an age, float64 (n,), and the clipped share.

    Censored rows, and rows not under observation at the age u, have weight 0; at most WEIGHT_LIMIT.
    Lifetimes longer than any follow-up are not represented.
    """
    is_asked = (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
    return _inverse(curve, is_asked & rows.is_event, curve.before(rows.lifetime_s), age_s)


def _check_age(threshold_s: float, age_s: float) -> None:
    if not 0.0 <= age_s < threshold_s:
        raise ValueError(f"age_s must be from 0 to below threshold_s {threshold_s!r}, got {age_s!r}")


def _inverse(curve: CensoringCurve, is_counted: np.ndarray, followed: np.ndarray,
             age_s: float) -> tuple[np.ndarray, float]:
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.nan_to_num(curve.at(np.array([age_s])) / followed, nan=WEIGHT_LIMIT, posinf=WEIGHT_LIMIT + 1.0)
    weight = np.where(is_counted, weight, 0.0)
    is_clipped = weight > WEIGHT_LIMIT
    return np.minimum(weight, WEIGHT_LIMIT), float(is_clipped.sum() / max(int(is_counted.sum()), 1))


@dataclass(frozen=True, slots=True)
class KaplanMeier:
    """Rows sorted by value once, so that new row weights cost O(n). A value is a time or a monotone function of it.

    values: float64 (k,), distinct, rising. first: int64 (k,), the start of each in order. order:
    int64 (n,). is_event: float64 (n,), in that order. by_entry: int64 (n,), rows by entry;
    n_entered: int64 (k,), how many of them entered before each value.
    """

    values: np.ndarray
    first: np.ndarray
    order: np.ndarray
    is_event: np.ndarray
    by_entry: np.ndarray
    n_entered: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray, is_event: np.ndarray, entry: np.ndarray) -> KaplanMeier:
        """Sort at least one row. value: float (n,), of its end or censoring. is_event: bool (n,), False = censored.

        entry: float (n,), below `value`: the row is at risk above it. At equal values events come first.
        """
        if len(value) == 0 or not (entry < value).all():
            raise ValueError(f"entry must be below value in each of at least one row, got {len(value)} rows, "
                             f"{int((entry >= value).sum())} of them not")
        order = np.argsort(value, kind="stable")
        values, first = np.unique(value[order], return_index=True)
        by_entry = np.argsort(entry, kind="stable")
        n_entered = np.searchsorted(entry[by_entry], values, side="left")
        return cls(values, first, order, is_event[order].astype(np.float64), by_entry, n_entered)

    def survival(self, weight: np.ndarray | None = None) -> np.ndarray:
        """S after each distinct value, float64 (k,), each row counted `weight` (n,) times (>= 0; None = once).

        >>> rows = KaplanMeier.of(np.array([1.0, 2.0, 3.0]), np.array([True, False, True]), np.zeros(3))
        >>> rows.survival(np.array([2.0, 1.0, 1.0])).tolist()
        [0.5, 0.5, 0.0]
        """
        row = np.ones(len(self.order)) if weight is None else weight
        in_order = row[self.order]
        n_left = np.cumsum(np.append(0.0, np.add.reduceat(in_order, self.first)))[:-1]
        n_events = np.add.reduceat(in_order * self.is_event, self.first)
        n_at_risk = np.append(0.0, np.cumsum(row[self.by_entry]))[self.n_entered] - n_left
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(n_events > 0.0, 1.0 - n_events / n_at_risk, 1.0)
        return np.cumprod(np.clip(factor, 0.0, 1.0))

    def survival_at(self, points: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """S(point) = share above the point, float64 (m,); NaN beyond the last row if some outlast it."""
        survival = self.survival(weight)
        n_steps = np.searchsorted(self.values, points, side="right")
        share = np.where(n_steps < 1, 1.0, survival[np.maximum(n_steps - 1, 0)])
        return np.where((points > self._last(weight)) & (share > 0.0), np.nan, share)

    def _last(self, weight: np.ndarray | None) -> float:
        """The last value of a row that counts; minus infinity if none does."""
        if weight is None:
            return float(self.values[-1])
        present = np.flatnonzero(weight[self.order] > 0.0)
        if len(present) == 0:
            return -np.inf
        return float(self.values[np.searchsorted(self.first, present[-1], side="right") - 1])


def weighted_mean(values: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean of values (n,), each row counted `weight` (n,) times (>= 0; None = once); NaN if nothing counts.

    >>> weighted_mean(np.array([1.0, 4.0]), np.array([2.0, 1.0]))
    2.0
    """
    if weight is None:
        return float(values.mean()) if len(values) else float("nan")
    total = float(weight.sum())  # no dot product: in BLAS, the number of threads changes the last bits
    return float((weight * values).sum()) / total if total > 0.0 else float("nan")
