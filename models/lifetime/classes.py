"""`dvla-classes` and `lava-classes`: a classifier of "outlives it" for each threshold, as in two papers.

DVLA (OSDI 2026) has K - 1 cumulative binary classifiers for K classes: one set for the whole lifetime, and one for the
remaining time, with the uptime as a feature. Its thresholds here are 1 h, 1 d, 7 d and 30 d. `lava-classes` is the same
for LAVA's classes: 1 h, 10 h, 100 h. The paper does not give the model family; both use LightGBM here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from sojourn.features.creation import LANDMARKS_S
from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime.contract import Family, FitSettings
from sojourn.models.lifetime.gbdt import N_AUGMENTED_MAX, Boosted, Rows, boost
from sojourn.models.lifetime.intervals import HAZARD_MAX
from sojourn.models.measures import CLASS_THRESHOLDS_S, censoring_curve, has_each, outliving_weights
from sojourn.models.outcomes import CensoringCurve
from sojourn.serving.curves import LONGEST_S
from sojourn.serving.forest import varying_walk

N_ROUNDS_UNCHECKED = 50
"""Rounds if no validation row can be followed to a threshold."""
_AGES_S = LANDMARKS_S[1:]
Ask = Callable[[HazardTable, np.ndarray, np.ndarray], np.ndarray]
"""A question to some rows of a table: times since its age, s, and the rows' indices."""


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Curves with a new table at fixed ages. ages_s: (K,) rising from 0; tables: K, each valid from its age on."""

    ages_s: np.ndarray
    tables: tuple[HazardTable, ...]

    def __len__(self) -> int:
        return len(self.tables[0])

    def take(self, idx: np.ndarray) -> ClassTable:
        return ClassTable(self.ages_s, tuple(table.take(idx) for table in self.tables))

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._each(lambda table, since_s, _: table.remaining(since_s), uptime_s)

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._each(lambda table, since_s, _: table.quantile(q, since_s), uptime_s)

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        horizons = np.broadcast_to(np.asarray(horizon_s, np.float64), (len(self),))
        return self._each(lambda table, since_s, rows: table.survival(horizons[rows], since_s), uptime_s)

    def held_uptimes(self) -> np.ndarray:
        return np.unique(np.concatenate([self.ages_s, np.rint(self.tables[0].grid)])).astype(np.int64)

    def _each(self, ask: Ask, uptime_s: np.ndarray | float) -> np.ndarray:
        """The answers for each uptime of the table of the last age before it, at the time since that age."""
        uptimes = np.broadcast_to(np.asarray(uptime_s, np.float64), (len(self),))
        place = np.searchsorted(self.ages_s, uptimes, side="right") - 1
        answers = np.empty(len(self))
        for number in np.unique(place):
            rows = np.flatnonzero(place == number)
            answers[rows] = ask(self.tables[number].take(rows), uptimes[rows] - self.ages_s[number], rows)
        return answers


class ClassesModel:
    """Survival at thresholds by classifiers, made monotone by a running minimum, with constant hazards in between.

    There is one classifier for each threshold and task: at creation, and for the remaining time at fixed uptimes (1 min
    to 28 d, as the last feature) among running requests. Rows that are censored before a threshold have weight 0,
    others the inverse probability of censoring. Beyond the last threshold the hazard is the pooled rate there. A
    threshold needs 20 training rows that outlive it and 20 that do not; without any, only the pooled rate is used.
    """

    clipped_share_: float
    validation_table_: CurveTable
    initial_: dict[int, Boosted]
    remaining_: dict[int, Boosted]
    tail_s_: float

    def __init__(self, name: str) -> None:
        self.name = name
        self.thresholds_s = CLASS_THRESHOLDS_S[name.partition("-")[0]]

    @property
    def left_out_(self) -> tuple[int, ...]:
        """Thresholds, s, with too few training rows, at creation or for the remaining time."""
        return tuple(each for each in self.thresholds_s if each not in self.initial_ or each not in self.remaining_)

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self._fit(train, valid, settings, None)
        self.validation_table_ = self.curve_table(valid)
        self._fit(past, None, settings, (self.initial_, self.remaining_))
        return self

    def _fit(self, examples: Examples, valid: Examples | None, settings: FitSettings,
             earlier: tuple[dict[int, Boosted], dict[int, Boosted]] | None) -> None:
        """valid: rows that stop the rounds; without them, earlier: fits with the number of rounds."""
        if not examples.is_event.any():
            raise ValueError("training examples must hold at least one observed end, got censored ones only")
        curve = censoring_curve(examples)
        clipped: list[float] = []
        fits = []
        for number, ages_s in enumerate(((0,), _AGES_S)):
            boosted: dict[int, Boosted] = {}
            for threshold_s in self.thresholds_s if earlier is None else earlier[number]:
                rows, share = _rows(examples, curve, threshold_s, ages_s, settings.seed)
                if earlier is None and not has_each(rows.label > 0.0):
                    continue
                checked, n_rounds = None, N_ROUNDS_UNCHECKED
                if earlier is not None:
                    n_rounds = earlier[number][threshold_s].n_rounds
                elif valid is not None:
                    rows_of_valid = _rows(valid, censoring_curve(valid), threshold_s, ages_s, settings.seed)[0]
                    if len(rows_of_valid.label):
                        checked, n_rounds = rows_of_valid, 300
                boosted[threshold_s] = boost("binary", rows, checked, n_varying=1, n_rounds=n_rounds,
                                             n_threads=settings.n_threads, seed=settings.seed, params=settings.params)
                clipped.append(share)
            fits.append(boosted)
        self.initial_, self.remaining_ = fits
        self.clipped_share_ = float(np.mean(clipped)) if clipped else 0.0
        last_s = max(self.initial_, default=0)
        beyond = examples.lifetime_s > np.maximum(examples.entry_s, last_s)
        exposure_s = (examples.lifetime_s - np.maximum(examples.entry_s, last_s))[beyond].sum()
        n_ends = int((beyond & examples.is_event).sum())
        self.tail_s_ = float(np.clip(exposure_s / n_ends if n_ends else max(last_s, 60), 60.0, LONGEST_S))

    def curve_table(self, rows: Examples) -> ClassTable:
        ages_s = (0, *_AGES_S) if self.remaining_ else (0,)
        tables = [self._table([_chance(boosted, rows.features, (0,))[:, 0] for boosted in self.initial_.values()],
                              tuple(self.initial_), len(rows))]
        if self.remaining_:
            chances = [_chance(boosted, rows.features, _AGES_S) for boosted in self.remaining_.values()]
            tables += [self._table([chance[:, at] for chance in chances], tuple(self.remaining_), len(rows))
                       for at in range(len(_AGES_S))]
        return ClassTable(np.array(ages_s, np.float64), tuple(tables))

    def _table(self, chances: Sequence[np.ndarray], thresholds_s: tuple[int, ...], n: int) -> HazardTable:
        """chances: probabilities to outlive each threshold, (n,) each."""
        edges = np.array([0.0, *thresholds_s]) if thresholds_s else np.array([0.0, self.tail_s_])
        if not thresholds_s:
            hazards = np.ones((n, 1))
        else:
            survival = np.minimum.accumulate(np.column_stack([np.ones(n), *chances]), axis=1)
            hazards = np.clip(-np.diff(np.log(np.maximum(survival, 1e-300)), axis=1), 0.0, HAZARD_MAX)
        return HazardTable.from_hazards(edges, hazards, self.tail_s_, edges)

    def export(self) -> None:
        return None

    def gains(self) -> np.ndarray | None:
        return None


def _rows(examples: Examples, curve: CensoringCurve, threshold_s: int, ages_s: Sequence[int],
          seed: int) -> tuple[Rows, float]:
    """Weighted rows at ages, labelled 1 if they outlived `threshold_s` more; the mean share of clipped weights.

    At most `N_AUGMENTED_MAX` rows, by a random draw. The age is the last feature.
    """
    parts, clipped = [], []
    for age_s in ages_s:
        weight, share = outliving_weights(curve, examples, age_s + threshold_s, age_s)
        idx = np.flatnonzero(weight > 0.0)
        parts.append((idx, np.full(len(idx), float(age_s)), weight[idx]))
        clipped.append(share)
    idx, at_s, weight = (np.concatenate([part[column] for part in parts]) for column in range(3))
    if len(idx) > N_AUGMENTED_MAX:
        sample = np.sort(np.random.default_rng(seed).permutation(len(idx))[:N_AUGMENTED_MAX])
        idx, at_s, weight = idx[sample], at_s[sample], weight[sample]
    features = np.column_stack([examples.features[idx], at_s])
    label = (examples.lifetime_s[idx] > at_s + threshold_s).astype(np.float64)
    return Rows(features, label, weight), math.fsum(clipped) / len(clipped)


def _chance(boosted: Boosted, features: np.ndarray, ages_s: Sequence[int]) -> np.ndarray:
    walk = varying_walk(boosted.forest, np.array(ages_s, np.float64))
    scores = walk.scores(np.column_stack([features, np.zeros(len(features))]))
    return np.asarray(1.0 / (1.0 + np.exp(-scores)))


DVLA = Family(partial(ClassesModel, "dvla-classes"),
              "LightGBM classifiers “outlives 1 h, 1 d, 7 d, 30 d”, at creation and of what remains (DVLA, 4.1)",
              "whole distribution", place=6, is_baseline=True)
LAVA = Family(partial(ClassesModel, "lava-classes"),
              "the same with LAVA's classes: 1 h, 10 h, 100 h", "whole distribution", place=6, is_baseline=True)
