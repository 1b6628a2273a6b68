"""Whether lifetimes still follow their predictions: exits against expected ones, day by day, and detectors of a drift.

May import: `curve_table`.
"""

from sojourn.models.drift.any_of import NEW_OWNERS, OWN, AnyOf
from sojourn.models.drift.change_point import ChangePoint, change_point
from sojourn.models.drift.class_shares import DVLA_PRESETS, ClassShares, ClassShareSettings
from sojourn.models.drift.cusum import Cusum
from sojourn.models.drift.detector import TOLERANCE, Detector, DriftDay, drift_days
from sojourn.models.drift.exits import BANDS_S, DAY_S, DailyExits, daily_exits
from sojourn.models.drift.hazard_ratio import HazardRatio
from sojourn.models.drift.owners import REFERENCE_DAYS, new_owner_days, own_exits
from sojourn.models.drift.page_hinkley import PageHinkley
from sojourn.models.drift.registry import DETECTORS, MONITOR_DETECTOR
from sojourn.models.drift.scaled_cusum import ScaledCusum
from sojourn.models.drift.timer import Timer
from sojourn.models.drift.watched import HAZARD_MAX, WatchedRequests, cumulative_hazard

__all__ = [
    "BANDS_S", "DAY_S", "DETECTORS", "DVLA_PRESETS", "HAZARD_MAX", "MONITOR_DETECTOR", "NEW_OWNERS", "OWN",
    "REFERENCE_DAYS", "TOLERANCE", "AnyOf", "ChangePoint", "ClassShareSettings", "ClassShares", "Cusum", "DailyExits",
    "Detector", "DriftDay", "HazardRatio", "PageHinkley", "ScaledCusum", "Timer", "WatchedRequests", "change_point",
    "cumulative_hazard", "daily_exits", "drift_days", "new_owner_days", "own_exits",
]  # fmt: skip
