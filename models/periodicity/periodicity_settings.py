"""How pulse waves are fitted: every choice that the paper leaves open, with its default and its bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

StrengthScale = Literal["variance", "magnitude"]
Levels = Literal["percentile", "mean"]
PhaseMethod = Literal["joint", "paper"]
DutyMethod = Literal["joint", "error", "changepoint"]
SHORT_PERIOD_S = 2 * 86_400.0
THREE_WEEKS_S = 21 * 86_400.0
"""Windows that are shorter hold no weekly pattern: two weeks that agree are one coincidence."""


@dataclass(frozen=True, slots=True)
class PeriodicitySettings:
    """Settings of `fit_waves`. Section numbers are those of the period-aware placement paper.

    filter_order, cutoff_s: Butterworth low-pass (section II-B), applied forwards and backwards, so that the order
        counts twice and no phase is lost; power falls to a quarter at a period of cutoff_s. No shorter period is found.
    strength_scale: what `threshold` is compared with. `variance`: share of the smoothed, detrended variance at the
        frequency and its two neighbours, 0 to 1, free of scale. `magnitude`: the paper's, the magnitude of the FFT of
        use in % of the reservation, linear, `full_magnitude` and above = 1 (20,000 in the paper); it grows with the
        length of the window and the size of the swing.
    threshold: strength below which a series is aperiodic.
    chance: probability, at most, that a series without a period is called periodic. A frequency must exceed what noise
        with the series' own background reaches in a window of that length (`Background`), whatever the threshold: in
        one day white noise alone reaches 11 to 33 % of the variance. 1 = not asked, as in the paper. Above 0.
    peak_percentile, trough_percentile: levels of the wave (sections III-A1 and III-A2), of the smoothed series.
    levels: `percentile`, or `mean`: the means within and without the busy window, which have the least squared error.
    phase_method: `joint`: the window of duty x period with the greatest circular sum, of all duties the one with the
        least squared error, so phase and duty at once. `paper`: section III-A4.
    duty_method: `joint` (with phase_method joint only), `error` or `changepoint` (section III-A5).
    close_share: for phase_method paper: use is "close to its peak" within this share of the swing; the paper gives no
        number. Half of it is where the edges of a pulse are; 0 = at the peak, which noise reaches anywhere in the busy
        window (some 20 times farther from the truth at an SNR of 3).
    epsilon: the filters of `paper` and `changepoint` keep times within this share of the period.
    n_periods: 1, or 2: a second wave is fitted to what the first one leaves.
    longest_share: the longest period as a share of the series' span. A quarter: 7.5 days of 30 days, 6 hours of a day.
        A period above two days is at most a third of the span, whatever this says, and at most a quarter in spans
        under 21 days, since a frequency is found to half a bin: a weekly pattern needs 21 days.
    longest_period_s: the longest period in seconds, where that is less. 25 hours leaves out what a month holds a few
        times only: on bitbrains such periods are drift and say nothing about the next day (docs/usage.md).
    subharmonic_share: a frequency of a half or a third of the strongest one is taken in its place where it has at
        least this share of its power: a short busy window has nearly as much power at multiples of its frequency. Above
        1: never, as in the paper.
    keep_share: where an earlier fit is given, its period is kept while its frequency has at least this share of the
        power of the strongest one, so that a period does not jump between two of much the same strength.
    most_gaps: the largest share of missing samples within a series' span that is bridged, by straight lines.

    Refused with ValueError: what breaks one of these rules.

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
