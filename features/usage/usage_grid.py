"""Usage of many requests on one grid of times, for models and the simulator.

`gridded` gives mean or maximum of the samples in each step. `UsageProfiles` have maximum, mean and count per request
and slot of the local day, and quantiles per request; `streamed_profiles` computes them without the samples in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sojourn.features.usage.usage_stream import UsageRequests, UsageStream
from sojourn.serving.usage import DayClock


@dataclass(frozen=True, slots=True)
class UsageGrid:
    """Shares of each request's reservation; a row for each request, a column for each step of `step_s` seconds.

    request_ids: (n,), unique, str or int64. cpu: float32 (n, n_steps), share of the request's
        cores, may exceed 1; NaN = no sample. mem: the same of its memory, or None. cpu_cores,
        mem_gib: float64 (n,), its reservation.
    start_s: start of the first step on the trace's clock; a step's value is the mean of its samples.
    clock: local time of day. interval_s: float64 (n,), the median time between a request's samples,
        NaN = not known; None = a step or less. A sample for more than a step fills all of its
        steps.

    >>> grid = UsageGrid(np.array([7]), np.array([[0.5, np.nan]], np.float32), None, np.array([2.0]),
    ...                  np.array([8.0]), 600, 300, DayClock())
    >>> grid.time_s().tolist(), len(grid)
    ([600, 900], 1)
    """

    request_ids: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None
    cpu_cores: np.ndarray
    mem_gib: np.ndarray
    start_s: int
    step_s: int
    clock: DayClock
    interval_s: np.ndarray | None = None

    def __post_init__(self) -> None:
        n = len(self.request_ids)
        if self.cpu.ndim != 2 or len(self.cpu) != n:
            raise ValueError(f"cpu must have the shape ({n}, n_steps), got {self.cpu.shape}")
        if self.mem is not None and self.mem.shape != self.cpu.shape:
            raise ValueError(f"mem must have the shape of cpu, {self.cpu.shape}, got {self.mem.shape}")
        if len(self.cpu_cores) != n or len(self.mem_gib) != n:
            raise ValueError(f"cpu_cores and mem_gib must have {n} elements, "
                             f"got {len(self.cpu_cores)} and {len(self.mem_gib)}")
        if self.interval_s is not None and self.interval_s.shape != (n,):
            raise ValueError(f"interval_s must have {n} elements, got {self.interval_s.shape}")
        if self.step_s < 1:
            raise ValueError(f"step_s must be at least 1, got {self.step_s!r}")

    def __len__(self) -> int:
        return len(self.request_ids)

    def time_s(self) -> np.ndarray:
        """Start of each step on the trace's clock, int64 (n_steps,)."""
        return self.start_s + self.step_s * np.arange(self.cpu.shape[1], dtype=np.int64)

    def on_local_clock(self) -> UsageGrid:
        """The same samples in local time: times are local seconds since 1970, and `clock` is
        `DayClock()`. So each day has 24 hours. When the clock goes forward, an hour has no samples;
        when it goes back, a step has the mean of its two times.

        >>> cpu = np.arange(4, dtype=np.float32)[None, :]
        >>> zurich = DayClock(0, "Europe/Zurich")  # at 1_711_846_800 the clock goes from 2:00 to 3:00
        >>> grid = UsageGrid(np.array([7]), cpu, None, np.ones(1), np.ones(1), 1_711_845_000, 900, zurich)
        >>> grid.on_local_clock().cpu.tolist()
        [[0.0, 1.0, nan, nan, nan, nan, 2.0, 3.0]]
        """
        local_s = self.clock.local_s(self.time_s())
        if not len(local_s):
            return replace(self, clock=DayClock())
        start_s = int(local_s.min())
        columns = (local_s - start_s) // self.step_s
        is_same = np.array_equal(columns, np.arange(len(columns)))
        distinct, first, n_times = np.unique(columns, return_index=True, return_counts=True)
        twice, earlier = distinct[n_times > 1], first[n_times > 1]

        def local(values: np.ndarray) -> np.ndarray:
            if is_same:
                return values
            on_local = np.full((len(values), int(columns.max()) + 1), np.nan, np.float32)
            on_local[:, columns] = values  # the later one of two
            before, later = values[:, earlier], on_local[:, twice]
            on_local[:, twice] = np.where(np.isnan(before), later,
                                          np.where(np.isnan(later), before, (before + later) / 2))
            return on_local

        return replace(self, cpu=local(self.cpu), mem=None if self.mem is None else local(self.mem), start_s=start_s,
                       clock=DayClock())


Take = Literal["mean", "max"]
"""How a step's value follows from its samples."""


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of several requests, ordered by request and time; a request has at most one at a time.

    idx_request: int64 (n,), non-decreasing, 0 to n_requests - 1. time_s: int64 (n,). cpu: float32
    (n,). mem: the same, NaN = none, or None. interval_s: float64 (n_requests,), the median time
    between samples of each request, NaN with less than two.
    """

    idx_request: np.ndarray
    time_s: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None
    interval_s: np.ndarray

    @property
    def n_requests(self) -> int:
        """Number of requests, also those without samples."""
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
    """Median time between consecutive samples of each request, float64 (n_requests,), NaN with less than two.

    >>> median_intervals_s(np.array([0, 0, 0, 0, 1]), np.array([0, 300, 600, 4200, 0]), 2).tolist()
    [300.0, nan]
    """
    intervals_s = np.full(n_requests, np.nan)
    edges = np.searchsorted(idx_request, np.arange(n_requests + 1))
    for row in np.flatnonzero(np.diff(edges) > 1):
        intervals_s[row] = np.median(np.diff(time_s[edges[row]:edges[row + 1]]))
    return intervals_s


def gridded(series: Series, values: np.ndarray, start_s: int, step_s: int, n_steps: int, take: Take = "mean",
            bridge_steps: int = 0) -> np.ndarray:
    """`values` (n,) of a series' samples on a grid, float32 (n_requests, n_steps), NaN where a step
    has none. Step k covers start_s + k x step_s to the next; samples outside do not count. If the request's median
    interval is at most a step, a step's value is the mean (take="max": the maximum) of its samples. If it is longer,
    each sample holds for that interval or up to the next sample, whichever is earlier, in its step and all steps that
    start meanwhile. bridge_steps: gaps of at most so many steps between two values get the value before; the value
    after is in the future and is not used.

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
        used = lo + np.flatnonzero(is_used[lo:hi])
        if len(used):
            _hold(grid[row], series.time_s[used], values[used], float(series.interval_s[row]), start_s, step_s)
    if bridge_steps:
        _bridge(grid, bridge_steps)
    return grid


def _hold(row: np.ndarray, time_s: np.ndarray, values: np.ndarray, interval_s: float, start_s: int,
          step_s: int) -> None:
    """Fill the empty steps that start while a sample of a coarse series holds."""
    begin_s = start_s + step_s * np.arange(len(row), dtype=np.int64)
    last = np.searchsorted(time_s, begin_s, side="right") - 1  # the sample before each step's start
    is_held = (last >= 0) & (begin_s < time_s[last] + interval_s) & np.isnan(row)
    row[is_held] = values[last[is_held]]


def _bridge(grid: np.ndarray, bridge_steps: int) -> None:
    position = np.arange(grid.shape[1])
    for row in grid:
        is_empty = np.isnan(row)
        if not is_empty.any() or is_empty.all():
            continue
        before = np.maximum.accumulate(np.where(is_empty, -1, position))
        after = np.minimum.accumulate(np.where(is_empty, len(row), position)[::-1])[::-1]
        is_short = is_empty & (before >= 0) & (after < len(row)) & (after - before - 1 <= bridge_steps)
        row[is_short] = row[before[is_short]]


LEVELS = (0.05, 0.5, 0.95)
"""Levels of the quantiles per request."""


@dataclass(frozen=True, slots=True)
class UsageProfiles:
    """Use of each request over the local day, as a share of its reservation, from samples in a window.

    request_ids: (n,). cpu_cores, mem_gib: float64 (n,), reserved. maximum, mean: float32 (n, n_slots), NaN without
    samples. count: int64 (n, n_slots), samples. slot_quantile: float32 (n, n_slots) or None. quantiles: float64 (n, 3),
    p5, p50 and p95 of all samples; peak, average: float64 (n,), their maximum and mean; NaN without samples. clock:
    local time of day.
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
        """Number of slots of a day."""
        return self.maximum.shape[1]


def profiles_of(grid: UsageGrid, n_slots: int = 96, *, from_s: int | None = None, to_s: int | None = None,
                resource: str = "cpu", slot_quantile: float | None = None) -> UsageProfiles:
    """The profiles of a grid; a step is one sample at its start. from_s, to_s: the window on the
    trace's clock, from_s <= start of the step < to_s; None = from the first, to the last. resource:
    "cpu" or "mem". slot_quantile: also this quantile (0 to 1) of each slot.

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
    """The profiles of the samples, for any intervals; as `profiles_of`."""
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
    """The profiles of several sets of requests as one, in order; at least one part."""
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
    quantiles = np.full((n_groups, len(levels)), np.nan)
    has = size > 0
    for k, level in enumerate(levels):
        place = begin[has] + level * (size[has] - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, begin[has] + size[has] - 1)
        quantiles[has, k] = ordered[low] + (place - low) * (ordered[high] - ordered[low])
    return quantiles


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


_N_LINEAR = 256
"""Bins from 0 to 1."""
_RATIO = 1 + 1 / 64
"""Ratio of the bounds of a bin above 1."""
TOLERANCE = 0.5 / _N_LINEAR
"""The largest error of a quantile up to 1, as a share of the reservation."""
TOLERANCE_ABOVE = (_RATIO - 1) / 2
"""The largest relative error of a quantile above 1."""


def streamed_profiles(stream: UsageStream, n_slots: int = 96, *, from_s: int | None = None, to_s: int | None = None,
                      resource: str = "cpu", progress: Callable[[int, int], None] | None = None) -> UsageProfiles:
    """Profiles of the requests of a stream with a sample in the window, in the stream's order.

    Memory is that of the requests: about 3.5 kB each with 96 slots and a cap of 10. Maximum and count are exact, means
    up to rounding. Quantiles come from a histogram per request, with errors up to `TOLERANCE` below 1 and
    `TOLERANCE_ABOVE` above. A second sample at one time counts, since the order is not by time. from_s, to_s: the
    window from_s <= t < to_s. resource: "cpu" or "mem". progress: called with (done, total) samples where known.

    ValueError for a stream without a sample in the window, and "mem" without memory.

    >>> from sojourn.features.usage.trace_usage import stream_synthetic
    >>> profiles = streamed_profiles(stream_synthetic(n_requests=1000, n_usage=2, days=3))
    >>> profiles.maximum.shape, profiles.count.sum().item()
    ((2, 96), 1728)
    """
    if resource not in ("cpu", "mem"):
        raise ValueError(f"resource must be cpu or mem, got {resource!r}")
    bounds = _bounds(stream.max_cpu)
    n_bins = len(bounds) - 1
    maximum = np.zeros((0, n_slots), np.float32)
    total, count = np.zeros((0, n_slots)), np.zeros((0, n_slots), np.int64)
    bins = np.zeros((0, n_bins), np.int32)
    n_done = 0
    for block in stream.blocks():
        n_more = len(stream.table) - len(count)
        if n_more:
            maximum = np.concatenate([maximum, np.full((n_more, n_slots), -np.inf, np.float32)])
            total, count, bins = (np.concatenate([array, np.zeros((n_more, array.shape[1]), array.dtype)])
                                  for array in (total, count, bins))
        values = block.cpu if resource == "cpu" else block.mem
        if values is None:
            raise ValueError("resource must be cpu where the series have no memory, got 'mem'")
        is_in = ~np.isnan(values)
        if from_s is not None:
            is_in &= block.time_s >= from_s
        if to_s is not None:
            is_in &= block.time_s < to_s
        row, value = block.idx_request[is_in].astype(np.int64), values[is_in]
        cell = row * n_slots + stream.clock.slot(block.time_s[is_in], n_slots)
        np.maximum.at(maximum.reshape(-1), cell, value)
        np.add.at(total.reshape(-1), cell, value.astype(np.float64))
        np.add.at(count.reshape(-1), cell, 1)
        place = np.clip(np.searchsorted(bounds, value, side="right") - 1, 0, n_bins - 1)
        np.add.at(bins.reshape(-1), row * n_bins + place, 1)
        n_done += len(block)
        if progress is not None and stream.n_rows:
            progress(n_done, stream.n_rows)
    idx = np.flatnonzero(count.sum(1) > 0)
    if not len(idx):
        raise ValueError(f"{stream.source} must hold at least one sample in the window, got none; "
                         f"refused: {dict(stream.report().read.refused)}")
    maximum, total, count, bins = maximum[idx], total[idx], count[idx], bins[idx]
    with np.errstate(invalid="ignore"):
        mean = (total / count).astype(np.float32)
    users = stream.requests().select(idx)
    return UsageProfiles(
        users.request_ids, users.cpu_cores, users.mem_gib, np.where(count > 0, maximum, np.float32(np.nan)), mean,
        count, None, _quantiles_of_bins(bins, bounds), maximum.max(1).astype(np.float64), total.sum(1) / count.sum(1),
        stream.clock)


def _bounds(cap: float) -> np.ndarray:
    linear = np.arange(_N_LINEAR + 1) / _N_LINEAR
    if cap <= 1:
        return linear
    n_above = int(np.ceil(np.log(cap) / np.log(_RATIO)))
    return np.append(linear, _RATIO ** np.arange(1, n_above + 1))


def _quantiles_of_bins(bins: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Quantiles at `LEVELS` (n, 3), interpolated between order statistics, each at the middle of its bin."""
    middle = (bounds[:-1] + bounds[1:]) / 2
    upto = np.cumsum(bins, axis=1, dtype=np.int64)
    size = upto[:, -1]
    quantiles = np.empty((len(bins), len(LEVELS)))
    for k, level in enumerate(LEVELS):
        place = level * (size - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, size - 1)
        at_low, at_high = (middle[(upto <= rank[:, None]).sum(1)] for rank in (low, high))
        quantiles[:, k] = at_low + (place - low) * (at_high - at_low)
    return quantiles
