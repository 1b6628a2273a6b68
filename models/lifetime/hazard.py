"""`hazard`: a discrete-time hazard by gradient boosting, exact with censoring and delayed entry.

One row per example and interval at risk, labelled by whether it ended there; log-odds relative to the pooled
hazard of the interval, so that a model that learns nothing is the pooled Kaplan-Meier curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable, hazards_of
from sojourn.models.lifetime.axis import Axis, limit_place_of
from sojourn.models.lifetime.boosting import DEFAULTS, Boosted, Rows, boost
from sojourn.models.lifetime.contract import Exported, FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.intervals import N_INTERVALS
from sojourn.models.lifetime.search_space import TREES, Bounds, SearchSpace
from sojourn.serving.forest import AgeFeatures, varying_walk

N_PERIODS_MAX = 400_000
"""More person-period rows than this are thinned: survived intervals are sampled and weigh more."""
N_ROUNDS = 100
"""Trees at most: what an answer costs grows with them, not with their leaves. No worse than 300 (docs/lifetime.md)."""
PARAMS: Mapping[str, Any] = {
    "num_leaves": 63, "learning_rate": 0.08, "min_data_in_leaf": 374, "feature_fraction": 0.65, "lambda_l2": 0.42,
}  # fmt: skip
"""The rate goes with the trees; so few leaves fit into masks. The last three are the best of 22 trials of a search."""


class HazardModel:
    """Gradient-boosted discrete-time hazard; answers the whole distribution."""

    name = "hazard"
    clipped_share_ = math.nan
    axis_: Axis
    age_features_: AgeFeatures
    boosted_: Boosted
    validation_hazards_: np.ndarray
    validation_table_: CurveTable

    def __init__(self, n_intervals: int = N_INTERVALS, n_rounds: int = N_ROUNDS) -> None:
        self.n_intervals = n_intervals
        self.n_rounds = n_rounds

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self.learn(train, valid, settings)
        self._set_axis(past, settings, limit_place_of(train, settings))
        self._boost(past, None, self.boosted_.n_rounds, settings)
        return self

    def learn(self, train: Examples, valid: Examples, settings: FitSettings) -> Self:
        """The first half of `fit`: learn from `train` and stop by `valid`, whose curves are kept."""
        self._set_axis(train, settings, limit_place_of(train, settings))
        self._boost(train, valid, self.n_rounds, settings)
        self.validation_hazards_ = self.hazards(valid)
        self.validation_table_ = self.axis_.table(self.validation_hazards_, valid)
        return self

    def _boost(self, train: Examples, valid: Examples | None, n_rounds: int, settings: FitSettings) -> None:
        valid_rows = None if valid is None else self._rows(valid, settings.seed + 1)
        self.boosted_ = boost("binary", self._rows(train, settings.seed), valid_rows,
                              n_varying=len(self.age_features_) + 1, n_rounds=n_rounds, n_threads=settings.n_threads,
                              seed=settings.seed, params={**PARAMS, **(settings.params or {})},
                              learner=settings.learner)

    def _set_axis(self, examples: Examples, settings: FitSettings, limit_place: int) -> None:
        self.axis_ = Axis.fit(examples, limit_place, self.n_intervals)
        self.age_features_ = AgeFeatures.of(settings.names, self.axis_.age_edges())

    def _rows(self, examples: Examples, seed: int) -> Rows:
        return _rows(examples, self.axis_, self.age_features_, seed)

    def hazards(self, rows: Examples) -> np.ndarray:
        """Cumulative hazard of each whole interval, float64 (n, J)."""
        offsets = self.axis_.intervals.offsets
        grid = np.arange(len(offsets), dtype=np.float64)
        unread = np.zeros((len(rows), len(self.age_features_) + 1))
        scores = varying_walk(self.boosted_.forest, grid, self.age_features_).scores(
            np.column_stack([rows.features, unread]))
        return hazards_of(scores, offsets)

    def curve_table(self, rows: Examples) -> HazardTable:
        return self.axis_.table(self.hazards(rows), rows)

    def export(self) -> Exported:
        return self.boosted_.exported(self.axis_.kind, self.axis_.fields(), self.age_features_)

    def gains(self) -> np.ndarray:
        return self.boosted_.gain


_SEARCH = SearchSpace(
    {**TREES, "n_intervals": Bounds(24, 64, is_whole=True)},
    {**{name: {**DEFAULTS, **PARAMS}[name] for name in TREES}, "n_intervals": N_INTERVALS},
    lambda values: HazardModel(int(values["n_intervals"])))

HAZARD = Family(HazardModel, "LightGBM on one row per interval at risk, log-odds relative to the pooled hazard",
                "whole distribution", complexity=2, trained="by default", search=_SEARCH)


def _rows(examples: Examples, axis: Axis, age_features: AgeFeatures, seed: int) -> Rows:
    periods = axis.periods(examples)
    weight = periods.weight
    is_kept = weight > 0.0
    n_survived = int((is_kept & ~periods.is_end).sum())
    share = min(1.0, N_PERIODS_MAX / max(n_survived, 1))
    if share < 1.0:
        drawn = np.random.default_rng(seed).random(len(weight)) < share
        is_kept &= periods.is_end | drawn
        weight = np.where(periods.is_end, weight, weight / share)
    idx, interval = periods.idx[is_kept], periods.interval[is_kept]
    return Rows(age_features.rows(examples.features[idx], interval), periods.is_end[is_kept].astype(np.float64),
                weight[is_kept], axis.intervals.offsets[interval])
