"""The pulse waves that a usage section serves: a period that did not help on the last day known is not served."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity import PeriodicitySettings, WaveFits, fit_waves, next_day_errors
from sojourn.serving.usage import DAY_S, WAVE_COLUMNS

MEANS = PeriodicitySettings(levels="mean")
_RUNNING_S = 3_600
"""A request with a sample within so long before the grid's end still runs there."""


@dataclass(frozen=True, slots=True)
class ServedWaves:
    """Waves of the requests that run at a grid's end. rows: float64 (m, 20): expected use, then its upper level.

    Their times are those of the clock on the wall (`UsageGrid.on_local_clock`).

    is_confirmed: bool (m,), whether the wave has a period.
    fits: of all requests of the grid with the paper's levels, for the figures.
    """

    request_ids: list[str]
    rows: np.ndarray
    is_confirmed: np.ndarray
    fits: WaveFits


def served_waves(grid: UsageGrid, n_threads: int = 1) -> ServedWaves:
    """The waves of a grid, by what it holds and nothing else.

    Expected use has mean levels, the upper level p95 and p5 (`PeriodicitySettings`). A period is kept where the wave
    that was fitted without the last day is nearer to that day than a constant; else the request is served as
    aperiodic, with its mean as expected use and the peak of its fit as upper level. A peak at 9:00 is one at 9:00 after
    a change of daylight saving, too: all is fitted on the local clock.
    """
    grid = grid.on_local_clock()
    upper, means = fit_waves(grid, n_threads=n_threads), fit_waves(grid, MEANS, n_threads=n_threads)
    is_confirmed = upper.is_periodic & _confirmed(grid, n_threads)
    n_last = max(1, _RUNNING_S // grid.step_s)
    runs = np.flatnonzero((~np.isnan(grid.cpu[:, -n_last:])).any(axis=1) & np.isfinite(upper.peak))
    is_kept = is_confirmed[runs]
    constant = np.nanmean(grid.cpu[runs].astype(np.float64), axis=1) if len(runs) else np.empty(0)
    rows = np.hstack([_rows(means, runs, is_kept, constant), _rows(upper, runs, is_kept, upper.peak[runs])])
    return ServedWaves([str(name) for name in grid.request_ids[runs].tolist()], rows, is_kept, upper)


def judge_waves(grid: UsageGrid, n_threads: int = 1) -> dict[str, float]:
    """What served waves are worth on the last day, which they have not seen; {} where the grid is under three days.

    `wave.next_day.nrmse.*`: medians over the requests whose period was confirmed on the day before (root mean squared
    error over the range of the days before; `next_day_errors`), of the wave at mean levels, a constant mean and, where
    there is one, the week before. `wave.next_day.ratio`: geometric mean of wave over constant, below 1 = the wave is
    nearer. `wave.share_periodic`, `wave.share_confirmed`: of all requests.
    """
    grid = grid.on_local_clock()
    last_day_s = grid.start_s + grid.cpu.shape[1] * grid.step_s - DAY_S
    if last_day_s < grid.start_s + 2 * DAY_S:
        return {}
    errors = next_day_errors(grid, last_day_s, MEANS, n_threads=n_threads)
    before = replace(grid, cpu=grid.cpu[:, :-(DAY_S // grid.step_s)], mem=None)
    is_confirmed = errors.is_periodic & _confirmed(before, n_threads)
    found = {"wave.share_periodic": float(errors.is_periodic.mean()),
             "wave.share_confirmed": float(is_confirmed.mean())}
    is_judged = is_confirmed & (errors.wave > 0.0) & (errors.constant > 0.0)
    if not is_judged.any():
        return found
    wave, constant, week = (each[is_judged] for each in (errors.wave, errors.constant, errors.last_week))
    found |= {"wave.next_day.nrmse.wave": float(np.median(wave)),
              "wave.next_day.nrmse.mean": float(np.median(constant)),
              "wave.next_day.ratio": float(np.exp(np.log(wave / constant).mean()))}
    if np.isfinite(week).any():
        found["wave.next_day.nrmse.week_before"] = float(np.nanmedian(week))
    return found


def _confirmed(grid: UsageGrid, n_threads: int) -> np.ndarray:
    """bool (n,): a period was found without the grid's last day, and the wave is nearer to that day than the mean."""
    last_day_s = grid.start_s + grid.cpu.shape[1] * grid.step_s - DAY_S
    if last_day_s <= grid.start_s:
        return np.zeros(len(grid), bool)
    errors = next_day_errors(grid, last_day_s, MEANS, n_threads=n_threads)
    return errors.is_periodic & (errors.wave < errors.constant)


def _rows(fits: WaveFits, rows: np.ndarray, is_periodic: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The waves of some rows as a section holds them, float64 (m, 10): `level` at all times where none has a period."""
    first = np.stack([getattr(fits, name)[rows] for name in WAVE_COLUMNS], axis=1)
    aperiodic = np.stack([level, level, np.full(len(rows), np.inf), np.zeros(len(rows)), np.full(len(rows), 0.5)],
                         axis=1)
    first = np.where(is_periodic[:, None], first, aperiodic)
    second = np.full_like(first, np.nan)
    if fits.second is not None:
        has = is_periodic & fits.second.is_periodic[rows]
        second[has] = np.stack([getattr(fits.second, name)[rows[has]] for name in WAVE_COLUMNS], axis=1)
    return np.hstack([first, second])
