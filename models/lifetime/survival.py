"""What the scikit-survival families share: rows they can read, and curves on the hazard model's intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.intervals import Intervals, fit_intervals, interval_hazards
from sojourn.models.lifetime.scaling import Scaling

N_VALUES_MAX = 4_000_000
"""Predicted survival functions are held in batches of at most this many numbers (32 MB)."""


class SurvivalModel(ABC):
    """A survival estimator of scikit-survival, answered as interval hazards.

    The estimators know censoring but not delayed entry: rows with an entry age above 0 are left out, and of the
    rest a seeded draw of at most `n_rows_max` is fitted. Intervals and their pooled hazards, which stand where
    a predicted curve says nothing, come from all rows. Baselines: nothing is exported.
    """

    name: str
    clipped_share_ = math.nan
    n_rows_max: int
    intervals_: Intervals
    scaling_: Scaling
    estimator_: Any
    last_s_: float
    n_rows_: int
    validation_table_: CurveTable

    def __init__(self, n_rows_max: int | None = None) -> None:
        if n_rows_max is not None:
            self.n_rows_max = n_rows_max

    @abstractmethod
    def estimator(self, n_rows: int, settings: FitSettings) -> Any:
        """An unfitted estimator for that many rows."""

    def times(self, lifetime_s: np.ndarray, is_event: np.ndarray) -> np.ndarray:
        """The times that the estimator is given, float64 (n,) s; 0 leaves a row out."""
        return lifetime_s

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self._fit(train, settings)
        self.validation_table_ = self.curve_table(valid)
        return self._fit(past, settings)

    def _fit(self, past: Examples, settings: FitSettings) -> Self:
        from sksurv.util import Surv

        self.intervals_ = fit_intervals(past)
        idx = np.flatnonzero(past.entry_s <= 0.0)
        if len(idx) > self.n_rows_max:
            idx = np.sort(np.random.default_rng(settings.seed).permutation(idx)[:self.n_rows_max])
        time_s = self.times(past.lifetime_s[idx], past.is_event[idx])
        idx, time_s = idx[time_s > 0.0], time_s[time_s > 0.0]
        if not past.is_event[idx].any():
            raise ValueError("training examples observed from their start must hold at least one observed end, "
                             "got censored ones only")
        self.n_rows_, self.last_s_ = len(idx), float(time_s.max())
        self.scaling_ = Scaling.fit(past.features[idx])
        self.estimator_ = self.estimator(len(idx), settings)
        self.estimator_.fit(self.scaling_.transform(past.features[idx]), Surv.from_arrays(past.is_event[idx], time_s))
        return self

    def curve_table(self, rows: Examples) -> HazardTable:
        intervals = self.intervals_
        times = np.asarray(self.estimator_.unique_times_)
        position = np.searchsorted(times, intervals.edges, side="right") - 1
        hazards = np.empty((len(rows), len(intervals.offsets)))
        step = max(N_VALUES_MAX // max(len(times), 1), 1)
        for low in range(0, len(rows), step):
            features = self.scaling_.transform(rows.features[low:low + step])
            survival = self.estimator_.predict_survival_function(features, return_array=True)
            at_edges = np.where(position < 0, 1.0, survival[:, np.maximum(position, 0)])
            hazards[low:low + step] = interval_hazards(at_edges, intervals.edges, intervals.offsets, self.last_s_)
        return HazardTable.from_hazards(intervals.edges, hazards, intervals.tail_s, intervals.grid)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None
