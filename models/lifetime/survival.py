"""The scikit-survival families, with their rows and with curves on the hazard model's intervals.

`cox`: Cox's proportional hazards (scikit-survival), one baseline hazard scaled by the features.

`gbsa`: gradient boosting of Cox's partial likelihood by small trees (scikit-survival).

`rsf`: a random survival forest (scikit-survival).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime.contract import Family, FitSettings
from sojourn.models.lifetime.intervals import Intervals, fit_intervals, interval_hazards
from sojourn.models.lifetime.mlp import Scaling

N_VALUES_MAX = 4_000_000
"""The most numbers in a batch of predicted survival functions (32 MB)."""


class SurvivalModel(ABC):
    """A survival estimator of scikit-survival, whose answers become interval hazards.

    The estimators support censoring but not delayed entry: they are fitted on a seeded draw of at
    most `n_rows_max` rows with entry age 0. Intervals and pooled hazards, which fill undefined
    parts of a curve, come from all rows. Baselines: nothing is exported.
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
        """The times for the estimator, float64 (n,) s; 0 excludes a row."""
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
        # Few rows and risks far apart: rounding makes Breslow's sum at risk negative, and its survival overflows.
        with np.errstate(over="ignore"):
            self.estimator_.fit(self.scaling_.transform(past.features[idx]),
                                Surv.from_arrays(past.is_event[idx], time_s))
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


RIDGE = 1e-3
"""Ridge penalty per fitted row, since the owner's history features are nearly collinear."""


class CoxModel(SurvivalModel):
    """Cox, J. R. Stat. Soc. B 34 (1972), with Breslow's baseline.

    Features are standardised, skewed ones after log(1 + x), missing values are training medians. At
    most 20,000 rows, all with entry age 0.
    """

    name = "cox"
    n_rows_max = 20_000

    def estimator(self, n_rows: int, settings: FitSettings) -> Any:
        from sksurv.linear_model import CoxPHSurvivalAnalysis

        ridge: Any = RIDGE * n_rows  # Any, since the stub takes its type from the default, an int
        return CoxPHSurvivalAnalysis(alpha=ridge)


COX = Family(CoxModel, "Cox's proportional hazards, small ridge; at most 20,000 rows",
             "whole distribution", place=4, is_baseline=True)


class BoostedCoxModel(SurvivalModel):
    """Ridgeway, Computing Science and Statistics 31 (1999), on at most 2,000 rows.

    Each round sees half of the rows and a third of the features. The time of a fit grows with the
    square of the rows. Only rows with entry age 0 are used.
    """

    name = "gbsa"
    n_rows_max = 2_000

    def estimator(self, n_rows: int, settings: FitSettings) -> Any:
        from sksurv.ensemble import GradientBoostingSurvivalAnalysis

        return GradientBoostingSurvivalAnalysis(n_estimators=60, learning_rate=0.15, max_depth=4, subsample=0.5,
                                                max_features=0.33, min_samples_leaf=10, random_state=settings.seed)


GBSA = Family(BoostedCoxModel, "gradient boosting of Cox's likelihood, 60 trees; at most 2,000 rows",
              "whole distribution", place=5)

_N_QUARTERED = 100
"""With fewer rows, each tree sees all of them."""


class ForestModel(SurvivalModel):
    """Ishwaran et al., Ann. Appl. Stat. 2 (2008), on at most 8,000 rows, a quarter of them per tree.

    Each leaf holds a whole curve, so times are moved to the intervals' edges: an end to the upper edge of its interval,
    a censoring to the nearer edge. That bounds the memory by leaves x intervals. Only rows with entry age 0 are used.
    """

    name = "rsf"
    n_rows_max = 8_000

    def times(self, lifetime_s: np.ndarray, is_event: np.ndarray) -> np.ndarray:
        edges = np.append(self.intervals_.edges, np.inf)
        upper = np.searchsorted(edges, lifetime_s, side="left")
        low_s, high_s = edges[upper - 1], edges[upper]
        is_beyond = np.isinf(high_s)  # beyond the last edge is the tail; here the row only outlives it
        nearer_s = np.where(is_beyond | (lifetime_s - low_s < high_s - lifetime_s), low_s, high_s)
        time_s = np.where(is_event & ~is_beyond, high_s, np.where(is_beyond, low_s + 1.0, nearer_s))
        if len(np.unique(time_s[time_s > 0.0])) < 2:
            raise ValueError(f"rsf needs lifetimes of at least two intervals, got {len(time_s):,} that all end or are "
                             f"censored in that up to {time_s.max():g} s")
        return time_s

    def estimator(self, n_rows: int, settings: FitSettings) -> Any:
        from sksurv.ensemble import RandomSurvivalForest

        return RandomSurvivalForest(n_estimators=60, min_samples_leaf=max(min(15, n_rows // 20), 1),
                                    max_samples=0.25 if n_rows >= _N_QUARTERED else None,
                                    n_jobs=1, random_state=settings.seed)  # the order of sums would depend on threads


RSF = Family(ForestModel, "random survival forest, 60 trees of a quarter of the rows; at most 8,000 rows",
             "whole distribution", place=5)
