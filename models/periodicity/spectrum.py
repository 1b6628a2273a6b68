"""The strongest frequency of smoothed series: its period to a fraction of a bin, and its strength in two scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft

from sojourn.models.periodicity._background_kernels import power_rows
from sojourn.models.periodicity._kernels import strongest_rows
from sojourn.models.periodicity.background import Background
from sojourn.models.periodicity.band import Band
from sojourn.models.periodicity.low_pass import Smoothed
from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings


@dataclass(frozen=True, slots=True)
class Found:
    """Of each row: n_turns, periods in the span (float64, NaN = none found), and strength in both scales, 0 to 1.

    by_chance: share of variance that chance reaches at that frequency, 0 to 1; 0 where it was not asked for.
    is_by_chance: bool (n,), whether the frequency is no stronger than that.
    """

    n_turns: np.ndarray
    strength: np.ndarray
    magnitude: np.ndarray
    by_chance: np.ndarray
    is_by_chance: np.ndarray


def find_periods(smoothed: Smoothed, band: Band, settings: PeriodicitySettings, background: Background | None = None,
                 excluded: np.ndarray | None = None, earlier: np.ndarray | None = None) -> Found:
    """The strongest frequency of each row within the band that chance does not explain (section II-B).

    A local maximum of power, because the slope of a longer period would else pass for one at the bound. Where no
    frequency is above what chance reaches, the strongest of all, marked so; without a background all are above it.
    A short busy window has nearly as much power at twice and three times its frequency: `subharmonic_share`, see
    `PeriodicitySettings`. Refinement: the bins of a Hann window, by which neighbours and harmonics leak least, and of
    three of them the frequency of the sinusoid that has their magnitudes (Grandke 1983). Strength is summed over the
    bin and its two neighbours, over which a frequency between two bins spreads.
    excluded: float64 (n,), periods in the span whose first three multiples are left out; NaN = none. earlier: float64
    (n,), periods in the span that an earlier fit found and that are kept where they are strong enough; NaN = none.
    """
    n_steps = smoothed.detrended.shape[1]
    n = len(smoothed.detrended)
    found = Found(np.full(n, np.nan), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, bool))
    if band.first > band.last:
        return found
    spectra = np.asarray(fft.rfft(smoothed.detrended, axis=1))[:, :band.last + 3]
    none = np.full(n, np.nan)
    power = np.empty(spectra.shape)
    power_rows(spectra, none if excluded is None else excluded, power)
    reached = np.zeros(power.shape) if background is None else background.reached(power)
    peak_power, near_power, near_reached = np.empty(n), np.empty(n), np.empty(n)
    strongest_rows(spectra, power, reached, 1.0 if background is None else background.one_share,
                   none if earlier is None else earlier, band.first, band.last, settings.subharmonic_share,
                   settings.keep_share, found.n_turns, peak_power, near_power, near_reached)
    total = np.maximum(n_steps ** 2 * smoothed.variance / 2.0, np.finfo(np.float64).tiny)
    np.minimum(near_power / total, 1.0, out=found.strength)
    np.minimum(near_reached / total, 1.0, out=found.by_chance)
    np.minimum(100.0 * np.sqrt(peak_power) / settings.full_magnitude, 1.0, out=found.magnitude)
    found.is_by_chance[:] = near_power <= near_reached
    return found
