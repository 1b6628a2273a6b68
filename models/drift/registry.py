"""Detectors by name, with the constants that the detector table chose (docs/drift.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from sojourn.models.drift.any_of import NEW_OWNERS, OWN, AnyOf
from sojourn.models.drift.class_shares import DVLA_PRESETS, ClassShares
from sojourn.models.drift.cusum import Cusum
from sojourn.models.drift.detector import TOLERANCE, Detector
from sojourn.models.drift.exits import BANDS_S
from sojourn.models.drift.hazard_ratio import HazardRatio
from sojourn.models.drift.page_hinkley import PageHinkley
from sojourn.models.drift.scaled_cusum import ScaledCusum
from sojourn.models.drift.timer import Timer

_ALL_AND_BANDS = (None, *range(len(BANDS_S)))


def level() -> Detector:
    """Exits more than a quarter above or below the expected ones: a ramp, or a model that was wrong from the start."""
    return Cusum(threshold=8.0, tolerance=TOLERANCE)


def change() -> Detector:
    """Exits that leave their own baseline of the last weeks: a step, soon."""
    return Cusum(threshold=6.0, tolerance=0.12, half_life_days=28.0)


def new_owners() -> Detector:
    """More requests of new owners than usual: known when they are made, so no end has to be waited for."""
    return Cusum(threshold=4.0, allowance=1.0, tolerance=0.1, rest_days=14, sides=(1,))


DETECTORS: Mapping[str, Callable[[], Detector]] = MappingProxyType({
    "timer": Timer,
    "page-hinkley": PageHinkley,
    "level": level,
    "change": change,
    "level-or-change": lambda: AnyOf({"level": (level, None), "change": (change, None)}),
    "own": lambda: AnyOf({"own": (ScaledCusum, OWN)}),
    "new-owners": lambda: AnyOf({"new-owners": (new_owners, NEW_OWNERS)}),
    "level-or-owners": lambda: AnyOf({"level": (level, None), "own": (ScaledCusum, OWN),
                                      "new-owners": (new_owners, NEW_OWNERS)}),
    "change-bands": lambda: AnyOf({f"band {band}": (change, band) for band in _ALL_AND_BANDS}),
    "cusum-bands": lambda: AnyOf({f"band {band}": (partial(Cusum, tolerance=0.1), band) for band in _ALL_AND_BANDS}),
    "hazard-ratio": HazardRatio,
    "dvla": lambda: ClassShares(DVLA_PRESETS["production"]),
    "dvla-printed": lambda: ClassShares(replace(DVLA_PRESETS["production"], is_as_printed=True)),
    "dvla-figure-9": lambda: ClassShares(DVLA_PRESETS["figure 9"]),
    "dvla-figure-9-printed": lambda: ClassShares(replace(DVLA_PRESETS["figure 9"], is_as_printed=True)),
})
"""Name in configs, tables and figures -> a new detector with its default constants."""

MONITOR_DETECTOR = "level-or-owners"
"""What the monitor uses unless it is given another."""
