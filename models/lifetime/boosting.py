"""LightGBM as every family uses it: deterministic, early-stopped on the validation window, then refitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.models.lifetime.contract import Exported
from sojourn.models.lifetime.lightgbm_forest import forest_from_text
from sojourn.serving.forest import NO_AGE_FEATURES, AgeFeatures, Forest

N_ROUNDS_MAX = 300
DEFAULTS: Mapping[str, Any] = {
    "num_leaves": 63,
    "learning_rate": 0.08,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.7,
    "lambda_l2": 5.0,
}
MAX_BIN = 63
"""Bins per creation feature: 2.4 times as fast as 255, no worse on real traces; what varies with the age has 255."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What one fit sees: features (n, F), label, weight and init score (n,)."""

    features: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None = None
    init_score: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Trees:
    """What a learner grew: LightGBM's text of the best rounds, how many these are, and the gain of each feature."""

    text: str
    n_rounds: int
    gain: np.ndarray


Learner = Callable[[Mapping[str, Any], Rows, Rows | None, int], Trees]
"""Grows trees: from LightGBM's parameters, training rows, validation rows or None, and the most rounds."""


@dataclass(frozen=True, slots=True)
class Boosted:
    """A fitted booster: its text, its forest, how many rounds were best on the validation window, the gain of each
    feature, and the most leaves that so many rounds can have."""

    text: str
    forest: Forest
    n_rounds: int
    gain: np.ndarray
    n_leaves_max: int

    def exported(self, kind: str, fields: dict[str, Any], age_features: AgeFeatures = NO_AGE_FEATURES) -> Exported:
        """What a bundle needs, with all by which the export is checked."""
        return Exported(kind, self.forest, fields, age_features, self.text, n_leaves=self.n_leaves_max)


def boost(objective: str, train: Rows, valid: Rows | None, *, n_varying: int, n_rounds: int = N_ROUNDS_MAX,
          n_threads: int = 2, seed: int = 0, params: Mapping[str, Any] | None = None,
          learner: Learner | None = None) -> Boosted:
    """Train up to `n_rounds` trees; with `valid`, stop after 15 rounds without gain and keep the best.

    n_varying: how many of the last features change with the age. learner: grows the trees; by default `grown` in this
    process, with which the same seed gives the same model for any number of threads.
    """
    settings = {
        **DEFAULTS, **(params or {}), "objective": objective, "seed": seed, "num_threads": n_threads,
        "deterministic": True, "force_col_wise": True, "verbose": -1, "boost_from_average": True,
    }  # fmt: skip
    n_fixed = train.features.shape[1] - n_varying
    settings["max_bin_by_feature"] = [MAX_BIN] * n_fixed + [255] * n_varying
    settings["min_data_in_leaf"] = min(settings["min_data_in_leaf"], max(len(train.label) // 20, 1))
    trees = (learner or grown)(settings, train, valid, n_rounds)
    return Boosted(trees.text, forest_from_text(trees.text), trees.n_rounds, trees.gain,
                   trees.n_rounds * int(settings["num_leaves"]))


def grown(settings: Mapping[str, Any], train: Rows, valid: Rows | None, n_rounds: int) -> Trees:
    """The trees of LightGBM with these parameters: see `Learner`."""
    from sojourn.models.lightgbm_library import lgb

    params = dict(settings)
    dataset = lgb.Dataset(train.features, train.label, weight=train.weight, init_score=train.init_score, params=params)
    callbacks: list[Callable[..., Any]] = []
    sets = []
    if valid is not None:
        sets.append(lgb.Dataset(valid.features, valid.label, weight=valid.weight, init_score=valid.init_score,
                                reference=dataset))
        callbacks.append(lgb.early_stopping(15, verbose=False))
    booster = lgb.train(params, dataset, n_rounds, valid_sets=sets, callbacks=callbacks)
    best = booster.best_iteration if valid is not None and booster.best_iteration > 0 else booster.num_trees()
    return Trees(booster.model_to_string(num_iteration=best), best,
                 booster.feature_importance("gain", iteration=best))
