"""Refitting as samples arrive: the window moves on, and the period stays while it still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings
from sojourn.models.periodicity.wave_fits import WaveFits
from sojourn.models.periodicity.wave_fitting import fit_waves


def refit_waves(earlier: WaveFits, grid: UsageGrid, newer: UsageGrid, settings: PeriodicitySettings | None = None,
                resource: Literal["cpu", "mem"] = "cpu", n_threads: int = 1,
                longest_s: int = 30 * 86_400) -> tuple[UsageGrid, WaveFits]:
    """The grid with newer samples at its end, cut to its last `longest_s` seconds, and its fits.

    Kept of the earlier fit: each request's period, while it is strong enough (`keep_share`); nothing else, so that a
    level that has changed leaves with the window. The samples of the window are read again: at 5,000 series a second
    that costs less than keeping their sums right as old samples leave. Requests that are new begin with missing
    samples; those that are in `newer` no more, and have no sample left in the window, go.

    Refused with ValueError: steps or clocks that differ, a newer grid that does not begin where the grid ends.

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

    def beside(first: np.ndarray, second: np.ndarray) -> np.ndarray:
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
    mem = None if grid.mem is None or newer.mem is None else beside(grid.mem, newer.mem)
    return replace(grid, request_ids=request_ids, cpu=beside(grid.cpu, newer.cpu), mem=mem,
                   cpu_cores=size(grid.cpu_cores, newer.cpu_cores), mem_gib=size(grid.mem_gib, newer.mem_gib),
                   interval_s=interval_s)
