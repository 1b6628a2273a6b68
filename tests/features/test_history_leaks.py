"""Nothing of the future reaches a feature, a split or a label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.features import Roles, Trace
from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.split import Split, known_at, split_by_time
from sojourn.features.synthetic import synthesize


@pytest.fixture(scope="module")
def trace() -> Trace:
    return synthesize(1_500, seed=3)


@pytest.fixture(scope="module")
def rows(trace: Trace) -> FeatureRows:
    return build_rows(trace, default_encoder(trace))


def _after_shuffled(trace: Trace, cut_s: int, seed: int) -> Trace:
    """Everything that became known after the cut changed at random: later requests, and later departures."""
    rng = np.random.default_rng(seed)
    table = trace.requests.copy()
    start, end = trace.start_s(), trace.end_s()
    is_later = start >= cut_s
    order = rng.permutation(np.flatnonzero(is_later))
    for name in ("cpu_cores", "mem_gib", *trace.roles.columns()):
        table.loc[is_later, name] = table[name].to_numpy()[order]
    changes = ~is_later & (end > cut_s) | is_later
    new_end = np.where(changes, rng.integers(np.maximum(start, cut_s) + 1, trace.horizon_s + 1), end)
    is_running = np.where(changes, rng.random(len(table)) < 0.3, ~trace.is_event())
    table["departure_s"] = pd.array(np.where(is_running, 0, new_end), "Int64")
    table.loc[is_running, "departure_s"] = pd.NA
    return Trace(table, trace.horizon_s, trace.roles, meta=trace.meta)


def _split(trace: Trace) -> Split:
    return split_by_time(build_rows(trace, default_encoder(trace)), 0.3, 0.2)


def test_windows_without_gaps_copy_no_features(rows: FeatureRows) -> None:
    split = split_by_time(rows, 0.3, 0.2)
    for window in (split.train, split.valid, split.past, split.test):
        has_gaps = bool((np.diff(window.idx_row) != 1).any())
        assert np.shares_memory(window.features, rows.features) != has_gaps
        np.testing.assert_array_equal(window.features, rows.features[window.idx_row])
    odd = known_at(rows, np.arange(len(rows)) % 2 == 1, None)
    assert not np.shares_memory(odd.features, rows.features)
    np.testing.assert_array_equal(odd.features, rows.features[odd.idx_row])
    assert len(known_at(rows, np.zeros(len(rows), bool), None).features) == 0


@pytest.mark.parametrize("seed", range(3))
def test_shuffling_everything_after_the_cut_changes_nothing_in_training(trace: Trace, rows: FeatureRows,
                                                                        seed: int) -> None:
    before = split_by_time(rows, 0.3, 0.2)
    after = _split(_after_shuffled(trace, before.test_from_s, seed))
    assert after.test_from_s == before.test_from_s
    for window in ("train", "valid", "past"):
        one, other = getattr(before, window), getattr(after, window)
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.lifetime_s, other.lifetime_s)
        np.testing.assert_array_equal(one.is_event, other.is_event)
        assert all(np.array_equal(a, b) for a, b in zip(one.keys, other.keys, strict=True))


def test_the_shuffle_does_change_the_test_window(trace: Trace, rows: FeatureRows) -> None:
    before = split_by_time(rows, 0.3, 0.2)
    after = _split(_after_shuffled(trace, before.test_from_s, 0))
    assert not np.array_equal(before.test.features, after.test.features, equal_nan=True)


@settings(deadline=None, max_examples=15)
@given(idx=st.integers(0, 1_400), shift=st.integers(1, 10**6))
def test_a_row_does_not_see_its_own_end(trace: Trace, rows: FeatureRows, idx: int, shift: int) -> None:
    table = trace.requests.copy()
    own_end = int(trace.end_s()[idx])
    table.loc[idx, "departure_s"] = min(own_end + shift, trace.horizon_s)
    changed = build_rows(Trace(table, trace.horizon_s, trace.roles, meta=trace.meta), default_encoder(trace))
    position = np.flatnonzero(rows.idx_request == idx)
    np.testing.assert_array_equal(rows.features[position], changed.features[position])
    is_before = rows.decided_s < own_end
    np.testing.assert_array_equal(rows.features[is_before], changed.features[is_before])


def _three(ends: list[int | None], submits: list[int] | None = None) -> Trace:
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": [0, 50, 100], "departure_s": ends,
                          "cpu_cores": 1.0, "mem_gib": 1.0, "user": "ann"})
    if submits is not None:
        table["submit_s"] = submits
    return Trace(table, 1_000, Roles(owners=("user",)))


def test_an_end_is_seen_by_a_request_of_the_same_second_and_not_before() -> None:
    rows = build_rows(_three([100, None, None]), default_encoder(_three([100, None, None])))
    last = rows.names.index("user:last")
    # a ends at 100 after 100 s: b (at 50) does not know it, c (at 100) does: log10(100) = 2
    assert np.isnan(rows.features[:2, last]).all()
    assert rows.features[2, last] == 2.0


def test_jobs_are_asked_at_submission_and_live_from_their_start() -> None:
    trace = _three([90, None, None], submits=[0, 10, 20])
    rows = build_rows(trace, default_encoder(trace))
    assert rows.decided_s.tolist() == [0, 10, 20]
    assert np.isnan(rows.features[:, rows.names.index("user:last")]).all()  # a ended at 90, after all had asked
    assert rows.lifetime_s.tolist() == [90, 950, 900]


def test_a_request_still_running_at_a_cut_is_censored_there() -> None:
    rows = build_rows(_three([40, 500, None]), default_encoder(_three([40, 500, None])))
    known = known_at(rows, np.ones(3, bool), 120)
    assert known.lifetime_s.tolist() == [40.0, 70.0, 20.0]
    assert known.is_event.tolist() == [True, False, False]


def test_running_at_zero_enters_at_its_age() -> None:
    table = pd.DataFrame({"request_id": [1, 2, 3], "arrival_s": [-60, None, 10], "departure_s": [40, 50, None],
                          "cpu_cores": 1.0, "mem_gib": 1.0})
    trace = Trace(table, 100)
    rows = build_rows(trace, default_encoder(trace))
    assert len(rows) == 2  # an unknown start has no row
    known = known_at(rows, np.ones(2, bool), None)
    assert known.entry_s.tolist() == [60.0, 0.0]
    assert known.lifetime_s.tolist() == [100.0, 90.0]


MONDAY_S = 1_704_067_200
"""2024-01-01 00:00 UTC."""


@pytest.fixture(scope="module")
def undated(trace: Trace) -> Trace:
    """The same requests on a clock of their own that begins on a Monday, and some of them ran before its 0."""
    own = trace.since_begin()
    assert trace.begin_s == MONDAY_S and (own.start_s() < 0).sum() > 5
    return own


@pytest.mark.parametrize("window_s", [None, 0, 7 * 86_400])
def test_the_clock_of_a_trace_changes_no_window_label_or_feature(undated: Trace, window_s: int | None) -> None:
    """What ran before the begin enters at its age there also if the begin is a Unix second, whichever is asked for."""
    dated = undated.moved(MONDAY_S, MONDAY_S)
    rows = [build_rows(each, default_encoder(each)) for each in (undated, dated)]
    assert rows[1].begin_s == MONDAY_S and rows[0].begin_s == 0
    asked = [{} if window_s is None else {"from_s": each.begin_s + window_s} for each in rows]
    one, other = (split_by_time(each, 0.3, 0.2, **keys) for each, keys in zip(rows, asked, strict=True))
    is_mean = np.array([name.endswith(":mean_age") for name in rows[0].names])
    assert (other.valid_from_s - one.valid_from_s, other.test_from_s - one.test_from_s) == (MONDAY_S, MONDAY_S)
    for name in ("train", "valid", "past", "test"):
        mine, theirs = getattr(one, name), getattr(other, name)
        # hour and weekday among them; a mean age is the difference of Unix seconds, which doubles hold to 1.2e-7 s
        np.testing.assert_array_equal(mine.features[:, ~is_mean], theirs.features[:, ~is_mean])
        np.testing.assert_allclose(mine.features[:, is_mean], theirs.features[:, is_mean], rtol=0, atol=6e-8)
        np.testing.assert_array_equal(mine.arrival_s + MONDAY_S, theirs.arrival_s)
        for label in ("lifetime_s", "is_event", "entry_s", "idx_row"):
            np.testing.assert_array_equal(getattr(mine, label), getattr(theirs, label))
        assert all(np.array_equal(a, b) for a, b in zip(mine.keys, theirs.keys, strict=True))
    assert (other.train.entry_s > 0).sum() > 5


def test_a_moved_trace_keeps_who_ran_before_its_begin_at_its_age(undated: Trace) -> None:
    """Without a window, with every way to the rows' begin: `known_at` takes it, though its `from_s` says 0."""
    dated = undated.moved(MONDAY_S, MONDAY_S)
    rows = build_rows(dated, default_encoder(dated))
    known = known_at(rows, np.ones(len(rows), bool), None)
    ran = known.arrival_s < MONDAY_S
    assert ran.sum() > 5
    np.testing.assert_array_equal(known.entry_s[ran], MONDAY_S - known.arrival_s[ran])
    np.testing.assert_array_equal(known.entry_s[~ran], 0.0)


def _export(trace: Trace, begin_s: int) -> Trace:
    """What an export of a log holds that begins then: the requests that still ran and those that came later."""
    kept = trace.select((trace.end_s() > begin_s) & trace.is_start_known())
    return replace(kept, meta={**kept.meta, "start_unix_s": begin_s})


def test_two_exports_of_one_log_have_one_clock(trace: Trace) -> None:
    """One export begins on the Monday, the other one 2 days, 7 hours and 11 s later: with a zero of its own each, hour
    and weekday of the same request would differ, and a window of one would not be that of the other."""
    early, late = _export(trace, MONDAY_S), _export(trace, MONDAY_S + 2 * 86_400 + 7 * 3_600 + 11)
    encoders = [default_encoder(each) for each in (early, late)]
    assert encoders[0].phase_s == encoders[1].phase_s and encoders[0] == encoders[1]
    rows = [build_rows(each, encoder) for each, encoder in zip((early, late), encoders, strict=True)]
    ids = [each.requests["request_id"].to_numpy()[of.idx_request]
           for each, of in zip((early, late), rows, strict=True)]
    shared = np.flatnonzero(np.isin(ids[0], ids[1]))
    assert len(shared) == len(rows[1]) > 500
    np.testing.assert_array_equal(ids[0][shared], ids[1])
    for name in ("decided_s", "arrival_s", "lifetime_s", "is_event"):
        np.testing.assert_array_equal(getattr(rows[0], name)[shared], getattr(rows[1], name))
    names = [*encoders[0].numbers, "hour", "weekday"]
    places = [rows[0].names.index(name) for name in names]
    np.testing.assert_array_equal(rows[0].features[shared][:, places], rows[1].features[:, places])
    hours = pd.to_datetime(rows[1].decided_s, unit="s")
    np.testing.assert_array_equal(rows[1].features[:, rows[1].names.index("weekday")], hours.day_of_week)
    np.testing.assert_array_equal(np.floor(rows[1].features[:, rows[1].names.index("hour")]), hours.hour)
    # The owner's history too, of requests whose owner is new to both.
    ended, arrived = (rows[0].names.index(f"{trace.roles.owners[-1]}:{part}") for part in ("ended", "arrived"))
    first = rows[0].features[shared][:, arrived] == 0.0
    assert first.sum() > 5
    np.testing.assert_array_equal(rows[1].features[first][:, [ended, arrived]], 0.0)


def test_rows_are_the_same_whatever_the_index_of_the_table(trace: Trace, rows: FeatureRows) -> None:
    moved = replace(trace, requests=trace.requests.set_axis(range(7, 7 + len(trace)), axis=0))
    other = build_rows(moved, default_encoder(moved))
    np.testing.assert_array_equal(rows.features, other.features)


def test_a_window_that_would_be_empty_is_refused() -> None:
    table = pd.DataFrame({"request_id": range(20), "arrival_s": 5, "departure_s": 9, "cpu_cores": 1.0, "mem_gib": 1.0})
    trace = Trace(table, 10)
    with pytest.raises(ValueError, match="the train window must hold requests"):
        split_by_time(build_rows(trace, default_encoder(trace)))
    with pytest.raises(ValueError, match=r"test_share must be between 0 and 1, got 1\.5"):
        split_by_time(build_rows(trace, default_encoder(trace)), 1.5)


def test_a_window_takes_who_still_runs_from_the_age_it_has_there() -> None:
    # The window begins at 1,000 s. One request ended before, one runs on from 100 s, and one a second comes later.
    n = 40
    table = pd.DataFrame({
        "request_id": range(n + 2), "arrival_s": [0, 100, *range(1_000, 1_000 + n)],
        "departure_s": [900, 1_500, *range(1_010, 1_010 + n)], "cpu_cores": 1.0, "mem_gib": 1.0, "user": "ann"})
    trace = Trace(table, 2_000, Roles(owners=("user",)))
    rows = build_rows(trace, default_encoder(trace))
    split = split_by_time(rows, 0.25, 0.2, from_s=1_000)
    assert split.test_from_s == 1_030 and split.valid_from_s == 1_024
    assert split.train.arrival_s[:2].tolist() == [100, 1_000]  # the one that ended at 900 is not there
    assert split.train.entry_s[:2].tolist() == [900.0, 0.0]
    assert (split.train.lifetime_s[0], bool(split.train.is_event[0])) == (924.0, False)  # known up to 1,024
    assert split.test.entry_s.tolist() == [0.0] * len(split.test)
    # Rows are those of the whole trace: what an owner did before the window is known in it, and nothing later.
    everything = split_by_time(rows, 0.25, 0.2)
    first = np.flatnonzero(everything.past.arrival_s == 1_000)
    np.testing.assert_array_equal(split.train.features[1], everything.past.features[first[0]])


def test_a_window_does_not_count_the_time_before_it() -> None:
    """Requests of 10 or 10,000 s, one pair each 10 s: a window of the last 2,000 s holds all that are young, and of the
    old ones those that still run. Counted from their start, they would make every age look safer than it is."""
    from sojourn.simulator.workloads.workload import kaplan_meier

    starts = np.arange(0, 40_000, 10)
    table = pd.DataFrame({
        "request_id": range(2 * len(starts)), "arrival_s": np.repeat(starts, 2),
        "departure_s": np.repeat(starts, 2) + np.tile([10, 10_000], len(starts)), "cpu_cores": 1.0, "mem_gib": 1.0})
    table["departure_s"] = table["departure_s"].astype("Int64").mask(table["departure_s"] > 40_000)
    rows = build_rows(trace := Trace(table, 40_000), default_encoder(trace))
    train = split_by_time(rows, 0.1, 0.1, from_s=38_000).train
    times, alive = kaplan_meier(train.lifetime_s, train.is_event, train.entry_s)
    assert np.interp(100, times, alive) == pytest.approx(0.5, abs=0.01)
    naive_times, naive = kaplan_meier(train.lifetime_s, train.is_event, np.zeros(len(train)))
    assert np.interp(100, naive_times, naive) > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_shuffling_after_the_cut_changes_nothing_in_a_window(trace: Trace, rows: FeatureRows, seed: int) -> None:
    def split(of: FeatureRows) -> Split:
        return split_by_time(of, 0.3, 0.2, from_s=trace.begin_s + trace.span_s // 3)

    before = split(rows)
    changed = _after_shuffled(trace, before.test_from_s, seed)
    after = split(build_rows(changed, default_encoder(changed)))
    for window in ("train", "valid", "past"):
        one, other = getattr(before, window), getattr(after, window)
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.lifetime_s, other.lifetime_s)
        np.testing.assert_array_equal(one.entry_s, other.entry_s)
    assert (before.train.entry_s > 0).any()
    assert len(before.past) < len(split_by_time(rows, 0.3, 0.2).past)


def test_a_window_without_requests_is_refused(trace: Trace, rows: FeatureRows) -> None:
    with pytest.raises(ValueError, match=r"at least 10 requests with a known start decided from second \d+ on"):
        split_by_time(rows, from_s=trace.horizon_s - 1)
