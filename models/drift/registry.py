"""Detectors by name, with the constants that the detector table chose (docs/drift.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sojourn.models.drift.any_band import AnyBand
from sojourn.models.drift.class_shares import DVLA_PRESETS, ClassShares
from sojourn.models.drift.cusum import Cusum
from sojourn.models.drift.detector import Detector
from sojourn.models.drift.exits import BANDS_S
from sojourn.models.drift.hazard_ratio import HazardRatio
from sojourn.models.drift.page_hinkley import PageHinkley
from sojourn.models.drift.timer import Timer

DETECTORS: Mapping[str, Callable[[], Detector]] = MappingProxyType({
    "timer": Timer,
    "page-hinkley": PageHinkley,
    "cusum": Cusum,
    "cusum-baseline": lambda: Cusum(half_life_days=14.0),
    "cusum-bands": lambda: AnyBand(Cusum, len(BANDS_S)),
    "hazard-ratio": HazardRatio,
    "hazard-ratio-bands": lambda: AnyBand(HazardRatio, len(BANDS_S)),
    "dvla": lambda: ClassShares(DVLA_PRESETS["production"]),
    "dvla-printed": lambda: ClassShares(replace(DVLA_PRESETS["production"], is_as_printed=True)),
    "dvla-figure-9": lambda: ClassShares(DVLA_PRESETS["figure 9"]),
    "dvla-figure-9-printed": lambda: ClassShares(replace(DVLA_PRESETS["figure 9"], is_as_printed=True)),
})
"""Name in configs, tables and figures -> a new detector with its default constants."""

MONITOR_DETECTOR = "cusum-bands"
"""What the monitor uses unless it is given another."""
