"""Profiles of a stream without keeping its samples, for traces that are too large to store."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sojourn.features.usage.usage_profiles import LEVELS, UsageProfiles
from sojourn.features.usage.usage_stream import UsageStream

_N_LINEAR = 256
"""Bins from 0 to 1."""
_RATIO = 1 + 1 / 64
"""Of the bounds of a bin above 1."""
TOLERANCE = 0.5 / _N_LINEAR
"""Most by which a quantile up to 1 differs from the exact one, as a share of what is reserved."""
TOLERANCE_ABOVE = (_RATIO - 1) / 2
"""Most by which a quantile above 1 differs, as a share of itself."""


def streamed_profiles(stream: UsageStream, n_slots: int = 96, *, from_s: int | None = None, to_s: int | None = None,
                      resource: str = "cpu", progress: Callable[[int, int], None] | None = None) -> UsageProfiles:
    """Profiles of the requests of a stream with a sample in the window, in the stream's order.

    Memory is that of the requests: about 3.5 kB each with 96 slots and a cap of 10. Maximum and count are exact, means
    too but for rounding. Quantiles come from a histogram per request: within `TOLERANCE` up to 1 and `TOLERANCE_ABOVE`
    of themselves above. Second samples at one time count, which only an order by time would show. from_s, to_s: the
    window from_s <= t < to_s. resource: "cpu" or "mem". progress: called with (done, total) samples where known.

    Refused with ValueError: a stream without a sample in the window, "mem" of a stream without memory.

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
    chosen = stream.requests().select(idx)
    return UsageProfiles(
        chosen.request_ids, chosen.cpu_cores, chosen.mem_gib, np.where(count > 0, maximum, np.float32(np.nan)), mean,
        count, None, _quantiles(bins, bounds), maximum.max(1).astype(np.float64), total.sum(1) / count.sum(1),
        stream.clock)


def _bounds(cap: float) -> np.ndarray:
    """Bounds of the bins from 0 to the cap, float64, ascending."""
    linear = np.arange(_N_LINEAR + 1) / _N_LINEAR
    if cap <= 1:
        return linear
    n_above = int(np.ceil(np.log(cap) / np.log(_RATIO)))
    return np.append(linear, _RATIO ** np.arange(1, n_above + 1))


def _quantiles(bins: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Quantiles at `LEVELS` (n, 3): each order statistic is taken at the middle of its bin, then interpolated."""
    middle = (bounds[:-1] + bounds[1:]) / 2
    upto = np.cumsum(bins, axis=1, dtype=np.int64)
    size = upto[:, -1]
    found = np.empty((len(bins), len(LEVELS)))
    for k, level in enumerate(LEVELS):
        place = level * (size - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, size - 1)
        at_low, at_high = (middle[(upto <= rank[:, None]).sum(1)] for rank in (low, high))
        found[:, k] = at_low + (place - low) * (at_high - at_low)
    return found
