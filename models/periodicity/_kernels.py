"""Compiled loops of the fit: gaps, the zero-phase filter on 16 series at once, percentiles, folding, busy windows."""

from __future__ import annotations

import numpy as np

from sojourn.serving.kernel import kernel

_LANES = 16
_N_HISTOGRAM = 1024


@kernel
def scan(values, first, last, n_present, least, greatest):
    """Of each row: first and last finite column, finite values, the least and the greatest of them."""
    for row in range(len(values)):
        line = values[row]
        start, end, count = -1, -1, 0
        low, high = np.inf, -np.inf
        for idx in range(len(line)):
            value = line[idx]
            if np.isfinite(value):
                if start < 0:
                    start = idx
                end = idx
                count += 1
                low = min(low, value)
                high = max(high, value)
        first[row], last[row], n_present[row], least[row], greatest[row] = start, end, count, low, high


@kernel
def bridge_rows(rows, out):
    """Copy rows that begin and end with finite values; what is missing between them lies on a straight line."""
    for row in range(len(rows)):
        _bridge(rows[row], out[row])


@kernel
def _bridge(line, out):
    at = 0
    for idx in range(len(line)):
        if np.isfinite(line[idx]):
            out[idx] = line[idx]
            if idx > at + 1:
                rise = (np.float64(line[idx]) - np.float64(line[at])) / (idx - at)
                for gap in range(at + 1, idx):
                    out[gap] = np.float64(line[at]) + rise * (gap - at)
            at = idx


@kernel
def smooth_rows(rows, sos, settled, n_pad, smooth, detrended, variance):
    """Filter rows forwards and backwards with odd padding, and subtract the straight line of least squares.

    rows: float32 (n, m), m > n_pad. settled: (sections, 2), state of each section after a long input of 1. Written:
    smooth and detrended, float32 (n, m), and the variance of the detrended rows, float64 (n,). A row's result does not
    depend on its neighbours.
    """
    n, m = rows.shape
    length = m + 2 * n_pad
    work = np.empty((length, _LANES))
    for begin in range(0, n, _LANES):
        width = min(_LANES, n - begin)
        for lane in range(_LANES):
            line = rows[begin + min(lane, width - 1)]
            start, end = np.float64(line[0]), np.float64(line[m - 1])
            for idx in range(n_pad):
                work[idx, lane] = 2.0 * start - line[n_pad - idx]
                work[n_pad + m + idx, lane] = 2.0 * end - line[m - 2 - idx]
            for idx in range(m):
                work[n_pad + idx, lane] = line[idx]
        for first, step in ((0, 1), (length - 1, -1)):
            constant = work[first].copy()
            for section in range(len(sos)):
                _filter(work, sos[section], settled[section], constant, first, step)
        _detrend(work[n_pad:n_pad + m], begin, width, smooth, detrended, variance)


@kernel
def _filter(work, section, settled, constant, first, step):
    """One biquad over all lanes in place (direct form II transposed), begun as after a long constant input."""
    b0, b1, b2, a1, a2 = section[0], section[1], section[2], section[4], section[5]
    z0, z1 = np.empty(_LANES), np.empty(_LANES)
    for lane in range(_LANES):
        z0[lane] = settled[0] * constant[lane]
        z1[lane] = settled[1] * constant[lane]
    at = first
    for _ in range(len(work)):
        for lane in range(_LANES):
            given = work[at, lane]
            answer = b0 * given + z0[lane]
            z0[lane] = b1 * given - a1 * answer + z1[lane]
            z1[lane] = b2 * given - a2 * answer
            work[at, lane] = answer
        at += step


@kernel
def _detrend(work, begin, width, smooth, detrended, variance):
    m = len(work)
    level, slope, power = np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES)
    middle = 0.5 * (m - 1)
    for idx in range(m):
        for lane in range(_LANES):
            level[lane] += work[idx, lane]
            slope[lane] += (idx - middle) * work[idx, lane]
    for lane in range(_LANES):
        level[lane] /= m
        slope[lane] /= m * (m * m - 1.0) / 12.0
    for idx in range(m):
        for lane in range(_LANES):
            rest = work[idx, lane] - level[lane] - slope[lane] * (idx - middle)
            power[lane] += rest * rest
    for lane in range(width):
        variance[begin + lane] = power[lane] / m
        for idx in range(m):
            smooth[begin + lane, idx] = work[idx, lane]
            detrended[begin + lane, idx] = work[idx, lane] - level[lane] - slope[lane] * (idx - middle)


@kernel
def percentile_rows(rows, low_share, high_share, low, high):
    """Two percentiles of each row, straight lines between the order statistics (numpy's default)."""
    for row in range(len(rows)):
        least, greatest = rows[row, 0], rows[row, 0]
        for value in rows[row]:
            least = min(least, value)
            greatest = max(greatest, value)
        counts = np.zeros(_N_HISTOGRAM + 1, np.int64)
        scale = 0.0 if greatest == least else _N_HISTOGRAM / (np.float64(greatest) - np.float64(least))
        for value in rows[row]:
            counts[int((np.float64(value) - least) * scale)] += 1
        low[row] = _order_statistic(rows[row], least, scale, counts, low_share)
        high[row] = _order_statistic(rows[row], least, scale, counts, high_share)


@kernel
def _order_statistic(line, least, scale, counts, share):
    place = share * (len(line) - 1)
    rank = int(place)
    below, bar = 0, 0
    while below + counts[bar] <= rank:
        below += counts[bar]
        bar += 1
    last = bar
    n_held = counts[bar]
    while below + n_held <= min(rank + 1, len(line) - 1):
        last += 1
        n_held += counts[last]
    held = np.empty(n_held)
    filled = 0
    for value in line:
        idx = int((np.float64(value) - least) * scale)
        if bar <= idx <= last:
            held[filled] = value
            filled += 1
    held.sort()
    base = held[rank - below]
    after = held[min(rank + 1, len(line) - 1) - below]
    return base + (after - base) * (place - rank)


@kernel
def fold(line, period, n_bins, sums, counts):
    """Sums and counts of a row's finite values by their place in the period; the middle of a step is its time.

    period: in steps, counted from the row's first column.
    """
    sums[:] = 0.0
    counts[:] = 0
    rate = 1.0 / period
    for idx in range(len(line)):
        if np.isfinite(line[idx]):
            turns = (idx + 0.5) * rate
            at = min(int((turns - np.floor(turns)) * n_bins), n_bins - 1)
            sums[at] += line[idx]
            counts[at] += 1


@kernel
def profile_of(sums, counts, profile):
    """Mean of each bin; an empty bin lies on the straight line between its neighbours, round the circle."""
    n_bins = len(sums)
    first = -1
    for idx in range(n_bins):
        if counts[idx] > 0:
            profile[idx] = sums[idx] / counts[idx]
            if first < 0:
                first = idx
    at = first
    for step in range(1, n_bins + 1):
        idx = (first + step) % n_bins
        if counts[idx] > 0:
            width = (idx - at) % n_bins
            if width == 0:
                width = n_bins
            for gap in range(1, width):
                profile[(at + gap) % n_bins] = profile[at] + (profile[idx] - profile[at]) * gap / width
            at = idx


@kernel
def busy_window(profile):
    """First bin and number of bins of the window that splits a circular profile into two levels with least error.

    Of each width the window with the greatest sum; of the widths the one whose two means explain most variance.
    """
    n_bins = len(profile)
    mean = 0.0
    for value in profile:
        mean += value
    mean /= n_bins
    ahead = np.zeros(2 * n_bins + 1)
    for idx in range(2 * n_bins):
        ahead[idx + 1] = ahead[idx] + profile[idx % n_bins] - mean
    best = np.zeros(n_bins)
    for start in range(n_bins):
        for width in range(1, n_bins):
            total = ahead[start + width] - ahead[start]
            best[width] = total if total > best[width] else best[width]
    n_busy, explained = 1, -1.0
    for width in range(1, n_bins):
        between = best[width] * best[width] / (width * (n_bins - width))
        if between > explained:
            n_busy, explained = width, between
    for start in range(n_bins):
        if ahead[start + n_busy] - ahead[start] >= best[n_busy]:
            return start, n_busy
    return 0, n_busy


@kernel
def joint_rows(rows, period, n_bins, phase, duty):
    """Phase in steps and duty cycle of each row whose period (steps) is finite, by the best window of its profile."""
    sums, counts, profile = np.empty(n_bins), np.empty(n_bins, np.int64), np.empty(n_bins)
    for row in range(len(rows)):
        if np.isfinite(period[row]):
            fold(rows[row], period[row], n_bins, sums, counts)
            profile_of(sums, counts, profile)
            start, width = busy_window(profile)
            phase[row], duty[row] = start * period[row] / n_bins, width / n_bins


@kernel
def sums_rows(rows, period, phase, duty, sums):
    """`busy_sums` of each row whose period is finite, float64 (n, 6)."""
    for row in range(len(rows)):
        if np.isfinite(period[row]):
            sums[row] = busy_sums(rows[row], period[row], phase[row], duty[row])


@kernel
def busy_sums(line, period, phase, duty):
    """Of a row's finite values in and out of the busy window: counts, sums and sums of squares.

    period and phase: in steps from the row's first column; a step belongs where its middle lies.
    """
    n_busy = n_idle = 0
    busy = idle = busy_squares = idle_squares = 0.0
    rate = 1.0 / period
    for idx in range(len(line)):
        if np.isfinite(line[idx]):
            value = np.float64(line[idx])
            turns = (idx + 0.5 - phase) * rate
            if turns - np.floor(turns) < duty:
                n_busy += 1
                busy += value
                busy_squares += value * value
            else:
                n_idle += 1
                idle += value
                idle_squares += value * value
    return float(n_busy), busy, busy_squares, float(n_idle), idle, idle_squares


@kernel
def strongest_rows(spectra, excluded, first, last, subharmonic_share, n_turns, peak_power, near_power):
    """Of each row's spectrum: the frequency in bins (NaN = none), power at its bin, and of the three bins around it."""
    power = np.empty(spectra.shape[1])
    for row in range(len(spectra)):
        for idx in range(len(power)):
            real, imag = np.float64(spectra[row, idx].real), np.float64(spectra[row, idx].imag)
            power[idx] = real * real + imag * imag
            for multiple in (1, 2, 3):
                if abs(idx - multiple * excluded[row]) < 1.5:  # never true of NaN
                    power[idx] = 0.0
        best = _strongest(power, first, last, subharmonic_share)
        n_turns[row], peak_power[row], near_power[row] = np.nan, 0.0, 0.0
        if best >= 0:
            n_turns[row] = best + _offset(spectra[row], best)
            peak_power[row] = power[best]
            near_power[row] = power[best - 1] + power[best] + power[best + 1]


@kernel
def _strongest(power, first, last, subharmonic_share):
    """Bin of the greatest local maximum in first..last, or -1; a half or a third of it where that is strong enough."""
    best = -1
    for idx in range(first, last + 1):
        if power[idx] > power[idx - 1] and power[idx] >= power[idx + 1] and (best < 0 or power[idx] > power[best]):
            best = idx
    for part in (3, 2):
        near = -1
        for idx in range(max(first, best // part - 1), best // part + 3):
            if (abs(idx * part - best) <= part and power[idx] > power[idx - 1] and power[idx] >= power[idx + 1]
                    and (near < 0 or power[idx] > power[near])):
                near = idx
        if near >= 0 and power[near] >= subharmonic_share * power[best]:
            return near
    return best


@kernel
def _offset(spectrum, best):
    """Distance of the frequency from the bin `best`, -0.5 to 0.5 (Grandke 1983, Hann window)."""
    middle = abs(_hann(spectrum, best))
    below, above = abs(_hann(spectrum, best - 1)), abs(_hann(spectrum, best + 1))
    if middle <= 0.0:
        return 0.0
    ratio = max(below, above) / middle
    offset = (2.0 * ratio - 1.0) / (ratio + 1.0)
    return min(max(offset if above >= below else -offset, -0.5), 0.5)


@kernel
def _hann(spectrum, idx):
    return 0.5 * np.complex128(spectrum[idx]) - 0.25 * (np.complex128(spectrum[idx - 1])
                                                        + np.complex128(spectrum[idx + 1]))
