"""Fits pulse waves to all series of a grid: smoothed, transformed and folded in blocks, on several threads.

A series with long sampling intervals is fitted at steps of its interval, not of the grid. A sample
that fills many steps makes a staircase, whose spectrum is no smooth background: white noise sampled
each 6 hours had "a period" in 44 of 100 series (30 days, 5-minute steps).

`WaveFits` holds the waves, their strength, or the reason why there is no period. `Timing` holds
phase, duty cycle and sums of series with known period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity._kernels import (
    bridge_rows,
    fold,
    joint_rows,
    percentile_rows,
    profile_of,
    scan,
    sums_rows,
)
from sojourn.models.periodicity.spectrum import (
    Background,
    Band,
    LowPass,
    PeriodicitySettings,
    duty_of_change_points,
    duty_of_least_error,
    find_periods,
    peak_times,
    recurring,
)
from sojourn.serving.usage import PulseWave, UsageWaves

_BLOCK = 32
_CONSTANT_SHARE = 1e-9
"""Below this share of the squared largest sample, the variance around a line counts as 0."""


def fit_waves(grid: UsageGrid, settings: PeriodicitySettings | None = None, resource: Literal["cpu", "mem"] = "cpu",
              n_threads: int = 1, earlier: WaveFits | None = None) -> WaveFits:
    """The pulse wave of each request of a grid, or a reason (period-aware placement, sections II-B and III-A).

    A series goes from its first to its last sample; missing samples between them are interpolated linearly for the
    filter and the FFT only: levels by mean, phase, duty and errors are of real samples. Not finite = missing. The time
    of a step is its middle. A request with a sampling interval above `cutoff_s` is fitted at steps of that interval
    (`by_interval`). The bytes do not depend on the number of threads or the blocks.

    earlier: fits of an earlier window; the period of a request in both is kept while it is strong
    enough (`keep_share`), and all else is fitted anew.

    ValueError for a resource that the grid does not have, and a cut-off of two steps or less.

    >>> from sojourn.serving.usage import DayClock
    >>> time_s = np.arange(0, 4 * 86_400, 300)
    >>> use = np.where((time_s - 7200) % 43_200 < 10_800, 0.7, 0.2) + np.random.default_rng(0).normal(0, 0.05, 1152)
    >>> grid = UsageGrid(np.array(["a"]), use[None, :].astype(np.float32), None, np.ones(1), np.ones(1), 0, 300,
    ...                  DayClock())
    >>> fits = fit_waves(grid)
    >>> [round(float(values[0]), 2) for values in (fits.period_s / 3600, fits.phase_s / 3600, fits.duty, fits.strength)]
    [12.01, 1.96, 0.25, 0.55]
    """
    settings = settings or PeriodicitySettings()
    values = grid.cpu if resource == "cpu" else grid.mem
    if values is None or resource not in ("cpu", "mem"):
        raise ValueError(f"resource must be cpu or mem, and in the grid, got {resource!r}")
    kept_s = np.full(len(grid), np.nan) if earlier is None else _earlier_periods(grid.request_ids, earlier)
    parts = []
    for rows, part in by_interval(grid, settings.cutoff_s):
        fitted = settings
        if part.step_s > grid.step_s:
            cutoff_s = SHORTEST_PERIOD * part.step_s  # above the cut-off of the settings
            longest_s = max(settings.longest_period_s, 1.01 * cutoff_s)
            fitted = replace(settings, cutoff_s=cutoff_s, longest_period_s=longest_s)
        series = part.cpu if resource == "cpu" or part.mem is None else part.mem
        fitting = _Fitting(np.ascontiguousarray(series, np.float32), kept_s[rows], grid.start_s, part.step_s, fitted)
        parts.append((rows, fitting.all(part.request_ids, n_threads)))
    return parts[0][1] if len(parts) == 1 else _joined(parts, grid.request_ids)


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of one length: their indices and first columns, int64 (k,).

    spread: maximum minus minimum sample; largest: maximum of |sample|, float64 (k,).
    """

    rows: np.ndarray
    first: np.ndarray
    n_steps: int
    spread: np.ndarray
    largest: np.ndarray
    has_gaps: bool


@dataclass(frozen=True, slots=True)
class _Fitting:
    """values: float32 (n, n_steps). kept_s: float64 (n,), periods of an earlier fit, NaN = none."""

    values: np.ndarray
    kept_s: np.ndarray
    start_s: int
    step_s: int
    settings: PeriodicitySettings

    def low_pass(self) -> LowPass:
        return LowPass(self.settings.filter_order, self.settings.cutoff_s, self.step_s)

    def all(self, request_ids: np.ndarray, n_threads: int) -> WaveFits:
        """Fits of all rows."""
        fits, blocks = self.blank(request_ids)
        if n_threads == 1:
            for block in blocks:
                self.fit(block, fits)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(lambda block: self.fit(block, fits), blocks))
        return fits

    def blank(self, request_ids: np.ndarray) -> tuple[WaveFits, list[_Block]]:
        """Fits of all rows as aperiodic, with the reasons that need no filter, and the blocks that need one."""
        n, options = len(self.values), self.settings
        first, last, n_present = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        least, greatest = np.empty(n), np.empty(n)
        scan(self.values, first, last, n_present, least, greatest)
        span = last - first + 1
        is_short = (span * self.step_s < 2.0 * options.cutoff_s) | (span <= self.low_pass().n_pad)
        reason = np.select(
            [n_present == 0, n_present < (1.0 - options.most_gaps) * span, least == greatest, is_short],
            [EMPTY, GAPS, CONSTANT, SHORT], default=WEAK).astype(np.int8)
        peak, trough = np.full(n, np.nan), np.full(n, np.nan)
        for row in np.flatnonzero((n_present > 0) & (reason != WEAK)):
            line = self.values[row]
            trough[row], peak[row] = np.percentile(line[np.isfinite(line)].astype(np.float64),
                                                   [options.trough_percentile, options.peak_percentile])
        fits = WaveFits.aperiodic(request_ids, peak, trough, reason)
        if options.n_periods == 2:
            second = WaveFits.aperiodic(request_ids, np.zeros(n), np.zeros(n), reason.copy())
            fits = replace(fits, second=second)
        ready = np.flatnonzero(reason == WEAK)
        ready = ready[np.argsort(span[ready], kind="stable")]
        begins = np.flatnonzero(np.diff(span[ready], prepend=-1))
        spread, largest = greatest - least, np.maximum(np.abs(least), np.abs(greatest))
        blocks = [_Block(rows, first[rows], int(span[rows[0]]), spread[rows], largest[rows],
                         bool((n_present[rows] < span[rows]).any()))
                  for group in np.split(ready, begins[1:])
                  for rows in np.split(group, range(_BLOCK, len(group), _BLOCK)) if len(rows)]
        return fits, blocks

    def fit(self, block: _Block, fits: WaveFits) -> None:
        """Fit a block and write its rows of `fits`."""
        settings, rows, n_steps = self.settings, block.rows, block.n_steps
        raw = np.empty((len(rows), n_steps), np.float32)
        for place, (row, first) in enumerate(zip(rows, block.first, strict=True)):
            raw[place] = self.values[row, first:first + n_steps]
        if block.has_gaps:
            raw[~np.isfinite(raw)] = np.nan
        earlier, none = n_steps * self.step_s / self.kept_s[rows], np.full(len(rows), np.nan)
        smooth, timing = self._timing(raw, none, earlier, fits, block)
        is_periodic, sums = np.isfinite(timing.period), timing.sums
        peak, trough = percentile_levels(smooth, settings)
        means = mean_levels(sums)
        if settings.levels == "mean":
            peak, trough = (np.where(is_periodic, mean, level)
                            for mean, level in zip(means, (peak, trough), strict=True))
        error = squared_errors(sums, peak, trough)
        error[~is_periodic] = _mean_square(raw[~is_periodic] - peak[~is_periodic, None])
        if fits.second is not None:
            residual = np.where(is_periodic[:, None], raw - timing.waves(n_steps, *means), raw).astype(np.float32)
            _, second = self._timing(residual, n_steps / timing.period, none, fits.second, block)
            second.period[~is_periodic] = np.inf
            fits.second.reason[rows[~is_periodic]] = fits.reason[rows[~is_periodic]]
            is_double = np.isfinite(second.period)
            second_levels = tuple(np.where(is_double, level, 0.0) for level in mean_levels(second.sums))
            second_wave = second.waves(n_steps, *second_levels)
            if settings.levels == "percentile":
                summed = percentile_levels((smooth - second_wave).astype(np.float32), settings)
                peak, trough = (np.where(is_double, new, old) for new, old in zip(summed, (peak, trough), strict=True))
            sum_error = _mean_square(raw - timing.waves(n_steps, peak, trough) - second_wave)
            error = np.where(is_double, sum_error, error)
            self._write(fits.second, block, second, second_levels)
            fits.second.nrmse[rows] = _ratio(np.where(is_double, error, np.nan), block.spread)
        self._write(fits, block, timing, (peak, trough))
        fits.nrmse[rows] = _ratio(error, block.spread)

    def _timing(self, raw: np.ndarray, excluded: np.ndarray, earlier: np.ndarray, fits: WaveFits,
                block: _Block) -> tuple[np.ndarray, Timing]:
        """Smoothed rows and their timing; writes strengths and reasons to `fits`.

        excluded, earlier: periods in the span, of the first wave and of an earlier fit; NaN = none.
        """
        settings, rows = self.settings, block.rows
        bridged = raw
        if block.has_gaps:
            bridged = np.empty_like(raw)
            bridge_rows(raw, bridged)
        smoothed = self.low_pass().smooth(bridged)
        n_steps = raw.shape[1]
        band = Band.of(n_steps, settings.cutoff_s / self.step_s, settings.longest_share_of(n_steps * self.step_s))
        background = None
        if settings.chance < 1.0 and band.first <= band.last:
            background = Background.of(self.low_pass(), band, n_steps, settings.chance)
        peaks = find_periods(smoothed, band, settings, background, excluded, earlier)
        strength = peaks.strength if settings.strength_scale == "variance" else peaks.magnitude
        reason = np.select(
            [smoothed.variance <= _CONSTANT_SHARE * block.largest ** 2, np.isnan(peaks.n_turns),
             peaks.is_by_chance, strength < settings.threshold],
            [CONSTANT, BOUND, CHANCE, WEAK], default=PERIODIC)
        fits.reason[rows], fits.strength[rows], fits.magnitude[rows] = reason, peaks.strength, peaks.magnitude
        fits.by_chance[rows] = peaks.by_chance
        period = np.where(reason == PERIODIC, n_steps / peaks.n_turns, np.inf)
        return smoothed.values, timing_of(raw, smoothed.values, period, settings)

    def _write(self, fits: WaveFits, block: _Block, timing: Timing, levels: tuple[np.ndarray, ...]) -> None:
        rows = block.rows
        is_periodic = np.isfinite(timing.period)
        period_s = np.where(is_periodic, timing.period, 1.0) * self.step_s
        begin_s = self.start_s + (block.first + timing.phase) * self.step_s
        fits.peak[rows], fits.trough[rows] = levels
        fits.period_s[rows] = np.where(is_periodic, period_s, np.inf)
        fits.phase_s[rows] = np.where(is_periodic, np.mod(begin_s, period_s), 0.0)
        fits.duty[rows] = np.where(is_periodic, timing.duty, 0.5)


def _joined(parts: Sequence[tuple[np.ndarray, WaveFits]], request_ids: np.ndarray) -> WaveFits:
    first = parts[0][1]
    columns = {}
    for name in (field.name for field in fields(WaveFits) if field.name not in ("request_ids", "second")):
        columns[name] = np.empty(len(request_ids), getattr(first, name).dtype)
        for rows, fits in parts:
            columns[name][rows] = getattr(fits, name)
    seconds = [(rows, fits.second) for rows, fits in parts if fits.second is not None]
    return WaveFits(request_ids, **columns, second=_joined(seconds, request_ids) if seconds else None)


def _earlier_periods(request_ids: np.ndarray, earlier: WaveFits) -> np.ndarray:
    """Period of each request in an earlier fit, NaN if it had none, float64 (n,)."""
    row_of = {request_id: row for row, request_id in enumerate(earlier.request_ids.tolist())}
    rows = np.array([row_of.get(request_id, -1) for request_id in request_ids.tolist()], np.int64)
    periods = np.append(np.where(earlier.is_periodic, earlier.period_s, np.nan), np.nan)
    return periods[rows]


def _mean_square(errors: np.ndarray) -> np.ndarray:
    return np.nanmean(errors.astype(np.float64) ** 2, axis=1)


def _ratio(error: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.where(spread > 0.0, np.sqrt(error) / np.where(spread > 0.0, spread, 1.0), np.nan)


SHORTEST_PERIOD = 2.5
"""The shortest period of such a series, in its intervals; two is the theoretical limit."""


def by_interval(grid: UsageGrid, cutoff_s: float) -> Iterator[tuple[np.ndarray, UsageGrid]]:
    """Rows of equal interval, and their grid, with steps of the interval if that is above `cutoff_s`.

    Rows of a longer interval use each sample once: the step in the middle of each interval.

    >>> from sojourn.serving.usage import DayClock
    >>> grid = UsageGrid(np.array([1, 2]), np.zeros((2, 48), np.float32), None, np.ones(2), np.ones(2), 0, 900,
    ...                  DayClock(), np.array([900.0, 7200.0]))
    >>> [(rows.tolist(), part.step_s, part.cpu.shape) for rows, part in by_interval(grid, 3600.0)]
    [([0], 900, (1, 48)), ([1], 7200, (1, 6))]
    """
    n_steps = np.ones(len(grid), np.int64)
    if grid.interval_s is not None:
        is_coarse = grid.interval_s > cutoff_s  # False for NaN
        n_steps[is_coarse] = np.rint(grid.interval_s[is_coarse] / grid.step_s).astype(np.int64)
        n_steps[n_steps > grid.cpu.shape[1]] = 1
    for k in np.unique(n_steps).tolist() or [1]:
        rows = np.flatnonzero(n_steps == k)
        interval_s = None if k > 1 or grid.interval_s is None else grid.interval_s[rows]
        yield rows, replace(grid, request_ids=grid.request_ids[rows], cpu=_samples_at(grid.cpu, rows, k),
                            mem=None if grid.mem is None else _samples_at(grid.mem, rows, k),
                            cpu_cores=grid.cpu_cores[rows], mem_gib=grid.mem_gib[rows], step_s=grid.step_s * k,
                            interval_s=interval_s)


def _samples_at(values: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    if k == 1 and len(rows) == len(values):
        return values
    n_whole = values.shape[1] // k * k
    return values[rows, :n_whole][:, k // 2::k]


PERIODIC, EMPTY, GAPS, CONSTANT, SHORT, BOUND, WEAK, CHANCE = range(8)
REASONS: Mapping[int, str] = MappingProxyType({
    PERIODIC: "periodic",
    EMPTY: "aperiodic because it has no samples",
    GAPS: "aperiodic because too many samples are missing",
    CONSTANT: "aperiodic because it is constant or a straight line",
    SHORT: "aperiodic because it is shorter than two of the shortest periods",
    BOUND: "aperiodic because no frequency between the longest and the shortest period stands out from its neighbours",
    WEAK: "aperiodic because the strength is below the threshold",
    CHANCE: "aperiodic because no frequency is stronger than chance",
})
"""Text of each code."""


@dataclass(frozen=True, slots=True)
class WaveFits:
    """One row for each request, by default float64 (n,). Aperiodic: period_s infinite, the wave is its peak.

    request_ids: as in the grid. peak, trough: share of the reservation; NaN without samples.
    period_s, phase_s, duty: see `PulseWave`; seconds on the trace's clock.
    strength: share of the smoothed and detrended variance at the frequency, 0 to 1. magnitude: the
        paper's strength, 0 to 1. Both 0 without a frequency; if it is too weak, its strength.
    by_chance: the strength, in share of variance, that chance reaches at that frequency
    (`PeriodicitySettings.chance`); 0 without a frequency, or if the setting is 1.
    reason: int8, a key of `REASONS`.
    nrmse: in-sample, relative to the raw samples: root of the mean squared error over maximum minus
    minimum sample (paper, equation 4); NaN if that is 0. Aperiodic rows: of the peak at all times,
    as served. second: the second wave, with levels around 0; None if n_periods is 1. Its nrmse is
    that of the sum.

    >>> fits = WaveFits.aperiodic(np.array(["a"]), np.array([0.5]), np.array([0.1]), np.array([WEAK], np.int8))
    >>> fits.reason_text().tolist(), fits.waves(0).is_periodic
    (['aperiodic because the strength is below the threshold'], False)
    """

    request_ids: np.ndarray
    peak: np.ndarray
    trough: np.ndarray
    period_s: np.ndarray
    phase_s: np.ndarray
    duty: np.ndarray
    strength: np.ndarray
    magnitude: np.ndarray
    by_chance: np.ndarray
    reason: np.ndarray
    nrmse: np.ndarray
    second: WaveFits | None = None

    @classmethod
    def aperiodic(cls, request_ids: np.ndarray, peak: np.ndarray, trough: np.ndarray, reason: np.ndarray) -> WaveFits:
        """Rows without a period, as initial values."""
        n = len(request_ids)
        return cls(request_ids, peak, trough, np.full(n, np.inf), np.zeros(n), np.full(n, 0.5), np.zeros(n),
                   np.zeros(n), np.zeros(n), reason, np.full(n, np.nan))

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def is_periodic(self) -> np.ndarray:
        """bool (n,)."""
        return self.reason == PERIODIC

    def reason_text(self) -> np.ndarray:
        """The reason of each row as text, str (n,)."""
        return np.array([REASONS[code] for code in range(len(REASONS))])[self.reason]

    def wave(self, row: int) -> PulseWave:
        """The first wave of a row; ValueError for a row without samples."""
        return PulseWave(float(self.peak[row]), float(self.trough[row]), float(self.period_s[row]),
                         float(self.phase_s[row]), float(self.duty[row]))

    def waves(self, row: int) -> UsageWaves:
        """All waves of a row; ValueError for a row without samples."""
        first = self.wave(row)
        if self.second is None or not self.second.is_periodic[row]:
            return UsageWaves((first,))
        return UsageWaves((first, self.second.wave(row)))


N_BINS = 288
"""Bins of the period, the resolution of windows: 0.35 points of the duty cycle."""


@dataclass(frozen=True, slots=True)
class Timing:
    """For each row: period and phase in steps from its first column, and duty cycle, float64 (n,).

    Infinite period = aperiodic. The middle of a step decides. sums: of real samples, float64 (n, 5): count and sum
    within the busy window; count, sum and sum of squares of all. NaN without a period.
    """

    period: np.ndarray
    phase: np.ndarray
    duty: np.ndarray
    sums: np.ndarray

    def waves(self, n_steps: int, peak: np.ndarray, trough: np.ndarray) -> np.ndarray:
        """The wave of each row at the middle of each step, float64 (n, n_steps); 0 without a period."""
        is_periodic = np.isfinite(self.period)
        period = np.where(is_periodic, self.period, 1.0)
        turns = (np.arange(n_steps) + 0.5 - self.phase[:, None]) / period[:, None]
        is_busy = turns - np.floor(turns) < self.duty[:, None]
        return np.where(is_busy, peak[:, None], trough[:, None]) * is_periodic[:, None]


def timing_of(raw: np.ndarray, smooth: np.ndarray, period: np.ndarray, settings: PeriodicitySettings) -> Timing:
    """Phase and duty cycle of each row by the methods of the settings.

    raw: float32 (n, m), NaN = missing. smooth: the same rows smoothed. period: in steps, infinite = none. `joint` folds
    the raw samples: a mean over many periods needs no filter, and a filter would smooth short busy windows. The paper's
    methods use the smoothed series, change points the raw one. If change points give no pair of a rise and a fall, the
    duty cycle is that of least error.
    """
    timing = Timing(period, np.zeros(len(raw)), np.full(len(raw), 0.5), np.full((len(raw), 5), np.nan))
    if settings.phase_method == "joint":
        joint_rows(raw, period, N_BINS, timing.phase, timing.duty, timing.sums)
    if settings.duty_method != "joint":
        for row in np.flatnonzero(np.isfinite(period)):
            timing_of_row = _paper(raw[row], smooth[row], period[row], timing.phase[row], settings)
            timing.phase[row], timing.duty[row] = timing_of_row
        sums_rows(raw, period, timing.phase, timing.duty, timing.sums)
    return timing


def percentile_levels(smooth: np.ndarray, settings: PeriodicitySettings) -> tuple[np.ndarray, np.ndarray]:
    """Peak and trough of smoothed rows (sections III-A1 and III-A2), float64 (n,) each."""
    peak, trough = np.empty(len(smooth)), np.empty(len(smooth))
    percentile_rows(smooth, settings.trough_percentile / 100.0, settings.peak_percentile / 100.0, trough, peak)
    return peak, trough


def mean_levels(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means inside and outside the busy window, from `Timing.sums`; a window without samples has the mean of all.

    The peak is at least the trough. NaN without a period.
    """
    n_busy, busy, n_all, total, _ = sums.T
    n_idle = n_all - n_busy
    idle = np.where(n_idle > 0, (total - busy) / np.maximum(n_idle, 1), total / n_all)
    return np.maximum(np.where(n_busy > 0, busy / np.maximum(n_busy, 1), total / n_all), idle), idle


def squared_errors(sums: np.ndarray, peak: np.ndarray, trough: np.ndarray) -> np.ndarray:
    """Mean squared error of waves with these levels, from `Timing.sums`, float64 (n,)."""
    n_busy, busy, n_all, total, squares = sums.T
    error = (squares - 2.0 * (peak * busy + trough * (total - busy))
             + peak ** 2 * n_busy + trough ** 2 * (n_all - n_busy))
    return np.maximum(error, 0.0) / n_all


def _paper(raw: np.ndarray, smooth: np.ndarray, period: float, phase: float,
           settings: PeriodicitySettings) -> tuple[float, float]:
    """Phase in steps and duty cycle of one row; `phase` is the joint one, kept if that method is set."""
    levels = percentile_levels(smooth[None, :], settings)
    peak, trough = float(levels[0][0]), float(levels[1][0])
    if settings.phase_method == "paper":
        close = peak - settings.close_share * (peak - trough)
        phase = recurring(peak_times(smooth, close), period, settings.epsilon)[0]
    if settings.duty_method == "changepoint":
        bridged = np.empty((1, len(raw)), np.float32)
        bridge_rows(raw[None, :], bridged)
        change_points = duty_of_change_points(bridged[0].astype(np.float64), period, settings.epsilon)
        if change_points is not None:
            return phase, float(np.clip(change_points[1], 1.0 / N_BINS, 1.0 - 1.0 / N_BINS))
    sums, counts, profile = np.empty(N_BINS), np.empty(N_BINS, np.int64), np.empty(N_BINS)
    fold(smooth, period, sums, counts)
    profile_of(sums, counts, profile)
    return phase, duty_of_least_error(profile, np.maximum(counts, 1), phase / period, peak, trough)
