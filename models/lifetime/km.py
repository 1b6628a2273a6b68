"""`km`: a Kaplan-Meier curve per owner key, with back-off to coarser keys (LAVA's first lookup table)."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.intervals import Intervals, fit_intervals, interval_hazards

N_EVENTS_MIN = 30
"""A key with fewer observed ends than this backs off to the next coarser key."""


class KaplanMeierModel:
    """Product-limit curves on the hazard model's intervals; delayed entry respected.

    Keys back off from the finest history key to the coarsest, then to all examples together.
    """

    name = "km"
    intervals_: Intervals
    hazards_: np.ndarray
    rows_: tuple[dict[int, int], ...]
    idx_backoff_: tuple[int, ...]
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self._fit(train, settings)
        self.validation_table_ = self.curve_table(valid)
        return self._fit(past, settings)

    def _fit(self, past: Examples, settings: FitSettings) -> Self:
        self.intervals_ = fit_intervals(past)
        curves = [_hazards(past, self.intervals_)]
        rows: list[dict[int, int]] = []
        for codes in (past.keys[idx] for idx in settings.idx_backoff):
            found: dict[int, int] = {}
            order = np.argsort(codes, kind="stable")
            bounds = np.flatnonzero(np.diff(codes[order], prepend=-2, append=codes.max(initial=0) + 1))
            for low, high in pairwise(bounds.tolist()):
                group = past.take(order[low:high])
                code = int(codes[order[low]])
                if code >= 0 and int(group.is_event.sum()) >= N_EVENTS_MIN:
                    found[code] = len(curves)
                    curves.append(_hazards(group, self.intervals_))
            rows.append(found)
        self.hazards_ = np.array(curves)
        self.rows_ = tuple(rows)
        self.idx_backoff_ = settings.idx_backoff
        return self

    def curve_table(self, rows: Examples) -> HazardTable:
        chosen = np.zeros(len(rows), np.int64)
        for idx, found in zip(self.idx_backoff_, self.rows_, strict=True):  # finer keys come later and win
            codes = rows.keys[idx]
            hit = np.array([found.get(code, 0) for code in codes.tolist()], np.int64)
            chosen = np.where(hit > 0, hit, chosen)
        intervals = self.intervals_
        return HazardTable.from_hazards(intervals.edges, self.hazards_[chosen], intervals.tail_s, intervals.grid)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None


def _hazards(examples: Examples, intervals: Intervals) -> np.ndarray:
    """Cumulative hazard of each interval from the product-limit estimate; pooled where nobody is at risk."""
    from sksurv.nonparametric import kaplan_meier_estimator

    entry_s = examples.entry_s if (examples.entry_s > 0.0).any() else None
    times, survival = kaplan_meier_estimator(examples.is_event, examples.lifetime_s, entry_s)[:2]
    position = np.searchsorted(times, intervals.edges, side="right") - 1
    at_edges = np.where(position < 0, 1.0, survival[np.maximum(position, 0)])
    return interval_hazards(at_edges, intervals, float(examples.lifetime_s.max()))
