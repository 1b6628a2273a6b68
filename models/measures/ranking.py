"""How well a score tells long-lived requests from short ones; higher is better in all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """Counts at each distinct score taken as the threshold, highest first: float64 (k,), k >= 1, weighted.

    taken: rows at or above the threshold. hits: the long ones among them.
    """

    taken: np.ndarray
    hits: np.ndarray

    def average_precision(self) -> float:
        """Area under the precision-recall curve as a sum of steps, in [0, 1]; NaN where one class is missing."""
        if not 0.0 < self.hits[-1] < self.taken[-1]:
            return float("nan")
        precision = self.hits / np.where(self.taken > 0.0, self.taken, 1.0)
        return float((np.diff(self.hits, prepend=0.0) * precision).sum() / self.hits[-1])

    def recall_at(self, precision: float) -> float:
        """The largest recall whose precision is at least `precision`; 0 where there is none, NaN where one class is
        missing: where all are long, any score has a precision of 1."""
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
    """Area under the precision-recall curve, in [0, 1]; NaN where one class is missing.

    is_long: bool (n,). score: float (n,), higher = longer-lived. weight: float64 (n,), times a row counts. As
    scikit-learn's: steps, not trapezoids, which would promise what no threshold gives (Davis and Goadrich 2006).
    """
    return Ranking.of(is_long, score).curve(weight).average_precision() if len(score) else float("nan")


def recall_at_precision(is_long: np.ndarray, score: np.ndarray, precision: float,
                        weight: np.ndarray | None = None) -> float:
    """The largest recall of any threshold whose precision is at least `precision`; 0 where there is none.

    is_long: bool (n,). score: float (n,), higher = longer-lived. weight: float64 (n,), times a row counts. NaN where
    one class is missing. Ties stay together.

    >>> recall_at_precision(np.array([True, True, False, True]), np.array([0.9, 0.8, 0.7, 0.6]), 0.99)
    0.6666666666666666
    """
    return Ranking.of(is_long, score).curve(weight).recall_at(precision) if len(score) else float("nan")


def f1(is_long: np.ndarray, is_predicted: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Harmonic mean of precision and recall of "long-lived", in [0, 1]; NaN where nothing is long or called so.

    is_long, is_predicted: bool (n,). weight: float64 (n,), times a row counts.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    row = np.ones(len(is_long)) if weight is None else weight
    total = float((row * is_long).sum() + (row * is_predicted).sum())
    return 2.0 * float((row * (is_long & is_predicted)).sum()) / total if total > 0.0 else float("nan")
