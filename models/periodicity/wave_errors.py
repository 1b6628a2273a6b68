"""Errors of pulse waves beside those of a constant and of last week's repeat: in-sample, and for the next day."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings
from sojourn.models.periodicity.wave_fits import WaveFits
from sojourn.models.periodicity.wave_fitting import fit_waves
from sojourn.serving.usage import DAY_S

WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class WaveErrors:
    """NRMSE of each request, float64 (n,), lower = better; NaN where nothing can be judged.

    label: "in-sample" or "next-day". is_periodic: bool (n,), whether the fit has a period; where it has none, `wave` is
    the error of its peak at all times. constant: of the mean. last_week: of the value a week earlier; all NaN where the
    series is too short. All three are judged on the same samples.
    """

    label: Literal["in-sample", "next-day"]
    is_periodic: np.ndarray
    wave: np.ndarray
    constant: np.ndarray
    last_week: np.ndarray


def in_sample_errors(grid: UsageGrid, fits: WaveFits) -> WaveErrors:
    """Errors on the samples of which the fits were made (paper, equation 4), from the eighth day on where there is one.

    The range that divides the error is that of the judged samples. fits: of the grid's `cpu`.

    >>> from sojourn.serving.usage import DayClock
    >>> busy = np.arange(0, 10 * 86_400, 300) % 43_200 < 10_800
    >>> grid = UsageGrid(np.array(["a"]), np.where(busy, 0.75, 0.25)[None, :].astype(np.float32), None, np.ones(1),
    ...                  np.ones(1), 0, 300, DayClock())
    >>> errors = in_sample_errors(grid, fit_waves(grid, PeriodicitySettings(levels="mean")))
    >>> [round(float(error[0]), 2) for error in (errors.wave, errors.constant, errors.last_week)]
    [0.0, 0.43, 0.0]
    """
    lag = WEEK_S // grid.step_s
    n_steps = grid.cpu.shape[1]
    begin = lag if n_steps > lag else 0
    return _judged("in-sample", grid, fits, begin, grid.cpu)


def next_day_errors(grid: UsageGrid, day_start_s: int, settings: PeriodicitySettings | None = None,
                    history_s: int | None = None, n_threads: int = 1) -> WaveErrors:
    """Errors on the day that begins at `day_start_s`, of waves and means fitted on what lies before it, nothing else.

    history_s: how far back the history goes; by default to the grid's begin. The range that divides the error is that
    of the history, the same for all three: the range of one quiet day would blow small errors up. Judged are samples
    that have one a week earlier; where the history is shorter than a week, all samples.

    Refused with ValueError: a day that does not lie in the grid, or has nothing before it.

    >>> from sojourn.serving.usage import DayClock
    >>> busy = np.arange(0, 10 * 86_400, 300) % 43_200 < 10_800
    >>> grid = UsageGrid(np.array(["a"]), np.where(busy, 0.75, 0.25)[None, :].astype(np.float32), None, np.ones(1),
    ...                  np.ones(1), 0, 300, DayClock())
    >>> errors = next_day_errors(grid, 9 * 86_400, PeriodicitySettings(levels="mean"))
    >>> [round(float(error[0]), 2) for error in (errors.wave, errors.constant, errors.last_week)]
    [0.0, 0.43, 0.0]
    """
    day = (day_start_s - grid.start_s) // grid.step_s
    end = day + DAY_S // grid.step_s
    if day < 1 or end > grid.cpu.shape[1]:
        raise ValueError(f"day_start_s must begin a whole day of the grid after its first step, got {day_start_s!r}")
    begin = 0 if history_s is None else max(0, day - history_s // grid.step_s)
    history = replace(grid, cpu=grid.cpu[:, begin:day], mem=None, start_s=grid.start_s + begin * grid.step_s)
    fits = fit_waves(history, settings, n_threads=n_threads)
    until = replace(grid, cpu=grid.cpu[:, begin:end], mem=None, start_s=history.start_s)
    return _judged("next-day", until, fits, day - begin, history.cpu)


def _judged(label: Literal["in-sample", "next-day"], grid: UsageGrid, fits: WaveFits, begin: int,
            known: np.ndarray) -> WaveErrors:
    """Errors on the columns from `begin` on. known: float32 (n, k), samples of which the mean is taken."""
    lag = WEEK_S // grid.step_s
    judged = grid.cpu[:, begin:].astype(np.float64)
    is_judged = np.isfinite(judged)
    week_ago = np.full(judged.shape, np.nan)
    if begin >= lag:
        week_ago = grid.cpu[:, begin - lag:grid.cpu.shape[1] - lag].astype(np.float64)
        is_judged &= np.isfinite(week_ago)
    middles_s = grid.time_s()[begin:] + grid.step_s / 2
    found = np.full((3, len(grid)), np.nan)
    for row in range(len(grid)):
        is_kept, past = is_judged[row], known[row][np.isfinite(known[row])].astype(np.float64)
        ranged = judged[row, is_kept] if label == "in-sample" else past
        if len(past) == 0 or not is_kept.any() or np.ptp(ranged) == 0.0:
            continue
        guesses = (fits.waves(row).at(middles_s), np.full(len(middles_s), past.mean()), week_ago[row])
        for at, guess in enumerate(guesses):
            found[at, row] = np.sqrt(np.mean((judged[row] - guess)[is_kept] ** 2)) / np.ptp(ranged)
    return WaveErrors(label, fits.is_periodic, *found)
