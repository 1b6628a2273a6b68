"""The strongest frequency of smoothed series: its period to a fraction of a bin, and its strength in two scales.

`PeriodicitySettings` has all choices that the paper leaves open. `Background` is the spectrum of a
series without a period, and the power that it reaches by chance. `Band` is the range of
frequencies. `LowPass` is the zero-phase Butterworth filter. `recurring` is the paper's phase
filter; `duty_of_least_error` and `duty_of_change_points` are its two methods for the duty cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import ruptures
from scipy import fft, signal, special

from sojourn.models.periodicity._background_kernels import background_rows, power_rows
from sojourn.models.periodicity._kernels import smooth_rows, strongest_rows


@dataclass(frozen=True, slots=True)
class Frequencies:
    """For each row: n_turns, periods in the span (float64, NaN = none), and strength in both scales, 0 to 1.

    by_chance: share of variance that chance reaches at that frequency, 0 to 1; 0 if not computed.
    is_by_chance: bool (n,), whether the frequency is no stronger than that.
    """

    n_turns: np.ndarray
    strength: np.ndarray
    magnitude: np.ndarray
    by_chance: np.ndarray
    is_by_chance: np.ndarray


def find_periods(smoothed: Smoothed, band: Band, settings: PeriodicitySettings, background: Background | None = None,
                 excluded: np.ndarray | None = None, earlier: np.ndarray | None = None) -> Frequencies:
    """The strongest frequency of each row within the band that is not by chance (section II-B).

    It is a local maximum of power, since the slope of a longer period would else give one at the bound. If no frequency
    exceeds the limit of chance, it is the strongest, with is_by_chance; without a background all exceed it. A short
    busy window has nearly as much power at twice and three times its frequency, see `subharmonic_share`. Refinement:
    three bins of a Hann window, with little leakage of neighbours and harmonics, give the frequency of a sinusoid with
    their magnitudes (Grandke 1983). Strength is summed over the bin and its two neighbours, since a frequency between
    two bins spreads over them. excluded: float64 (n,), periods in the span whose first three multiples are excluded;
    NaN = none. earlier: float64 (n,), periods in the span of an earlier fit, kept if they are strong enough; NaN =
    none.
    """
    n_steps = smoothed.detrended.shape[1]
    n = len(smoothed.detrended)
    frequencies = Frequencies(np.full(n, np.nan), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, bool))
    if band.first > band.last:
        return frequencies
    spectra = np.asarray(fft.rfft(smoothed.detrended, axis=1))[:, :band.last + 3]
    none = np.full(n, np.nan)
    power = np.empty(spectra.shape)
    power_rows(spectra, none if excluded is None else excluded, power)
    reached = np.zeros(power.shape) if background is None else background.reached(power)
    peak_power, near_power, near_reached = np.empty(n), np.empty(n), np.empty(n)
    strongest_rows(spectra, power, reached, 1.0 if background is None else background.one_share,
                   none if earlier is None else earlier, band.first, band.last, settings.subharmonic_share,
                   settings.keep_share, frequencies.n_turns, peak_power, near_power, near_reached)
    total = np.maximum(n_steps ** 2 * smoothed.variance / 2.0, np.finfo(np.float64).tiny)
    np.minimum(near_power / total, 1.0, out=frequencies.strength)
    np.minimum(near_reached / total, 1.0, out=frequencies.by_chance)
    np.minimum(100.0 * np.sqrt(peak_power) / settings.full_magnitude, 1.0, out=frequencies.magnitude)
    frequencies.is_by_chance[:] = near_power <= near_reached
    return frequencies


StrengthScale = Literal["variance", "magnitude"]
Levels = Literal["percentile", "mean"]
PhaseMethod = Literal["joint", "paper"]
DutyMethod = Literal["joint", "error", "changepoint"]
SHORT_PERIOD_S = 2 * 86_400.0
THREE_WEEKS_S = 21 * 86_400.0
"""The shortest window for a weekly pattern: two equal weeks may be a coincidence."""


@dataclass(frozen=True, slots=True)
class PeriodicitySettings:
    """Settings of `fit_waves`. Section numbers are those of the period-aware placement paper.

    filter_order, cutoff_s: Butterworth low-pass (section II-B), applied forwards and backwards, so
    the order counts twice and the phase stays; power falls to a quarter at a period of cutoff_s.
    Shorter periods are not found.
    strength_scale: the scale of `threshold`. `variance`: share of the smoothed, detrended variance
        at the frequency and its two neighbours, 0 to 1, free of scale. `magnitude`: the paper's,
        the magnitude of the FFT of use in % of the reservation, linear, `full_magnitude` and above
        = 1 (20,000 in the paper); it grows with the length of the window and the size of the swing.
    threshold: strength below which a series is aperiodic.
    chance: the highest probability that a series without a period is called periodic. A frequency
    must exceed the power of noise with the series' background in a window of that length
    (`Background`), whatever the threshold: in one day white noise reaches 11 to 33 % of the
    variance. 1 = no such test, as in the paper. Above 0.
    peak_percentile, trough_percentile: levels of the wave (sections III-A1 and III-A2), of the smoothed series.
    levels: `percentile`, or `mean`: the means inside and outside the busy window, with the least squared error.
    phase_method: `joint`: for each duty the window of duty x period with the largest circular sum,
    and of these the one with the least squared error; gives phase and duty. `paper`: section
    III-A4.
    duty_method: `joint` (with phase_method joint only), `error` or `changepoint` (section III-A5).
    close_share: for phase_method paper: use is "close to its peak" within this share of the swing;
    the paper gives no number. At a half are the edges of a pulse; 0 = at the peak, which noise may
    reach anywhere in the busy window (some 20 times the error at an SNR of 3).
    epsilon: the filters of `paper` and `changepoint` keep times within this share of the period.
    n_periods: 1, or 2: a second wave is fitted to the residual of the first.
    longest_share: the longest period as a share of the series' span. A quarter: 7.5 days of 30
        days, 6 hours of a day. A period above two days is always at most a third of the span, and
        at most a quarter in spans under 21 days, since a frequency is exact to half a bin: a weekly
        pattern needs 21 days.
    longest_period_s: the longest period in seconds, if that is less. 25 hours excludes periods that
    occur only a few times in a month: on bitbrains they are drift and do not predict the next day
    (docs/usage/waves.md).
    subharmonic_share: a half or a third of the strongest frequency replaces it if it has at least
    this share of its power, since a short busy window has nearly as much power at multiples of its
    frequency. Above 1: never, as in the paper.
    keep_share: the period of an earlier fit is kept while its frequency has at least this share of
    the power of the strongest one, so that a period does not jump between two of similar strength.
    most_gaps: the largest share of missing samples within a series' span; they are interpolated linearly.

    ValueError if one of these rules is broken.

    >>> PeriodicitySettings(threshold=0.2).cutoff_s
    3600.0
    """

    filter_order: int = 4
    cutoff_s: float = 3600.0
    strength_scale: StrengthScale = "variance"
    threshold: float = 0.05
    chance: float = 0.01
    full_magnitude: float = 20_000.0
    peak_percentile: float = 95.0
    trough_percentile: float = 5.0
    levels: Levels = "percentile"
    phase_method: PhaseMethod = "joint"
    duty_method: DutyMethod = "joint"
    close_share: float = 0.5
    epsilon: float = 0.1
    n_periods: Literal[1, 2] = 1
    longest_share: float = 0.25
    longest_period_s: float = math.inf
    subharmonic_share: float = 0.5
    keep_share: float = 0.7
    most_gaps: float = 0.2

    def __post_init__(self) -> None:
        rules = {
            "filter_order": (1 <= self.filter_order <= 8, "from 1 to 8"),
            "cutoff_s": (0.0 < self.cutoff_s < math.inf, "above 0 and finite"),
            "strength_scale": (self.strength_scale in ("variance", "magnitude"), "variance or magnitude"),
            "threshold": (0.0 <= self.threshold <= 1.0, "from 0 to 1"),
            "chance": (0.0 < self.chance <= 1.0, "above 0 and at most 1"),
            "full_magnitude": (0.0 < self.full_magnitude < math.inf, "above 0 and finite"),
            "peak_percentile": (0.0 <= self.peak_percentile <= 100.0, "from 0 to 100"),
            "trough_percentile": (0.0 <= self.trough_percentile <= self.peak_percentile,
                                  "from 0 to peak_percentile"),
            "levels": (self.levels in ("percentile", "mean"), "percentile or mean"),
            "phase_method": (self.phase_method in ("joint", "paper"), "joint or paper"),
            "duty_method": (self.duty_method in ("error", "changepoint")
                            or (self.duty_method == "joint" and self.phase_method == "joint"),
                            "error or changepoint, or joint where phase_method is joint"),
            "close_share": (0.0 <= self.close_share < 1.0, "from 0 to below 1"),
            "epsilon": (0.0 < self.epsilon <= 0.5, "above 0 and at most 0.5"),
            "n_periods": (self.n_periods in (1, 2), "1 or 2"),
            "longest_share": (0.0 < self.longest_share <= 0.5, "above 0 and at most 0.5"),
            "longest_period_s": (self.longest_period_s > self.cutoff_s, "above cutoff_s"),
            "subharmonic_share": (self.subharmonic_share > 0.0, "above 0"),
            "keep_share": (self.keep_share > 0.0, "above 0"),
            "most_gaps": (0.0 <= self.most_gaps < 1.0, "from 0 to below 1"),
        }
        for name, (is_kept, rule) in rules.items():
            if not is_kept:
                raise ValueError(f"{name} must be {rule}, got {getattr(self, name)!r}")

    def longest_share_of(self, span_s: float) -> float:
        """The longest period of a series of span_s seconds, as a share of the span.

        >>> round(PeriodicitySettings(longest_share=0.5).longest_share_of(20 * 86_400) * 20, 2)
        5.0
        >>> round(PeriodicitySettings(longest_share=0.5).longest_share_of(3 * 86_400) * 3, 2)
        1.5
        """
        recurring = 1.0 / 3.0 if span_s >= THREE_WEEKS_S else 1.0 / 4.0
        return min(self.longest_share, self.longest_period_s / span_s, max(recurring, SHORT_PERIOD_S / span_s))


_LEAST_GROUP = 5
"""Bins of the smallest group: a frequency between two bins fills two or three, and the median must be of others."""
_GROUP_SHARE = 0.25
"""Bins of a larger group, as a share of its first bin."""
_KNEE_FACTOR = 4.0
_ALLOWANCE = 4.0
"""With fewer bins the background is less certain: the limit is raised by this over their number.

Chosen on synthetic noise: without it 2 to 4 % of one-day series pass at a chance of 1 %, with it
0.4 to 1.6 % (python -m studies periodicity-chance; docs/usage/periods_found.md).
"""


@dataclass(frozen=True, slots=True)
class Background:
    """The power of noise in each bin of a spectrum, for series of one length.

    The background is a sum of c / (1 + (f / knee)^2) over knees from half a bin up, by factors of 4, and a constant,
    with c of at least 0. One such term is the spectrum of AR(1) noise and of on/off use with exponential times; a knee
    below the first bin is a random walk or a step; the constant is white noise. The sum falls with the frequency, as
    spectra of usage without a period do, and cannot follow a narrow peak. It is fitted to medians of groups of bins, on
    which a period and its harmonics have little effect (compare Torrence and Compo 1998, with AR(1), and Vaughan 2005,
    with a power law).

    In noise the power of a bin over its background is exponential with mean 1, that of three bins gamma distributed of
    shape 3 (Fisher 1929 for one bin of white noise). The sum exceeds `limit` in any bin of the band with a probability
    of at most `chance` (Bonferroni); `limit` is raised for the uncertainty of the background.

    one_share: the limit of a single bin as a share of `limit`, for the half and the third of a frequency above the
    limit, which are no new search. gain: share of power after the filter, float64 (n_bins,). bounds, middles: of the
    groups, see `_kernels`. shapes: float64 (k, n_bins).

    >>> low_pass, band = LowPass(4, 3600.0, 300), Band(4, 168)
    >>> round(Background.of(low_pass, band, 2016, chance=0.01).limit, 1)
    14.9
    >>> round(Background.of(low_pass, band, 2016, chance=0.05).limit, 1)
    12.9
    """

    gain: np.ndarray
    bounds: np.ndarray
    middles: np.ndarray
    shapes: np.ndarray
    limit: float
    one_share: float

    @staticmethod
    @lru_cache(maxsize=128)
    def of(low_pass: LowPass, band: Band, n_steps: int, chance: float) -> Background:
        """For smoothed series of `n_steps`, with bins up to `band.last` + 2. chance: 0 to 1, both excluded."""
        bins = np.arange(band.last + 3, dtype=np.float64)
        bounds = [1]
        while bounds[-1] <= band.last:
            bounds.append(bounds[-1] + max(_LEAST_GROUP, int(_GROUP_SHARE * bounds[-1])))
        bounds[-1] = band.last + 1
        if len(bounds) > 2 and bounds[-1] - bounds[-2] < _LEAST_GROUP:
            del bounds[-2]
        edges = np.array(bounds, np.int64)
        knees = 0.5 * _KNEE_FACTOR ** np.arange(1 + int(np.log(2.0 * band.last) / np.log(_KNEE_FACTOR)))
        shapes = np.concatenate([1.0 / (1.0 + (bins / knees[:, None]) ** 2), np.ones((1, len(bins)))])
        shapes /= shapes[:, 1:2]
        n_bins = band.last - band.first + 1
        one, every = (float(special.gammainccinv(3.0, chance / n)) for n in (1, n_bins))
        return Background(low_pass.power_gain(bins / n_steps), edges, (edges[:-1] + edges[1:] - 1) // 2, shapes,
                          every * (1.0 + _ALLOWANCE / n_bins), one / every)

    def reached(self, power: np.ndarray) -> np.ndarray:
        """Power that chance reaches in each bin and its two neighbours together, float64 (n, n_bins).

        power: of smoothed series, float64 (n, n_bins); bins of 0 do not count. The first and the
        last bin have the limit with their one neighbour.
        """
        noise = np.empty_like(power)
        background_rows(power, self.gain, self.bounds, self.middles, self.shapes, noise)
        near = noise.copy()
        near[:, 1:] += noise[:, :-1]
        near[:, :-1] += noise[:, 1:]
        near *= self.limit / 3.0
        return near


@dataclass(frozen=True, slots=True)
class Band:
    """Bins of the FFT of `n_steps` samples that may hold the period; bin k = k periods in the span.

    first: the lowest bin with a period of at most the longest one; after refinement by up to half a bin, a period may
    be a little longer. last: the highest with a period not below the cut-off. Empty if first is above last.

    >>> Band.of(8640, 12.0, 0.25)
    Band(first=4, last=720)
    """

    first: int
    last: int

    @classmethod
    def of(cls, n_steps: int, cutoff_steps: float, longest_share: float) -> Band:
        """Bounds from the shortest period in steps and the longest as a share of the span."""
        return cls(int(np.ceil(1.0 / longest_share)), min(int(n_steps / cutoff_steps), n_steps // 2 - 2))


@dataclass(frozen=True, slots=True)
class LowPass:
    """A Butterworth filter for steps of `step_s` seconds (section II-B), run forwards and backwards.

    The result equals `scipy.signal.sosfiltfilt` with odd padding, up to float32 rounding.
    ValueError for a cut-off period of two steps or less.

    >>> smoothed = LowPass(order=4, cutoff_s=3600.0, step_s=300).smooth(np.ones((1, 60), np.float32))
    >>> smoothed.values[0, :2].round(6).tolist(), smoothed.variance.round(6).tolist()
    ([1.0, 1.0], [0.0])
    """

    order: int
    cutoff_s: float
    step_s: int

    def __post_init__(self) -> None:
        if self.cutoff_s <= 2 * self.step_s:
            raise ValueError(f"cutoff_s must be above two steps of {self.step_s} s, got {self.cutoff_s!r}")

    @property
    def n_pad(self) -> int:
        """Samples by which each end is extended; a series must have more."""
        return 3 * (2 * ((self.order + 1) // 2) + 1 - self.order % 2)

    def power_gain(self, per_step: np.ndarray) -> np.ndarray:
        """Share of power after both passes, at frequencies in turns a step."""
        sos, _ = _design(self.order, 2.0 * self.step_s / self.cutoff_s)
        return np.abs(np.asarray(signal.sosfreqz(sos, 2.0 * np.pi * per_step)[1])) ** 4

    def smooth(self, rows: np.ndarray) -> Smoothed:
        """rows: float32 (n, m), no missing value, m > n_pad."""
        sos, settled = _design(self.order, 2.0 * self.step_s / self.cutoff_s)
        values, detrended, variance = np.empty_like(rows), np.empty_like(rows), np.empty(len(rows))
        smooth_rows(rows, sos, settled, self.n_pad, values, detrended, variance)
        return Smoothed(values, detrended, variance)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """values, detrended: float32 (n, m). variance: of the detrended rows, float64 (n,)."""

    values: np.ndarray
    detrended: np.ndarray
    variance: np.ndarray


@lru_cache(maxsize=16)
def _design(order: int, cutoff: float) -> tuple[np.ndarray, np.ndarray]:
    """Second-order sections, and their states after a long input of 1; cutoff: as a share of half the sampling rate."""
    sos = np.asarray(signal.butter(order, cutoff, output="sos"))
    return sos, np.asarray(signal.sosfilt_zi(sos))


_MOST_STARTS = 256


def recurring(times: np.ndarray, period: float, epsilon: float) -> tuple[float, np.ndarray]:
    """Phase of times that recur with a period, and the times with that phase: bool (n,) (section III-A4).

    Times and period have the same unit. Each time is tried as the start: its sequence is the times within epsilon x
    period of it on the circle. The sequence with the least mean distance from its start is chosen; the phase is the
    circular mean of its times. A start alone has the distance 0, so the paper's rule as printed would choose a lone
    outlier; here a sequence must have at least half as many times as the longest one. Of more than 256 times, 256
    evenly spaced ones are tried. ValueError without times.

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


def duty_of_least_error(profile: np.ndarray, counts: np.ndarray, phase_share: float, peak: float,
                        trough: float) -> float:
    """The duty cycle with the least squared error, for a phase and levels (section III-A5).

    profile, counts: mean and number of the samples in each bin of the period, float64 and int64 (n_bins,); the
    candidates are 1 to n_bins - 1 bins from the bin of phase_share, a share of the period.

    >>> duty_of_least_error(np.array([0.2, 0.9, 0.8, 0.1]), np.ones(4, np.int64), 0.25, 0.9, 0.1)
    0.5
    """
    n_bins = len(profile)
    start = round(phase_share * n_bins) % n_bins
    # squared error of a bin as busy minus that as idle: n ((y - peak)^2 - (y - trough)^2)
    change = counts * (trough - peak) * (2.0 * profile - peak - trough)
    total = np.cumsum(np.roll(change, -start))
    return float(np.argmin(total[:-1]) + 1) / n_bins


def duty_of_change_points(values: np.ndarray, period: float, epsilon: float) -> tuple[float, float] | None:
    """Phase in steps and duty cycle from abrupt changes of level (section III-A5), or None if too few remain.

    values: raw samples, float64 (m,), none missing. period: in steps. Change points: PELT with the cost of a shifted
    mean; the penalty is 3 ln m times the variance of the noise, which is that of the differences of neighbours, halved.
    Rises and falls are filtered separately by their phases; a rise is paired with the next fall if there is no other
    rise between; pairs of a period or longer are dropped; the result is the median.

    >>> busy = np.arange(600) % 50 < 20
    >>> noise = np.random.default_rng(0).normal(0, 0.05, 600)
    >>> phase, duty = duty_of_change_points(np.roll(busy, 5) + noise, 50.0, 0.1)
    >>> round(phase, 9), round(duty, 9)
    (5.0, 0.4)
    """
    m = len(values)
    noise = 0.5 * float(np.median(np.diff(values) ** 2)) / 0.4549  # median of chi2 with one degree of freedom
    scale = float(np.ptp(values)) or 1.0
    penalty = 3.0 * np.log(m) * max(noise, 1e-6 * scale ** 2)
    search = ruptures.KernelCPD(kernel="linear", min_size=2).fit(values.reshape(-1, 1))
    ends = search.predict(pen=penalty) or []
    points = np.array(ends[:-1], np.int64)
    if len(points) < 2:
        return None
    means = np.add.reduceat(values, np.concatenate([[0], points])) / np.diff(np.concatenate([[0], points, [m]]))
    is_rise = np.diff(means) > 0.0
    rises, falls = points[is_rise].astype(np.float64), points[~is_rise].astype(np.float64)
    if len(rises) == 0 or len(falls) == 0:
        return None
    phase, is_kept = recurring(rises, period, epsilon)
    rises = rises[is_kept]
    falls = falls[recurring(falls, period, epsilon)[1]]
    after = np.searchsorted(falls, rises, side="right")
    next_rise = np.append(rises[1:], np.inf)
    lengths = np.array([falls[fall] - rise for rise, fall, following in zip(rises, after, next_rise, strict=True)
                        if fall < len(falls) and falls[fall] < following and falls[fall] - rise < period])
    return None if len(lengths) == 0 else (phase, float(np.median(lengths)) / period)
