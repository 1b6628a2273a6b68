"""How well a score tells long-lived requests from short ones; higher is better in all of them."""

from __future__ import annotations

import numpy as np


def average_precision(is_long: np.ndarray, score: np.ndarray) -> float:
    """Area under the precision-recall curve, in [0, 1]; NaN where one class is missing.

    is_long: bool (n,). score: float (n,), higher = longer-lived. Computed by scikit-learn.
    """
    from sklearn.metrics import average_precision_score

    if is_long.all() or not is_long.any():
        return float("nan")
    return float(average_precision_score(is_long, score))


def recall_at_precision(is_long: np.ndarray, score: np.ndarray, precision: float) -> float:
    """The largest recall of any threshold whose precision is at least `precision`; 0 where there is none.

    is_long: bool (n,). score: float (n,), higher = longer-lived. NaN where nothing is long. Ties stay together.

    >>> recall_at_precision(np.array([True, True, False, True]), np.array([0.9, 0.8, 0.7, 0.6]), 0.99)
    0.6666666666666666
    """
    if not is_long.any():
        return float("nan")
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(is_long[order])
    taken = np.arange(1, len(order) + 1)
    is_last_of_tie = np.append(np.diff(score[order]) != 0.0, True)
    is_enough = is_last_of_tie & (hits >= precision * taken)
    return float(hits[is_enough].max(initial=0) / is_long.sum())


def f1(is_long: np.ndarray, is_predicted: np.ndarray) -> float:
    """Harmonic mean of precision and recall of "long-lived", in [0, 1]; NaN where nothing is long or called so.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    total = int(is_long.sum()) + int(is_predicted.sum())
    return float(2.0 * (is_long & is_predicted).sum() / total) if total else float("nan")
