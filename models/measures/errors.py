"""Errors of predicted times in log10 seconds; lower is better, and 0.3 is a factor of two."""

from __future__ import annotations

import numpy as np

from sojourn.models.measures.weighted_mean import weighted_mean

FLOOR_S = 30.0
"""Shorter times count as this long: below it an error costs a scheduler nothing (specs, Measures)."""


def log_errors(predicted_s: np.ndarray, observed_s: np.ndarray) -> np.ndarray:
    """log10(predicted / observed), float64 (n,), both floored at 30 s; above 0 = predicted too long."""
    return np.log10(np.maximum(predicted_s, FLOOR_S)) - np.log10(np.maximum(observed_s, FLOOR_S))


def mae_log10(predicted_s: np.ndarray, observed_s: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean absolute error of log10 seconds, both floored at 30 s; NaN for no rows.

    weight: float64 (n,), times a row counts. Over observed ends, longer lifetimes are missing more often; with
    `censoring.end_weights` times the row weights those that were seen stand for them.

    >>> mae_log10(np.array([100.0, 1.0]), np.array([1000.0, 20.0]))
    0.5
    >>> mae_log10(np.array([100.0, 1.0]), np.array([1000.0, 20.0]), np.array([3.0, 1.0]))
    0.75
    """
    return weighted_mean(np.abs(log_errors(predicted_s, observed_s)), weight)


def bias_log10(predicted_s: np.ndarray, observed_s: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean of log10(predicted / observed), both floored at 30 s; above 0 = predicted too long.

    weight: float64 (n,), times a row counts.

    >>> bias_log10(np.array([100.0]), np.array([1000.0]))
    -1.0
    """
    return weighted_mean(log_errors(predicted_s, observed_s), weight)
