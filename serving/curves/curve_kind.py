"""A kind of score: everything that differs between models with different meanings of their scores.

The bundle names its kind; no other code distinguishes kinds. CONTRIBUTING.md, "Add a kind of
score", lists the steps for a new one. `ModelNumbers` gives the meaning of a model's raw scores;
each kind reads some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sojourn.serving.curves.curve import Axis, HazardCurve, LifetimeCurve, OnceCurve, PointCurve
from sojourn.serving.curves.formulas import LookupTable
from sojourn.serving.forest import NO_AGE_FEATURES, AgeFeatures, Forest

Curve: TypeAlias = HazardCurve | PointCurve | OnceCurve
CNumber: TypeAlias = float | int | Sequence[float]
"""A constant, the size of an array, or an array of doubles."""


class Made(NamedTuple):
    """Functions that build curves of one model. of_numbers: from the numbers of a first answer, which features may
    follow; of_scores: from raw scores on the grid and the encoded features. axis: what the curves share; n_numbers:
    of each.
    """

    axis: Axis
    n_numbers: int
    of_numbers: Callable[[Any], Curve]
    of_scores: Callable[[np.ndarray, Sequence[float]], Curve]


class Shared(NamedTuple):
    """Arrays that the packed curves of one model share. bounds: edges or thresholds, s. changes:
    uptimes at which a held exit changes, s; steps: the interval or step of each change. residuals:
    log10."""

    bounds: np.ndarray
    changes: np.ndarray
    steps: np.ndarray
    residuals: np.ndarray


class CCode(NamedTuple):
    """A kind in C: its comments, the members of a curve, the code that fills and reads it, and the tables, rising,
    that the code searches by functions like `edges_at_most` (`thresholds_below` for THRESHOLDS)."""

    meaning: str
    score_meaning: str
    steps_meaning: str
    row_tail: str
    fields: Template
    parts: tuple[Template, ...]
    searched: tuple[str, ...]


class CurveKind(Protocol):
    """One kind of score. Objects without state; the schema holds a model's numbers."""

    name: str
    """The kind's name in schema.json."""
    code: int
    """The kind's number in `CurveArrays.kind`."""
    score_unit: str
    """The unit of the raw score, in schema.json."""
    effect_unit: str
    """The unit of a feature's effect on the raw score, in figures."""
    is_varying: bool
    """Whether the forest's last feature varies with the age: its score is then a step function of it."""
    has_age_features: bool
    """Whether the model may have age features (`AgeFeatures`)."""
    has_lookup: bool
    """Whether the model may have a lookup table."""
    has_hazards: bool
    """Whether its curves are hazards (`HazardCurve`), which can be recalibrated."""

    @property
    def curve_type(self) -> type[Any]:
        """The class of its curves."""
        ...

    def varying_names(self, names: Sequence[str], age_features: AgeFeatures) -> list[str]:
        """Names of the forest's last features, which vary with the age. names: of the encoder's features."""
        ...

    def check(self, model: ModelNumbers) -> None:
        """BundleError if the model's numbers are not those of this kind."""
        ...

    def check_forest(self, forest: Forest) -> None:
        """BundleError if the forest is not one of this kind."""
        ...

    def grid(self, model: ModelNumbers, forest: Forest) -> np.ndarray:
        """Values of the varying feature, one for each step of the score, float64 (K,), rising."""
        ...

    def spread(self, model: ModelNumbers, lifetime_s: np.ndarray) -> np.ndarray:
        """A value of the varying feature for each of n requests, float64 (n,), spread over the values in use."""
        ...

    def forest_rows(self, age_features: AgeFeatures, features: np.ndarray, varying: np.ndarray) -> np.ndarray:
        """Rows as the forest reads them, float64 (n, n_features): encoded features and values of
        the varying feature, (n,)."""
        ...

    def made(self, model: ModelNumbers, grid: np.ndarray) -> Made:
        """Functions that build curves."""
        ...

    def shared_of(self, curve: Any) -> tuple[Sequence[float], Sequence[float]]:
        """The two sequences that all curves of one model share; they identify the model."""
        ...

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        """The shared packed arrays of a model, from its two sequences."""
        ...

    def held_seconds(self, curve: Any, shared: Shared, kernels: Any) -> np.ndarray:
        """`remaining` at each of the model's changes, whole seconds, float64."""
        ...

    def place(self, kernels: Any, places: Any, host: int, row: int, start_s: float, model: int, curve: Any,
              shared: Shared, now_s: float) -> None:
        """Add a request with its held totals to a host, in compiled code (see `hosts_at`)."""
        ...

    def packed(self, curve: Any, kernels: Any) -> np.ndarray:
        """A curve's numbers in the order of `CurveArrays.numbers`."""
        ...

    def logged(self, n_grid: int) -> np.ndarray:
        """Indices of a curve's numbers in the decision log, int64; n_grid: number of steps."""
        ...

    def remaining_rows(self, bounds: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
                       uptimes_s: np.ndarray) -> np.ndarray:
        """`curve_arrays.remaining_at` of many slots of one model without numba: arrays but for the libm calls."""
        ...

    def c_code(self) -> CCode:
        """The kind in C."""
        ...

    def c_numbers(self, model: ModelNumbers, grid: np.ndarray) -> Mapping[str, CNumber]:
        """The numbers that its C reads, by name, and no others, since compilers warn of unused ones."""
        ...


def place_totals(kind: CurveKind, kernels: Any, places: Any, host: int, row: int, start_s: float, model: int,
                 curve: LifetimeCurve, shared: Shared, now_s: float) -> None:
    """`CurveKind.place` for a kind without its own kernel: computes the held totals first."""
    kernels.place_row(places, host, row, start_s, model, held_totals(kind, curve, shared, kernels), now_s)


def held_totals(kind: CurveKind, curve: LifetimeCurve, shared: Shared, kernels: Any) -> np.ndarray:
    """Predicted total lifetimes, s, each held from one of a model's changes to the next.

    Each is outlived at the next change at the earliest; the last one doubles when it is outlived.
    """
    changes_s = shared.changes
    totals_s = changes_s + np.maximum(kind.held_seconds(curve, shared, kernels), 1.0)
    np.maximum(totals_s[:-1], changes_s[1:], out=totals_s[:-1])
    return totals_s


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """The numbers in schema.json; times in seconds.

    edges: (J + 1,) s and offsets: (J,) log-odds of a hazard model; grid: sampling uptimes in s.
    tail_s: mean remaining time beyond the last edge. smearing: factor from 10^score to the mean.
    residuals: quantile grid of log10 validation residuals of a point model.
    shares: (K + 1,) of a request's limit, if the model has a limit axis; the last K of J + K
    offsets are theirs. limit_place: index of the limit among the encoder's features. age_features:
    of a hazard model; empty for others. lookup: a table of hazards by history key, or None.

    >>> ModelNumbers(residuals=(-0.1, 0.1)).smearing
    1.0
    """

    edges: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    grid: tuple[float, ...] = ()
    tail_s: float = 1.0
    smearing: float = 1.0
    residuals: tuple[float, ...] = ()
    age_features: AgeFeatures = NO_AGE_FEATURES
    shares: tuple[float, ...] = ()
    limit_place: int = -1
    lookup: LookupTable | None = None
