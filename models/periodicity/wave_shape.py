"""The wave of series whose period is known: phase, duty cycle, levels, and the error of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.models.periodicity._kernels import bridge_rows, fold, joint_rows, percentile_rows, profile_of, sums_rows
from sojourn.models.periodicity.duty_cycle import duty_of_change_points, duty_of_least_error
from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings
from sojourn.models.periodicity.phase_filter import peak_times, recurring

N_BINS = 288
"""Bins of the period in which windows begin and end: 0.35 points of the duty cycle."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Of each row: period and phase in steps from its first column, and duty cycle, float64 (n,).

    Infinite period = aperiodic. A step belongs where its middle lies. sums: of real samples, float64 (n, 5): count and
    sum within the busy window; count, sum and sum of squares of all. NaN where there is no period.
    """

    period: np.ndarray
    phase: np.ndarray
    duty: np.ndarray
    sums: np.ndarray

    def waves(self, n_steps: int, peak: np.ndarray, trough: np.ndarray) -> np.ndarray:
        """The wave of each row at the middle of each step, float64 (n, n_steps); 0 where there is no period."""
        is_periodic = np.isfinite(self.period)
        period = np.where(is_periodic, self.period, 1.0)
        turns = (np.arange(n_steps) + 0.5 - self.phase[:, None]) / period[:, None]
        is_busy = turns - np.floor(turns) < self.duty[:, None]
        return np.where(is_busy, peak[:, None], trough[:, None]) * is_periodic[:, None]


def timing_of(raw: np.ndarray, smooth: np.ndarray, period: np.ndarray, settings: PeriodicitySettings) -> Timing:
    """Phase and duty cycle of each row by the methods that the settings name.

    raw: float32 (n, m), NaN = missing. smooth: the same rows smoothed. period: in steps, infinite = none. `joint` folds
    the raw samples: a mean over many periods needs no filter, and the filter would round short busy windows off. The
    paper's methods read the smoothed series, change points the raw one. Where change points leave no pair of a rise and
    a fall, the duty cycle is that of least error.
    """
    timing = Timing(period, np.zeros(len(raw)), np.full(len(raw), 0.5), np.full((len(raw), 5), np.nan))
    if settings.phase_method == "joint":
        joint_rows(raw, period, N_BINS, timing.phase, timing.duty, timing.sums)
    if settings.duty_method != "joint":
        for row in np.flatnonzero(np.isfinite(period)):
            found = _paper(raw[row], smooth[row], period[row], timing.phase[row], settings)
            timing.phase[row], timing.duty[row] = found
        sums_rows(raw, period, timing.phase, timing.duty, timing.sums)
    return timing


def percentile_levels(smooth: np.ndarray, settings: PeriodicitySettings) -> tuple[np.ndarray, np.ndarray]:
    """Peak and trough of smoothed rows (sections III-A1 and III-A2), float64 (n,) each."""
    peak, trough = np.empty(len(smooth)), np.empty(len(smooth))
    percentile_rows(smooth, settings.trough_percentile / 100.0, settings.peak_percentile / 100.0, trough, peak)
    return peak, trough


def mean_levels(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means within and without the busy window, of `Timing.sums`; a window without samples has the mean of all.

    The peak is at least the trough. NaN where there is no period.
    """
    n_busy, busy, n_all, total, _ = sums.T
    n_idle = n_all - n_busy
    idle = np.where(n_idle > 0, (total - busy) / np.maximum(n_idle, 1), total / n_all)
    return np.maximum(np.where(n_busy > 0, busy / np.maximum(n_busy, 1), total / n_all), idle), idle


def squared_errors(sums: np.ndarray, peak: np.ndarray, trough: np.ndarray) -> np.ndarray:
    """Mean squared error of waves with these levels, of `Timing.sums`, float64 (n,)."""
    n_busy, busy, n_all, total, squares = sums.T
    error = (squares - 2.0 * (peak * busy + trough * (total - busy))
             + peak ** 2 * n_busy + trough ** 2 * (n_all - n_busy))
    return np.maximum(error, 0.0) / n_all


def _paper(raw: np.ndarray, smooth: np.ndarray, period: float, phase: float,
           settings: PeriodicitySettings) -> tuple[float, float]:
    """Phase in steps and duty cycle of one row; `phase` is the joint one, kept where that method is set."""
    levels = percentile_levels(smooth[None, :], settings)
    peak, trough = float(levels[0][0]), float(levels[1][0])
    if settings.phase_method == "paper":
        close = peak - settings.close_share * (peak - trough)
        phase = recurring(peak_times(smooth, close), period, settings.epsilon)[0]
    if settings.duty_method == "changepoint":
        bridged = np.empty((1, len(raw)), np.float32)
        bridge_rows(raw[None, :], bridged)
        found = duty_of_change_points(bridged[0].astype(np.float64), period, settings.epsilon)
        if found is not None:
            return phase, float(np.clip(found[1], 1.0 / N_BINS, 1.0 - 1.0 / N_BINS))
    sums, counts, profile = np.empty(N_BINS), np.empty(N_BINS, np.int64), np.empty(N_BINS)
    fold(smooth, period, sums, counts)
    profile_of(sums, counts, profile)
    return phase, duty_of_least_error(profile, np.maximum(counts, 1), phase / period, peak, trough)
