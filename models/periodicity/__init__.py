"""Which usage series repeat, and the pulse waves that say when and how much.

May import: `serving.usage`, `features.usage`.
"""

from sojourn.models.periodicity.periodicity_settings import PeriodicitySettings
from sojourn.models.periodicity.wave_fits import REASONS, WaveFits
from sojourn.models.periodicity.wave_fitting import fit_waves

__all__ = ["REASONS", "PeriodicitySettings", "WaveFits", "fit_waves"]
