"""The contract of lifetime families: fit on examples, answer with a curve table.

`Family` is an entry of the registry. `SearchSpace` lists what `sojourn lab search` may vary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self

import numpy as np

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.serving.forest import NO_AGE_FEATURES, AgeFeatures, Forest
from sojourn.serving.inputs import Encoder, HistoryDefinition, Lookup


@dataclass(frozen=True, slots=True)
class FitSettings:
    """idx_backoff: positions of the history keys of a lookup table, coarsest first.

    n_threads, seed: of the learner. params: LightGBM parameters that replace defaults. names: of the features, in
    order, for families that read a feature by its name. fitted: models by family, fitted on the same windows with the
    same settings, for families that combine others. log: the whole trace, for families that learn on after their fit.
    """

    idx_backoff: tuple[int, ...] = ()
    n_threads: int = 2
    seed: int = 0
    params: dict[str, Any] | None = None
    names: tuple[str, ...] = ()
    fitted: Mapping[str, LifetimeModel] = field(default_factory=dict)
    log: EventLog | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EventLog:
    """What happened when, of every row of a trace: a model reads of it only what came before each prediction.

    rows: of the whole trace, in the order of decision; `Examples.idx_row` names them. is_owner: of each history key.
    """

    rows: FeatureRows
    is_owner: tuple[bool, ...]

    @classmethod
    def of(cls, rows: FeatureRows, history: HistoryDefinition) -> EventLog:
        """From feature rows and the definition of their history."""
        return cls(rows, tuple(key.kind == "owner" for key in history.keys))


Scores = Callable[[np.ndarray], np.ndarray]
"""Raw scores float64 (n,) of rows as the forest reads them, float64 (n, n_features), by the learner's library."""


@dataclass(frozen=True, slots=True, eq=False)
class ExportedLookup:
    """A lookup table beside the forest. keys: give a request's row. hazards: float64 (R, J),
    cumulative hazard of each interval; row 0 is of all requests. weights: (J,), in [0, 1], of the
    forest's hazard; the rest is the table's."""

    keys: Lookup
    hazards: np.ndarray
    weights: tuple[float, ...]

    @property
    def is_all(self) -> bool:
        """True if all weights of the forest are 0: the model has no trees."""
        return not any(self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class ExportedHabits:
    """Owners' habits beside the forest: fields of schema.json, and arrays; see `serving.live.LiveHabits`."""

    fields: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Exported:
    """The parts of a fitted model for a bundle: kind of score, forest, the schema's numbers, age features, lookup.

    forest: reads features of the training encoder; `write_bundle` adds the row of a lookup. text: LightGBM's text of
    the forest; None for another learner. scores: raw scores of that learner, if it can give them. One of the two is
    used to check the bits of the export; SHAP values need the text. n_leaves: the most that a fit with the same
    settings and rounds can have; by default those of the forest.
    """

    kind: str
    forest: Forest
    fields: dict[str, Any]
    age_features: AgeFeatures = NO_AGE_FEATURES
    text: str | None = None
    scores: Scores | None = None
    n_leaves: int = 0
    lookup: ExportedLookup | None = None
    habits: ExportedHabits | None = None

    def __post_init__(self) -> None:
        if self.n_leaves == 0:
            object.__setattr__(self, "n_leaves", len(self.forest.leaves))

    def encoder(self, training: Encoder) -> Encoder:
        """The bundle's encoder: the training encoder, with the model's lookup, if any."""
        return training if self.lookup is None else replace(training, lookup=self.lookup.keys)


class LifetimeModel(Protocol):
    """A model of a lifetime family. Fitted state ends in `_`; the same seed gives the same model."""

    name: str
    """The family's name in the registry."""
    validation_table_: CurveTable
    """The curves of the validation rows by a model fitted on `train` alone, for a choice of family."""
    clipped_share_: float
    """Share of the rows with clipped censoring weights; NaN for a family without such weights."""

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        """Choose rounds and residuals on `valid`, then fit on `past` = both windows.

        Raises ValueError if the examples hold no observed end.
        """
        ...

    def curve_table(self, rows: Examples) -> CurveTable:
        """The lifetime curves of n rows; labels are not read."""
        ...

    def export(self) -> Exported | None:
        """The model for a bundle; None for a baseline that is not served."""
        ...

    def gains(self) -> np.ndarray | None:
        """Split gain per feature (those that vary with the age come last), higher = used more; None without trees."""
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
    """bounds, defaults: by name of LightGBM's parameter, or `n_intervals`. build: the unfitted model of a setting."""

    bounds: Mapping[str, Bounds]
    defaults: Mapping[str, float]
    build: Callable[[Mapping[str, float]], LifetimeModel]

    def params(self, values: Mapping[str, float]) -> dict[str, float | int]:
        """LightGBM's parameters among the values, integers as int."""
        return {name: int(value) if self.bounds[name].is_whole else value for name, value in values.items()
                if name != "n_intervals"}


TREES: Mapping[str, Bounds] = MappingProxyType({
    "num_leaves": Bounds(31, 255, is_log=True, is_whole=True),
    "learning_rate": Bounds(0.03, 0.3, is_log=True),
    "min_data_in_leaf": Bounds(20, 400, is_log=True, is_whole=True),
    "feature_fraction": Bounds(0.3, 1.0),
    "lambda_l2": Bounds(0.1, 50.0, is_log=True),
})  # fmt: skip
"""The search space of every family of LightGBM trees."""


@dataclass(frozen=True, slots=True)
class Family:
    """An entry of the registry; a call gives an unfitted model with the defaults.

    build: creates that model. about: one line for the docs. answers: the source of its distribution. place: among
    families that are level within the noise the first is chosen. It says how little later answers suffer from few rows,
    not how simple a family is, and was measured (docs/lifetime/candidate.md). 1: a value of the request or its history;
    two models that are weighted anew as requests end. 2: one pooled curve, refined by trees as far as the validation
    window supports them. 3: a curve for each key. 4: one answer of trees or of a linear model; the spread of the first
    is that of the validation residuals. 5: new answers of trees at each age, or a whole curve of them. 6: a network, or
    several models at once. trained: whether a retrain fits it. is_baseline: usable without a model; studies compare
    with it. search: for `sojourn lab search`; None = no search. combines: families whose fitted models it uses again. A
    family can be served if its `export` gives a model.
    """

    build: Callable[[], LifetimeModel]
    about: str
    answers: Literal["whole distribution", "through its residuals"]
    place: int = field(kw_only=True)
    trained: Literal["always", "by default", "when asked"] = "when asked"
    is_baseline: bool = False
    search: SearchSpace | None = None
    combines: tuple[str, ...] = ()

    def __call__(self) -> LifetimeModel:
        return self.build()
