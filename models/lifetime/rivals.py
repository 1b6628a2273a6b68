"""Simple rivals from other papers, offline: each needs no tuning that this project has made.

`last-two`: the mean of the last two lifetimes of the same owner and limit (Tsafrir, Etsion and
Feitelson, IEEE TPDS 18, 2007). `median-16`: the median of the owner's last 16.

`forest-leaves`: a random forest of scikit-learn, whose leaves give a curve: the weighted product-limit estimate of the
training rows that share a leaf with the request (Meinshausen, JMLR 7, 2006, with censoring).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable
from sojourn.models.lifetime.contract import Family, FitSettings
from sojourn.models.lifetime.gbdt import once_rows, spread
from sojourn.models.lifetime.intervals import HAZARD_MAX, Axis, limit_place_of
from sojourn.models.lifetime.online import Events, joined
from sojourn.models.measures import BrierOverAges
from sojourn.serving.inputs import LIMIT, LIMIT_MAX_S, LIMIT_MIN_S


class LastTwoModel:
    """The mean of the last two lifetimes that had ended at the decision: of the finest owner and its limit, else of
    the owner, else of coarser owners, else of all. The distribution is that of residuals on the validation window."""

    name = "last-two"
    n_latest = 2
    is_by_limit = True
    clipped_share_: float
    events_: Events
    scores_: np.ndarray
    default_: float
    smearing_: float
    residuals_: np.ndarray
    validation_table_: CurveTable

    def of_latest(self, lifetimes_s: deque[float]) -> float:
        """The answer, s, from at most `n_latest` lifetimes, the latest last."""
        return sum(lifetimes_s) / len(lifetimes_s)

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        place = settings.names.index(LIMIT) if LIMIT in settings.names else -1
        self._average(train)
        self._replay(Events.of_log(settings.log, place) if settings.log is not None
                     else Events.of_examples(joined(train, valid), settings, place))
        checked, _ = once_rows(replace(valid, features=self._scores(valid)[:, None]))
        self.smearing_, self.residuals_ = spread(checked.features[:, 0], checked)
        self.validation_table_ = self.curve_table(valid)
        if settings.log is None:
            self._replay(Events.of_examples(past, settings, place))
        return self._average(past)

    def _replay(self, events: Events) -> None:
        self.events_ = events
        self.scores_ = np.log10(np.maximum(self._replayed(), 1.0))

    def _average(self, past: Examples) -> Self:
        rows, self.clipped_share_ = once_rows(past)
        self.default_ = float(np.average(rows.label, weights=rows.weight))
        return self

    def _replayed(self) -> np.ndarray:
        """The answer of each event, s, by what had ended at its decision; NaN before the first end."""
        events = self.events_
        has_limit = bool(((events.limit_s >= LIMIT_MIN_S) & (events.limit_s <= LIMIT_MAX_S)).any())
        n_plain = events.owner_level + 1
        levels = [*([n_plain] if self.is_by_limit and has_limit and n_plain < events.nodes.shape[1] else []),
                  *range(n_plain - 1, -1, -1)]
        nodes, is_fresh = events.nodes[:, levels].tolist(), events.is_fresh[:, levels].tolist()
        kept: dict[int, deque[float]] = {0: deque(maxlen=self.n_latest)}
        end_s = events.start_s + events.lifetime_s
        order = np.argsort(end_s, kind="stable").tolist()
        ends, lifetimes, is_event = end_s.tolist(), events.lifetime_s.tolist(), events.is_event.tolist()
        answers = np.full(len(end_s), np.nan)
        at = 0
        for row, now_s in enumerate(events.decided_s.tolist()):
            while at < len(order) and ends[order[at]] <= now_s:
                one = order[at]
                at += 1
                if is_event[one] and one < row:
                    for node in (*nodes[one], 0):
                        if node >= 0:
                            kept.setdefault(node, deque(maxlen=self.n_latest)).append(lifetimes[one])
            for node, is_new in zip(nodes[row], is_fresh[row], strict=True):
                if is_new:
                    kept.pop(node, None)
            for node in (*nodes[row], 0):
                if node >= 0 and kept.get(node):
                    answers[row] = self.of_latest(kept[node])
                    break
        return answers

    def _scores(self, rows: Examples) -> np.ndarray:
        at, is_found = self.events_.places(rows.idx_row)
        scores = np.where(is_found, self.scores_[at], np.nan)
        return np.where(np.isnan(scores), self.default_, scores)

    def curve_table(self, rows: Examples) -> OnceTable:
        return OnceTable(self._scores(rows), self.smearing_, self.residuals_)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None


class MedianModel(LastTwoModel):
    """The median of the last 16 lifetimes of the finest owner that has one."""

    name = "median-16"
    n_latest = 16
    is_by_limit = False

    def of_latest(self, lifetimes_s: deque[float]) -> float:
        return float(np.median(lifetimes_s))


LAST_TWO = Family(LastTwoModel, "the mean of the last two lifetimes of the owner with this limit (Tsafrir et al. 2007)",
                  "through its residuals", place=1, is_baseline=True)
MEDIAN_16 = Family(MedianModel, "the median of the owner's last 16 lifetimes", "through its residuals", place=1,
                   is_baseline=True)

N_ROWS_MAX, N_TREES, N_TRIAL_TREES = 40_000, 50, 20
"""Rows of a forest, drawn by the seed above that; trees; trees while its leaves are chosen."""
LEAVES = (10, 30, 100)
"""The least rows of a leaf, to choose from on the validation window."""


def _bounded(features: np.ndarray) -> np.ndarray:
    """Features that scikit-learn's trees can read and add up in 32 bits; NaN stays."""
    return np.clip(features, -1e30, 1e30)


class LeavesModel:
    """A random forest on log10 lifetimes, ends weighted for censoring. The hazard of an interval is that of the
    training rows in the request's leaves, each tree's leaf with weight 1."""

    name = "forest-leaves"
    clipped_share_: float
    axis_: Axis
    forest_: Any
    hazards_: list[tuple[np.ndarray, np.ndarray]]
    n_least_: int
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        best = math.inf
        for n_least in LEAVES:
            self._grow(train, n_least, N_TRIAL_TREES, settings)
            table = self.curve_table(valid)
            score = BrierOverAges.of(table, valid).score()
            if n_least == LEAVES[0] or score < best:
                best, chosen, self.validation_table_ = score, n_least, table
        self.n_least_ = chosen
        return self._grow(past, chosen, N_TREES, settings)

    def _grow(self, rows: Examples, n_least: int, n_trees: int, settings: FitSettings) -> Self:
        from sklearn.ensemble import RandomForestRegressor

        self.axis_ = axis = Axis.fit(rows, limit_place_of(rows, settings))
        if len(rows) > N_ROWS_MAX:
            rows = rows.take(np.sort(np.random.default_rng(settings.seed).permutation(len(rows))[:N_ROWS_MAX]))
        learnt, self.clipped_share_ = once_rows(rows)
        self.forest_ = RandomForestRegressor(n_trees, min_samples_leaf=n_least, max_features=1 / 3,
                                             random_state=settings.seed, n_jobs=settings.n_threads)
        self.forest_.fit(_bounded(learnt.features), learnt.label, sample_weight=learnt.weight)
        periods, n = axis.periods(rows), len(axis.intervals.offsets)
        leaves = self.forest_.apply(_bounded(rows.features))
        self.hazards_ = []
        for tree in range(n_trees):
            n_leaves = int(leaves[:, tree].max()) + 1
            place = leaves[periods.idx, tree] * n + periods.interval
            size = np.maximum(np.bincount(leaves[:, tree], minlength=n_leaves), 1)[:, None]
            found = (np.bincount(place, weights, minlength=n_leaves * n).reshape(-1, n) / size
                     for weights in (periods.is_end.astype(np.float64), periods.weight))
            self.hazards_.append(tuple(part.astype(np.float32) for part in found))  # type: ignore[arg-type]
        return self

    def curve_table(self, rows: Examples) -> HazardTable:
        axis = self.axis_
        n = len(axis.intervals.offsets)
        ends, at_risk = np.zeros((len(rows), n)), np.zeros((len(rows), n))
        leaves = self.forest_.apply(_bounded(rows.features)) if len(rows) else np.zeros((0, len(self.hazards_)), int)
        for tree, (of_ends, of_risk) in enumerate(self.hazards_):
            at = np.minimum(leaves[:, tree], len(of_ends) - 1)
            ends += of_ends[at]
            at_risk += of_risk[at]
        pooled = 1.0 / (1.0 + np.exp(-axis.intervals.offsets))
        share = np.divide(ends, at_risk, out=np.broadcast_to(pooled, ends.shape).copy(), where=at_risk > 0.0)
        return axis.table(np.minimum(-np.log1p(-np.minimum(share, 1.0 - 1e-12)), HAZARD_MAX), rows)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None


FOREST_LEAVES = Family(LeavesModel, "a random forest's leaves as curves (Meinshausen 2006), at most 40,000 rows",
                       "whole distribution", place=4, is_baseline=True)
