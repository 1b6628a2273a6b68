"""`gbdt-once` and `gbdt-uptime`: LightGBM on log10 seconds, one-shot (LA) or with uptime augmentation (LAVA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from sojourn.features.augment import UPTIME_SHARES, augment_uptime
from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, OnceTable, PointTable
from sojourn.models.lifetime.boosting import DEFAULTS, Boosted, Rows, boost
from sojourn.models.lifetime.contract import Exported, FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.search_space import TREES, SearchSpace
from sojourn.models.outcomes import event_weights
from sojourn.serving.curves import N_RESIDUALS
from sojourn.serving.forest import varying_walk

N_AUGMENTED_MAX = 400_000
"""More augmented rows than this are thinned by drawing examples."""
Augment = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From lifetimes and entry ages to positions and uptimes, as in `features.augment`."""


class OnceModel:
    """Log10 of the total lifetime, predicted once; an outlived prediction doubles."""

    name = "gbdt-once"
    boosted_: Boosted
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self.boosted_ = boost("regression", once_rows(train)[0], once_rows(valid)[0], n_varying=0,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params,
                              learner=settings.learner)
        checked, _ = once_rows(valid)
        self.smearing_, self.residuals_ = spread(_scores(self.boosted_, checked.features), checked)
        self.validation_table_ = self.curve_table(valid)
        rows, self.clipped_share_ = once_rows(past)
        self.boosted_ = boost("regression", rows, None, n_varying=0, n_rounds=self.boosted_.n_rounds,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params,
                              learner=settings.learner)
        return self

    def curve_table(self, rows: Examples) -> OnceTable:
        return OnceTable(_scores(self.boosted_, rows.features), self.smearing_, self.residuals_)

    def export(self) -> Exported:
        return self.boosted_.exported("once",
                        {"smearing": self.smearing_, "residuals": self.residuals_.tolist()})

    def gains(self) -> np.ndarray:
        return self.boosted_.gain


ONCE = Family(OnceModel, "LightGBM on log10 lifetime; a one-shot prediction, doubled when outlived",
              "through its residuals", complexity=4, trained="always", is_baseline=True,
              search=SearchSpace(TREES, {name: DEFAULTS[name] for name in TREES}, lambda _: OnceModel()))


class UptimeModel:
    """Log10 of the remaining lifetime at an uptime, trained at shares of each example's own lifetime.

    Shares carry the label (given uptime u, L is one of u / 0.125, u / 0.25, ...): good at shares, poor at
    absolute ages. Kept as the paper has it; the measures at absolute ages stand beside it.
    """

    name = "gbdt-uptime"
    boosted_: Boosted
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        checked, _ = self._rows(valid, settings.seed)
        self.boosted_ = boost("regression", self._rows(train, settings.seed)[0], checked, n_varying=1,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params,
                              learner=settings.learner)
        self.smearing_, self.residuals_ = spread(_scores(self.boosted_, checked.features), checked)
        self.validation_table_ = self.curve_table(valid)
        rows, self.clipped_share_ = self._rows(past, settings.seed)
        self.boosted_ = boost("regression", rows, None, n_varying=1, n_rounds=self.boosted_.n_rounds,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params,
                              learner=settings.learner)
        return self

    def curve_table(self, rows: Examples) -> PointTable:
        forest = self.boosted_.forest
        thresholds = forest.splits_on(forest.n_features - 1)
        scores = varying_walk(forest, np.append(thresholds, np.inf)).scores(
            np.column_stack([rows.features, np.zeros(len(rows))]))
        return PointTable(thresholds, scores, self.smearing_, self.residuals_)

    def export(self) -> Exported:
        return self.boosted_.exported("uptime",
                        {"smearing": self.smearing_, "residuals": self.residuals_.tolist()})

    def gains(self) -> np.ndarray:
        return self.boosted_.gain

    def _rows(self, examples: Examples, seed: int) -> tuple[Rows, float]:
        """Weighted rows with the uptime as last feature; all that another way of drawing uptimes changes."""
        return uptime_rows(examples, augment_uptime, len(UPTIME_SHARES), seed)


UPTIME = Family(UptimeModel, "LightGBM with uptime augmentation (LAVA, section 3)",
                "through its residuals", complexity=5, trained="by default")


def once_rows(examples: Examples) -> tuple[Rows, float]:
    """Rows at uptime 0, of requests observed from their start, weighted for censoring."""
    idx = np.flatnonzero(examples.entry_s <= 0.0)
    return _weighted(examples, idx, np.zeros(len(idx)), examples.features[idx])


def uptime_rows(examples: Examples, augment: Augment, n_each: float, seed: int,
                n_max: int = N_AUGMENTED_MAX) -> tuple[Rows, float]:
    """Rows at the uptimes that `augment` draws, the uptime as last feature, weighted for censoring.

    n_each: rows that one example becomes, for drawing no more examples than make `n_max` rows.
    The second answer is the share of weights clipped.
    """
    taken = np.arange(len(examples))
    if len(examples) * n_each > n_max:
        taken = np.sort(np.random.default_rng(seed).permutation(len(examples))[:int(n_max // n_each)])
    idx, uptime_s = augment(examples.lifetime_s[taken], examples.entry_s[taken])
    idx = taken[idx]
    return _weighted(examples, idx, uptime_s, np.column_stack([examples.features[idx], uptime_s]))


def _weighted(examples: Examples, idx: np.ndarray, uptime_s: np.ndarray, features: np.ndarray) -> tuple[Rows, float]:
    """Rows of examples `idx` at an uptime, labelled with log10 of what remained; and the share of weights clipped."""
    if not examples.is_event.any():
        raise ValueError("training examples must hold at least one observed end, got censored ones only")
    weight, clipped = event_weights(examples, idx, uptime_s)
    is_kept = weight > 0.0
    if not is_kept.any():
        raise ValueError("training examples must hold at least one observed end of a request seen at an uptime that "
                         f"is asked about, got {int(examples.is_event.sum()):,} ends, all of requests seen later only")
    left_s = np.maximum(examples.lifetime_s[idx] - uptime_s, 1.0)
    return Rows(features[is_kept], np.log10(left_s[is_kept]), weight[is_kept]), clipped


def _scores(boosted: Boosted, features: np.ndarray) -> np.ndarray:
    """Raw scores (n,) of full feature rows."""
    from sojourn.models.lightgbm_library import lgb

    booster = lgb.Booster(model_str=boosted.text)
    return np.asarray(booster.predict(features, raw_score=True, num_threads=1))


def spread(scores: np.ndarray, rows: Rows) -> tuple[float, np.ndarray]:
    """Smearing factor and residual quantile grid of validation rows (log10), weighted for censoring."""
    residual = rows.label - scores
    weight = np.ones(len(residual)) if rows.weight is None else rows.weight
    order = np.argsort(residual, kind="stable")
    share = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    residuals = np.interp(np.linspace(0.0, 1.0, N_RESIDUALS), share, residual[order])
    smearing = float(np.average(10.0 ** np.clip(residual, -6.0, 3.0), weights=weight))
    return smearing, residuals
