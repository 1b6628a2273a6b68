"""The family without a fit: what it counts, what it may know, and the odd traces that it answers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models.lifetime import LIFETIME_MODELS, EventLog, FitSettings
from sojourn.models.lifetime.intervals import Axis, Intervals
from sojourn.models.lifetime.online import Events, OnlineModel, _nodes, level_codes
from sojourn.serving.live import habits as rules_of_habits
from sojourn.serving.live.habits import HabitRules, advance, begin, fill_hazards, finish, new_habits, new_open


def _fitted(trace: Trace) -> tuple[OnlineModel, FeatureRows]:
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows, 0.3, 0.2)
    settings = FitSettings(backoff_keys(encoder), 1, 0, names=rows.names, log=EventLog.of(rows, encoder.history))
    model = LIFETIME_MODELS["online"]().fit(split.train, split.valid, split.past, settings)
    assert isinstance(model, OnlineModel)
    return model, rows


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


@pytest.mark.parametrize("share", [0.75, 0.85, 0.95])
def test_no_row_sees_what_becomes_known_after_its_decision(trace: Trace, share: float) -> None:
    """All that is known after a cut is changed at random: 0 cells of the rows that were decided before differ."""
    model, rows = _fitted(trace)
    cut_s = int(np.quantile(rows.decided_s, share))
    other, changed = _fitted(_changed_after(trace, cut_s))
    assert other.rules_ == model.rules_
    n = int((rows.decided_s < cut_s).sum())
    np.testing.assert_array_equal(rows.idx_request[:n], changed.idx_request[:n])
    assert int((model.hazards_[:n] != other.hazards_[:n]).sum()) == 0
    assert (model.hazards_[n:] != other.hazards_[n:len(model.hazards_)]).any()


def test_an_end_is_known_from_its_own_second_on() -> None:
    """Two equal requests, and the first ends at 100 s: a decision at 99 s does not know it, one at 100 s does."""
    for decided_s, is_known in ((99, False), (100, True)):
        events = Events(np.array([0.0, decided_s]), np.array([0.0, decided_s]), np.array([100.0, 50.0]), np.zeros(2),
                        np.ones(2, bool), np.array([[1], [1]]), np.full(2, math.nan), np.arange(2))
        axis = Axis(Intervals(EDGES, np.zeros(3), 1.0, EDGES))
        found = events.hazards(axis, HabitRules(), np.ones(2, bool))
        assert (found[1, 1] > np.log(2.0) + 1e-3) == is_known  # 0.5 before anything is counted
        assert found[1, 0] < np.log(2.0)  # the first ran through the first interval


EDGES = np.array([0.0, 10.5, 100.5, 1_000.5])
BASE = np.array([0.5, 0.5, 0.5])


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
    advance(habits, ones, 11.0)  # both came through the first interval
    # slow: 1, then 1 + 1 - 1/4; fast: 1, then 1 + 1 - 1/2
    np.testing.assert_allclose(habits.counts[1, 0], [1.75, 0.0, 1.5, 0.0])
    finish(habits, ones, 0, 50.0, True)  # it ends in the second
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
    advance(habits, ones, 101.0)
    finish(habits, ones, 0, 101.0, False)
    np.testing.assert_allclose(habits.counts[0, :, 0], [1.0, 1.0, 0.0])
    advance(habits, ones, 5_000.0)
    np.testing.assert_allclose(habits.counts[0, :, 0], [1.0, 1.0, 1.0])
    assert habits.counts[0, :, 1].sum() == 0.0


def test_ends_at_the_limit_are_counted_on_the_axis_of_the_limit() -> None:
    shares = np.array([0.5, 0.99, 1.01, 2.0])
    habits, ones = new_habits(EDGES, shares, np.full(6, 0.5), HabitRules(), 1), new_open(1, 0)
    ones.limit_s[0] = 100.0
    begin(habits, ones, 0, 0, 0.0)
    finish(habits, ones, 0, 100.0, True)
    np.testing.assert_allclose(habits.counts[0, :, 1], [0, 0, 0, 0, 1.0, 0])
    advance(habits, ones, 5_000.0)
    assert habits.counts[0, :, 0].sum() == 1.0  # it is followed no longer


def test_a_level_keeps_so_many_nodes_and_drops_the_longest_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.models.lifetime import online

    monkeypatch.setattr(online, "N_NODES_MAX", 2)
    nodes, is_fresh, n_nodes = _nodes(np.array([[7], [8], [7], [9], [8], [-1]]))
    assert nodes[:, 0].tolist() == [1, 2, 1, 2, 1, -1]  # 9 takes the place of 8, then 8 that of 7
    assert is_fresh[:, 0].tolist() == [True, True, False, True, True, False]
    assert n_nodes == 3


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
