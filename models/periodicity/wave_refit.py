"""Refits as samples arrive: the window moves, and the period stays while it is strong enough.

`WaveErrors` compares pulse waves with a constant and with last week's repeat: in-sample, and for the next day.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity.spectrum import PeriodicitySettings
from sojourn.models.periodicity.wave_fitting import WaveFits, fit_waves
from sojourn.serving.inputs import DAY_S, WEEK_S


def refit_waves(earlier: WaveFits, grid: UsageGrid, newer: UsageGrid, settings: PeriodicitySettings | None = None,
                resource: Literal["cpu", "mem"] = "cpu", n_threads: int = 1,
                longest_s: int = 30 * 86_400) -> tuple[UsageGrid, WaveFits]:
    """The grid with newer samples at its end, cut to its last `longest_s` seconds, and its fits.

    Each request's period is kept from the earlier fit while it is strong enough (`keep_share`), and nothing else. All
    samples of the window are read again: at 5,000 series a second that is cheaper than an update of sums. New requests
    start with missing samples; requests that are not in `newer` and have no sample in the window are removed.

    ValueError for different steps or clocks, and a newer grid that does not start at the end of the grid.

    >>> from sojourn.serving.usage import DayClock
    >>> def part(start_s):
    ...     busy = (np.arange(start_s, start_s + 86_400, 300) - 600) % 10_800 < 3600
    ...     return UsageGrid(np.array(["a"]), np.where(busy, 0.75, 0.25)[None, :].astype(np.float32), None, np.ones(1),
    ...                      np.ones(1), start_s, 300, DayClock())
    >>> grid, fits = refit_waves(fit_waves(part(0)), part(0), part(86_400))
    >>> grid.cpu.shape, round(float(fits.period_s[0] / 3600), 1)
    ((1, 576), 3.0)
    """
    joined = _joined(grid, newer)
    n_steps = joined.cpu.shape[1]
    n_kept = min(n_steps, longest_s // grid.step_s)
    cut = slice(n_steps - n_kept, None)
    is_left = np.isfinite(joined.cpu[:, cut]).any(axis=1) | np.isin(joined.request_ids, newer.request_ids)
    window = UsageGrid(joined.request_ids[is_left], joined.cpu[is_left, cut],
                       None if joined.mem is None else joined.mem[is_left, cut], joined.cpu_cores[is_left],
                       joined.mem_gib[is_left], joined.start_s + (n_steps - n_kept) * grid.step_s, grid.step_s,
                       grid.clock, None if joined.interval_s is None else joined.interval_s[is_left])
    return window, fit_waves(window, settings, resource, n_threads, earlier)


def _joined(grid: UsageGrid, newer: UsageGrid) -> UsageGrid:
    """Both grids side by side; a request's size is the newer one's."""
    if newer.step_s != grid.step_s or newer.clock != grid.clock or (newer.mem is None) != (grid.mem is None):
        raise ValueError("newer must have the step, the clock and the resources of grid, got others")
    end_s = grid.start_s + grid.cpu.shape[1] * grid.step_s
    if newer.start_s != end_s:
        raise ValueError(f"newer must begin where grid ends, at {end_s} s, got {newer.start_s!r}")
    old, new = grid.request_ids.tolist(), newer.request_ids.tolist()
    ids = list(dict.fromkeys([*old, *new]))
    row_of = {request_id: row for row, request_id in enumerate(ids)}
    at_old, at_new = (np.array([row_of[one] for one in some], np.int64) for some in (old, new))

    def side_by_side(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        both = np.full((len(ids), first.shape[1] + second.shape[1]), np.nan, np.float32)
        both[at_old, :first.shape[1]] = first
        both[at_new, first.shape[1]:] = second
        return both

    def size(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        sizes = np.empty(len(ids))
        sizes[at_old] = first
        sizes[at_new] = second
        return sizes

    interval_s = None
    if grid.interval_s is not None or newer.interval_s is not None:
        interval_s = size(*(np.full(len(each), np.nan) if each.interval_s is None else each.interval_s
                            for each in (grid, newer)))
    request_ids = np.array(ids, dtype=np.result_type(grid.request_ids, newer.request_ids))
    mem = None if grid.mem is None or newer.mem is None else side_by_side(grid.mem, newer.mem)
    return replace(grid, request_ids=request_ids, cpu=side_by_side(grid.cpu, newer.cpu), mem=mem,
                   cpu_cores=size(grid.cpu_cores, newer.cpu_cores), mem_gib=size(grid.mem_gib, newer.mem_gib),
                   interval_s=interval_s)




@dataclass(frozen=True, slots=True)
class WaveErrors:
    """NRMSE of each request, float64 (n,), lower = better; NaN without samples to judge.

    label: "in-sample" or "next-day". is_periodic: bool (n,), whether the fit has a period; without one, `wave` is the
    error of its peak at all times. constant: of the mean. last_week: of the value a week earlier; all NaN if the series
    is too short. All three are judged on the same samples.
    """

    label: Literal["in-sample", "next-day"]
    is_periodic: np.ndarray
    wave: np.ndarray
    constant: np.ndarray
    last_week: np.ndarray


def in_sample_errors(grid: UsageGrid, fits: WaveFits) -> WaveErrors:
    """Errors on the samples of the fits (paper, equation 4), from the eighth day on if there is one.

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
    return _errors("in-sample", grid, fits, begin, grid.cpu)


def next_day_errors(grid: UsageGrid, day_start_s: int, settings: PeriodicitySettings | None = None,
                    history_s: int | None = None, n_threads: int = 1) -> WaveErrors:
    """Errors on the day that starts at `day_start_s`, of waves and means fitted on the samples before it.

    history_s: length of the history; by default from the grid's start. The error is divided by the
    range of the history, since the range of one quiet day would inflate small errors. Samples with
    another one a week earlier are judged; with a history below a week, all samples.

    ValueError for a day outside the grid, or without samples before it.

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
    return _errors("next-day", until, fits, day - begin, history.cpu)


def _errors(label: Literal["in-sample", "next-day"], grid: UsageGrid, fits: WaveFits, begin: int,
            past_samples: np.ndarray) -> WaveErrors:
    """Errors on the columns from `begin` on. past_samples: float32 (n, k), for the mean."""
    lag = WEEK_S // grid.step_s
    samples = grid.cpu[:, begin:].astype(np.float64)
    is_judged = np.isfinite(samples)
    week_ago = np.full(samples.shape, np.nan)
    if begin >= lag:
        week_ago = grid.cpu[:, begin - lag:grid.cpu.shape[1] - lag].astype(np.float64)
        is_judged &= np.isfinite(week_ago)
    middles_s = grid.time_s()[begin:] + grid.step_s / 2
    errors = np.full((3, len(grid)), np.nan)
    for row in range(len(grid)):
        is_kept, past = is_judged[row], past_samples[row][np.isfinite(past_samples[row])].astype(np.float64)
        range_samples = samples[row, is_kept] if label == "in-sample" else past
        if len(past) == 0 or not is_kept.any() or np.ptp(range_samples) == 0.0:
            continue
        guesses = (fits.waves(row).at(middles_s), np.full(len(middles_s), past.mean()), week_ago[row])
        for at, guess in enumerate(guesses):
            errors[at, row] = np.sqrt(np.mean((samples[row] - guess)[is_kept] ** 2)) / np.ptp(range_samples)
    return WaveErrors(label, fits.is_periodic, *errors)
