"""Compiled loops of the background of spectra: medians of groups of bins, and the smooth shapes that fit them."""

from __future__ import annotations

import numpy as np

from sojourn.serving.kernel import kernel

_N_ROUNDS = 30


@kernel
def power_rows(spectra, excluded, power):
    """Squared magnitudes; 0 within 1.5 bins of the first three multiples of the excluded frequency (NaN = none)."""
    for row in range(len(spectra)):
        for idx in range(spectra.shape[1]):
            real, imag = np.float64(spectra[row, idx].real), np.float64(spectra[row, idx].imag)
            power[row, idx] = real * real + imag * imag
            for multiple in (1, 2, 3):
                if abs(idx - multiple * excluded[row]) < 1.5:  # never true of NaN
                    power[row, idx] = 0.0


@kernel
def background_rows(power, gain, bounds, middles, shapes, background):
    """Of each row: the expected power of noise in each bin, a sum of `shapes` with weights of at least 0.

    gain: what the filter leaves of each bin's power. bounds: int64 (g + 1,), first bins of the groups; middles: a bin
    of each group at which its median counts. shapes: (k, n_bins), positive. Bins of no power are left out. The weights
    are those of least Itakura-Saito distance to the groups' medians, by multiplication (Fevotte, Bertin and Durrieu
    2009): weights that begin positive stay so. Without a bin of power: infinite, nothing stands out.
    """
    n_groups, n_shapes, n_bins = len(middles), len(shapes), power.shape[1]
    at = np.empty((n_shapes, n_groups))
    for shape in range(n_shapes):
        for group in range(n_groups):
            at[shape, group] = shapes[shape, middles[group]]
    level, count = np.empty(n_groups), np.empty(n_groups)
    above, below = np.empty(n_groups), np.empty(n_groups)
    held, upwards = np.empty(n_bins), 1.0 / gain
    weights, total = np.empty(n_shapes), np.empty(n_groups)
    for row in range(len(power)):
        whole, n_used = 0.0, 0
        for group in range(n_groups):
            filled = 0
            for idx in range(bounds[group], bounds[group + 1]):
                if power[row, idx] > 0.0:
                    held[filled] = power[row, idx] * upwards[idx]
                    filled += 1
            count[group] = filled
            level[group] = _mean_of_median(held[:filled])
            whole += level[group]
            n_used += filled > 0
        if n_used == 0:
            background[row] = np.inf
            continue
        weights[:] = whole / n_used / n_shapes
        for _ in range(_N_ROUNDS):
            total[:] = 0.0
            for shape in range(n_shapes):
                for group in range(n_groups):
                    total[group] += weights[shape] * at[shape, group]
            for group in range(n_groups):
                below[group] = count[group] / total[group]
                above[group] = below[group] * level[group] / total[group]
            for shape in range(n_shapes):
                weights[shape] *= _dot(at[shape], above) / _dot(at[shape], below)
        background[row] = 0.0
        for shape in range(n_shapes):
            for idx in range(n_bins):
                background[row, idx] += weights[shape] * shapes[shape, idx]
        for idx in range(n_bins):
            background[row, idx] *= gain[idx]


@kernel
def _dot(first, second):
    total = 0.0
    for idx in range(len(first)):
        total += first[idx] * second[idx]
    return total


@kernel
def _mean_of_median(held):
    """The mean of exponential values of which these have the (lower) median; 0 of none. Reorders the values.

    The k-th least of n exponential values of mean 1 has the mean 1/n + 1/(n - 1) + ... over k terms.
    """
    n = len(held)
    if n == 0:
        return 0.0
    middle = (n - 1) // 2
    expected = 0.0
    for idx in range(middle + 1):
        expected += 1.0 / (n - idx)
    return _select(held, middle) / expected


@kernel
def _select(held, rank):
    """The value that a sort would put at `rank`, by Hoare's selection: a third of the time of a sort."""
    low, high = 0, len(held) - 1
    while low < high:
        pivot = held[rank]
        left, right = low, high
        while left <= right:
            while held[left] < pivot:
                left += 1
            while pivot < held[right]:
                right -= 1
            if left <= right:
                held[left], held[right] = held[right], held[left]
                left += 1
                right -= 1
        if right < rank:
            low = left
        if rank < left:
            high = right
    return held[rank]
