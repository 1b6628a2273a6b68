"""How models of each kind of score are learnt from examples: what `serving.curves.curve_kinds` is to what is served."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable, hazards_of
from sojourn.models.lifetime import Exported, person_periods
from sojourn.models.measures import AGES_S
from sojourn.serving.curves import ModelNumbers


@dataclass(frozen=True, slots=True)
class LearntKind:
    """table: the curves of n rows from raw scores on the grid, (n, K), and their encoded features. at_risk: from
    examples, a number of rows and a generator, rows of the examples and at each a value of what varies at which it was
    at risk."""

    table: Callable[[ModelNumbers, np.ndarray, np.ndarray, np.ndarray], CurveTable]
    at_risk: Callable[[Exported, Examples, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def _hazard_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> HazardTable:
    hazards = hazards_of(scores, np.array(model.offsets))
    if model.lookup is not None:
        hazards = model.lookup.mixed(hazards, features)
    return HazardTable.from_hazards(np.array(model.edges), hazards, model.tail_s, np.array(model.grid))


def _limit_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> HazardTable:
    hazards = hazards_of(scores, np.array(model.offsets))
    if model.lookup is not None:
        hazards = model.lookup.mixed(hazards, features)
    return HazardTable.from_limits(np.array(model.edges), np.array(model.shares), hazards,
                                   np.ascontiguousarray(features[:, model.limit_place]), model.tail_s,
                                   np.array(model.grid))


def _uptime_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> PointTable:
    return PointTable(grid[:-1], scores, model.smearing, np.array(model.residuals))


def _once_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> OnceTable:
    return OnceTable(scores[:, 0], model.smearing, np.array(model.residuals))


def _intervals_at_risk(exported: Exported, taken: Examples, n: int,
                       rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Intervals in which the examples were at risk."""
    periods = person_periods(taken, np.array(exported.fields["edges"]))
    at_risk = np.sort(rng.permutation(len(periods.idx))[:n])
    return periods.idx[at_risk], periods.interval[at_risk]


def _any_interval(exported: Exported, taken: Examples, n: int,
                  rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Any interval: those of the share of a limit are few seconds wide, and few requests were at risk in them."""
    n_intervals = len(exported.fields["offsets"])
    return np.arange(len(taken)), rng.integers(0, n_intervals, len(taken))


def _ages_met(exported: Exported, taken: Examples, n: int,
              rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """0 or an absolute age at which each example was alive."""
    ages = np.array([0.0, *AGES_S])
    n_met = (taken.lifetime_s[:, None] > ages).sum(axis=1)  # ages rise, so those met come first
    return np.arange(len(taken)), ages[rng.integers(0, np.maximum(n_met, 1))]


def _at_creation(exported: Exported, taken: Examples, n: int,
                 rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(taken)), np.zeros(len(taken))


LEARNT_KINDS: Mapping[str, LearntKind] = MappingProxyType({
    "hazard": LearntKind(_hazard_table, _intervals_at_risk),
    "hazard-limit": LearntKind(_limit_table, _any_interval),
    "uptime": LearntKind(_uptime_table, _ages_met),
    "once": LearntKind(_once_table, _at_creation),
})
"""Name in schema.json -> kind, as in `serving.curves.curve_kinds.KINDS`."""
