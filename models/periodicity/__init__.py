"""Periodic usage series, and their pulse waves: when and how much.

May import: `serving.usage`, `features.usage`.
"""

from sojourn.models.periodicity.spectrum import LowPass, PeriodicitySettings
from sojourn.models.periodicity.wave_fitting import REASONS, WaveFits, fit_waves
from sojourn.models.periodicity.wave_refit import WaveErrors, in_sample_errors, next_day_errors, refit_waves

__all__ = [
    "REASONS", "LowPass", "PeriodicitySettings", "WaveErrors", "WaveFits", "fit_waves", "in_sample_errors",
    "next_day_errors", "refit_waves",
]  # fmt: skip
