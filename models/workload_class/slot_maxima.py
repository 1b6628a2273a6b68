"""Highest and mean use of each request in each slot of each local day, and the profiles that these fold to."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import N_SLOTS

RESOURCES = ("cpu", "mem")
_COVERED = 0.9


@dataclass(frozen=True, slots=True)
class SlotMaxima:
    """Use by 15-minute slots of local days: column day * 96 + slot.

    request_ids: (n,). highest, mean: float32 (n, n_days * 96), shares of the reservation, NaN = not seen. first_slot:
    the column of the series' first step. On the day that daylight saving ends, an hour's slots hold both its hours.

    >>> from sojourn.serving.usage import DayClock
    >>> grid = UsageGrid(np.array([7]), np.array([[0.5, 0.25, 0.75]], np.float32), None, np.ones(1), np.ones(1), 300,
    ...                  600, DayClock())
    >>> slot_maxima(grid).highest[0, :3].tolist()
    [0.5, 0.75, nan]
    """

    request_ids: np.ndarray
    highest: np.ndarray
    mean: np.ndarray
    first_slot: int

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def n_days(self) -> int:
        """Local days, the first and the last one perhaps in part."""
        return self.highest.shape[1] // N_SLOTS

    def before(self, column: int, rows: np.ndarray | None = None) -> SlotMaxima:
        """What was seen before a column, of all requests or some: whole days are kept, later slots are NaN."""
        n_columns = -(-column // N_SLOTS) * N_SLOTS
        kept = slice(None) if rows is None else rows
        highest, mean = self.highest[kept, :n_columns].copy(), self.mean[kept, :n_columns].copy()
        highest[:, column:] = mean[:, column:] = np.nan
        return SlotMaxima(self.request_ids[kept], highest, mean, self.first_slot)

    def profiles(self) -> np.ndarray:
        """The day of each request: each slot's highest use over all days, float32 (n, 96), NaN = never seen."""
        return _quietly_folded(np.nanmax, self.highest.reshape(len(self), self.n_days, N_SLOTS))

    def mean_profiles(self) -> np.ndarray:
        """The same of the means: each slot's mean over the days, float32 (n, 96)."""
        return _quietly_folded(np.nanmean, self.mean.reshape(len(self), self.n_days, N_SLOTS))


def slot_maxima(grid: UsageGrid, resource: str = "cpu") -> SlotMaxima:
    """Use by slots of local days of one resource of a grid; ValueError where the grid does not have it.

    resource: `cpu` or `mem`. Steps longer than a slot fill the slot that they begin in. Infinite or negative samples
    count as not seen.
    """
    if resource not in RESOURCES:
        raise ValueError(f"resource must be one of {', '.join(RESOURCES)}, got {resource!r}")
    values = getattr(grid, resource)
    if values is None:
        raise ValueError("resource must be one that the grid has, got 'mem' of a grid without memory")
    if not values.shape[1]:
        raise ValueError("grid must have at least one step, got none")
    times_s = grid.time_s()
    columns = grid.clock.day(times_s) * N_SLOTS + grid.clock.slot(times_s, N_SLOTS)
    first_day = int(columns.min()) // N_SLOTS
    columns = columns - first_day * N_SLOTS
    n_columns = (int(columns.max()) // N_SLOTS + 1) * N_SLOTS
    values = np.where(np.isfinite(values) & (values >= 0.0), values, np.nan).astype(np.float32)
    order = np.argsort(columns, kind="stable")  # daylight saving sets the clock back once a year
    sorted_columns = columns[order]
    starts = np.flatnonzero(np.diff(sorted_columns, prepend=-1))
    ordered = values[:, order]
    is_seen = ~np.isnan(ordered)
    n_seen = np.add.reduceat(is_seen, starts, axis=1, dtype=np.int64)
    total = np.add.reduceat(np.where(is_seen, ordered, 0.0), starts, axis=1, dtype=np.float64)
    most = np.maximum.reduceat(np.where(is_seen, ordered, -np.inf), starts, axis=1)
    highest = np.full((len(grid), n_columns), np.nan, np.float32)
    mean = highest.copy()
    at = sorted_columns[starts]
    highest[:, at] = np.where(n_seen > 0, most, np.nan)
    mean[:, at] = np.where(n_seen > 0, total / np.maximum(n_seen, 1), np.nan)
    return SlotMaxima(np.asarray(grid.request_ids), highest, mean, int(columns[0]))


def covered(profiles: np.ndarray) -> np.ndarray:
    """Which profiles have at least nine tenths of their slots seen, bool (n,): those that classes are learnt of."""
    return (~np.isnan(profiles)).mean(axis=1) >= _COVERED


def filled(profiles: np.ndarray) -> np.ndarray:
    """The profiles with each missing slot at the row's highest, float64: no slot is taken for idle unseen."""
    rows = np.asarray(profiles, np.float64)
    return np.where(np.isnan(rows), _quietly_folded(np.nanmax, rows[:, :, None]), rows)


def _quietly_folded(fold: np.ufunc | object, days: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a slot that no day has
        return fold(days, axis=1)  # type: ignore[operator]
