"""`hazard`: a discrete-time hazard by gradient boosting, exact with censoring and delayed entry.

One row per example and interval at risk, labelled by whether it ended there; log-odds relative to the pooled
hazard of the interval, so that a model that learns nothing is the pooled Kaplan-Meier curve.

`mixture`: the hazards of `hazard` and `km` weighed by age; where the validation window says little, one of the two.

A convex mix of interval hazards is again a curve of interval hazards, and costs one look into the table.
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
from sojourn.models.lifetime.gbdt import DEFAULTS, Boosted, Rows, boost
from sojourn.models.lifetime.intervals import N_INTERVALS, Axis, limit_place_of
from sojourn.models.measures import BrierOverAges, OwnerDraws, coarsest_owner, interval
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


BUCKETS_S = (0.0, 600.0, 3_600.0, 21_600.0)
"""Where each bucket of the age begins, s. An interval is of the bucket in which it begins."""
N_TENTHS = 10
"""Weights are tenths."""
N_ROWS_MAX = 5_000
"""Validation rows that the weights are chosen on: a seeded draw of more."""
N_DRAWS = 200

Score = Callable[[np.ndarray], BrierOverAges]


@dataclass(frozen=True, slots=True)
class Weights:
    """weights: float64 (4,), of the hazard model's own hazard in each bucket of the age, in tenths; the rest is km's.
    On two clocks a fifth stands for all that is past half of the limit.

    single: the better of the two alone, by score. gain: its score minus that of these weights, above 0 = better; low,
    high: the 95 % interval over owners. n: rows of the validation window that were asked. is_shrunk: other weights were
    better, but not by more than one standard error.
    """

    weights: np.ndarray
    single: str
    gain: float
    low: float
    high: float
    n: int
    is_shrunk: bool

    def text(self) -> str:
        """The weights in words, and what they bring."""
        if len({*self.weights.tolist()}) == 1 and self.weights[0] in (0.0, 1.0):
            is_level = ", as better weights were within one standard error" if self.is_shrunk else ""
            return f"{self.single} alone at every age{is_level} ({self.n:,} validation requests)."
        starts = [*(f"{start_s:g} s" for start_s in BUCKETS_S), "half of the limit"]
        each = ", ".join(f"{weight:.1f} from {start} on"
                         for weight, start in zip(self.weights.tolist(), starts, strict=False))
        said = (f"Weight of hazard by age, the rest is km's: {each}. Brier over ages {self.gain:+.4f} better than "
                f"{self.single} alone, 95 % interval {self.low:+.4f} to {self.high:+.4f} over owners "
                f"({self.n:,} validation requests)")
        return f"{said}; better weights were within one standard error." if self.is_shrunk else f"{said}."


def choose_weights(own: np.ndarray, known: np.ndarray, axis: Axis, valid: Examples, seed: int) -> Weights:
    """Weights by the Brier score over ages: best in each bucket, then as near to the better single family as one
    standard error allows (owners drawn).

    own, known: hazards of the validation rows by the hazard model and by km, float64 (n, J), both fitted before them
    on this axis. A window that can't be scored gets km alone.
    """
    if len(valid) > N_ROWS_MAX:
        idx = np.sort(np.random.default_rng(seed).permutation(len(valid))[:N_ROWS_MAX])
        own, known, valid = own[idx], known[idx], valid.take(idx)
    bucket = buckets_of(axis)

    def brier(weights: np.ndarray) -> BrierOverAges:
        each = weights[bucket]
        return BrierOverAges.of(axis.table(each * own + (1.0 - each) * known, valid), valid)

    n = max(len(BUCKETS_S), int(bucket.max()) + 1)
    alone = {"km": np.zeros(n), "hazard": np.ones(n)}
    scores = {name: brier(weights).score() for name, weights in alone.items()}
    if not math.isfinite(scores["km"]):
        return Weights(alone["km"], "km", math.nan, math.nan, math.nan, len(valid), False)
    single = "hazard" if scores["hazard"] < scores["km"] else "km"
    best = _best(brier, alone[single], scores[single])
    codes = coarsest_owner(list(valid.keys), len(valid))
    draws = OwnerDraws(codes, N_DRAWS, seed=seed)
    chosen = _nearest(brier, alone[single], best, draws)
    one, other = brier(alone[single]), brier(chosen)
    low, high = interval([one.score(weight) - other.score(weight) for weight in draws])
    return Weights(chosen, single, one.score() - other.score(), low, high, len(valid),
                   not np.array_equal(chosen, best))


def buckets_of(axis: Axis) -> np.ndarray:
    """The bucket of each interval, int64 (J,); those of a share of the limit are of the last one."""
    aged = np.searchsorted(BUCKETS_S, axis.intervals.edges[:-1], side="right") - 1
    n_shares = len(axis.intervals.offsets) - len(aged)
    return np.append(aged, np.full(n_shares, len(BUCKETS_S)))


def _best(brier: Score, start: np.ndarray, score: float) -> np.ndarray:
    """The best tenth of each bucket in turn, the latest first: what comes later counts at all earlier ages, too."""
    best = start.copy()
    for bucket in reversed(range(len(best))):
        for tenth in range(N_TENTHS + 1):
            tried = best.copy()
            tried[bucket] = tenth / N_TENTHS
            found = brier(tried).score()
            if found < score:
                best, score = tried, found
    return best


def _nearest(brier: Score, single: np.ndarray, best: np.ndarray, draws: OwnerDraws) -> np.ndarray:
    """On the way from the single family to the best weights, in tenths of it, the first within one standard error."""
    aim = brier(best)
    of_best = np.array([aim.score(weight) for weight in draws])
    for step in range(N_TENTHS):
        tried = np.round(single + step / N_TENTHS * (best - single), 1)
        found = brier(tried)
        differences = np.array([found.score(weight) for weight in draws]) - of_best
        known = differences[np.isfinite(differences)]
        if len(known) < 2 or found.score() - aim.score() <= float(known.std()):
            return tried
    return best


class MixtureModel:
    """Both families, as they are alone, and a weight for each bucket of the age. Those already fitted are taken."""

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
        own, known = self.hazard_.validation_hazards_, self.km_.validation_hazards_
        axis = self.km_.validation_axis_
        self.weights_ = choose_weights(own, known, axis, valid, settings.seed)
        each = self.weights_.weights[buckets_of(axis)]
        self.validation_table_ = axis.table(each * own + (1.0 - each) * known, valid)
        return self

    def curve_table(self, rows: Examples) -> HazardTable:
        axis = self.hazard_.axis_
        each = self.weights_.weights[buckets_of(axis)]
        return axis.table(each * self.hazard_.hazards(rows) + (1.0 - each) * self.km_.hazards(rows), rows)

    def export(self) -> Exported:
        """The hazard model with km's table beside it; one of them alone where all weights are its own."""
        weights = tuple(self.weights_.weights[buckets_of(self.hazard_.axis_)].tolist())
        own = self.km_.export() if not any(weights) else self.hazard_.export()
        if any(weights) and min(weights) < 1.0:
            own = replace(own, lookup=ExportedLookup(self.km_.lookup_, self.km_.hazards_, weights))
        return replace(own, fields={**own.fields, "mixture": self.weights_.text()})

    def gains(self) -> np.ndarray | None:
        return self.hazard_.gains() if self.weights_.weights.any() else None


MIXTURE = Family(MixtureModel, "`hazard` and `km` mixed by age, weights chosen on the validation window",
                 "whole distribution", complexity=6,
                 trained="by default")
