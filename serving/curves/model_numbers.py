"""The numbers of one model that say what its forest's raw scores mean; each kind of score reads its own of them."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.serving.curves.lookup_table import LookupTable
from sojourn.serving.forest import NO_AGE_FEATURES, AgeFeatures


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
