"""`hazard`: a discrete-time hazard by gradient boosting, exact with censoring and delayed entry.

One row per example and interval at risk, labelled by whether it ended there. Log-odds are relative
to the pooled hazard of the interval, so a model without splits is the pooled Kaplan-Meier curve.

`mixture`: a weighted mean of the hazards of `hazard` and `km`, with weights by age; one of the two
alone if the validation window gives too little evidence. A mean of interval hazards is again a
curve of interval hazards, and costs one lookup in the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable, hazards_of
from sojourn.models.lifetime.baselines import KaplanMeierModel
from sojourn.models.lifetime.contract import TREES, Bounds, Exported, ExportedLookup, Family, FitSettings, SearchSpace
from sojourn.models.lifetime.gbdt import DEFAULTS, PATIENCE, Boosted, Rows, boost
from sojourn.models.lifetime.intervals import N_INTERVALS, Axis, limit_place_of
from sojourn.models.measures import BrierOverAges, OwnerDraws, coarsest_owner, first_within_error, interval
from sojourn.serving.forest import AgeFeatures, varying_walk

N_PERIODS_MAX = 400_000
"""The most person-period rows; above, survived intervals are sampled and weigh more."""
N_ROUNDS = 100
"""The most trees: the time of an answer grows with trees, not with leaves. No worse than 300 (docs/serving/cost.md)."""
PARAMS: Mapping[str, Any] = {
    "num_leaves": 63, "learning_rate": 0.08, "min_data_in_leaf": 374, "feature_fraction": 0.65, "lambda_l2": 0.42,
}  # fmt: skip
"""The learning rate fits the number of trees; the leaves fit into masks. The last three are the best of 22 trials."""
SMALLER_LEAVES = (31, 15)
"""Leaves tried in turn while training stops early: larger trees cannot use their size then."""
CLOSE = 1.01
"""Smaller trees are level if they are worse by at most one standard error, and by at most this factor."""


class HazardModel:
    """Gradient-boosted discrete-time hazard; predicts the whole distribution."""

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
        """As families do. If training stops early, trees with fewer leaves take over while they are level or better on
        `valid`, unless `settings.params` say how many leaves."""
        self.learn(train, valid, settings)
        for n_leaves in () if "num_leaves" in (settings.params or {}) else SMALLER_LEAVES:
            if self.boosted_.n_rounds + PATIENCE >= self.n_rounds:
                break
            own = replace(settings, params={**(settings.params or {}), "num_leaves": n_leaves})
            smaller = HazardModel(self.n_intervals, self.n_rounds).learn(train, valid, own)
            if not is_level(smaller.validation_table_, self.validation_table_, valid, settings.seed):
                break
            vars(self).update(vars(smaller))
            settings = own
        self._set_axis(past, settings, limit_place_of(train, settings))
        self._boost(past, None, self.boosted_.n_rounds, settings)
        return self

    def learn(self, train: Examples, valid: Examples, settings: FitSettings) -> Self:
        """The first half of `fit`: learn from `train`, stop by `valid`, and keep the curves of `valid`."""
        self._set_axis(train, settings, limit_place_of(train, settings))
        self._boost(train, valid, self.n_rounds, settings)
        self.validation_hazards_ = self.hazards(valid)
        self.validation_table_ = self.axis_.table(self.validation_hazards_, valid)
        return self

    def _boost(self, train: Examples, valid: Examples | None, n_rounds: int, settings: FitSettings) -> None:
        self.boosted_ = boost("binary", self._rows(train, settings.seed),
                              None if valid is None else self._rows(valid, settings.seed + 1),
                              n_varying=len(self.age_features_) + 1, n_rounds=n_rounds, n_threads=settings.n_threads,
                              seed=settings.seed, params={**PARAMS, **(settings.params or {})})

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


def is_level(smaller: CurveTable, larger: CurveTable, valid: Examples, seed: int) -> bool:
    """Whether the curves of smaller trees have a lower Brier score over ages on `valid`, or a level one; see CLOSE."""
    briers = {"smaller": BrierOverAges.of(smaller, valid), "larger": BrierOverAges.of(larger, valid)}
    if not briers["smaller"].score() <= CLOSE * briers["larger"].score():  # nor if one has no score
        return False
    draws = OwnerDraws(coarsest_owner(list(valid.keys), len(valid)), seed=seed)
    return first_within_error(briers, {"smaller": 1, "larger": 2}, draws)[0] == "smaller"


_SEARCH = SearchSpace(
    {**TREES, "n_intervals": Bounds(24, 64, is_whole=True)},
    {**{name: {**DEFAULTS, **PARAMS}[name] for name in TREES}, "n_intervals": N_INTERVALS},
    lambda values: HazardModel(int(values["n_intervals"])))

HAZARD = Family(HazardModel, "LightGBM on one row per interval at risk, log-odds relative to the pooled hazard",
                "whole distribution", place=2, trained="by default", search=_SEARCH)


def _rows(examples: Examples, axis: Axis, age_features: AgeFeatures, seed: int) -> Rows:
    periods = axis.periods(examples)
    weight = periods.weight
    is_kept = weight > 0.0
    n_survived = int((is_kept & ~periods.is_end).sum())
    share = min(1.0, N_PERIODS_MAX / max(n_survived, 1))
    if share < 1.0:
        is_drawn = np.random.default_rng(seed).random(len(weight)) < share
        is_kept &= periods.is_end | is_drawn
        weight = np.where(periods.is_end, weight, weight / share)
    idx, interval = periods.idx[is_kept], periods.interval[is_kept]
    return Rows(age_features.rows(examples.features, interval, idx), periods.is_end[is_kept].astype(np.float64),
                weight[is_kept], axis.intervals.offsets[interval])


BUCKETS_S = (0.0, 600.0, 3_600.0, 21_600.0)
"""The start of each bucket of the age, s. An interval belongs to the bucket in which it starts."""
N_TENTHS = 10
"""Weights are multiples of 1 / N_TENTHS."""
N_ROWS_MAX = 5_000
"""The most validation rows for the choice of weights; above, a seeded draw."""
N_DRAWS = 200

Score = Callable[[np.ndarray], BrierOverAges]


@dataclass(frozen=True, slots=True)
class Weights:
    """weights: float64 (4,), of the hazard model in each bucket of the age, in tenths; the rest is
    km's. With limit axis a fifth weight is for all intervals past half of the limit. single: the
    better family alone, by score. gain: its score minus that of these weights, above 0 = better;
    low, high: the 95 % interval over owners. n: validation rows. is_shrunk: other weights were
    better, but not by more than one standard error."""

    weights: np.ndarray
    single: str
    gain: float
    low: float
    high: float
    n: int
    is_shrunk: bool

    def text(self) -> str:
        """The weights and their gain as a sentence."""
        if len({*self.weights.tolist()}) == 1 and self.weights[0] in (0.0, 1.0):
            is_level = ", as better weights were within one standard error" if self.is_shrunk else ""
            return f"{self.single} alone at every age{is_level} ({self.n:,} validation requests)."
        starts = [*(f"{start_s:g} s" for start_s in BUCKETS_S), "half of the limit"]
        each = ", ".join(f"{weight:.1f} from {start} on"
                         for weight, start in zip(self.weights.tolist(), starts, strict=False))
        sentence = (f"Weight of hazard by age, the rest is km's: {each}. Brier over ages {self.gain:+.4f} better than "
                    f"{self.single} alone, 95 % interval {self.low:+.4f} to {self.high:+.4f} over owners "
                    f"({self.n:,} validation requests)")
        return f"{sentence}; better weights were within one standard error." if self.is_shrunk else f"{sentence}."


def choose_weights(of_hazard: np.ndarray, of_km: np.ndarray, axis: Axis, valid: Examples, seed: int) -> Weights:
    """Weights by the Brier score over ages: best in each bucket, then as near to the better single
    family as one standard error over owners allows. of_hazard, of_km: hazards of the validation
    rows by the two models, float64 (n, J), both fitted on earlier rows with this axis. If the
    window cannot be scored, km alone."""
    if len(valid) > N_ROWS_MAX:
        idx = np.sort(np.random.default_rng(seed).permutation(len(valid))[:N_ROWS_MAX])
        of_hazard, of_km, valid = of_hazard[idx], of_km[idx], valid.take(idx)
    bucket = buckets_of(axis)

    def brier(weights: np.ndarray) -> BrierOverAges:
        each = weights[bucket]
        return BrierOverAges.of(axis.table(each * of_hazard + (1.0 - each) * of_km, valid), valid)

    n = max(len(BUCKETS_S), int(bucket.max()) + 1)
    alone = {"km": np.zeros(n), "hazard": np.ones(n)}
    scores = {name: brier(weights).score() for name, weights in alone.items()}
    if not math.isfinite(scores["km"]):
        return Weights(alone["km"], "km", math.nan, math.nan, math.nan, len(valid), False)
    single = "hazard" if scores["hazard"] < scores["km"] else "km"
    best = _best(brier, alone[single], scores[single])
    codes = coarsest_owner(list(valid.keys), len(valid))
    draws = OwnerDraws(codes, N_DRAWS, seed=seed)
    weights_used = _nearest(brier, alone[single], best, draws)
    single_score, chosen_score = brier(alone[single]), brier(weights_used)
    low, high = interval([single_score.score(weight) - chosen_score.score(weight) for weight in draws])
    return Weights(weights_used, single, single_score.score() - chosen_score.score(), low, high, len(valid),
                   not np.array_equal(weights_used, best))


def buckets_of(axis: Axis) -> np.ndarray:
    """The bucket of each interval, int64 (J,); intervals of a share of the limit are in the last one."""
    aged = np.searchsorted(BUCKETS_S, axis.intervals.edges[:-1], side="right") - 1
    n_shares = len(axis.intervals.offsets) - len(aged)
    return np.append(aged, np.full(n_shares, len(BUCKETS_S)))


def _best(brier: Score, start: np.ndarray, score: float) -> np.ndarray:
    """The best tenth of each bucket in turn, the latest first, since later buckets count at all earlier ages, too."""
    best = start.copy()
    for bucket in reversed(range(len(best))):
        for tenth in range(N_TENTHS + 1):
            trial = best.copy()
            trial[bucket] = tenth / N_TENTHS
            trial_score = brier(trial).score()
            if trial_score < score:
                best, score = trial, trial_score
    return best


def _nearest(brier: Score, single: np.ndarray, best: np.ndarray, draws: OwnerDraws) -> np.ndarray:
    """The first weights within one standard error, in steps of a tenth from the single family to the best weights."""
    aim = brier(best)
    of_best = np.array([aim.score(weight) for weight in draws])
    for step in range(N_TENTHS):
        trial = np.round(single + step / N_TENTHS * (best - single), 1)
        trial_brier = brier(trial)
        differences = np.array([trial_brier.score(weight) for weight in draws]) - of_best
        finite = differences[np.isfinite(differences)]
        if len(finite) < 2 or trial_brier.score() - aim.score() <= float(finite.std()):
            return trial
    return best


class MixtureModel:
    """Both families, and a weight for each bucket of the age. Models in `settings.fitted` are used again."""

    name = "mixture"
    clipped_share_ = math.nan
    hazard_: HazardModel
    km_: KaplanMeierModel
    weights_: Weights
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        own_model, known_model = settings.fitted.get("hazard"), settings.fitted.get("km")
        self.hazard_ = (own_model if isinstance(own_model, HazardModel)
                        else HazardModel().fit(train, valid, past, settings))
        self.km_ = (known_model if isinstance(known_model, KaplanMeierModel)
                    else KaplanMeierModel().fit(train, valid, past, settings))
        of_hazard, of_km = self.hazard_.validation_hazards_, self.km_.validation_hazards_
        axis = self.km_.validation_axis_
        self.weights_ = choose_weights(of_hazard, of_km, axis, valid, settings.seed)
        each = self.weights_.weights[buckets_of(axis)]
        self.validation_table_ = axis.table(each * of_hazard + (1.0 - each) * of_km, valid)
        return self

    def curve_table(self, rows: Examples) -> HazardTable:
        axis = self.hazard_.axis_
        each = self.weights_.weights[buckets_of(axis)]
        return axis.table(each * self.hazard_.hazards(rows) + (1.0 - each) * self.km_.hazards(rows), rows)

    def export(self) -> Exported:
        """The hazard model with km's table; one of the two alone if it has all the weight."""
        weights = tuple(self.weights_.weights[buckets_of(self.hazard_.axis_)].tolist())
        exported = self.km_.export() if not any(weights) else self.hazard_.export()
        if any(weights) and min(weights) < 1.0:
            exported = replace(exported, lookup=ExportedLookup(self.km_.lookup_, self.km_.hazards_, weights))
        return replace(exported, fields={**exported.fields, "mixture": self.weights_.text()})

    def gains(self) -> np.ndarray | None:
        return self.hazard_.gains() if self.weights_.weights.any() else None


MIXTURE = Family(MixtureModel, "`hazard` and `km` mixed by age, weights chosen on the validation window",
                 "whole distribution", place=6,
                 trained="by default", combines=("hazard", "km"))
