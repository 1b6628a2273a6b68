"""Usage series on a grid of steps: mean or maximum of the samples in a step, held or missing where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Take = Literal["mean", "max"]
"""Which number of a step's samples its value is."""


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of several requests, ordered by request and time, without two at one time of one request.

    idx_request: int64 (n,), non-decreasing, 0 to n_requests - 1. time_s: int64 (n,). cpu: float32 (n,). mem: the same,
    NaN = none, or None. interval_s: float64 (n_requests,), the median time between samples of each request, NaN of one
    with less than two.
    """

    idx_request: np.ndarray
    time_s: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None
    interval_s: np.ndarray

    @property
    def n_requests(self) -> int:
        """Requests, those without samples included."""
        return len(self.interval_s)

    def rows(self, lo: int, hi: int) -> Series:
        """The requests lo <= row < hi, numbered from 0.

        >>> both = Series(np.array([0, 1]), np.array([5, 6]), np.float32([0.1, 0.2]), None, np.full(2, np.nan))
        >>> both.rows(1, 2).time_s.tolist()
        [6]
        """
        begin, end = np.searchsorted(self.idx_request, (lo, hi))
        mem = None if self.mem is None else self.mem[begin:end]
        return Series(self.idx_request[begin:end] - lo, self.time_s[begin:end], self.cpu[begin:end], mem,
                      self.interval_s[lo:hi])


def median_intervals_s(idx_request: np.ndarray, time_s: np.ndarray, n_requests: int) -> np.ndarray:
    """Median time between consecutive samples of each request, float64 (n_requests,), NaN where it has less than two.

    >>> median_intervals_s(np.array([0, 0, 0, 0, 1]), np.array([0, 300, 600, 4200, 0]), 2).tolist()
    [300.0, nan]
    """
    found = np.full(n_requests, np.nan)
    edges = np.searchsorted(idx_request, np.arange(n_requests + 1))
    for row in np.flatnonzero(np.diff(edges) > 1):
        found[row] = np.median(np.diff(time_s[edges[row]:edges[row + 1]]))
    return found


def gridded(series: Series, values: np.ndarray, start_s: int, step_s: int, n_steps: int, take: Take = "mean",
            bridge_steps: int = 0) -> np.ndarray:
    """`values` (n,) of a series' samples on a grid, float32 (n_requests, n_steps), NaN where a step has none.

    Step k covers start_s + k x step_s to the next; samples outside all steps are left out. The request's median
    interval decides: where it is at most a step, a step's value is the mean (take="max": the largest) of the samples
    in it. Where it is longer, each sample holds for that interval or up to the next sample, whichever ends first, in
    every step that begins meanwhile and in the one that it falls in. bridge_steps: gaps of at most so many steps
    between two values take the value before; the one after is not asked, so nothing of the future enters.

    >>> series = Series(np.zeros(3, np.int64), np.array([0, 10, 300]), np.float32([0.2, 0.4, 0.9]), None,
    ...                 np.array([155.0]))
    >>> gridded(series, series.cpu, 0, 300, 3).round(2).tolist()
    [[0.30000001192092896, 0.8999999761581421, nan]]
    """
    grid = np.full((series.n_requests, n_steps), np.nan, np.float32)
    step = (series.time_s - start_s) // step_s
    is_used = ~np.isnan(values)
    is_in = is_used & (step >= 0) & (step < n_steps)
    cell = series.idx_request[is_in] * n_steps + step[is_in]
    if len(cell):
        begins = np.flatnonzero(np.diff(cell, prepend=-1))
        flat = grid.reshape(-1)
        if take == "max":
            flat[cell[begins]] = np.maximum.reduceat(values[is_in], begins)
        else:
            sums = np.add.reduceat(values[is_in].astype(np.float64), begins)
            flat[cell[begins]] = sums / np.diff(begins, append=len(cell))
    for row in np.flatnonzero(series.interval_s > step_s):
        lo, hi = np.searchsorted(series.idx_request, (row, row + 1))
        kept = lo + np.flatnonzero(is_used[lo:hi])
        if len(kept):
            _hold(grid[row], series.time_s[kept], values[kept], float(series.interval_s[row]), start_s, step_s)
    if bridge_steps:
        _bridge(grid, bridge_steps)
    return grid


def _hold(row: np.ndarray, time_s: np.ndarray, values: np.ndarray, interval_s: float, start_s: int,
          step_s: int) -> None:
    """Fill the empty steps that begin while a sample of a coarse series holds."""
    begin_s = start_s + step_s * np.arange(len(row), dtype=np.int64)
    last = np.searchsorted(time_s, begin_s, side="right") - 1  # the sample before each step's beginning
    is_held = (last >= 0) & (begin_s < time_s[last] + interval_s) & np.isnan(row)
    row[is_held] = values[last[is_held]]


def _bridge(grid: np.ndarray, bridge_steps: int) -> None:
    """Fill gaps of at most so many steps between two values with the one before."""
    position = np.arange(grid.shape[1])
    for row in grid:
        is_empty = np.isnan(row)
        if not is_empty.any() or is_empty.all():
            continue
        before = np.maximum.accumulate(np.where(is_empty, -1, position))
        after = np.minimum.accumulate(np.where(is_empty, len(row), position)[::-1])[::-1]
        is_short = is_empty & (before >= 0) & (after < len(row)) & (after - before - 1 <= bridge_steps)
        row[is_short] = row[before[is_short]]
