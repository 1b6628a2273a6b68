"""`online`: what each owner's requests did of late, without a fit (`serving.live.habits`).

The curve of a request is that of the counts at its decision, by what had ended and what still ran
then. So the model goes on counting through the windows that judge it, in the order of events, as a
live service would. A few constants are chosen on the validation window.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Self

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime._kernels import replay
from sojourn.models.lifetime.contract import EventLog, Family, FitSettings
from sojourn.models.lifetime.intervals import Axis, limit_place_of
from sojourn.models.measures import BrierOverAges
from sojourn.serving.inputs import LIMIT, LIMIT_MAX_S, LIMIT_MIN_S
from sojourn.serving.live.habits import N_NODES_MAX, HabitRules, joined_code, new_habits, new_open

GRID: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("memory", (64.0, 512.0, 2_048.0)), ("fast_prior", (2.0, 4.0, 8.0)), ("fast_memory", (2.0, 4.0)),
)  # fmt: skip
"""Constants of `HabitRules` in the order of their choice, each with the ones before it."""
N_ROWS_MAX = 5_000
"""The most validation rows for that choice; above, a seeded draw."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Requests in the order of decision, with codes of their keys at each level.

    decided_s, start_s, lifetime_s, seen_s: float64 (n,); seen_s: the uptime when first observed.
    is_event: bool (n,). codes: int64 (n, levels), -1 = none, from coarse to fine. limit_s: float64
    (n,), NaN = none. idx_row: int64 (n,), the rows of the trace.
    """

    decided_s: np.ndarray
    start_s: np.ndarray
    lifetime_s: np.ndarray
    seen_s: np.ndarray
    is_event: np.ndarray
    codes: np.ndarray
    limit_s: np.ndarray
    idx_row: np.ndarray

    @classmethod
    def of_log(cls, log: EventLog, limit_place: int) -> Events:
        """Of the whole trace. limit_place: index of the limit among the features, -1 = none."""
        rows = log.rows
        begin_s = np.maximum(rows.decided_s, rows.begin_s)
        owners = [codes for codes, is_owner in zip(rows.keys, log.is_owner, strict=True) if is_owner]
        limit_s = rows.features[:, limit_place] if limit_place >= 0 else np.full(len(rows), np.nan)
        return cls(rows.decided_s.astype(np.float64), rows.arrival_s.astype(np.float64),
                   np.maximum(rows.lifetime_s, 1).astype(np.float64),
                   np.maximum(begin_s - rows.arrival_s, 0).astype(np.float64), rows.is_event,
                   level_codes(owners, limit_s), limit_s, np.arange(len(rows)))

    @classmethod
    def of_examples(cls, examples: Examples, settings: FitSettings, limit_place: int) -> Events:
        """Of a window alone, if there is no log; keys are those of the back-off."""
        limit_s = examples.features[:, limit_place] if limit_place >= 0 else np.full(len(examples), np.nan)
        codes = level_codes([examples.keys[idx] for idx in settings.idx_backoff], limit_s)
        decided_s = examples.arrival_s + examples.entry_s
        order = np.argsort(decided_s, kind="stable")
        return cls(*(values[order] for values in (
            decided_s, examples.arrival_s.astype(np.float64), examples.lifetime_s, examples.entry_s, examples.is_event,
            codes, limit_s, examples.idx_row)))

    def places(self, idx_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The place of each row of the trace among these, int64 (m,), and whether it is one of them."""
        order = np.argsort(self.idx_row, kind="stable")
        at = order[np.minimum(np.searchsorted(self.idx_row, idx_row, sorter=order), len(order) - 1)]
        return at, self.idx_row[at] == idx_row

    def hazards(self, axis: Axis, rules: HabitRules, is_asked: np.ndarray) -> np.ndarray:
        """Cumulative hazards of the rows asked for, float32 (m, J + K)."""
        n, n_levels = self.codes.shape
        nodes, is_fresh, n_nodes = _nodes(self.codes)
        intervals = axis.intervals
        base = 1.0 / (1.0 + np.exp(-intervals.offsets))
        habits = new_habits(intervals.edges, intervals.shares, base, rules, n_nodes)
        ones = new_open(n, n_levels)
        limit_s = self.limit_s if axis.limit_place >= 0 else np.full(n, np.nan)
        ones = ones._replace(start_s=self.start_s, limit_s=limit_s, nodes=nodes)
        found = np.empty((int(is_asked.sum()), len(base)), np.float32)
        by_end = np.argsort(self.start_s + self.lifetime_s, kind="stable")
        replay(habits, ones, self.decided_s, self.lifetime_s, self.is_event, self.seen_s, by_end, is_fresh, is_asked,
               found)
        return found


def level_codes(owners: list[np.ndarray], limit_s: np.ndarray) -> np.ndarray:
    """Codes of each level below that of all, int64 (n, levels): each owner, with the coarser ones; the finest with
    the limit; and with the whole shape. owners: int64 (n,) each, -1 = missing, coarse to fine, the shape's last."""
    if not owners:
        return np.empty((len(limit_s), 0), np.int64)
    levels: list[np.ndarray] = []
    code = np.zeros(len(limit_s), np.uint64)
    is_known = np.ones(len(limit_s), bool)
    for codes in owners[:-1] if len(owners) > 1 else owners:
        is_known &= codes >= 0
        code = joined_code(code, codes.astype(np.uint64))
        levels.append(np.where(is_known, code.astype(np.int64), -1))
    is_limited = (limit_s >= LIMIT_MIN_S) & (limit_s <= LIMIT_MAX_S)
    if is_limited.any():
        whole_s = np.where(is_limited, limit_s, 0.0).astype(np.uint64)
        levels.append(np.where(is_known, joined_code(code, whole_s).astype(np.int64), -1))
    if len(owners) > 1:
        levels.append(np.where(is_known & (owners[-1] >= 0),
                               joined_code(code, owners[-1].astype(np.uint64)).astype(np.int64), -1))
    return np.column_stack(levels)


def _nodes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Nodes of each row, int64 (n, levels), -1 = none; whether each begins anew there, bool; and the number of nodes.

    Each level has at most N_NODES_MAX; the one with the oldest last arrival makes room. Node 0 is of all.
    """
    nodes, is_fresh, n_nodes = np.full(codes.shape, -1, np.int64), np.zeros(codes.shape, bool), 1
    for level in range(codes.shape[1]):
        node_of: OrderedDict[int, int] = OrderedDict()
        for row, code in enumerate(codes[:, level].tolist()):
            if code < 0:
                continue
            node = node_of.get(code)
            if node is None:
                is_fresh[row, level] = True
                if len(node_of) < N_NODES_MAX:
                    node, n_nodes = n_nodes, n_nodes + 1
                else:
                    node = node_of.popitem(last=False)[1]
                node_of[code] = node
            else:
                node_of.move_to_end(code)
            nodes[row, level] = node
    return nodes, is_fresh, n_nodes


class OnlineModel:
    """Hazards of the counts at each row's decision.

    With `settings.log` they go on after the fit, for every row of the log. Without it a row outside of `past` has the
    pooled curve of its end.
    """

    name = "online"
    clipped_share_ = math.nan
    axis_: Axis
    rules_: HabitRules
    events_: Events
    hazards_: np.ndarray
    validation_hazards_: np.ndarray
    validation_axis_: Axis
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        limit_place = limit_place_of(train, settings)
        feature = settings.names.index(LIMIT) if LIMIT in settings.names else -1
        self.validation_axis_ = axis = Axis.fit(train, limit_place)
        events = self.events_ = (Events.of_log(settings.log, feature) if settings.log is not None else
                                 Events.of_examples(_joined(train, valid), settings, feature))
        self.rules_ = chosen_rules(events, axis, valid, settings.seed)
        self.validation_hazards_ = _asked(events, axis, self.rules_, valid)
        self.validation_table_ = axis.table(self.validation_hazards_, valid)
        self.axis_ = Axis.fit(past, limit_place)
        if settings.log is None:
            self.events_ = Events.of_examples(past, settings, feature)
        self.hazards_ = self.events_.hazards(self.axis_, self.rules_, np.ones(len(self.events_.idx_row), bool))
        return self

    def hazards(self, rows: Examples) -> np.ndarray:
        """Cumulative hazard of each interval, float64 (n, J + K)."""
        at, is_found = self.events_.places(rows.idx_row)
        pooled = np.log1p(np.exp(self.axis_.intervals.offsets))
        return np.where(is_found[:, None], self.hazards_[at].astype(np.float64), pooled)

    def curve_table(self, rows: Examples) -> HazardTable:
        return self.axis_.table(self.hazards(rows), rows)

    def export(self) -> None:
        return None

    def gains(self) -> None:
        return None


ONLINE = Family(OnlineModel, "hazards counted over nested keys (owner, limit, shape) as requests run and end; no fit",
                "whole distribution", complexity=3, is_baseline=True)


def chosen_rules(events: Events, axis: Axis, valid: Examples, seed: int) -> HabitRules:
    """The constants with the lowest Brier score over ages on validation rows, one constant after the other."""
    if len(valid) > N_ROWS_MAX:
        valid = valid.take(np.sort(np.random.default_rng(seed).permutation(len(valid))[:N_ROWS_MAX]))

    def score(rules: HabitRules) -> float:
        return BrierOverAges.of(axis.table(_asked(events, axis, rules, valid), valid), valid).score()

    rules = HabitRules()
    best = score(rules)
    for name, values in GRID:
        trials = [rules._replace(**{name: value}) for value in values if getattr(rules, name) != value]
        for trial, trial_score in zip(trials, map(score, trials), strict=True):
            if trial_score < best:
                rules, best = trial, trial_score
    return rules


def _asked(events: Events, axis: Axis, rules: HabitRules, rows: Examples) -> np.ndarray:
    """Hazards of the examples' rows, float64 (n, J + K), in their order."""
    at, _ = events.places(rows.idx_row)
    is_asked = np.zeros(len(events.idx_row), bool)
    is_asked[at] = True
    found = events.hazards(axis, rules, is_asked)
    return found[np.cumsum(is_asked)[at] - 1].astype(np.float64)


def _joined(first: Examples, second: Examples) -> Examples:
    """Both windows one after the other."""
    features, lifetime_s, is_event, entry_s, arrival_s, idx_row = (
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("features", "lifetime_s", "is_event", "entry_s", "arrival_s", "idx_row"))
    keys = tuple(np.concatenate(codes) for codes in zip(first.keys, second.keys, strict=True))
    return Examples(features, keys, lifetime_s, is_event, entry_s, arrival_s, idx_row, begin_s=first.begin_s)
