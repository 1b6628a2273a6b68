"""Compiled loops of the fit: gaps, the zero-phase filter on 16 series at once, percentiles, folding, busy windows."""

from __future__ import annotations

import numpy as np

from sojourn.serving.kernel import kernel

_LANES = 16
_N_HISTOGRAM = 1024
_TURN = 2.0 ** 64
_HALF = np.uint64(32)
_LEAST_RATIO = 0.25
"""The least power over background of a half or a third of a frequency, as a share of that of the frequency.

On a steep background a lower frequency has much power by chance.
"""


@kernel
def scan(values, first, last, n_present, least, greatest):
    """For each row: first and last finite column, number of finite values, their minimum and maximum."""
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
    """Copy rows that start and end with finite values; missing values between them are interpolated linearly."""
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
    """Filter rows forwards and backwards with odd padding, and subtract the least-squares line.

    rows: float32 (n, m), m > n_pad. settled: (sections, 2), state of each section after a long
    input of 1. Outputs: smooth and detrended, float32 (n, m), and the variance of the detrended
    rows, float64 (n,). A row's result does not depend on its neighbours.
    """
    n, m = rows.shape
    length = m + 2 * n_pad
    work = np.empty((length, _LANES))
    for begin in range(0, n, _LANES):
        width = min(_LANES, n - begin)
        for idx in range(m):
            for lane in range(width):
                work[n_pad + idx, lane] = rows[begin + lane, idx]
            for lane in range(width, _LANES):
                work[n_pad + idx, lane] = 0.0
        for idx in range(n_pad):
            for lane in range(_LANES):
                work[idx, lane] = 2.0 * work[n_pad, lane] - work[2 * n_pad - idx, lane]
                work[n_pad + m + idx, lane] = 2.0 * work[n_pad + m - 1, lane] - work[n_pad + m - 2 - idx, lane]
        _filter(work, sos, settled, 0, 1)
        _filter(work, sos, settled, length - 1, -1)
        _detrend(work[n_pad:n_pad + m], begin, width, smooth, detrended, variance)


@kernel
def _filter(work, sos, settled, first, step):
    """All biquads over all lanes in place (direct form II transposed), started as after a long constant input."""
    n_sections = len(sos)
    z0, z1 = np.empty((n_sections, _LANES)), np.empty((n_sections, _LANES))
    for section in range(n_sections):
        for lane in range(_LANES):
            z0[section, lane] = settled[section, 0] * work[first, lane]
            z1[section, lane] = settled[section, 1] * work[first, lane]
    at = first
    for _ in range(len(work)):
        for section in range(n_sections):
            b0, b1, b2 = sos[section, 0], sos[section, 1], sos[section, 2]
            a1, a2 = sos[section, 4], sos[section, 5]
            for lane in range(_LANES):
                sample = work[at, lane]
                answer = b0 * sample + z0[section, lane]
                z0[section, lane] = b1 * sample - a1 * answer + z1[section, lane]
                z1[section, lane] = b2 * sample - a2 * answer
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
            residual = work[idx, lane] - level[lane] - slope[lane] * (idx - middle)
            power[lane] += residual * residual
    for lane in range(width):
        variance[begin + lane] = power[lane] / m
    for idx in range(m):
        for lane in range(width):
            smooth[begin + lane, idx] = work[idx, lane]
            detrended[begin + lane, idx] = work[idx, lane] - level[lane] - slope[lane] * (idx - middle)


@kernel
def percentile_rows(rows, low_share, high_share, low, high):
    """Two percentiles of each row, linear between the order statistics (numpy's default).

    A histogram gives the bars of the order statistics; only the values in those bars are sorted.
    """
    m = rows.shape[1]
    bar_of = np.empty(m, np.int32)
    for row in range(len(rows)):
        line = rows[row]
        least, greatest = line[0], line[0]
        for idx in range(m):
            least = line[idx] if line[idx] < least else least
            greatest = line[idx] if line[idx] > greatest else greatest
        scale = np.float32(0.0 if greatest == least else _N_HISTOGRAM / (np.float64(greatest) - np.float64(least)))
        counts = np.zeros(_N_HISTOGRAM + 2, np.int64)  # scale is rounded: the maximum may be one bar further
        for idx in range(m):
            bar_of[idx] = np.int32((line[idx] - least) * scale)
        for idx in range(m):
            counts[bar_of[idx]] += 1
        low[row] = _order_statistic(line, bar_of, counts, low_share)
        high[row] = _order_statistic(line, bar_of, counts, high_share)


@kernel
def _order_statistic(line, bar_of, counts, share):
    place = share * (len(line) - 1)
    rank = int(place)
    next_rank = min(rank + 1, len(line) - 1)
    below, bar = 0, 0
    while below + counts[bar] <= rank:
        below += counts[bar]
        bar += 1
    last, n_held = bar, counts[bar]
    while below + n_held <= next_rank:
        last += 1
        n_held += counts[last]
    bar_values = np.empty(n_held + 1)
    filled = 0
    for idx in range(len(line)):
        bar_values[filled] = line[idx]
        filled += bar <= bar_of[idx] <= last
    bar_values = bar_values[:n_held]
    bar_values.sort()
    base, after = bar_values[rank - below], bar_values[next_rank - below]
    return base + (after - base) * (place - rank)


@kernel
def fold(line, period, sums, counts):
    """Sums and counts of a row's finite values by position in the period; returns the sum of their squares.

    period: in steps, above 1, from the row's first column; the time of a step is its middle. The
    position is an integer of 2^-64 turns, which wraps as turns do.
    """
    sums[:] = 0.0
    counts[:] = 0
    squares = 0.0
    n_bins = np.uint64(len(sums))
    half_step = np.uint64(_TURN / (2.0 * period))
    step = half_step + half_step
    place = half_step
    for idx in range(len(line)):
        if np.isfinite(line[idx]):
            at = ((place >> _HALF) * n_bins) >> _HALF
            value = np.float64(line[idx])
            sums[at] += value
            counts[at] += 1
            squares += value * value
        place += step
    return squares


@kernel
def profile_of(sums, counts, profile):
    """Mean of each bin; an empty bin is interpolated linearly between its neighbours, on the circle."""
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

    For each width it takes the window with the largest sum; of these the one whose two means explain most variance.
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
def joint_rows(rows, period, n_bins, phase, duty, sums):
    """Phase in steps and duty cycle of each row with a finite period (steps), and the sums of `sums_rows`."""
    bins, counts, profile = np.empty(n_bins), np.empty(n_bins, np.int64), np.empty(n_bins)
    for row in range(len(rows)):
        if np.isfinite(period[row]):
            squares = fold(rows[row], period[row], bins, counts)
            profile_of(bins, counts, profile)
            start, width = busy_window(profile)
            phase[row], duty[row] = start * period[row] / n_bins, width / n_bins
            sums[row] = 0.0
            for idx in range(n_bins):
                sums[row, 2] += counts[idx]
                sums[row, 3] += bins[idx]
                if (idx - start) % n_bins < width:
                    sums[row, 0] += counts[idx]
                    sums[row, 1] += bins[idx]
            sums[row, 4] = squares


@kernel
def sums_rows(rows, period, phase, duty, sums):
    """For rows with a finite period: count and sum of the busy window; count, sum and squares of all, (n, 5).

    period and phase: in steps from the row's first column; the middle of a step decides.
    """
    for row in range(len(rows)):
        if np.isfinite(period[row]):
            sums[row] = 0.0
            for idx in range(rows.shape[1]):
                if np.isfinite(rows[row, idx]):
                    value = np.float64(rows[row, idx])
                    turns = (idx + 0.5 - phase[row]) / period[row]
                    if turns - np.floor(turns) < duty[row]:
                        sums[row, 0] += 1.0
                        sums[row, 1] += value
                    sums[row, 2] += 1.0
                    sums[row, 3] += value
                    sums[row, 4] += value * value


@kernel
def strongest_rows(spectra, power, reached, one_share, earlier, first, last, subharmonic_share, keep_share, n_turns,
                   peak_power, near_power, near_reached):
    """For each row's spectrum: the frequency in bins (NaN = none), its power, and that of the three bins around it.

    power: of the spectra, some bins may be 0. reached: the limit for the three bins around each; if
    none exceeds it, the frequency is the strongest. one_share: the part of the limit for a third or
    a half of the strongest. near_reached: the limit at the result.
    """
    nothing = np.zeros(power.shape[1])
    for row in range(len(spectra)):
        best, top = _strongest(power[row], reached[row], one_share, first, last, subharmonic_share, earlier[row],
                               keep_share)
        if best < 0:
            best, top = _strongest(power[row], nothing, 1.0, first, last, subharmonic_share, np.nan, keep_share)
        n_turns[row], peak_power[row], near_power[row], near_reached[row] = np.nan, 0.0, 0.0, 0.0
        if best >= 0:
            n_turns[row] = best + _offset(spectra[row], best)
            peak_power[row] = power[row, best]
            near_power[row] = _near(power[row], best)
            near_reached[row] = reached[row, best] * (1.0 if best == top else one_share)


@kernel
def _near(power, idx):
    return power[idx - 1] + power[idx] + power[idx + 1]


@kernel
def _stands_out(power, reached, share, idx):
    return power[idx] > power[idx - 1] and power[idx] >= power[idx + 1] and _near(power, idx) > share * reached[idx]


@kernel
def _strongest(power, reached, one_share, first, last, subharmonic_share, earlier, keep_share):
    """Bins of the frequency and of the largest local maximum in first..last above `reached`, or -1.

    The frequency is next to the earlier one, or else a third or a half of the largest, if it is strong enough. Power is
    compared over three bins, since a frequency between two bins spreads over them.
    """
    best, near_earlier = -1, -1
    for idx in range(first, last + 1):
        if _stands_out(power, reached, 1.0, idx):
            if best < 0 or power[idx] > power[best]:
                best = idx
            if abs(idx - earlier) <= 1.0 and (near_earlier < 0 or power[idx] > power[near_earlier]):
                near_earlier = idx
    if near_earlier >= 0 and _near(power, near_earlier) >= keep_share * _near(power, best):
        return near_earlier, near_earlier
    if best < 0:
        return best, best
    for part in (3, 2):
        near = -1
        for idx in range(max(first, best // part - 1), best // part + 3):
            if (abs(idx * part - best) < part and _stands_out(power, reached, one_share, idx)
                    and (near < 0 or power[idx] > power[near])):
                near = idx
        if (near >= 0 and _near(power, near) >= subharmonic_share * _near(power, best)
                and _near(power, near) * reached[best] >= _LEAST_RATIO * _near(power, best) * reached[near]):
            return near, best
    return best, best


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
