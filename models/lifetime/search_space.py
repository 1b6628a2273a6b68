"""What `sojourn search` may vary of a family, and where its defaults stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sojourn.models.lifetime.contract import LifetimeModel


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


TREES: Mapping[str, Bounds] = MappingProxyType({
    "num_leaves": Bounds(31, 255, is_log=True, is_whole=True),
    "learning_rate": Bounds(0.03, 0.3, is_log=True),
    "min_data_in_leaf": Bounds(20, 400, is_log=True, is_whole=True),
    "feature_fraction": Bounds(0.3, 1.0),
    "lambda_l2": Bounds(0.1, 50.0, is_log=True),
})  # fmt: skip
"""Of every family of LightGBM's trees."""
