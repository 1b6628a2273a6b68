"""Slow twins of the kernels of `models.periodicity`, one sample at a time, in plain Python and numpy."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np


def naive_scan(line: np.ndarray) -> tuple[int, int, int, float, float]:
    """First and last finite column, finite values, least and greatest."""
    places = [idx for idx, value in enumerate(line) if math.isfinite(value)]
    if not places:
        return -1, -1, 0, math.inf, -math.inf
    kept = [float(line[idx]) for idx in places]
    return places[0], places[-1], len(places), min(kept), max(kept)


def naive_bridged(line: np.ndarray) -> np.ndarray:
    """Straight lines over what is missing."""
    places = np.flatnonzero(np.isfinite(line))
    return np.interp(np.arange(len(line)), places, line[places].astype(np.float64))


def naive_folded(line: np.ndarray, period: float, n_bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums and counts by place in the period, in exact whole numbers of 2^-64 turns."""
    half_step = int(2.0 ** 64 / (2.0 * period))
    sums, counts = np.zeros(n_bins), np.zeros(n_bins, np.int64)
    for idx, value in enumerate(line):
        if math.isfinite(value):
            at = ((half_step * (2 * idx + 1) % 2 ** 64 >> 32) * n_bins) >> 32
            sums[at] += float(value)
            counts[at] += 1
    return sums, counts


def naive_profile(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means of bins, straight lines over empty ones, round the circle."""
    n_bins = len(sums)
    full = np.flatnonzero(counts)
    around = np.concatenate([full - n_bins, full, full + n_bins])
    return np.interp(np.arange(n_bins), around, np.tile(sums[full] / counts[full], 3))


def naive_window(profile: np.ndarray) -> tuple[int, int]:
    """Start and width of the two-level split with least squared error, every window tried."""
    n_bins = len(profile)
    best: tuple[float, int, int] | None = None
    for width in range(1, n_bins):
        for start in range(n_bins):
            is_busy = (np.arange(n_bins) - start) % n_bins < width
            busy, idle = profile[is_busy], profile[~is_busy]
            if busy.mean() <= idle.mean():
                continue
            error = ((busy - busy.mean()) ** 2).sum() + ((idle - idle.mean()) ** 2).sum()
            if best is None or error < best[0]:
                best = (float(error), start, width)
    assert best is not None
    return best[1:]


def naive_sums(line: np.ndarray, period: float, phase: float, duty: float) -> list[float]:
    """Count and sum within the busy window; count, sum and sum of squares of all."""
    sums = [0.0] * 5
    for idx, value in enumerate(line):
        if math.isfinite(value):
            turns = (idx + 0.5 - phase) / period
            weight = 1.0 if turns - math.floor(turns) < duty else 0.0
            for at, part in enumerate((weight, weight * value, 1.0, value, float(value) ** 2)):
                sums[at] += float(part)
    return sums


def naive_background(power: np.ndarray, gain: np.ndarray, bounds: list[int], shapes: np.ndarray) -> np.ndarray:
    """Expected power of noise in each bin: shapes fitted to the medians of groups, bins of no power left out."""
    levels, counts, middles = [], [], []
    for low, high in pairwise(bounds):
        held = sorted(float(power[idx] / gain[idx]) for idx in range(low, high) if power[idx] > 0.0)
        n = len(held)
        middles.append((low + high - 1) // 2)
        counts.append(n)
        # the mean of the k-th least of n exponential values: 1/n + 1/(n-1) + ... over k terms
        means = np.cumsum([1.0 / (n - idx) for idx in range(n)])
        levels.append(held[(n - 1) // 2] / float(means[(n - 1) // 2]) if n else 0.0)
    counted, level = np.array(counts), np.array(levels)
    at = shapes[:, middles]
    weights = np.full(len(shapes), level[counted > 0].mean() / len(shapes))
    for _ in range(30):
        total = weights @ at
        weights = weights * (at @ (counted * level / total ** 2)) / (at @ (counted / total))
    return np.asarray(weights @ shapes * gain)


def naive_turns(detrended: np.ndarray, first: int, last: int, shares: tuple[float, float], excluded: float,
                earlier: float, reached: np.ndarray | None = None,
                one_share: float = 1.0) -> tuple[float, float, float]:
    """Frequency in bins, power at the bin and over three, by the definition of the Fourier and of the Hann window.

    reached: what three bins must exceed, and a half or a third of the strongest by one_share; where none does, as if
    nothing were asked and there were no earlier fit.
    """
    n = len(detrended)
    spectrum = np.fft.rfft(detrended.astype(np.float64))
    windowed = np.fft.rfft(detrended * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)))
    power = np.abs(spectrum) ** 2
    for multiple in (1, 2, 3):
        power[np.abs(np.arange(len(power)) - multiple * excluded) < 1.5] = 0.0
    near_power = np.convolve(power, np.ones(3), "same")
    every = [idx for idx in range(first, last + 1) if power[idx] > power[idx - 1] and power[idx] >= power[idx + 1]]
    if not every:
        return math.nan, 0.0, 0.0
    tops = every if reached is None else [idx for idx in every if near_power[idx] > reached[idx]]
    if not tops:
        tops, earlier, reached = every, math.nan, None
    best = max(tops, key=lambda idx: power[idx])
    subharmonic_share, keep_share = shares
    kept = [idx for idx in tops if abs(idx - earlier) <= 1.0]
    again = max(kept, key=lambda idx: power[idx], default=None)
    is_kept = again is not None and bool(near_power[again] >= keep_share * near_power[best])
    if again is not None and is_kept:
        best = again
    for part in () if is_kept else (3, 2):
        lower = every if reached is None else [idx for idx in every if near_power[idx] > one_share * reached[idx]]
        near = [idx for idx in lower if abs(idx * part - best) < part]
        strong = max(near, key=lambda idx: power[idx], default=None)
        if strong is None or near_power[strong] < subharmonic_share * near_power[best]:
            continue
        if reached is None or (near_power[strong] / reached[strong]
                               >= 0.25 * near_power[best] / reached[best]):
            best = strong
            break
    side = 1 if abs(windowed[best + 1]) >= abs(windowed[best - 1]) else -1
    ratio = abs(windowed[best + side]) / abs(windowed[best])
    offset = min(max(side * (2 * ratio - 1) / (ratio + 1), -0.5), 0.5)
    return best + float(offset), float(power[best]), float(power[best - 1:best + 2].sum())
