"""Errors of predicted times in log10 seconds; lower is better, and 0.3 is a factor of two."""

from __future__ import annotations

import numpy as np

FLOOR_S = 30.0
"""Shorter times count as this long: below it an error costs a scheduler nothing (specs, Measures)."""


def mae_log10(predicted_s: np.ndarray, observed_s: np.ndarray) -> float:
    """Mean absolute error of log10 seconds, both floored at 30 s; NaN for no rows.

    >>> mae_log10(np.array([100.0, 1.0]), np.array([1000.0, 20.0]))
    0.5
    """
    return float(np.abs(_log_ratio(predicted_s, observed_s)).mean()) if len(observed_s) else float("nan")


def bias_log10(predicted_s: np.ndarray, observed_s: np.ndarray) -> float:
    """Mean of log10(predicted / observed), both floored at 30 s; above 0 = predicted too long.

    >>> bias_log10(np.array([100.0]), np.array([1000.0]))
    -1.0
    """
    return float(_log_ratio(predicted_s, observed_s).mean()) if len(observed_s) else float("nan")


def _log_ratio(predicted_s: np.ndarray, observed_s: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(predicted_s, FLOOR_S)) - np.log10(np.maximum(observed_s, FLOOR_S))
