"""When exits left the expected ones: the day that makes the days up to an alarm most likely, and those near it.

The rate of exits, over the expected ones, has one value before that day and another since (Hinkley 1970, Inference
about the change-point in a sequence of random variables).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.models.drift.detector import TOLERANCE

_DROP = 3.0
"""Days with at least a twentieth of the highest likelihood may be it."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Places of days. start: the first of the changed ones; low, high: the first and last day that may be it."""

    start: int
    low: int
    high: int


def change_point(observed: np.ndarray, expected: np.ndarray, variance: np.ndarray) -> ChangePoint:
    """The most likely first day of a changed rate that lasts to the last day; all float64 (D,), D at least 1.

    Exits are taken as Poisson, scaled by the median over days of variance / expected, at least 1. The rate before is
    fitted, too, within the tolerance that a calibrated model has; without that, a small bias of a long log would be the
    change. low, high: where the profile of the log-likelihood is within 3 of its top.

    >>> expected = np.full(30, 100.0)
    >>> change_point(np.where(np.arange(30) < 26, 108.0, 160.0), expected, expected)
    ChangePoint(start=26, low=26, high=26)
    """
    if not len(observed) == len(expected) == len(variance) > 0:
        raise ValueError(f"days must be at least one, with an expected and a variance each, got {len(observed)}")
    is_told = expected > 0.0
    scale = max(1.0, float(np.median(variance[is_told] / expected[is_told]))) if is_told.any() else 1.0
    seen, due = np.append(0.0, np.cumsum(observed)), np.append(0.0, np.cumsum(expected))
    before = _log_likelihood(seen[:-1], due[:-1], 1.0 / (1.0 + TOLERANCE), 1.0 + TOLERANCE)
    since = _log_likelihood(seen[-1] - seen[:-1], due[-1] - due[:-1], 0.0, np.inf)
    profile = (before + since) / scale
    start = int(profile.argmax())
    near = np.flatnonzero(profile >= profile[start] - _DROP)
    return ChangePoint(start, int(near[0]), int(near[-1]))


def _log_likelihood(observed: np.ndarray, expected: np.ndarray, low: float, high: float) -> np.ndarray:
    """At the best rate within the bounds, above that at rate 1."""
    due = np.maximum(expected, 1e-9)
    rate = np.clip(observed / due, low, high)
    return observed * np.log(np.maximum(rate, 1e-300)) - (rate - 1.0) * due
