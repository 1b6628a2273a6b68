"""Requests with a judged day of use and the days before it: made ones with known pulses, and those of real series."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import DAY_S

N_SLOTS = 288
"""Of a day: 5 minutes each."""
HISTORY_DAYS = 14
_COVERED = 0.8
_UNDATED_DAYS = 365
"""A series that begins in 1970 counts seconds from its own begin."""


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
