"""Which usage series repeat, and the pulse waves that say when and how much.

May import: `serving.usage`, `features.usage`.
"""

from sojourn.models.periodicity.low_pass import LowPass
from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings
from sojourn.models.periodicity.wave_errors import WaveErrors, in_sample_errors, next_day_errors
from sojourn.models.periodicity.wave_fits import REASONS, WaveFits
from sojourn.models.periodicity.wave_fitting import fit_waves
from sojourn.models.periodicity.wave_refit import refit_waves

__all__ = [
    "REASONS", "LowPass", "PeriodicitySettings", "WaveErrors", "WaveFits", "fit_waves", "in_sample_errors",
    "next_day_errors", "refit_waves",
]  # fmt: skip
