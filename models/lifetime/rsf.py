"""`rsf`: a random survival forest (scikit-survival)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.survival import SurvivalModel

_N_QUARTERED = 100
"""Of fewer rows a tree sees as many as there are: a quarter would be a handful."""


class ForestModel(SurvivalModel):
    """Ishwaran et al., Ann. Appl. Stat. 2 (2008), on at most 8,000 rows, a quarter of them per tree.

    Each leaf holds a whole curve, so times are given on the intervals' edges: an end at the upper edge of its
    interval, a censoring at the nearer edge. That bounds the forest's memory by leaves x intervals.
    Delayed entry is not known to it: rows with an entry age above 0 are left out.
    """

    name = "rsf"
    n_rows_max = 8_000

    def times(self, lifetime_s: np.ndarray, is_event: np.ndarray) -> np.ndarray:
        edges = np.append(self.intervals_.edges, np.inf)
        upper = np.searchsorted(edges, lifetime_s, side="left")
        low_s, high_s = edges[upper - 1], edges[upper]
        is_beyond = np.isinf(high_s)  # what lies beyond the last edge is the tail's; here it only outlives it
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
                                    n_jobs=1, random_state=settings.seed)  # threads would sum in any order


RSF = Family(ForestModel, "random survival forest, 60 trees of a quarter of the rows; at most 8,000 rows",
             "whole distribution", complexity=5)
