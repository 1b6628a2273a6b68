"""Lifetime families behind one contract.

A new family needs one file and one line here. The contract tests run over the registry.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.models.lifetime.baselines import KM, REPEAT_LAST, REQUESTED_TIME
from sojourn.models.lifetime.classes import DVLA, LAVA, ClassesModel
from sojourn.models.lifetime.contract import (
    Bounds,
    EventLog,
    Exported,
    Family,
    FitSettings,
    LifetimeModel,
    Scores,
    SearchSpace,
)
from sojourn.models.lifetime.gbdt import LANDMARK, ONCE, STOP, UPTIME, Rows
from sojourn.models.lifetime.hazard import HAZARD, MIXTURE, HazardModel
from sojourn.models.lifetime.intervals import Axis, Intervals, limit_text, person_periods
from sojourn.models.lifetime.mlp import MLP, NetworkModel
from sojourn.models.lifetime.online import BLEND, ONLINE, Events, Replayed, Weighing, mixed
from sojourn.models.lifetime.refresh import AgeGain, ExportedRefresh, Refresh, fit_refresh
from sojourn.models.lifetime.rivals import FOREST_LEAVES, LAST_TWO, MEDIAN_16
from sojourn.models.lifetime.survival import COX, GBSA, RSF

__all__ = [
    "ALWAYS_TRAINED", "BASELINES", "LIFETIME_MODELS", "SEARCH_SPACES", "SERVED", "STOP", "TRAINED", "AgeGain", "Axis",
    "Bounds", "ClassesModel", "EventLog", "Events", "Exported", "ExportedRefresh", "Family", "FitSettings",
    "HazardModel", "Intervals", "LifetimeModel", "NetworkModel", "Refresh", "Replayed", "Rows", "Scores", "SearchSpace",
    "Weighing", "fit_refresh", "limit_text", "mixed", "person_periods",
]  # fmt: skip

LIFETIME_MODELS: Mapping[str, Family] = MappingProxyType({
    "km": KM,
    "gbdt-once": ONCE,
    "gbdt-uptime": UPTIME,
    "gbdt-landmark": LANDMARK,
    "hazard": HAZARD,
    "cox": COX,
    "rsf": RSF,
    "gbsa": GBSA,
    "mlp": MLP,
    "repeat-last": REPEAT_LAST,
    "requested-time": REQUESTED_TIME,
    "mixture": MIXTURE,
    "dvla-classes": DVLA,
    "lava-classes": LAVA,
    "online": ONLINE,
    "blend": BLEND,
    "last-two": LAST_TWO,
    "median-16": MEDIAN_16,
    "forest-leaves": FOREST_LEAVES,
})
"""Name in configs, MLflow and figures -> family, in the order of tables; add a new one last."""

ALWAYS_TRAINED = tuple(name for name, family in LIFETIME_MODELS.items() if family.trained == "always")
"""Families that every retrain fits."""
TRAINED = tuple(name for name, family in LIFETIME_MODELS.items() if family.trained != "when asked")
"""Families that a retrain fits by default."""
BASELINES = tuple(name for name, family in LIFETIME_MODELS.items() if family.is_baseline)
"""Families that a team would use instead of a model."""
SERVED = ("km", "gbdt-once", "gbdt-uptime", "gbdt-landmark", "hazard", "mixture", "online", "blend")
"""Families whose `export` gives a model."""
SEARCH_SPACES: Mapping[str, SearchSpace] = MappingProxyType(
    {name: family.search for name, family in LIFETIME_MODELS.items() if family.search is not None})
"""Search spaces by family."""
