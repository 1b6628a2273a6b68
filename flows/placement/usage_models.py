"""What a policy may believe of a request's use on the judged day: peaks, waves, and days of its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.flows.placement.usage_case import N_SLOTS, UsageCase
from sojourn.models.periodicity import PeriodicitySettings, WaveFits, fit_waves
from sojourn.serving.usage import DAY_S, DayClock

PEAK = 0.95
"""Quantile that stands for the peak (period-aware placement, section III-A)."""


def _history(case: UsageCase) -> np.ndarray:
    if case.history is None:
        raise ValueError(f"history must be given for a model that reads it, got none of {case.name}")
    return case.history


def peak_of_history(case: UsageCase) -> np.ndarray:
    """95 % quantile of the last 7 days, (n, 1)."""
    days = _history(case)[:, -7:]
    return np.asarray(np.quantile(days.reshape(len(case), -1), PEAK, axis=1)[:, None], np.float32)


def peak_of_day(case: UsageCase) -> np.ndarray:
    """95 % quantile of the judged day itself, (n, 1)."""
    return np.asarray(np.quantile(case.day, PEAK, axis=1)[:, None], np.float32)


def peak_of_wave(case: UsageCase) -> np.ndarray:
    """The peak of the true wave, (n, 1)."""
    return _waves(case).max(axis=1, keepdims=True)


def _waves(case: UsageCase) -> np.ndarray:
    if case.waves is None:
        raise ValueError(f"waves must be given for the true wave, got none of {case.name}")
    return case.waves


def waves_of_history(case: UsageCase) -> WaveFits:
    """The pulse wave of each request, fitted to its history as in the paper, which asks for no more than the threshold.

    Second 0 is the begin of the first day.
    """
    days = _history(case)
    return fit_waves(_grid(days.reshape(len(case), -1)), PeriodicitySettings(chance=1.0))


def waves_of_day(case: UsageCase) -> WaveFits:
    """The same of the judged day itself, periods up to half a day: in-sample."""
    return fit_waves(_grid(case.day), PeriodicitySettings(longest_share=0.5, chance=1.0))


def _grid(use: np.ndarray) -> UsageGrid:
    n, step_s = len(use), DAY_S // N_SLOTS
    return UsageGrid(np.arange(n), use, None, np.ones(n), np.ones(n), 0, step_s, DayClock())


def wave_profile(fits: WaveFits, day: int) -> np.ndarray:
    """Use in each slot of a day, by its middle, float32 (n, 288); an aperiodic request is at its peak throughout.

    >>> fits = WaveFits.aperiodic(np.array([0]), np.array([0.5]), np.array([0.1]), np.array([1], np.int8))
    >>> wave_profile(fits, 0)[0, :2].tolist()
    [0.5, 0.5]
    """
    time_s = day * DAY_S + (np.arange(N_SLOTS) + 0.5) * (DAY_S / N_SLOTS)
    period_s = np.where(np.isfinite(fits.period_s), fits.period_s, 1.0)[:, None]
    is_busy = np.mod(time_s - fits.phase_s[:, None], period_s) < fits.duty[:, None] * period_s
    is_busy |= ~fits.is_periodic[:, None]
    levels = np.where(is_busy, fits.peak[:, None], fits.trough[:, None])
    return np.asarray(np.maximum(levels, 0.0), np.float32)  # levels of a smoothed series may lie below 0


def past_days(n_days: int) -> Callable[[UsageCase], np.ndarray]:
    """The last `n_days` real days one after the other, (n, n_days x 288): a rule that sums over time then asks which
    requests were busy together on any of them, which a mean or a maximum per slot has lost."""
    return lambda case: _history(case)[:, -n_days:].reshape(len(case), -1)


USAGE_MODELS: Mapping[str, Callable[[UsageCase], np.ndarray]] = MappingProxyType({
    "peak": peak_of_history,
    "peak-of-day": peak_of_day,
    "true-peak": peak_of_wave,
    "true-wave": _waves,
    "wave": lambda case: wave_profile(waves_of_history(case), _history(case).shape[1]),
    "wave-of-day": lambda case: wave_profile(waves_of_day(case), 0),
    "last-day": lambda case: _history(case)[:, -1],
    "mean-7": lambda case: np.asarray(_history(case)[:, -7:].mean(axis=1)),
    "max-7": lambda case: np.asarray(_history(case)[:, -7:].max(axis=1)),
    "past-3": past_days(3),
    "past-7": past_days(7),
    "past-14": past_days(14),
})
"""By name; float32 (n, n_slots), in the unit of the case. Those of the history read nothing of the judged day."""
