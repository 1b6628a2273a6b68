"""Usage folded by the local slot of day: maximum, mean and count per request and slot, and quantiles per request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.usage.gridding import Series
from sojourn.features.usage.usage_block import UsageRequests
from sojourn.features.usage.usage_grid import UsageGrid
from sojourn.serving.usage import DayClock

LEVELS = (0.05, 0.5, 0.95)
"""Of the quantiles per request."""


@dataclass(frozen=True, slots=True)
class UsageProfiles:
    """What each request uses over the local day, as a share of what it reserved, from samples in a window.

    request_ids: (n,). cpu_cores, mem_gib: float64 (n,), reserved. maximum, mean: float32 (n, n_slots), NaN where a slot
    has no sample. count: int64 (n, n_slots), samples. slot_quantile: float32 (n, n_slots) or None.
    quantiles: float64 (n, 3), p5, p50 and p95 of all samples; peak, average: float64 (n,), their maximum and mean; NaN
    where a request has none. clock: local time of day.
    """

    request_ids: np.ndarray
    cpu_cores: np.ndarray
    mem_gib: np.ndarray
    maximum: np.ndarray
    mean: np.ndarray
    count: np.ndarray
    slot_quantile: np.ndarray | None
    quantiles: np.ndarray
    peak: np.ndarray
    average: np.ndarray
    clock: DayClock

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def n_slots(self) -> int:
        """Slots of a day."""
        return self.maximum.shape[1]


def profiles_of(grid: UsageGrid, n_slots: int = 96, *, from_s: int | None = None, to_s: int | None = None,
                resource: str = "cpu", slot_quantile: float | None = None) -> UsageProfiles:
    """The profiles of a grid, each of whose steps is one sample at its beginning.

    from_s, to_s: the window on the trace's clock, from_s <= begin of the step < to_s; None = from the first, to the
    last. resource: "cpu" or "mem". slot_quantile: also this quantile (0 to 1) of each slot.

    >>> grid = UsageGrid(np.array([7]), np.array([[0.1, 0.3, 0.5, 0.7]], np.float32), None, np.array([2.0]),
    ...                  np.array([8.0]), 0, 43_200, DayClock())
    >>> profiles = profiles_of(grid, n_slots=2)
    >>> profiles.maximum.round(1).tolist(), profiles.count.tolist(), profiles.quantiles.round(2).tolist()
    ([[0.5, 0.699999988079071]], [[2, 2]], [[0.13, 0.4, 0.67]])
    """
    values = _resource(resource, grid.cpu, grid.mem)
    time_s = grid.time_s()
    is_in = np.flatnonzero(_window(time_s, from_s, to_s))
    part = values[:, is_in]
    row, column = np.nonzero(~np.isnan(part))
    requests = UsageRequests(grid.request_ids, grid.cpu_cores, grid.mem_gib)
    return folded(requests, row, time_s[is_in][column], part[row, column], grid.clock, n_slots, slot_quantile)


def series_profiles(requests: UsageRequests, series: Series, clock: DayClock, n_slots: int, from_s: int | None,
                    to_s: int | None, resource: str, slot_quantile: float | None) -> UsageProfiles:
    """The profiles of the samples themselves, whatever their intervals; as `profiles_of`."""
    values = _resource(resource, series.cpu, series.mem)
    is_in = _window(series.time_s, from_s, to_s) & ~np.isnan(values)
    return folded(requests, series.idx_request[is_in], series.time_s[is_in], values[is_in], clock, n_slots,
                  slot_quantile)


def folded(requests: UsageRequests, idx_request: np.ndarray, time_s: np.ndarray, values: np.ndarray, clock: DayClock,
           n_slots: int, slot_quantile: float | None = None) -> UsageProfiles:
    """The profiles of samples (n,) of the requests in the rows `idx_request`, in any order; none may be NaN."""
    if slot_quantile is not None and not 0 <= slot_quantile <= 1:
        raise ValueError(f"slot_quantile must be between 0 and 1, got {slot_quantile!r}")
    n = len(requests)
    cell = idx_request.astype(np.int64) * n_slots + clock.slot(time_s, n_slots)
    count = np.bincount(cell, minlength=n * n_slots)
    maximum = np.full(n * n_slots, -np.inf, np.float32)
    np.maximum.at(maximum, cell, values.astype(np.float32))
    total = np.bincount(cell, values, minlength=n * n_slots)
    with np.errstate(invalid="ignore"):
        mean = (total / count).astype(np.float32).reshape(n, n_slots)
        average = total.reshape(n, n_slots).sum(1) / count.reshape(n, n_slots).sum(1)
    maximum = np.where(count > 0, maximum, np.float32(np.nan))
    of_slot = None
    if slot_quantile is not None:
        of_slot = _quantiles(cell, values, n * n_slots, (slot_quantile,))[:, 0].astype(np.float32).reshape(n, n_slots)
    by_slot = maximum.reshape(n, n_slots)
    peak = np.fmax.reduce(by_slot, axis=1)
    return UsageProfiles(requests.request_ids, requests.cpu_cores, requests.mem_gib, by_slot, mean,
                         count.reshape(n, n_slots), of_slot, _quantiles(idx_request, values, n, LEVELS),
                         peak.astype(np.float64), average, clock)


def joined(parts: list[UsageProfiles]) -> UsageProfiles:
    """The profiles of several sets of requests as one, in the order given; at least one part."""
    first = parts[0]
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (
        "request_ids", "cpu_cores", "mem_gib", "maximum", "mean", "count", "quantiles", "peak", "average")}
    has_slots = first.slot_quantile is not None
    of_slot = np.concatenate([part.slot_quantile for part in parts if part.slot_quantile is not None]) if has_slots \
        else None
    return UsageProfiles(**arrays, slot_quantile=of_slot, clock=first.clock)


def _quantiles(group: np.ndarray, values: np.ndarray, n_groups: int, levels: tuple[float, ...]) -> np.ndarray:
    """Quantiles of the values of each group by linear interpolation (numpy's default), (n_groups, n_levels)."""
    ordered = values[np.lexsort((values, group))].astype(np.float64)
    size = np.bincount(group, minlength=n_groups)
    begin = np.cumsum(size) - size
    found = np.full((n_groups, len(levels)), np.nan)
    has = size > 0
    for k, level in enumerate(levels):
        place = begin[has] + level * (size[has] - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, begin[has] + size[has] - 1)
        found[has, k] = ordered[low] + (place - low) * (ordered[high] - ordered[low])
    return found


def _resource(resource: str, cpu: np.ndarray, mem: np.ndarray | None) -> np.ndarray:
    if resource not in ("cpu", "mem"):
        raise ValueError(f"resource must be cpu or mem, got {resource!r}")
    values = cpu if resource == "cpu" else mem
    if values is None:
        raise ValueError("resource must be cpu where the series have no memory, got 'mem'")
    return values


def _window(time_s: np.ndarray, from_s: int | None, to_s: int | None) -> np.ndarray:
    is_in = np.ones(len(time_s), bool)
    if from_s is not None:
        is_in &= time_s >= from_s
    if to_s is not None:
        is_in &= time_s < to_s
    return is_in
