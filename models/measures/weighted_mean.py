"""A mean over rows that can be reweighed, as a bootstrap does."""

from __future__ import annotations

import numpy as np


def weighted_mean(values: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean of values (n,), each row counted `weight` (n,) times (>= 0; None = once); NaN where nothing counts.

    >>> weighted_mean(np.array([1.0, 4.0]), np.array([2.0, 1.0]))
    2.0
    """
    if weight is None:
        return float(values.mean()) if len(values) else float("nan")
    total = float(weight.sum())  # no dot product: BLAS splits it over threads, whose number moves the last bits
    return float((weight * values).sum()) / total if total > 0.0 else float("nan")
