"""Half-widths of 95 % intervals of means over seeds or replicas."""

from __future__ import annotations

import numpy as np


def t_half_width(values: np.ndarray) -> np.ndarray:
    """Half of the 95 % t-interval of each column's mean, float64 (n_columns,); NaN where there is one row.

    values: float64 (n_rows, n_columns), one independent draw a row.

    >>> t_half_width(np.array([[1.0], [2.0], [3.0]])).round(3).tolist()
    [2.484]
    """
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return np.full(values.shape[1], np.nan)
    return np.asarray(t.ppf(0.975, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n))
