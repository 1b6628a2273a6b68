"""`km`: a Kaplan-Meier curve per owner key, with back-off to coarser keys (LAVA's first lookup table)."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime.contract import Exported, ExportedLookup, FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.intervals import Intervals, fit_intervals, interval_hazards
from sojourn.models.measures import KaplanMeier
from sojourn.serving.forest import Forest
from sojourn.serving.inputs import Lookup

N_EVENTS_MIN = 30
"""A key with fewer observed ends than this backs off to the next coarser key."""


class KaplanMeierModel:
    """Product-limit curves on the hazard model's intervals; delayed entry respected.

    Keys back off from the finest history key to the coarsest, then to all examples together.
    """

    name = "km"
    clipped_share_ = math.nan
    intervals_: Intervals
    hazards_: np.ndarray
    lookup_: Lookup
    n_features_: int
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self._fit(train, settings)
        self.validation_table_ = self.curve_table(valid)
        return self._fit(past, settings)

    def _fit(self, past: Examples, settings: FitSettings) -> Self:
        self.intervals_ = fit_intervals(past)
        curves = [_hazards(past.lifetime_s, past.is_event, past.entry_s, self.intervals_)]
        rows: list[dict[int, int]] = []
        for codes in (past.keys[idx] for idx in settings.idx_backoff):
            found: dict[int, int] = {}
            order = np.argsort(codes, kind="stable")
            first = np.flatnonzero(np.diff(codes[order], prepend=-2))
            n_events = np.add.reduceat(past.is_event[order], first, dtype=np.int64)
            for group in np.flatnonzero((n_events >= N_EVENTS_MIN) & (codes[order[first]] >= 0)).tolist():
                idx_rows = order[first[group]:first[group + 1] if group + 1 < len(first) else None]
                found[int(codes[idx_rows[0]])] = len(curves)
                curves.append(_hazards(past.lifetime_s[idx_rows], past.is_event[idx_rows], past.entry_s[idx_rows],
                                       self.intervals_))
            rows.append(found)
        self.hazards_ = np.array(curves)
        self.lookup_ = Lookup(settings.idx_backoff, tuple(rows))
        self.n_features_ = past.features.shape[1]
        return self

    def hazards(self, rows: Examples) -> np.ndarray:
        """Cumulative hazard of each interval, float64 (n, J)."""
        found: np.ndarray = self.hazards_[self.lookup_.rows_of(rows.keys, len(rows))]
        return found

    def curve_table(self, rows: Examples) -> HazardTable:
        intervals = self.intervals_
        return HazardTable.from_hazards(intervals.edges, self.hazards(rows), intervals.tail_s, intervals.grid)

    def export(self) -> Exported:
        """The table, with a forest of one leaf that counts nowhere: no text and no scores, as there is no learner."""
        intervals = self.intervals_
        return Exported("hazard", Forest.without_splits(self.n_features_ + 1), {
            "edges": intervals.edges.tolist(), "offsets": intervals.offsets.tolist(), "tail_s": intervals.tail_s,
            "grid": intervals.grid.tolist(),
        }, lookup=ExportedLookup(self.lookup_, self.hazards_, (0.0,) * len(intervals.offsets)))  # fmt: skip

    def gains(self) -> None:
        return None


KM = Family(KaplanMeierModel, "Kaplan-Meier curve per owner key, backing off to coarser keys below 30 observed ends",
            "whole distribution", complexity=3, trained="always", is_baseline=True)


def _hazards(lifetime_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray, intervals: Intervals) -> np.ndarray:
    """Cumulative hazard of each interval from the product-limit estimate; pooled where nobody is at risk.

    scikit-survival's estimator gives the same numbers, but counts who is at risk anew at each time: with entry times
    it is quadratic in the rows.
    """
    known = KaplanMeier.of(lifetime_s, is_event, entry_s)
    survival = known.survival()
    position = np.searchsorted(known.values, intervals.edges, side="right") - 1
    at_edges = np.where(position < 0, 1.0, survival[np.maximum(position, 0)])
    return interval_hazards(at_edges, intervals, float(known.values[-1]))
