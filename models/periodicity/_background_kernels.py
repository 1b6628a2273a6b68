"""Compiled loops of the background of spectra: medians of groups of bins, and a fit of smooth shapes to them."""

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
    """The expected power of noise in each bin of each row: a sum of `shapes` with weights of at least 0.

    gain: share of each bin's power after the filter. bounds: int64 (g + 1,), first bins of the groups; middles: the bin
    of each group for its median. shapes: (k, n_bins), positive. Bins without power do not count. The weights minimise
    the Itakura-Saito distance to the groups' medians, by multiplicative steps (Fevotte, Bertin and Durrieu 2009), so
    they stay positive. Without power in any bin the result is infinite.
    """
    n_groups, n_shapes, n_bins = len(middles), len(shapes), power.shape[1]
    at = np.empty((n_shapes, n_groups))
    for shape in range(n_shapes):
        for group in range(n_groups):
            at[shape, group] = shapes[shape, middles[group]]
    level, count = np.empty(n_groups), np.empty(n_groups)
    above, below = np.empty(n_groups), np.empty(n_groups)
    values, upwards = np.empty(n_bins), 1.0 / gain
    weights, total = np.empty(n_shapes), np.empty(n_groups)
    for row in range(len(power)):
        whole, n_used = 0.0, 0
        for group in range(n_groups):
            filled = 0
            for idx in range(bounds[group], bounds[group + 1]):
                if power[row, idx] > 0.0:
                    values[filled] = power[row, idx] * upwards[idx]
                    filled += 1
            count[group] = filled
            level[group] = _mean_of_median(values[:filled])
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
def _mean_of_median(values):
    """The mean of exponential values, from the (lower) median of these; 0 without values. Reorders the values.

    The k-th least of n exponential values of mean 1 has the mean 1/n + 1/(n - 1) + ... over k terms.
    """
    n = len(values)
    if n == 0:
        return 0.0
    middle = (n - 1) // 2
    expected = 0.0
    for idx in range(middle + 1):
        expected += 1.0 / (n - idx)
    return _select(values, middle) / expected


@kernel
def _select(values, rank):
    """The value at `rank` in sorted order, by Hoare's selection: a third of the time of a sort."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[rank]
        up, down = low, high
        while up <= down:
            while values[up] < pivot:
                up += 1
            while pivot < values[down]:
                down -= 1
            if up <= down:
                values[up], values[down] = values[down], values[up]
                up += 1
                down -= 1
        if down < rank:
            low = up
        if rank < up:
            high = down
    return values[rank]
