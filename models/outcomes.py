"""Censoring in labels: the probability that an end was observed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.split import Examples
from sojourn.serving.inputs import WEEK_S

WEIGHT_LIMIT = 20.0
"""Inverse-probability weights are clipped here (specs, Labels and censoring)."""
MIN_STRATUM = 200
"""A week with fewer examples uses the censoring curve of all."""


@dataclass(frozen=True, slots=True)
class CensoringCurve:
    """G(t): the probability of not being censored by t, a right-continuous step function.

    times_s: float64 (m,), increasing. probability: float64 (m,), G at and after each time.
    """

    times_s: np.ndarray
    probability: np.ndarray

    @classmethod
    def fit(cls, lifetime_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray) -> CensoringCurve:
        """Reverse Kaplan-Meier with delayed entry; at ties events come before censorings.

        >>> curve = CensoringCurve.fit(np.array([1.0, 2.0, 2.0, 3.0]), np.array([True, True, False, True]),
        ...                            np.zeros(4))
        >>> curve.before(np.array([2.0, 3.0])).tolist()  # at 2 one of the remaining two is censored, after the event
        [1.0, 0.5]
        """
        times, inverse = np.unique(lifetime_s, return_inverse=True)
        n_censored = np.bincount(inverse, weights=~is_event, minlength=len(times))
        n_events = np.bincount(inverse, weights=is_event, minlength=len(times))
        n_entered = np.searchsorted(np.sort(entry_s), times, side="left")  # entered strictly before
        n_left = np.searchsorted(np.sort(lifetime_s), times, side="left")
        n_at_risk = n_entered - n_left - n_events
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(n_censored > 0, 1.0 - n_censored / n_at_risk, 1.0)
        return cls(times, np.cumprod(np.clip(factor, 0.0, 1.0)))

    def before(self, time_s: np.ndarray) -> np.ndarray:
        """G(t-): the probability of not being censored before t, shape of `time_s`."""
        return self._after(np.searchsorted(self.times_s, time_s, side="left"))

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """G(t): the probability of not being censored by t, shape of `time_s`."""
        return self._after(np.searchsorted(self.times_s, time_s, side="right"))

    def _after(self, n_steps: np.ndarray) -> np.ndarray:
        return np.where(n_steps < 1, 1.0, self.probability[np.maximum(n_steps - 1, 0)])


def event_weights(examples: Examples, idx: np.ndarray, uptime_s: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights G(u-) / G(L-) of rows at an uptime, 0 for censored ones, and the clipped share of observed rows.

    examples: G is fitted on them, with a curve for each week of arrival (with fewer than MIN_STRATUM examples, the
    curve of all), since the possible time of observation depends on the arrival. idx: int64 (m,), the example of each
    row. uptime_s: float64 (m,). Weights are at most WEIGHT_LIMIT.
    """
    week, n_week = np.unique((examples.arrival_s - examples.begin_s) // WEEK_S, return_inverse=True)
    counts = np.bincount(n_week)
    pooled = _curve_of(examples, np.ones(len(examples), bool))
    weight = np.zeros(len(idx))
    for stratum in range(len(week)):
        is_row = n_week[idx] == stratum
        if is_row.any():
            curve = _curve_of(examples, n_week == stratum) if counts[stratum] >= MIN_STRATUM else pooled
            with np.errstate(divide="ignore", invalid="ignore"):
                weight[is_row] = curve.before(uptime_s[is_row]) / curve.before(examples.lifetime_s[idx[is_row]])
    is_event = examples.is_event[idx]
    weight = np.where(is_event, np.nan_to_num(weight, nan=WEIGHT_LIMIT, posinf=WEIGHT_LIMIT), 0.0)
    is_clipped = weight > WEIGHT_LIMIT
    return np.minimum(weight, WEIGHT_LIMIT), float(is_clipped.sum() / max(int(is_event.sum()), 1))


def _curve_of(examples: Examples, is_taken: np.ndarray) -> CensoringCurve:
    return CensoringCurve.fit(examples.lifetime_s[is_taken], examples.is_event[is_taken], examples.entry_s[is_taken])
