"""The axis of interval hazards: intervals of the age, and where a trace ends at its limits those of their share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.intervals import (
    N_INTERVALS,
    Intervals,
    PersonPeriods,
    fit_intervals,
    person_periods,
    pooled_offsets,
)
from sojourn.models.lifetime.limit_periods import LIMIT_SHARES, limit_periods, wants_limit
from sojourn.serving.inputs import LIMIT


@dataclass(frozen=True, slots=True)
class Axis:
    """intervals: of both clocks. limit_place: of the limit among the features; -1 = the age is the only clock."""

    intervals: Intervals
    limit_place: int = -1

    @classmethod
    def fit(cls, examples: Examples, limit_place: int, n_intervals: int = N_INTERVALS) -> Axis:
        """Intervals and pooled hazards of the examples; ValueError where no end was observed."""
        intervals = fit_intervals(examples, n_intervals)
        if limit_place < 0:
            return cls(intervals)
        shares = np.array(LIMIT_SHARES)
        periods = limit_periods(examples, intervals.edges, shares, examples.features[:, limit_place])
        n = len(intervals.edges) + len(shares) - 2
        return cls(replace(intervals, offsets=pooled_offsets(periods, n), shares=shares), limit_place)

    @property
    def kind(self) -> str:
        """The kind of score of a bundle on this axis."""
        return "hazard" if self.limit_place < 0 else "hazard-limit"

    @property
    def n_ages(self) -> int:
        """How many of the intervals are of the age: the first ones."""
        return len(self.intervals.edges) - 1

    def limit_s(self, rows: Examples) -> np.ndarray:
        """The rows' limits, float64 (n,), NaN = none."""
        return rows.features[:, self.limit_place]

    def periods(self, rows: Examples) -> PersonPeriods:
        """The intervals in which rows were at risk and observed."""
        if self.limit_place < 0:
            return person_periods(rows, self.intervals.edges)
        return limit_periods(rows, self.intervals.edges, self.intervals.shares, self.limit_s(rows))

    def table(self, hazards: np.ndarray, rows: Examples) -> HazardTable:
        """The curves of rows with these hazards of whole intervals, float64 (n, J + K)."""
        own = self.intervals
        if self.limit_place < 0:
            return HazardTable.from_hazards(own.edges, hazards, own.tail_s, own.grid)
        return HazardTable.from_limits(own.edges, own.shares, hazards, self.limit_s(rows), own.tail_s, own.grid)

    def age_edges(self) -> np.ndarray:
        """Edges of all intervals for what is set against the age. Those of a share of the limit have ages of no
        meaning, beyond all others: what tells there is set against the limit (`serving.inputs.limit`)."""
        n_shares = max(len(self.intervals.shares) - 1, 0)
        edges = self.intervals.edges
        return np.append(edges, edges[-1] * 2.0 ** np.arange(1, n_shares + 1))

    def fields(self) -> dict[str, Any]:
        """What schema.json holds of it."""
        own = self.intervals
        fields = {"edges": own.edges.tolist(), "offsets": own.offsets.tolist(), "tail_s": own.tail_s,
                  "grid": own.grid.tolist()}
        return fields if self.limit_place < 0 else {**fields, "shares": own.shares.tolist()}


def limit_place_of(train: Examples, settings: FitSettings) -> int:
    """Where the limit stands among the features, if the training rows end at their limits often enough; else -1."""
    place = settings.names.index(LIMIT) if LIMIT in settings.names else -1
    return place if place >= 0 and wants_limit(train, train.features[:, place]) else -1
