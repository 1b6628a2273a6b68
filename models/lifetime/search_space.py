"""What `sojourn search` may vary of each family, and where its defaults stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sojourn.models.lifetime.boosting import DEFAULTS
from sojourn.models.lifetime.contract import LifetimeModel
from sojourn.models.lifetime.gbdt import OnceModel
from sojourn.models.lifetime.hazard import PARAMS, HazardModel
from sojourn.models.lifetime.intervals import N_INTERVALS
from sojourn.models.lifetime.landmark import LandmarkModel


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lowest and highest value of one hyperparameter; is_log: drawn on a log scale; is_whole: whole numbers."""

    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """bounds, defaults: by name of LightGBM's parameter, or `n_intervals`. build: the unfitted family of a setting."""

    bounds: Mapping[str, Bounds]
    defaults: Mapping[str, float]
    build: Callable[[Mapping[str, float]], LifetimeModel]

    def params(self, values: Mapping[str, float]) -> dict[str, float | int]:
        """LightGBM's parameters among the values, whole numbers as such."""
        return {name: int(value) if self.bounds[name].is_whole else value for name, value in values.items()
                if name != "n_intervals"}


_TREES = {
    "num_leaves": Bounds(31, 255, is_log=True, is_whole=True),
    "learning_rate": Bounds(0.03, 0.3, is_log=True),
    "min_data_in_leaf": Bounds(20, 400, is_log=True, is_whole=True),
    "feature_fraction": Bounds(0.3, 1.0),
    "lambda_l2": Bounds(0.1, 50.0, is_log=True),
}  # fmt: skip
_HAZARD = {**_TREES, "n_intervals": Bounds(24, 64, is_whole=True)}

SEARCH_SPACES: Mapping[str, SearchSpace] = MappingProxyType({
    "hazard": SearchSpace(_HAZARD, {**{name: {**DEFAULTS, **PARAMS}[name] for name in _TREES},
                                    "n_intervals": N_INTERVALS},
                          lambda values: HazardModel(int(values["n_intervals"]))),
    "gbdt-once": SearchSpace(_TREES, {name: DEFAULTS[name] for name in _TREES}, lambda _: OnceModel()),
    "gbdt-landmark": SearchSpace(_TREES, {name: DEFAULTS[name] for name in _TREES}, lambda _: LandmarkModel()),
})  # fmt: skip
"""By family; the others have nothing worth a search."""
