"""The strongest frequency of smoothed series: its period to a fraction of a bin, and its strength in two scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft

from sojourn.models.periodicity._kernels import strongest_rows
from sojourn.models.periodicity.low_pass import Smoothed
from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings


@dataclass(frozen=True, slots=True)
class Found:
    """Of each row: n_turns, periods in the span (float64, NaN = none found), and strength in both scales, 0 to 1."""

    n_turns: np.ndarray
    strength: np.ndarray
    magnitude: np.ndarray


@dataclass(frozen=True, slots=True)
class Band:
    """Bins of the FFT of `n_steps` samples in which a period is looked for; bin k = k periods in the span.

    first: the least bin whose period is at most the longest one; refined by up to half a bin, a period may lie a little
    above. last: the greatest whose period is not below the
    cut-off. Empty where first is above last.

    >>> Band.of(8640, 12.0, 0.25)
    Band(first=4, last=720)
    """

    first: int
    last: int

    @classmethod
    def of(cls, n_steps: int, cutoff_steps: float, longest_share: float) -> Band:
        """Bounds from the shortest period in steps and the longest as a share of the span."""
        return cls(int(np.ceil(1.0 / longest_share)), min(int(n_steps / cutoff_steps), n_steps // 2 - 2))


def find_periods(smoothed: Smoothed, band: Band, settings: PeriodicitySettings, excluded: np.ndarray | None = None,
                 earlier: np.ndarray | None = None) -> Found:
    """The strongest frequency of each row within the band (section II-B), as a local maximum of its power.

    A local maximum, because the slope of a longer period would else pass for one at the bound. A short busy window has
    nearly as much power at twice and three times its frequency: `subharmonic_share`, see `PeriodicitySettings`.
    Refinement: the bins of a Hann window, by which neighbours and harmonics leak least, and of three of them the
    frequency of the sinusoid that has their magnitudes (Grandke 1983). Strength is summed over the bin and its two
    neighbours, over which a frequency between two bins spreads.
    excluded: float64 (n,), periods in the span whose first three multiples are left out; NaN = none. earlier: float64
    (n,), periods in the span that an earlier fit found and that are kept where they are strong enough; NaN = none.
    """
    n_steps = smoothed.detrended.shape[1]
    n = len(smoothed.detrended)
    found = Found(np.full(n, np.nan), np.zeros(n), np.zeros(n))
    if band.first > band.last:
        return found
    spectra = np.asarray(fft.rfft(smoothed.detrended, axis=1))[:, :band.last + 3]
    peak_power, near_power = np.empty(n), np.empty(n)
    none = np.full(n, np.nan)
    strongest_rows(spectra, none if excluded is None else excluded, none if earlier is None else earlier, band.first,
                   band.last, settings.subharmonic_share, settings.keep_share, found.n_turns, peak_power, near_power)
    total = np.maximum(n_steps ** 2 * smoothed.variance / 2.0, np.finfo(np.float64).tiny)
    np.minimum(near_power / total, 1.0, out=found.strength)
    np.minimum(100.0 * np.sqrt(peak_power) / settings.full_magnitude, 1.0, out=found.magnitude)
    return found
