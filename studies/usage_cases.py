"""Requests with a judged day of use and the days before it, made with known pulses or of real series; and what a
policy may believe of the judged day: peaks, waves, and days of the request's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity import PeriodicitySettings, WaveFits, fit_waves
from sojourn.serving.usage import DAY_S, DayClock

N_SLOTS = 288
"""Of a day: 5 minutes each."""
HISTORY_DAYS = 14
_COVERED = 0.8
_UNDATED_DAYS = 365
"""A series that begins in 1970 counts seconds from its own begin."""
PEAK = 0.95
"""Quantile that stands for the peak (period-aware placement, section III-A)."""


@dataclass(frozen=True, slots=True)
class UsageCase:
    """Use of requests in cores (made ones) or shares of their cores (real series), float32.

    name: one line for tables. day: (n, 288), the judged day. history: (n, 14, 288), the days before it in order, or
    None. waves: (n, 288), the true wave on the judged day, or None. strength: float64 (n,), of the period, higher =
    stronger, 0 = none; or None. date: of the judged day, year-month-day; "" = made, of several days, or of a series
    without dates.
    """

    name: str
    day: np.ndarray
    history: np.ndarray | None = None
    waves: np.ndarray | None = None
    strength: np.ndarray | None = None
    date: str = ""

    def __len__(self) -> int:
        return len(self.day)

    def take(self, rows: np.ndarray) -> UsageCase:
        """The requests at `rows`, int64."""
        return replace(self, day=self.day[rows], history=None if self.history is None else self.history[rows],
                       waves=None if self.waves is None else self.waves[rows],
                       strength=None if self.strength is None else self.strength[rows])


@dataclass(frozen=True, slots=True)
class PulseRecipe:
    """How pulse-shaped requests are made; each number is drawn uniformly, each of a tuple of values alike.

    cores: of a request. periods: slots. duty: least and greatest. peak: share of the cores. trough: share of the peak.
    noise: spread of a slot's use about the wave, share of the cores; below 0 nothing is used.
    """

    cores: tuple[float, ...] = (1.0,)
    periods: tuple[int, ...] = (72, 144, 288)
    duty: tuple[float, float] = (0.1, 0.5)
    peak: tuple[float, float] = (0.5, 1.0)
    trough: tuple[float, float] = (0.0, 0.2)
    noise: float = 0.02


def pulse_case(n: int, seed: int, recipe: PulseRecipe | None = None) -> UsageCase:
    """Requests whose use is a pulse wave with noise; phases are uniform, so that the mean load hardly varies.

    Strength is the size of the wave's strongest frequency, (peak - trough) |sin(pi duty)| x 2 / pi, in cores.

    >>> case = pulse_case(3, 0)
    >>> case.day.shape, len(np.unique(case.waves[0])), round(float(abs(case.day - case.waves).mean()), 3)
    ((3, 288), 2, 0.015)
    """
    made = recipe or PulseRecipe()
    rng = np.random.default_rng([seed, 15])
    cores, period = rng.choice(made.cores, n), rng.choice(made.periods, n)
    phase, duty = rng.random(n) * period, rng.uniform(*made.duty, n)
    peak = cores * rng.uniform(*made.peak, n)
    trough = peak * rng.uniform(*made.trough, n)
    is_busy = (np.arange(N_SLOTS) - phase[:, None]) % period[:, None] < (duty * period)[:, None]
    waves = np.where(is_busy, peak[:, None], trough[:, None]).astype(np.float32)
    noise = (made.noise * cores[:, None] * rng.standard_normal((n, N_SLOTS))).astype(np.float32)
    sizes = "one size" if len(made.cores) == 1 else f"{len(made.cores)} sizes"
    return UsageCase(f"pulse-shaped requests of {sizes}", np.maximum(waves + noise, np.float32(0)), None, waves,
                     (peak - trough) * np.abs(np.sin(np.pi * duty)) * 2 / np.pi)


def day_cases(grid: UsageGrid, name: str, *, history_days: int = HISTORY_DAYS) -> list[UsageCase]:
    """One case for each local day of a grid of 5-minute steps that has `history_days` whole days before it.

    A request is in a case if at least 80 % of its slots in the day and, where there is a history, of the history hold a
    sample. A slot without one holds the value before it; before its first sample a request uses nothing. Use is the
    share of its cores: sizes of real VMs differ so much that a few would decide every figure.

    Refused with ValueError: other steps than 300 s.
    """
    if grid.step_s * N_SLOTS != DAY_S:
        raise ValueError(f"step_s of the grid must be {DAY_S // N_SLOTS}, got {grid.step_s!r}")
    local_s = int(grid.clock.local_s(np.array([grid.start_s]))[0])
    midnight = -local_s % DAY_S // grid.step_s
    first_day = (local_s + midnight * grid.step_s) // DAY_S
    is_dated = first_day >= _UNDATED_DAYS
    n_days = (grid.cpu.shape[1] - midnight) // N_SLOTS
    shares = grid.cpu[:, midnight:midnight + n_days * N_SLOTS].reshape(len(grid), n_days, N_SLOTS)
    is_known, held = np.isfinite(shares), _held(shares.reshape(len(grid), -1)).reshape(shares.shape)
    cases = []
    for day in range(history_days, n_days):
        is_in = is_known[:, day].mean(axis=1) >= _COVERED
        if history_days:
            is_in &= is_known[:, day - history_days:day].mean(axis=(1, 2)) >= _COVERED
        if is_in.any():
            cases.append(UsageCase(f"{name}, day {day}", held[is_in, day],
                                   held[is_in, day - history_days:day] if history_days else None,
                                   date=_date(first_day + day) if is_dated else ""))
    return cases


def _date(unix_day: int) -> str:
    return str(np.datetime64(unix_day, "D"))


def _held(values: np.ndarray) -> np.ndarray:
    """Each missing value takes the one before it, or 0."""
    idx = np.where(np.isfinite(values), np.arange(values.shape[1]), 0)
    np.maximum.accumulate(idx, axis=1, out=idx)
    return np.nan_to_num(np.take_along_axis(values, idx, axis=1))


def pooled(cases: list[UsageCase], name: str) -> UsageCase:
    """The requests of several days side by side, each day of a VM a request of its own."""
    if not cases:
        raise ValueError("cases must be at least one, got none")
    histories = [case.history for case in cases if case.history is not None]
    return UsageCase(name, np.concatenate([case.day for case in cases]),
                     np.concatenate(histories) if len(histories) == len(cases) else None)


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
