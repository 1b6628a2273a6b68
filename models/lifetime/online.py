"""`online`: what each owner's requests did of late, without a fit (`serving.curves.habit_kernels`).

The curve of a request is that of the counts at its decision, by what had ended and what still ran
then. So the model goes on counting through the windows that judge it, in the order of events, as a
live service would. A few constants are chosen on the validation window.

`blend`: the hazards of `hazard` and `online`, weighted by the latest losses of both at each owner.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from sojourn.features.split import Examples, known_at
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.models.lifetime._kernels import replay
from sojourn.models.lifetime.contract import EventLog, Exported, ExportedHabits, Family, FitSettings
from sojourn.models.lifetime.hazard import HazardModel, buckets_of
from sojourn.models.lifetime.intervals import Axis, limit_place_of
from sojourn.models.measures import BrierOverAges
from sojourn.serving.curves.habit_kernels import (
    N_NODES_MAX,
    BlendRules,
    HabitRules,
    joined_code,
    new_blend,
    new_habits,
    new_open,
)
from sojourn.serving.forest import Forest
from sojourn.serving.inputs import LIMIT, LIMIT_MAX_S, LIMIT_MIN_S

GRID: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("memory", (64.0, 512.0, 2_048.0)), ("fast_prior", (2.0, 4.0, 8.0)), ("fast_memory", (2.0, 4.0)),
)  # fmt: skip
"""Constants of `HabitRules` in the order of their choice, each with the ones before it; memories rise."""
CLOSE = 1.02
"""The shortest memory is taken whose Brier score is at most this times the least. Chosen on a made trace whose owner
changes its habit: before the change, a memory of 64 costs 1 to 2 % there."""
N_ROWS_MAX = 5_000
"""The most validation rows for that choice; above, a seeded draw."""
N_BEFORE, N_RECENT = 50_000, 100_000
"""See `Events.recent`."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Requests in the order of decision, with their nodes at each level.

    decided_s, start_s, lifetime_s, seen_s: float64 (n,); seen_s: the uptime when first observed. is_event: bool (n,).
    limit_s: float64 (n,), NaN = none. idx_row: int64 (n,), the rows of the trace. nodes: int64 (n, levels), -1 = none,
    from coarse to fine; is_fresh: bool (n, levels), the node begins anew. n_nodes: with that of all. last_nodes: of
    each level, code -> node at the end, latest arrival last. owner_level: of the finest owner, -1 = none.
    """

    decided_s: np.ndarray
    start_s: np.ndarray
    lifetime_s: np.ndarray
    seen_s: np.ndarray
    is_event: np.ndarray
    limit_s: np.ndarray
    idx_row: np.ndarray
    nodes: np.ndarray
    is_fresh: np.ndarray
    n_nodes: int
    last_nodes: tuple[Mapping[int, int], ...]
    owner_level: int

    @classmethod
    def of_log(cls, log: EventLog, limit_place: int, *, has_limit_level: bool | None = None,
               known: Sequence[Mapping[int, int]] = ()) -> Events:
        """Of the whole trace. limit_place: index of the limit among the features, -1 = none.

        has_limit_level: None = if a row has a limit. known: of each level, code -> node that exists before.
        """
        rows = log.rows
        begin_s = np.maximum(rows.decided_s, rows.begin_s)
        owners = [codes for codes, is_owner in zip(rows.keys, log.is_owner, strict=True) if is_owner]
        limit_s = rows.features[:, limit_place] if limit_place >= 0 else np.full(len(rows), np.nan)
        return cls(rows.decided_s.astype(np.float64), rows.arrival_s.astype(np.float64),
                   np.maximum(rows.lifetime_s, 1).astype(np.float64),
                   np.maximum(begin_s - rows.arrival_s, 0).astype(np.float64), rows.is_event, limit_s,
                   np.arange(len(rows)), *nodes_of(level_codes(owners, limit_s, has_limit_level), known),
                   max(len(owners) - 1, 0) - 1)

    @classmethod
    def of_examples(cls, examples: Examples, settings: FitSettings, limit_place: int) -> Events:
        """Of a window alone, if there is no log; keys are those of the back-off."""
        limit_s = examples.features[:, limit_place] if limit_place >= 0 else np.full(len(examples), np.nan)
        codes = level_codes([examples.keys[idx] for idx in settings.idx_backoff], limit_s)
        decided_s = examples.arrival_s + examples.entry_s
        order = np.argsort(decided_s, kind="stable")
        window = examples.take(order)
        return cls(decided_s[order], window.arrival_s.astype(np.float64), window.lifetime_s, window.entry_s,
                   window.is_event, limit_s[order], window.idx_row, *nodes_of(codes[order]),
                   max(len(settings.idx_backoff) - 1, 0) - 1)

    def places(self, idx_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The place of each row of the trace among these, int64 (m,), and whether it is one of them."""
        order = np.argsort(self.idx_row, kind="stable")
        at = order[np.minimum(np.searchsorted(self.idx_row, idx_row, sorter=order), len(order) - 1)]
        return at, self.idx_row[at] == idx_row

    def recent(self, rows: Examples) -> Events:
        """Up to the last of the rows, from N_BEFORE requests before the first on, or N_RECENT in all, if that is more.
        Counts fade: on six traces of more than 100,000 requests the same constants were chosen as on all."""
        at, _ = self.places(rows.idx_row)
        end = int(at.max()) + 1
        return self.cut(max(min(int(at.min()) - N_BEFORE, end - N_RECENT), 0), end)

    def cut(self, first: int, end: int) -> Events:
        """The requests from `first` on, before `end`; the nodes are all there."""
        names = ("decided_s", "start_s", "lifetime_s", "seen_s", "is_event", "limit_s", "idx_row", "nodes", "is_fresh")
        cut = {name: getattr(self, name)[first:end] for name in names}
        return replace(self, **cut)

    def replayed(self, axis: Axis, rules: HabitRules, is_asked: np.ndarray, weighing: Weighing | None = None,
                 start: tuple[np.ndarray, np.ndarray] | None = None) -> Replayed:
        """The habits' answers for the rows asked for, and the counts at the end. start: counts and sums of the nodes
        that exist before, as in `Replayed`."""
        n, n_levels = self.nodes.shape
        intervals = axis.intervals
        base = 1.0 / (1.0 + np.exp(-intervals.offsets))
        habits = new_habits(intervals.edges, intervals.shares, base, rules, self.n_nodes)
        limit_s = self.limit_s if axis.limit_place >= 0 else np.full(n, np.nan)
        ones = new_open(n, n_levels)._replace(start_s=self.start_s, limit_s=limit_s, nodes=self.nodes)
        buckets = buckets_of(axis)
        n_weighed = 0 if weighing is None else len(weighing.is_weighed)
        blend = new_blend(BlendRules() if weighing is None else weighing.rules, buckets, self.owner_level,
                          self.n_nodes, n_weighed, n - n_weighed)
        if weighing is not None:
            blend = blend._replace(model=weighing.model, is_weighed=weighing.is_weighed)
        if start is not None:
            for own, known in zip((habits.counts, blend.sums), start, strict=True):
                own[:len(known)] = known
        hazards = np.empty((int(is_asked.sum()), len(base)), np.float32)
        weights = np.empty((len(hazards), blend.sums.shape[1]), np.float32)
        by_end = np.argsort(self.start_s + self.lifetime_s, kind="stable")
        replay(habits, ones, blend, self.decided_s, self.lifetime_s, self.is_event, self.seen_s, by_end, self.is_fresh,
               is_asked, hazards, weights)
        return Replayed(hazards, weights, habits.counts, blend.sums)

    def replayed_rows(self, axis: Axis, rules: HabitRules, rows: Examples, weighing: Weighing | None = None,
                      start: tuple[np.ndarray, np.ndarray] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The same of examples' rows, in their order, float64; events after the last of them are left out."""
        at, _ = self.places(rows.idx_row)
        n_left_out = len(self.idx_row) - int(at.max()) - 1
        is_asked = np.zeros(len(self.idx_row) - n_left_out, bool)
        is_asked[at] = True
        order = np.cumsum(is_asked)[at] - 1
        if weighing is not None:
            n_weighed = max(len(weighing.is_weighed) - n_left_out, 0)
            weighing = replace(weighing, model=weighing.model[:n_weighed], is_weighed=weighing.is_weighed[:n_weighed])
        found = self.cut(0, len(is_asked)).replayed(axis, rules, is_asked, weighing, start)
        return found.hazards[order].astype(np.float64), found.weights[order].astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """hazards: cumulative, float32 (m, J + K), weights: of the model, float32 (m, B), of m rows. counts: float64 (S,
    J + K, 4), sums: float64 (S, B, 2), of all nodes at the end of the log."""

    hazards: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """What a model predicted of the last k events: cumulative hazards float32 (k, J + K), and whether it did, bool."""

    rules: BlendRules
    model: np.ndarray
    is_weighed: np.ndarray


def level_codes(owners: list[np.ndarray], limit_s: np.ndarray, has_limit_level: bool | None = None) -> np.ndarray:
    """Codes of each level below that of all, int64 (n, levels): each owner, with the coarser ones; the finest with
    the limit; and with the whole shape. owners: int64 (n,) each, -1 = missing, coarse to fine, the shape's last.
    has_limit_level: None = if a row has a limit."""
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
    if is_limited.any() if has_limit_level is None else has_limit_level:
        whole_s = np.where(is_limited, limit_s, 0.0).astype(np.uint64)
        levels.append(np.where(is_known, joined_code(code, whole_s).astype(np.int64), -1))
    if len(owners) > 1:
        levels.append(np.where(is_known & (owners[-1] >= 0),
                               joined_code(code, owners[-1].astype(np.uint64)).astype(np.int64), -1))
    return np.column_stack(levels)


def nodes_of(codes: np.ndarray, known: Sequence[Mapping[int, int]] = ()) -> tuple[
        np.ndarray, np.ndarray, int, tuple[Mapping[int, int], ...]]:
    """Nodes of each row, int64 (n, levels), -1 = none; whether each begins anew there, bool; the number of nodes; and
    the nodes of each level at the end, by code.

    Each level has at most N_NODES_MAX; the one with the oldest last arrival makes room. Node 0 is of all. known: of
    each level, code -> node that exists before, the latest arrival last.
    """
    nodes, is_fresh = np.full(codes.shape, -1, np.int64), np.zeros(codes.shape, bool)
    n_nodes = 1 + sum(map(len, known))
    last_nodes = []
    for level in range(codes.shape[1]):
        node_of = OrderedDict(known[level] if known else ())
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
        last_nodes.append(node_of)
    return nodes, is_fresh, n_nodes, tuple(last_nodes)


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
    exported_: ExportedHabits | None
    n_features_: int
    validation_hazards_: np.ndarray
    validation_axis_: Axis
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        limit_place = limit_place_of(train, settings)
        feature = _limit_feature(settings)
        self.validation_axis_ = axis = Axis.fit(train, limit_place)
        events = self.events_ = (Events.of_log(settings.log, feature) if settings.log is not None else
                                 Events.of_examples(joined(train, valid), settings, feature))
        self.rules_ = chosen_rules(events, axis, valid, settings.seed)
        self.validation_hazards_ = events.replayed_rows(axis, self.rules_, valid)[0]
        self.validation_table_ = axis.table(self.validation_hazards_, valid)
        self.axis_ = Axis.fit(past, limit_place)
        if settings.log is None:
            self.events_ = Events.of_examples(past, settings, feature)
        found = self.events_.replayed(self.axis_, self.rules_, np.ones(len(self.events_.idx_row), bool))
        self.hazards_ = found.hazards
        self.exported_ = exported_habits(self.events_, found, self.axis_, self.rules_, None, settings)
        self.n_features_ = past.features.shape[1]
        return self

    def hazards(self, rows: Examples) -> np.ndarray:
        """Cumulative hazard of each interval, float64 (n, J + K)."""
        at, is_found = self.events_.places(rows.idx_row)
        pooled = np.log1p(np.exp(self.axis_.intervals.offsets))
        return np.where(is_found[:, None], self.hazards_[at].astype(np.float64), pooled)

    def curve_table(self, rows: Examples) -> HazardTable:
        return self.axis_.table(self.hazards(rows), rows)

    def export(self) -> Exported | None:
        """The habits, with a forest of one leaf; None without a log."""
        if self.exported_ is None:
            return None
        return Exported(self.axis_.kind, Forest.without_splits(self.n_features_ + 1), self.axis_.fields(),
                        habits=self.exported_)

    def gains(self) -> None:
        return None


ONLINE = Family(OnlineModel, "hazards counted over nested keys (owner, limit, shape) as requests run and end; no fit",
                "whole distribution", place=6, trained="by default", is_baseline=True)


def chosen_rules(events: Events, axis: Axis, valid: Examples, seed: int) -> HabitRules:
    """The constants with the lowest Brier score over ages on validation rows, one constant after the other; of
    memories that are `CLOSE` the shortest, which follows a new habit soonest."""
    events = events.recent(valid)
    if len(valid) > N_ROWS_MAX:
        valid = valid.take(np.sort(np.random.default_rng(seed).permutation(len(valid))[:N_ROWS_MAX]))

    def score(rules: HabitRules) -> float:
        hazards, _ = events.replayed_rows(axis, rules, valid)
        return BrierOverAges.of(axis.table(hazards, valid), valid).score()

    rules = HabitRules()
    scores = {rules: score(rules)}
    for name, values in GRID:
        trials = [rules._replace(**{name: value}) for value in values]
        scores |= {trial: score(trial) for trial in trials if trial not in scores}
        bound = min(scores[trial] for trial in trials) * (CLOSE if name == "memory" else 1.0)
        rules = next((trial for trial in trials if scores[trial] <= bound), rules)  # NaN: no score
    return rules


def joined(first: Examples, second: Examples) -> Examples:
    """Both windows one after the other."""
    features, lifetime_s, is_event, entry_s, arrival_s, idx_row = (
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("features", "lifetime_s", "is_event", "entry_s", "arrival_s", "idx_row"))
    keys = tuple(np.concatenate(codes) for codes in zip(first.keys, second.keys, strict=True))
    return Examples(features, keys, lifetime_s, is_event, entry_s, arrival_s, idx_row, begin_s=first.begin_s)


PRIORS = (1.0, 10.0, 100.0)
"""Weights of the overall weight beside an owner's, to choose from on the validation window."""
FAST_PRIORS = (2.0, 4.0, 8.0, 16.0, 32.0)
"""`HabitRules.fast_prior` in a blend, to choose from there: beside a model the last ends often count for less."""


class _Trial(NamedTuple):
    """Constants of a blend, its curves of the validation rows and their Brier score over ages."""

    habit_rules: HabitRules
    rules: BlendRules
    table: HazardTable
    score: float


class BlendModel:
    """`hazard` and `online`, and weights that go on changing. Models in `settings.fitted` are used again.

    The weights begin at one half where the validation window begins, since the losses of a model on its training window
    are too small. There the losses are those of the model that was fitted before it; later, of the final one.
    """

    name = "blend"
    clipped_share_ = math.nan
    hazard_: HazardModel
    online_: OnlineModel
    rules_: BlendRules
    habit_rules_: HabitRules
    hazards_: np.ndarray
    weights_: np.ndarray
    exported_: ExportedHabits | None
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        own_model, known_model = settings.fitted.get("hazard"), settings.fitted.get("online")
        self.hazard_ = (own_model if isinstance(own_model, HazardModel)
                        else HazardModel().fit(train, valid, past, settings))
        self.online_ = (known_model if isinstance(known_model, OnlineModel)
                        else OnlineModel().fit(train, valid, past, settings))
        of_valid, axis = self.hazard_.validation_hazards_, self.online_.validation_axis_
        self._choose(train, valid, of_valid, settings)
        predicted = [(valid, resampled(of_valid, axis, self.online_.axis_))]
        if settings.log is not None:
            later = _later(settings.log, past)
            predicted.append((later, self.hazard_.hazards(later)))
        events = self.online_.events_
        axis, rules = self.online_.axis_, self.habit_rules_
        found = events.replayed(axis, rules, np.ones(len(events.idx_row), bool),
                                _weighing(self.rules_, events, predicted))
        self.hazards_, self.weights_ = found.hazards, found.weights
        self.exported_ = exported_habits(events, found, axis, rules, self.rules_, settings)
        return self

    def _choose(self, train: Examples, valid: Examples, of_valid: np.ndarray, settings: FitSettings) -> None:
        axis, online = self.online_.validation_axis_, self.online_
        events = (online.events_ if settings.log is not None else
                  Events.of_examples(joined(train, valid), settings, _limit_feature(settings)))

        def trial(habit_rules: HabitRules, rules: BlendRules) -> _Trial:
            known, weights = events.replayed_rows(axis, habit_rules, valid,
                                                  _weighing(rules, events, [(valid, of_valid)]))
            table = axis.table(mixed(of_valid, known, weights, axis), valid)
            return _Trial(habit_rules, rules, table, BrierOverAges.of(table, valid).score())

        def better(best: _Trial, habit_rules: list[HabitRules], rules: list[BlendRules]) -> _Trial:
            for other in threads.map(trial, habit_rules, rules):
                best = other if other.score < best.score else best
            return best

        with ThreadPoolExecutor(settings.n_threads) as threads:  # the loop runs without Python's lock
            habit_rules = [online.rules_._replace(fast_prior=value) for value in FAST_PRIORS
                           if value != online.rules_.fast_prior]
            best = better(trial(online.rules_, BlendRules()), habit_rules, [BlendRules()] * len(habit_rules))
            priors = [BlendRules(prior=prior) for prior in PRIORS if prior != best.rules.prior]
            best = better(best, [best.habit_rules] * len(priors), priors)
        self.habit_rules_, self.rules_, self.validation_table_, _ = best

    def curve_table(self, rows: Examples) -> HazardTable:
        axis = self.online_.axis_
        of_model = self.hazard_.hazards(rows)
        at, is_found = self.online_.events_.places(rows.idx_row)
        of_rows = mixed(of_model, self.hazards_[at].astype(np.float64), self.weights_[at].astype(np.float64), axis)
        return axis.table(np.where(is_found[:, None], of_rows, of_model), rows)

    def export(self) -> Exported | None:
        """The hazard model, and the habits that it is mixed with; None without a log."""
        return None if self.exported_ is None else replace(self.hazard_.export(), habits=self.exported_)

    def gains(self) -> np.ndarray | None:
        return self.hazard_.gains()


BLEND = Family(BlendModel, "`hazard` and `online`, weighted by both families' latest losses at each owner",
               "whole distribution", place=1, trained="by default", combines=("hazard", "online"))


def mixed(of_model: np.ndarray, of_habits: np.ndarray, weights: np.ndarray, axis: Axis) -> np.ndarray:
    """Hazards (n, J + K) of both with the model's weights in each bucket (n, B)."""
    each = weights[:, buckets_of(axis)]
    return each * of_model + (1.0 - each) * of_habits


def resampled(hazards: np.ndarray, axis: Axis, other: Axis) -> np.ndarray:
    """Cumulative hazards (n, J + K) on the intervals of another axis of the same kind; rates are constant within an
    interval, and beyond the last one that of the last."""
    n_ages = axis.n_ages
    shared = _overlaps(axis.intervals.edges, other.intervals.edges)
    ages = hazards[:, :n_ages] @ shared
    return np.column_stack([ages, hazards[:, n_ages:]])


def _overlaps(edges: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The part of each interval that lies in each of the others, float64 (J, J2)."""
    stretched = np.append(edges[:-1], max(edges[-1], others[-1]))
    low = np.maximum(stretched[:-1, None], others[None, :-1])
    high = np.minimum(stretched[1:, None], others[None, 1:])
    parts: np.ndarray = np.maximum(high - low, 0.0) / np.diff(edges)[:, None]
    return parts


def _weighing(rules: BlendRules, events: Events, predicted: list[tuple[Examples, np.ndarray]]) -> Weighing:
    """The model's hazards of these examples, at their events."""
    places = [events.places(rows.idx_row)[0] for rows, _ in predicted]
    n, first = len(events.idx_row), min(int(at.min()) for at in places if len(at))
    model = np.zeros((n - first, predicted[0][1].shape[1]), np.float32)
    is_weighed = np.zeros(n - first, bool)
    for at, (_, hazards) in zip(places, predicted, strict=True):
        model[at - first], is_weighed[at - first] = hazards, True
    return Weighing(rules, model, is_weighed)


N_NODES_EXPORTED = 1_000
"""The most nodes of a level in a bundle: those with the latest arrivals."""


def exported_habits(events: Events, found: Replayed, axis: Axis, rules: HabitRules, blend: BlendRules | None,
                    settings: FitSettings) -> ExportedHabits | None:
    """The habits at the end of the log for a bundle; None without a log. blend: None = the model has no weight.

    Counts have 11 bits, so that they pack well.
    """
    if settings.log is None:
        return None
    codes = [(level, code, node) for level, nodes in enumerate(events.last_nodes)
             for code, node in list(nodes.items())[-N_NODES_EXPORTED:]]
    kept = [0, *(node for _, _, node in codes)]
    fields = {
        "keys": [name for name, is_owner in zip(settings.log.rows.key_names, settings.log.is_owner, strict=True)
                 if is_owner],
        "has_limit_level": bool(events.nodes.shape[1] > max(events.owner_level + 1, 0) + (events.owner_level >= 0)),
        "rules": list(rules), "blend": list(blend or BlendRules()), "is_blended": blend is not None,
        "buckets": buckets_of(axis).tolist(),
    }  # fmt: skip
    counts = found.counts[kept].ravel().astype(np.float16).astype(np.float64)
    return ExportedHabits(fields, {
        "codes": np.array([(level, code) for level, code, _ in codes], np.int64).reshape(-1, 2), "counts": counts,
        "sums": found.sums[kept].ravel().astype(np.float32).astype(np.float64)})


def _later(log: EventLog, past: Examples) -> Examples:
    """The rows of a log that were decided after all of `past`."""
    is_later = np.zeros(len(log.rows), bool)
    is_later[int(past.idx_row.max()) + 1:] = True
    return known_at(log.rows, is_later, None, is_late_entry=False)


def _limit_feature(settings: FitSettings) -> int:
    return settings.names.index(LIMIT) if LIMIT in settings.names else -1
