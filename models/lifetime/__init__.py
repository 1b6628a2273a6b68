"""Lifetime families behind one contract. To add one: one file, one line here, its row in the contract test."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sojourn.models.lifetime.contract import Exported, FitSettings, LifetimeModel
from sojourn.models.lifetime.cox import CoxModel
from sojourn.models.lifetime.gbdt import OnceModel, UptimeModel
from sojourn.models.lifetime.gbsa import BoostedCoxModel
from sojourn.models.lifetime.hazard import HazardModel
from sojourn.models.lifetime.km import KaplanMeierModel
from sojourn.models.lifetime.landmark import LandmarkModel
from sojourn.models.lifetime.mlp import NetworkModel
from sojourn.models.lifetime.repeat_last import RepeatModel
from sojourn.models.lifetime.requested_time import RequestedModel
from sojourn.models.lifetime.rsf import ForestModel
from sojourn.models.lifetime.search_space import SEARCH_SPACES

LIFETIME_MODELS: Mapping[str, Callable[[], LifetimeModel]] = MappingProxyType({
    "km": KaplanMeierModel,
    "gbdt-once": OnceModel,
    "gbdt-uptime": UptimeModel,
    "gbdt-landmark": LandmarkModel,
    "hazard": HazardModel,
    "cox": CoxModel,
    "rsf": ForestModel,
    "gbsa": BoostedCoxModel,
    "mlp": NetworkModel,
    "repeat-last": RepeatModel,
    "requested-time": RequestedModel,
})  # fmt: skip

__all__ = [
    "LIFETIME_MODELS", "SEARCH_SPACES", "BoostedCoxModel", "CoxModel", "Exported", "FitSettings", "ForestModel",
    "HazardModel", "KaplanMeierModel", "LandmarkModel", "LifetimeModel", "NetworkModel", "OnceModel", "RepeatModel",
    "RequestedModel", "UptimeModel",
]  # fmt: skip
