"""Concordance: of two requests, how often the one scored as longer-lived is; 0.5 is guessing, higher is better.

A pair can be ordered if the first of the two times is an observed end; of two ends at one second neither is first, and
one censored then outlives an end. Equal scores count one half. A late entry counts from its entry on.

Row weights multiply: w_i w_j for a pair. So a weight of 3 is that row three times: its copies are
equal in time and form no pair, and a bootstrap's repeated rows add no ties.

`Ranking` measures how well a score separates long-lived from short requests; higher is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.measures import _kernels
from sojourn.models.measures.censoring import censoring_curve, follow_up_s
from sojourn.models.measures.measure import PairSums, SortedRows
from sojourn.models.outcomes import WEIGHT_LIMIT, CensoringCurve


@dataclass(frozen=True, slots=True)
class Concordance:
    """Rows sorted by time once, latest first, so that new row weights cost O(n log n).

    order: int64 (n,), the rows in the order of `rows`.
    """

    order: np.ndarray
    rows: SortedRows

    @classmethod
    def of(cls, rows: Examples, score: np.ndarray, curve: CensoringCurve | None = None,
           tau_s: float | None = None) -> Concordance:
        """Sort. score: float (n,), higher = longer-lived; equal scores are ties (exactly equal).

        curve: G of Uno's weights, tau_s: seconds from which on ends do not lead a pair; the default
        is from these rows (`censoring_curve`, `follow_up_s`).
        """
        curve = censoring_curve(rows) if curve is None else curve
        tau_s = follow_up_s(rows) if tau_s is None else tau_s
        with np.errstate(divide="ignore"):
            inverse = np.minimum(1.0 / curve.before(rows.lifetime_s), WEIGHT_LIMIT)
        uno = np.where(rows.is_event & (rows.lifetime_s < tau_s), inverse**2, 0.0)
        order = np.lexsort((rows.is_event, -rows.lifetime_s))
        times = rows.lifetime_s[order]
        starts = np.flatnonzero(np.append(True, np.diff(times) != 0.0)) if len(times) else np.empty(0, np.int64)
        distinct, rank = np.unique(score, return_inverse=True)
        idx_leave = np.argsort(-rows.entry_s[order], kind="stable")
        n_leave = np.searchsorted(-rows.entry_s[order][idx_leave], -times[starts], side="right")
        return cls(order, SortedRows(np.append(starts, len(times)), rows.is_event[order], rank[order], len(distinct),
                                     idx_leave, n_leave, uno[order]))

    def both(self, weight: np.ndarray | None = None) -> tuple[float, float]:
        """Harrell's and Uno's C in one sweep, each row counted `weight` (n,) times (>= 0); NaN without pairs.

        >>> rows = Examples(np.zeros((3, 1)), (), np.array([1.0, 2.0, 3.0]), np.array([True, False, True]),
        ...                 np.zeros(3), np.zeros(3, np.int64), np.arange(3))
        >>> Concordance.of(rows, np.array([5.0, 4.0, 6.0]), tau_s=9.0).both()  # 1 < 3 is ordered, 1 < 2 is not
        (0.5, 0.5)
        """
        row = np.ones(len(self.order)) if weight is None else np.asarray(weight, np.float64)[self.order]
        sums: PairSums = _kernels.concordance_sums(self.rows, row)
        return (sums.concordant / sums.comparable if sums.comparable > 0.0 else float("nan"),
                sums.uno_concordant / sums.uno_comparable if sums.uno_comparable > 0.0 else float("nan"))


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """Counts with each distinct score as the threshold, highest first: float64 (k,), k >= 1, weighted.

    taken: rows at or above the threshold. hits: the long ones among them.
    """

    taken: np.ndarray
    hits: np.ndarray

    def average_precision(self) -> float:
        """Area under the precision-recall curve as a sum of steps, in [0, 1]; NaN if one class is missing."""
        if not 0.0 < self.hits[-1] < self.taken[-1]:
            return float("nan")
        precision = self.hits / np.where(self.taken > 0.0, self.taken, 1.0)
        return float((np.diff(self.hits, prepend=0.0) * precision).sum() / self.hits[-1])

    def recall_at(self, precision: float) -> float:
        """The largest recall with a precision of at least `precision`; 0 if there is none; NaN if
        one class is missing, since any score has a precision of 1 if all are long."""
        if not 0.0 < self.hits[-1] < self.taken[-1]:
            return float("nan")
        return float(self.hits[self.hits >= precision * self.taken].max(initial=0.0) / self.hits[-1])


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows sorted by score once, so that new row weights cost O(n).

    order: int64 (n,), highest score first. is_long: float64 (n,), in that order. last: int64 (k,), position of the
    last row of each distinct score: ties stay together.
    """

    order: np.ndarray
    is_long: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, is_long: np.ndarray, score: np.ndarray) -> Ranking:
        """Sort at least one row. is_long: bool (n,). score: float (n,), higher = longer-lived."""
        order = np.argsort(-score, kind="stable")
        last = np.flatnonzero(np.append(np.diff(score[order]) != 0.0, True))
        return cls(order, is_long[order].astype(np.float64), last)

    def curve(self, weight: np.ndarray | None = None) -> PrecisionRecall:
        """Counts at each threshold with each row counted `weight` (n,) times (>= 0; None = once).

        >>> ranking = Ranking.of(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]))
        >>> ranking.curve(np.array([1.0, 2.0, 1.0])).average_precision()  # half at precision 1, half at 2/4
        0.75
        """
        row = np.ones(len(self.order)) if weight is None else weight[self.order]
        return PrecisionRecall(np.cumsum(row)[self.last], np.cumsum(row * self.is_long)[self.last])


def average_precision(is_long: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Area under the precision-recall curve, in [0, 1]; NaN if one class is missing.

    is_long: bool (n,). score: float (n,), higher = longer-lived. weight: float64 (n,), how often a row counts. As in
    scikit-learn: steps, not trapezoids, which no threshold reaches (Davis and Goadrich 2006).
    """
    return Ranking.of(is_long, score).curve(weight).average_precision() if len(score) else float("nan")


def f1(is_long: np.ndarray, is_predicted: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Harmonic mean of precision and recall of "long-lived", in [0, 1]; NaN if nothing is long or predicted as long.

    is_long, is_predicted: bool (n,). weight: float64 (n,), how often a row counts.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    row = np.ones(len(is_long)) if weight is None else weight
    total = float((row * is_long).sum() + (row * is_predicted).sum())
    return 2.0 * float((row * (is_long & is_predicted)).sum()) / total if total > 0.0 else float("nan")
