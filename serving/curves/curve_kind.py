"""What a kind of score is: everything that differs between models whose forests score different things.

A bundle says its kind; nothing else asks which one it is. CONTRIBUTING.md, "Add a kind of score", lists what a new one
needs.

The numbers of one model that say what its forest's raw scores mean; each kind of score reads its own of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sojourn.serving.curves.curve import HazardCurve, LifetimeCurve, OnceCurve, PointCurve
from sojourn.serving.curves.formulas import LookupTable
from sojourn.serving.forest import NO_AGE_FEATURES, AgeFeatures, Forest, MaskWalk

Curve: TypeAlias = HazardCurve | PointCurve | OnceCurve
CNumber: TypeAlias = float | int | Sequence[float]
"""A constant, the size of an array, or an array of doubles."""


class Made(NamedTuple):
    """Curves of one model. of_numbers: of what the compiled first answer gives, more may follow; of_scores: of raw
    scores on the grid, and the encoded features."""

    of_numbers: Callable[[np.ndarray], Curve]
    of_scores: Callable[[np.ndarray, Sequence[float]], Curve]


class FirstWay(NamedTuple):
    """What `FirstAnswer` hands to compiled code: the kernels for one request and for many, how many numbers a curve
    has, the rows of `AgeBins`, and the kind's own parts of whole numbers and of floats, by their names in
    `packed_model`.

    finish: from the numbers that the kernel for many gives, and uptimes, to remaining seconds; None where they are it.
    """

    answer: Any
    rows: Any
    n_numbers: int
    turn_rows: np.ndarray
    whole: Mapping[int, np.ndarray]
    floats: Mapping[int, np.ndarray]
    finish: Callable[[list[float], Sequence[float]], list[float]] | None


class Shared(NamedTuple):
    """What the curves of one model share in packed arrays. bounds: edges or thresholds, s. changes: uptimes at which a
    held exit is asked again, s; steps: the interval or step of a curve in which each lies. residuals: log10."""

    bounds: np.ndarray
    changes: np.ndarray
    steps: np.ndarray
    residuals: np.ndarray


class CCode(NamedTuple):
    """A kind in C: what its comments say, the members of a curve, and the code that fills and asks it."""

    meaning: str
    score_meaning: str
    steps_meaning: str
    row_tail: str
    fields: Template
    parts: tuple[Template, ...]


class CurveKind(Protocol):
    """One kind of score. Objects without state; the schema holds a model's numbers."""

    name: str
    """In schema.json."""
    code: int
    """In `CurveArrays.kind`."""
    score_unit: str
    """Of the raw score, in schema.json."""
    effect_unit: str
    """Of what a feature adds to the raw score, in pictures."""
    is_varying: bool
    """Whether the forest's last feature varies with the age: its score is then a step function of it."""
    has_age_features: bool
    """Whether features may be set against the age."""
    has_lookup: bool
    """Whether a lookup table may stand beside the forest."""
    has_hazards: bool
    """Whether its curves are hazards (`HazardCurve`), which can be recalibrated."""

    @property
    def curve_type(self) -> type[Any]:
        """Of its curves."""
        ...

    def varying_names(self, names: Sequence[str], age_features: AgeFeatures) -> list[str]:
        """Names of the forest's last features: what varies with the age. names: the encoder's."""
        ...

    def check(self, model: ModelNumbers) -> None:
        """BundleError where the model's numbers are not those of this kind."""
        ...

    def check_forest(self, forest: Forest) -> None:
        """BundleError where the forest is not one of this kind."""
        ...

    def grid(self, model: ModelNumbers, forest: Forest) -> np.ndarray:
        """Values of the varying feature that stand for all, float64 (K,), rising."""
        ...

    def spread(self, model: ModelNumbers, lifetime_s: np.ndarray) -> np.ndarray:
        """A value of the varying feature for each of n requests, float64 (n,), spread over those that are met."""
        ...

    def forest_rows(self, age_features: AgeFeatures, features: np.ndarray, varying: np.ndarray) -> np.ndarray:
        """Rows as the forest reads them, float64 (n, n_features): encoded features at values of what varies, (n,)."""
        ...

    def made(self, model: ModelNumbers, grid: np.ndarray, kernels: Any) -> Made:
        """How curves are made. kernels: `compiled.KERNELS`, or None for plain Python; the same bits."""
        ...

    def first_way(self, model: ModelNumbers, walk: MaskWalk) -> FirstWay:
        """How the compiled first answer reads this model."""
        ...

    def shared_of(self, curve: Any) -> tuple[Sequence[float], Sequence[float]]:
        """The two sequences that all curves of one model have in common, which identify the model."""
        ...

    def shared(self, first: Sequence[float], second: Sequence[float]) -> Shared:
        """What those stand for in packed arrays."""
        ...

    def held_seconds(self, curve: Any, shared: Shared, kernels: Any) -> np.ndarray:
        """`remaining` at each of the model's changes, whole seconds, float64."""
        ...

    def place(self, kernels: Any, hosts: Any, host: int, row: int, start_s: float, model: int, curve: Any,
              shared: Shared, now_s: float) -> None:
        """Note a request on a host by compiled code (see `host_exits.Hosts`), with its held totals."""
        ...

    def packed(self, curve: Any, kernels: Any) -> np.ndarray:
        """A curve's own numbers in the order of `CurveArrays.numbers`."""
        ...

    def logged(self, n_grid: int) -> np.ndarray:
        """Which of a curve's numbers the log of decisions holds, int64; n_grid: values of what varies."""
        ...

    def remaining_rows(self, bounds: np.ndarray, numbers: np.ndarray, slots: np.ndarray,
                       uptimes_s: np.ndarray) -> np.ndarray:
        """`curve_arrays.remaining_at` of many slots of one model without numba: arrays but for the libm calls."""
        ...

    def c_code(self) -> CCode:
        """The kind in C."""
        ...

    def c_numbers(self, model: ModelNumbers, grid: np.ndarray) -> Mapping[str, CNumber]:
        """The numbers that its C reads, and no others, by name: compilers warn of those."""
        ...


def place_totals(kind: CurveKind, kernels: Any, hosts: Any, host: int, row: int, start_s: float, model: int,
                 curve: LifetimeCurve, shared: Shared, now_s: float) -> None:
    """`CurveKind.place` of a kind whose held totals are made here first."""
    kernels.place_row(hosts, host, row, start_s, model, held_totals(kind, curve, shared, kernels), now_s)


def held_totals(kind: CurveKind, curve: LifetimeCurve, shared: Shared, kernels: Any) -> np.ndarray:
    """Predicted total lifetimes, s, each held from one of a model's changes to the next.

    None is outlived before the next one; the last doubles when it is.
    """
    changes_s = shared.changes
    totals_s = changes_s + np.maximum(kind.held_seconds(curve, shared, kernels), 1.0)
    np.maximum(totals_s[:-1], changes_s[1:], out=totals_s[:-1])
    return totals_s


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """As schema.json holds them; times in seconds.

    edges: (J + 1,) s and offsets: (J,) log-odds of a hazard model; grid: sampling uptimes in s.
    tail_s: mean remaining time beyond the last edge. smearing: factor from 10^score to the mean.
    residuals: quantile grid of log10 validation residuals of a point model.
    shares: (K + 1,) of a request's limit, of a model with that clock (`limit_axis`): of J + K offsets the last K are
        theirs. limit_place: of the limit among the encoder's features.
    age_features: what a hazard model sets against the age; empty for others. lookup: the hazards that it reads by the
        request's history keys, or None.

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
