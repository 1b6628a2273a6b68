"""The family without a fit: what it counts, what it may know, and the odd traces that it answers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import known_at, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models.lifetime import EventLog, FitSettings, HazardModel
from sojourn.models.lifetime.intervals import Axis, Intervals
from sojourn.models.lifetime.online import BlendModel, Events, OnlineModel, level_codes, nodes_of, resampled
from sojourn.models.measures import BrierOverAges
from sojourn.serving.curves import habit_kernels as rules_of_habits
from sojourn.serving.curves.habit_kernels import (
    BlendRules,
    HabitRules,
    advance,
    begin,
    fill_hazards,
    fill_weights,
    finish,
    new_blend,
    new_habits,
    new_open,
)


def _fitted(trace: Trace) -> tuple[OnlineModel, FeatureRows]:
    model, _, rows = _both(trace, is_blend=False)
    return model, rows


FAST = {"num_leaves": 7, "learning_rate": 0.4}


def _both(trace: Trace, *, is_blend: bool = True,
          params: dict[str, float] | None = FAST) -> tuple[OnlineModel, BlendModel, FeatureRows]:
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows, 0.3, 0.2)
    settings = FitSettings(backoff_keys(encoder), 1, 0, params, rows.names,
                           log=EventLog.of(rows, encoder.history))
    online = OnlineModel().fit(split.train, split.valid, split.past, settings)
    blend = BlendModel()
    if is_blend:
        blend.fit(split.train, split.valid, split.past, replace(settings, fitted={"online": online}))
    return online, blend, rows


def _changed_after(trace: Trace, cut_s: int) -> Trace:
    """All ends after the cut are others, and all later requests have other sizes and owners."""
    rng = np.random.default_rng(0)
    table, start_s, end_s = trace.requests.copy(), trace.start_s(), trace.end_s()
    is_later = start_s >= cut_s
    order = rng.permutation(np.flatnonzero(is_later))
    for name in ("cpu_cores", "mem_gib", *trace.roles.columns()):
        table.loc[is_later, name] = table[name].to_numpy()[order]
    is_unknown = end_s > cut_s
    ends = np.where(is_unknown, rng.integers(np.maximum(start_s, cut_s) + 1, trace.horizon_s + 1), end_s)
    runs_on = np.where(is_unknown, rng.random(len(table)) < 0.3, ~trace.is_event())
    table["departure_s"] = pd.array(ends, "Int64")
    table.loc[runs_on, "departure_s"] = pd.NA
    return Trace(table, trace.horizon_s, trace.roles, meta=trace.meta)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return synthesize(1_500, seed=3)


@pytest.fixture(scope="module")
def learnt(trace: Trace) -> tuple[OnlineModel, BlendModel, FeatureRows]:
    return _both(trace)


@pytest.mark.parametrize("share", [0.75, pytest.param(0.95, marks=pytest.mark.slow)])
def test_no_row_sees_what_becomes_known_after_its_decision(
        trace: Trace, learnt: tuple[OnlineModel, BlendModel, FeatureRows], share: float) -> None:
    """All that is known after a cut is changed at random: 0 cells of the rows that were decided before differ."""
    model, blend, rows = learnt
    cut_s = int(np.quantile(rows.decided_s, share))
    other, other_blend, changed = _both(_changed_after(trace, cut_s))
    assert other.rules_ == model.rules_ and other_blend.rules_ == blend.rules_
    n = int((rows.decided_s < cut_s).sum())
    np.testing.assert_array_equal(rows.idx_request[:n], changed.idx_request[:n])
    assert int((model.hazards_[:n] != other.hazards_[:n]).sum()) == 0
    assert int((blend.weights_[:n] != other_blend.weights_[:n]).sum()) == 0
    m = min(len(rows), len(changed))
    assert (model.hazards_[n:m] != other.hazards_[n:m]).any()
    assert (blend.weights_[n:m] != other_blend.weights_[n:m]).any()
    before = known_at(rows, np.arange(len(rows)) < n, cut_s)
    np.testing.assert_array_equal(blend.curve_table(before).quantile(0.5, 0.0),
                                  other_blend.curve_table(before).quantile(0.5, 0.0))


def test_an_end_is_known_from_its_own_second_on() -> None:
    """Two equal requests, and the first ends at 100 s: a decision at 99 s does not know it, one at 100 s does."""
    for decided_s, is_known in ((99, False), (100, True)):
        events = Events(np.array([0.0, decided_s]), np.array([0.0, decided_s]), np.array([100.0, 50.0]), np.zeros(2),
                        np.ones(2, bool), np.full(2, math.nan), np.arange(2), *nodes_of(np.array([[1], [1]])), 0)
        axis = Axis(Intervals(EDGES, np.zeros(3), 1.0, EDGES))
        found = events.replayed(axis, HabitRules(), np.ones(2, bool)).hazards
        assert (found[1, 1] > np.log(2.0) + 1e-3) == is_known  # 0.5 before anything is counted
        assert found[1, 0] < np.log(2.0)  # the first ran through the first interval


def test_constants_are_tried_on_what_came_before_the_window_only(
        learnt: tuple[OnlineModel, BlendModel, FeatureRows], monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, rows = learnt
    split = split_by_time(rows, 0.3, 0.15)
    order = np.sort(model.events_.places(split.valid.idx_row)[0])
    assert len(model.events_.recent(split.valid).idx_row) == order[-1] + 1  # a short log: from its begin
    monkeypatch.setattr("sojourn.models.lifetime.online.N_BEFORE", 100)
    monkeypatch.setattr("sojourn.models.lifetime.online.N_RECENT", 10)
    recent = model.events_.recent(split.valid)
    np.testing.assert_array_equal(recent.idx_row, model.events_.idx_row[order[0] - 100:order[-1] + 1])
    assert np.isin(split.valid.idx_row, recent.idx_row).all()
    monkeypatch.setattr("sojourn.models.lifetime.online.N_RECENT", 700)
    assert len(model.events_.recent(split.valid).idx_row) == 700


EDGES = np.array([0.0, 10.5, 100.5, 1_000.5])
BASE = np.array([0.5, 0.5, 0.5])
NO_BLEND = new_blend(BlendRules(), np.zeros(6), -1, 2, 0)


def _answers(habits: rules_of_habits.Habits, nodes: list[int]) -> np.ndarray:
    """Hazards of the intervals, not cumulative."""
    found = np.empty(len(habits.base))
    fill_hazards(habits, np.array(nodes), found)
    return 1.0 - np.exp(-found)


def test_counts_and_answers_by_hand() -> None:
    rules = HabitRules(all_memory=1e9, memory=4.0, fast_memory=2.0, prior=2.0, fast_prior=1.0)
    habits, ones = new_habits(EDGES, np.empty(0), BASE, rules, 2), new_open(4, 1)
    ones.nodes[:, 0] = 1
    ones.limit_s[:] = math.nan
    begin(habits, ones, 0, 0, 0.0)
    begin(habits, ones, 1, 1, 0.0)
    advance(habits, ones, NO_BLEND, 11.0)  # both came through the first interval
    # slow: 1, then 1 + 1 - 1/4; fast: 1, then 1 + 1 - 1/2
    np.testing.assert_allclose(habits.counts[1, 0], [1.75, 0.0, 1.5, 0.0])
    finish(habits, ones, NO_BLEND, 0, 50.0, True)  # it ends in the second
    np.testing.assert_allclose(habits.counts[1, 1], [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(habits.counts[1, 2], 0.0)
    # Of all: (0 + 2 * 0.5) / (2 + 2) = 0.25 (its memory is endless). Slow: 2 * 0.25 / 3.75; fast: that / 2.5.
    first = 0.5 / 3.75 / 2.5
    # Of all: (1 + 1) / 3. Slow: (1 + 2 * 2/3) / 3 = 7/9. Fast: (1 + 7/9) / 2 = 8/9.
    np.testing.assert_allclose(_answers(habits, [1]), [first, 8.0 / 9.0, 0.5])
    np.testing.assert_allclose(_answers(habits, [-1]), [0.25, 2.0 / 3.0, 0.5])


def test_a_censored_request_counts_as_far_as_it_came() -> None:
    habits, ones = new_habits(EDGES, np.empty(0), BASE, HabitRules(), 1), new_open(2, 0)
    begin(habits, ones, 0, 0, 0.0)
    begin(habits, ones, 1, 1, 50.0)  # seen from 50 s on: the second interval is not whole
    advance(habits, ones, NO_BLEND, 101.0)
    finish(habits, ones, NO_BLEND, 0, 101.0, False)
    np.testing.assert_allclose(habits.counts[0, :, 0], [1.0, 1.0, 0.0])
    advance(habits, ones, NO_BLEND, 5_000.0)
    np.testing.assert_allclose(habits.counts[0, :, 0], [1.0, 1.0, 1.0])
    assert habits.counts[0, :, 1].sum() == 0.0


def test_ends_at_the_limit_are_counted_on_the_axis_of_the_limit() -> None:
    shares = np.array([0.5, 0.99, 1.01, 2.0])
    habits, ones = new_habits(EDGES, shares, np.full(6, 0.5), HabitRules(), 1), new_open(1, 0)
    ones.limit_s[0] = 100.0
    begin(habits, ones, 0, 0, 0.0)
    finish(habits, ones, NO_BLEND, 0, 100.0, True)
    np.testing.assert_allclose(habits.counts[0, :, 1], [0, 0, 0, 0, 1.0, 0])
    advance(habits, ones, NO_BLEND, 5_000.0)
    assert habits.counts[0, :, 0].sum() == 1.0  # it is followed no longer


def test_a_level_keeps_so_many_nodes_and_drops_the_longest_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.models.lifetime import online

    monkeypatch.setattr(online, "N_NODES_MAX", 2)
    nodes, is_fresh, n_nodes, last = nodes_of(np.array([[7], [8], [7], [9], [8], [-1]]))
    assert nodes[:, 0].tolist() == [1, 2, 1, 2, 1, -1]  # 9 takes the place of 8, then 8 that of 7
    assert is_fresh[:, 0].tolist() == [True, True, False, True, True, False]
    assert n_nodes == 3
    assert [*last[0].items()] == [(9, 2), (8, 1)]


def test_levels_are_nested_and_a_missing_owner_has_none() -> None:
    user, shape = np.array([5, 5, 6, -1]), np.array([1, 2, 1, -1])
    limit_s = np.array([600.0, 600.0, math.nan, 600.0])
    codes = level_codes([user, shape], limit_s)
    assert codes.shape == (4, 3)
    assert codes[0, 0] == codes[1, 0] != codes[2, 0]
    assert codes[0, 1] == codes[1, 1] != codes[2, 1]
    assert codes[0, 2] != codes[1, 2] and codes[0, 2] != codes[2, 2]
    assert codes[3].tolist() == [-1, -1, -1]
    assert level_codes([user], np.full(4, math.nan)).shape == (4, 1)
    assert level_codes([], limit_s).shape == (4, 0)


def _trace(n: int, owners: list[str], lifetimes_s: np.ndarray, gap_s: int = 60) -> Trace:
    start_s = gap_s * np.arange(n)
    table = pd.DataFrame({"request_id": range(n), "arrival_s": start_s, "departure_s": start_s + lifetimes_s,
                          "cpu_cores": 1.0, "mem_gib": 1.0, "user": owners})
    horizon_s = int(start_s[-1]) + 1
    table["departure_s"] = table["departure_s"].astype("Int64").mask(table["departure_s"] > horizon_s)
    return Trace(table, horizon_s, Roles(owners=("user",)))


def test_one_owner_and_a_first_request_are_answered() -> None:
    rng = np.random.default_rng(0)
    lifetimes_s = np.ceil(rng.exponential(300.0, 400)).astype(np.int64)
    owners = ["ann"] * 399 + ["new"]
    model, rows = _fitted(_trace(400, owners, lifetimes_s))
    table = model.axis_.table(model.hazards_.astype(np.float64), split_by_time(rows).past)
    medians = table.quantile(0.5, 0.0)
    assert 120 < np.median(medians[200:]) < 350  # the true median is 208 s
    assert 120 < medians[-1] < 350  # a new owner has the curve of all


def test_an_owner_of_whom_nothing_ends_lives_longer_than_the_others() -> None:
    """All requests of one owner still run: their ages alone raise its curve."""
    n, rng = 600, np.random.default_rng(0)
    owners = np.where(np.arange(n) % 2 == 0, "ann", "bob")
    lifetimes_s = np.where(owners == "ann", 10_000_000, np.ceil(rng.exponential(300.0, n))).astype(np.int64)
    model, _ = _fitted(_trace(n, owners.tolist(), lifetimes_s))
    later = slice(n // 2, None)
    survival = np.exp(-model.hazards_[later].sum(axis=1))
    assert survival[owners[later] == "ann"].min() > survival[owners[later] == "bob"].max()


def test_weights_are_the_least_squares_of_what_was_predicted() -> None:
    """Two requests in one interval, model .8 and habits .4; one ends there, one comes through."""
    rules = BlendRules(all_memory=1e9, memory=1e9, all_prior=0.1, prior=0.2)
    habits, ones = new_habits(EDGES, np.empty(0), BASE, HabitRules(), 2), new_open(2, 1)
    blend = new_blend(rules, np.zeros(3), 0, 2, 2)
    ones.nodes[:, 0] = 1
    ones.limit_s[:] = math.nan
    blend.model[:], blend.known[:], blend.is_weighed[:] = -np.log(0.2), -np.log(0.6), True
    weights = np.empty(1)
    fill_weights(blend, np.array([1]), weights)
    assert weights[0] == 0.5  # before anything ended
    for place in (0, 1):
        begin(habits, ones, place, place, 0.0)
    finish(habits, ones, blend, 0, 5.0, True)
    # Squares .4 * .4, product (1 - .4) * .4: over all (.24 + .05) / (.16 + .1), cut to 1; the owner's (.24 + .2) / .36.
    fill_weights(blend, np.array([1]), weights)
    assert weights[0] == 1.0
    advance(habits, ones, blend, 11.0)
    # The other adds .16 and (0 - .4) * .4: over all (.08 + .05) / (.32 + .1), the owner's (.08 + .2 * .3095) / .52.
    fill_weights(blend, np.array([1]), weights)
    np.testing.assert_allclose(weights[0], (0.08 + 0.2 * 0.13 / 0.42) / 0.52, rtol=1e-6)
    fill_weights(blend, np.array([-1]), weights)
    np.testing.assert_allclose(weights[0], 0.13 / 0.42, rtol=1e-6)  # another owner


def test_a_censored_request_adds_only_the_losses_of_the_intervals_that_it_came_through() -> None:
    habits, ones = new_habits(EDGES, np.empty(0), BASE, HabitRules(), 1), new_open(1, 0)
    blend = new_blend(BlendRules(), np.arange(3), -1, 1, 1)
    ones.limit_s[:] = math.nan
    blend.model[:], blend.known[:], blend.is_weighed[:] = 0.1, 0.5, True
    begin(habits, ones, 0, 0, 0.0)
    advance(habits, ones, blend, 101.0)
    finish(habits, ones, blend, 0, 101.0, False)
    advance(habits, ones, blend, 1e9)
    assert (blend.sums[0, :, 0] > 0.0).tolist() == [True, True, False]


def test_hazards_on_another_axis_keep_their_rates() -> None:
    axis = Axis(Intervals(np.array([0.0, 10.5, 100.5]), np.zeros(2), 1.0, EDGES))
    other = Axis(Intervals(np.array([0.0, 5.25, 55.5, 190.5]), np.zeros(3), 1.0, EDGES))
    # Half of the first; the other half and half of the second; the rest, and as much again beyond it: 90 s at its rate.
    np.testing.assert_allclose(resampled(np.array([[1.0, 9.0]]), axis, other), [[0.5, 0.5 + 4.5, 4.5 + 9.0]])


def _habits_changed(n: int, seed: int, change: float) -> Trace:
    """Owner u0 has half of the requests; from that share on they live five times as long. 20 others do not change."""
    rng = np.random.default_rng(seed)
    owner = rng.choice(21, n, p=[0.5] + [0.025] * 20)
    median_log10 = np.random.default_rng(99).uniform(2.5, 3.8, 21)
    median_log10[0] = 3.0
    log_s = median_log10[owner] + 0.25 * rng.standard_normal(n)
    log_s += math.log10(5.0) * ((owner == 0) & (np.arange(n) >= change * n))
    return _trace(n, [f"u{one}" for one in owner], np.maximum(np.rint(10.0**log_s), 1.0).astype(np.int64))


@pytest.mark.slow
def test_a_habit_that_changes_by_five_is_nearly_learnt_after_two_hundred_ends() -> None:
    """On the next 600 requests of that owner: the blend within 5 % of a model that was fitted to the new habit, mean
    of three seeds (1.043). That model is fitted to another draw, so it has not seen these requests."""
    n, ratios = 8_000, []
    for seed in range(3):
        trace = _habits_changed(n, seed, 0.7)
        _, blend, rows = _both(trace, params=None)
        others = build_rows(_habits_changed(n, seed + 10, 0.0), default_encoder(trace))
        split = split_by_time(others, 0.3, 0.15)
        refitted = HazardModel().fit(split.train, split.valid, split.past, FitSettings(n_threads=1, names=others.names))
        is_big = trace.requests["user"].iloc[rows.idx_request].to_numpy() == "u0"
        is_late = is_big & (np.arange(n) >= 0.7 * n)
        end_s = rows.arrival_s + rows.lifetime_s
        from_s = np.sort(end_s[is_late & rows.is_event])[199]
        is_judged = is_late & (rows.decided_s > from_s)
        is_judged &= np.cumsum(is_judged) <= 600
        judged = known_at(rows, is_judged, None)
        assert len(judged) == 600
        ratios.append(BrierOverAges.of(blend.curve_table(judged), judged).score()
                      / BrierOverAges.of(refitted.curve_table(judged), judged).score())
    assert np.mean(ratios) < 1.05


def test_of_requests_that_are_nearly_all_censored_curves_are_curves() -> None:
    """One end in the training window and one in the validation window: all answers are finite, and long."""
    trace = synthesize(400, seed=5)
    table = trace.requests.copy()
    ends = table["departure_s"].copy()
    order = np.argsort(ends.fillna(trace.horizon_s).to_numpy())
    ends[:] = pd.NA
    for one in (order[0], order[len(order) * 3 // 5]):
        ends.iloc[one] = table["departure_s"].iloc[one]
    online, blend, rows = _both(Trace(table.assign(departure_s=ends), trace.horizon_s, trace.roles))
    everything = known_at(rows, np.ones(len(rows), bool), None)
    for model in (online, blend):
        survival = model.curve_table(everything).survival(600.0, 0.0)
        assert np.isfinite(survival).all() and survival.mean() > 0.9
