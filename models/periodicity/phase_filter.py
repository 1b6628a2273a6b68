"""The paper's phase filter: of times that should recur once a period, those that agree on a phase."""

from __future__ import annotations

import numpy as np

_MOST_STARTS = 256


def recurring(times: np.ndarray, period: float, epsilon: float) -> tuple[float, np.ndarray]:
    """Phase, and which times keep to it: bool (n,) (section III-A4). Times and period in the same unit.

    Each time is tried as the start: the times within epsilon x period of it round the circle are its sequence. Of the
    sequences the one with the least mean distance from its start is kept, and the phase is the circular mean of its
    times. A start alone has the distance 0, so as printed the paper's rule ends at a lone outlier; a sequence must here
    have at least half as many times as the longest one. Of more than 256 times, 256 evenly spaced ones are tried.

    Refused with ValueError: no times.

    >>> phase, is_kept = recurring(np.array([3.0, 13.2, 22.8, 28.0, 33.0]), 10.0, 0.1)
    >>> round(phase, 6), is_kept.tolist()
    (3.0, [True, True, True, False, True])
    """
    if len(times) == 0:
        raise ValueError("times must be at least one, got none")
    places = np.mod(times, period)
    starts = places[np.unique(np.linspace(0, len(places) - 1, _MOST_STARTS).astype(np.int64))]
    apart = np.abs(places[None, :] - starts[:, None])
    apart = np.minimum(apart, period - apart)
    is_near = apart <= epsilon * period
    n_near = is_near.sum(axis=1)
    spread = np.where(is_near, apart, 0.0).sum(axis=1) / n_near
    best = int(np.argmin(np.where(2 * n_near >= n_near.max(), spread, np.inf)))
    angle = 2.0 * np.pi * places[is_near[best]] / period
    mean = np.arctan2(np.sin(angle).sum(), np.cos(angle).sum()) / (2.0 * np.pi) * period
    return float(np.mod(mean, period)), is_near[best]


def peak_times(smooth: np.ndarray, peak: float) -> np.ndarray:
    """Steps in which a smoothed series reaches `peak`: the first of each run at or above it, float64.

    >>> peak_times(np.array([0.0, 2.0, 3.0, 1.0, 2.0]), 2.0).tolist()
    [1.0, 4.0]
    """
    is_high = smooth >= peak
    return np.flatnonzero(is_high & ~np.concatenate([[False], is_high[:-1]])).astype(np.float64)
