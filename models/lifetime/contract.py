"""What every lifetime family is: fit on examples, answer with a curve table.

A lifetime family as the registry knows it: how to make its model, and what is asked of it besides the contract.

What `sojourn search` may vary of a family, and where its defaults stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.serving.forest import NO_AGE_FEATURES, AgeFeatures, Forest
from sojourn.serving.inputs import Encoder, Lookup


@dataclass(frozen=True, slots=True)
class FitSettings:
    """idx_backoff: positions of the history keys that a lookup table backs off through, coarsest first.

    n_threads, seed: of the learner. params: LightGBM parameters over the defaults.
    names: of the features, in order; only families that read a feature by its name need them. fitted: models by family
    that were fitted on the same windows with the same settings; a family that is made of others takes them from here.
    """

    idx_backoff: tuple[int, ...] = ()
    n_threads: int = 2
    seed: int = 0
    params: dict[str, Any] | None = None
    names: tuple[str, ...] = ()
    fitted: Mapping[str, LifetimeModel] = field(default_factory=dict)


Scores = Callable[[np.ndarray], np.ndarray]
"""Raw scores float64 (n,) of rows as the forest reads them, float64 (n, n_features), by the learner's own library."""


@dataclass(frozen=True, slots=True, eq=False)
class ExportedLookup:
    """A lookup table beside the forest. keys: which row a request reads. hazards: float64 (R, J), cumulative hazard of
    each interval, row 0 of all requests. weights: (J,), in [0, 1], of the forest's own hazard; the rest is the table's.
    """

    keys: Lookup
    hazards: np.ndarray
    weights: tuple[float, ...]

    @property
    def is_all(self) -> bool:
        """True where the forest counts nowhere: the model has no trees."""
        return not any(self.weights)


@dataclass(frozen=True, slots=True)
class Exported:
    """What the bundle needs of a fitted model: kind of score, forest, the schema's numbers, what meets the age, lookup.

    forest: reads features as the training encoder gives them; `write_bundle` makes room for the row of a lookup.

    text: LightGBM's own text of the forest; None for another learner. scores: that learner's own raw scores; None where
    it can't give them. By one of the two the export is checked to the bit; SHAP values need the text.
    n_leaves: the most that a fit with the same settings and rounds can have; counted where it is not known.
    """

    kind: str
    forest: Forest
    fields: dict[str, Any]
    age_features: AgeFeatures = NO_AGE_FEATURES
    text: str | None = None
    scores: Scores | None = None
    n_leaves: int = 0
    lookup: ExportedLookup | None = None

    def __post_init__(self) -> None:
        if self.n_leaves == 0:
            object.__setattr__(self, "n_leaves", len(self.forest.leaves))

    def encoder(self, training: Encoder) -> Encoder:
        """The bundle's encoder: the training encoder, with the model's lookup where it has one."""
        return training if self.lookup is None else replace(training, lookup=self.lookup.keys)


class LifetimeModel(Protocol):
    """A model of a lifetime family. Fitted state ends in `_`; the same seed gives the same model."""

    name: str
    """The family's, as in the registry."""
    validation_table_: CurveTable
    """The curves of the validation rows by a model fitted on `train` alone; what a choice may look at."""
    clipped_share_: float
    """Share of the rows whose weights for censoring were clipped; NaN for a family without such weights."""

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        """Choose on `valid` what must be chosen (rounds, residuals), then fit on `past` = both windows.

        Raises ValueError where the examples hold no observed end.
        """
        ...

    def curve_table(self, rows: Examples) -> CurveTable:
        """The lifetime curves of n rows; labels are not read."""
        ...

    def export(self) -> Exported | None:
        """The model for a bundle, or None where the family is a baseline that is not served."""
        ...

    def gains(self) -> np.ndarray | None:
        """Split gain per feature (those that vary with the age last), higher = used more; None without trees."""
        ...


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


@dataclass(frozen=True, slots=True)
class Family:
    """Called, it gives an unfitted model with its defaults.

    build: makes that model. about: what it is, one line for the docs. answers: where its distribution comes from.
    complexity: its place in the order of simplicity, 1 = the simplest; a choice within the noise takes the simpler
    family. It says how much a family takes from few rows, not how long its code is (measured: docs/lifetime.md,
    "Candidate"). 1: a value that the request or its history holds. 2: one pooled curve, from which trees depart as long
    as the validation window bears them out. 3: a curve of its own for each key. 4: one answer of trees or of a linear
    model; the spread of the first is that of the validation window's residuals. 5: trees asked anew at each age, or a
    whole curve of them. 6: a network, or several models at once.
    trained: whether a retrain fits it. is_baseline: a team might use it without a model; studies compare with it.
    search: what `sojourn search` may vary, None = nothing is worth a search. Whether a family can be served is what
    its `export` says.
    """

    build: Callable[[], LifetimeModel]
    about: str
    answers: Literal["whole distribution", "through its residuals"]
    complexity: int = field(kw_only=True)
    trained: Literal["always", "by default", "when asked"] = "when asked"
    is_baseline: bool = False
    search: SearchSpace | None = None

    def __call__(self) -> LifetimeModel:
        return self.build()
