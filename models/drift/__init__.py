"""Drift of lifetimes from their predictions: observed and expected exits by day, and detectors.

May import: `curve_table`.
"""

from sojourn.models.drift.detectors import (
    DETECTORS,
    DVLA_PRESETS,
    MONITOR_DETECTOR,
    NEW_OWNERS,
    OWN,
    AnyOf,
    ChangePoint,
    ClassShares,
    ClassShareSettings,
    Cusum,
    HazardRatio,
    PageHinkley,
    ScaledCusum,
    Timer,
    change_point,
)
from sojourn.models.drift.watched import (
    BANDS_S,
    HAZARD_MAX,
    REFERENCE_DAYS,
    TOLERANCE,
    DailyExits,
    Detector,
    DriftDay,
    WatchedRequests,
    cumulative_hazard,
    daily_exits,
    drift_days,
    new_owner_days,
    own_exits,
)
from sojourn.serving.inputs import DAY_S

__all__ = [
    "BANDS_S", "DAY_S", "DETECTORS", "DVLA_PRESETS", "HAZARD_MAX", "MONITOR_DETECTOR", "NEW_OWNERS", "OWN",
    "REFERENCE_DAYS", "TOLERANCE", "AnyOf", "ChangePoint", "ClassShareSettings", "ClassShares", "Cusum", "DailyExits",
    "Detector", "DriftDay", "HazardRatio", "PageHinkley", "ScaledCusum", "Timer", "WatchedRequests", "change_point",
    "cumulative_hazard", "daily_exits", "drift_days", "new_owner_days", "own_exits",
]  # fmt: skip
