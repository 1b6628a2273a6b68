"""Series whose own samples are far apart: they are fitted at steps of their own interval, not of the grid's.

A sample that fills many steps makes a staircase. Its spectrum is no smooth background, so that white noise sampled each
6 hours had "a period" in 44 of 100 series (30 days, 5-minute steps).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sojourn.features.usage import UsageGrid

SHORTEST_PERIOD = 2.5
"""The shortest period that such a series is asked for, in its own intervals; two is what a series can hold."""


def by_interval(grid: UsageGrid, cutoff_s: float) -> Iterator[tuple[np.ndarray, UsageGrid]]:
    """Rows of equal interval, and their grid: the steps of `grid` for intervals up to `cutoff_s`, else their own.

    Rows of a longer interval take each sample once: the step in the middle of each interval. Shorter than an interval:
    the grid's own steps.

    >>> from sojourn.serving.usage import DayClock
    >>> grid = UsageGrid(np.array([1, 2]), np.zeros((2, 48), np.float32), None, np.ones(2), np.ones(2), 0, 900,
    ...                  DayClock(), np.array([900.0, 7200.0]))
    >>> [(rows.tolist(), part.step_s, part.cpu.shape) for rows, part in by_interval(grid, 3600.0)]
    [([0], 900, (1, 48)), ([1], 7200, (1, 6))]
    """
    n_steps = np.ones(len(grid), np.int64)
    if grid.interval_s is not None:
        is_coarse = grid.interval_s > cutoff_s  # False for NaN
        n_steps[is_coarse] = np.rint(grid.interval_s[is_coarse] / grid.step_s).astype(np.int64)
        n_steps[n_steps > grid.cpu.shape[1]] = 1
    for k in np.unique(n_steps).tolist() or [1]:
        rows = np.flatnonzero(n_steps == k)
        own = None if k > 1 or grid.interval_s is None else grid.interval_s[rows]
        yield rows, replace(grid, request_ids=grid.request_ids[rows], cpu=_picked(grid.cpu, rows, k),
                            mem=None if grid.mem is None else _picked(grid.mem, rows, k),
                            cpu_cores=grid.cpu_cores[rows], mem_gib=grid.mem_gib[rows], step_s=grid.step_s * k,
                            interval_s=own)


def _picked(values: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    if k == 1 and len(rows) == len(values):
        return values
    n_whole = values.shape[1] // k * k
    return values[rows, :n_whole][:, k // 2::k]
