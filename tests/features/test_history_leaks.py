"""Nothing of the future reaches a feature, a split or a label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.split import Split, known_at, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Roles, Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return synthesize(1_500, seed=3)


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


@pytest.mark.parametrize("seed", range(3))
def test_shuffling_everything_after_the_cut_changes_nothing_in_training(trace: Trace, seed: int) -> None:
    before = _split(trace)
    after = _split(_after_shuffled(trace, before.test_from_s, seed))
    assert after.test_from_s == before.test_from_s
    for window in ("train", "valid", "past"):
        one, other = getattr(before, window), getattr(after, window)
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.lifetime_s, other.lifetime_s)
        np.testing.assert_array_equal(one.is_event, other.is_event)
        assert all(np.array_equal(a, b) for a, b in zip(one.keys, other.keys, strict=True))


def test_the_shuffle_does_change_the_test_window(trace: Trace) -> None:
    before = _split(trace)
    after = _split(_after_shuffled(trace, before.test_from_s, 0))
    assert not np.array_equal(before.test.features, after.test.features, equal_nan=True)


@settings(deadline=None, max_examples=15)
@given(idx=st.integers(0, 1_400), shift=st.integers(1, 10**6))
def test_a_row_does_not_see_its_own_end(trace: Trace, idx: int, shift: int) -> None:
    table = trace.requests.copy()
    own_end = int(trace.end_s()[idx])
    table.loc[idx, "departure_s"] = min(own_end + shift, trace.horizon_s)
    rows = build_rows(trace, default_encoder(trace))
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


def test_rows_are_the_same_whatever_the_index_of_the_table(trace: Trace) -> None:
    moved = replace(trace, requests=trace.requests.set_axis(range(7, 7 + len(trace)), axis=0))
    one = build_rows(trace, default_encoder(trace))
    other = build_rows(moved, default_encoder(moved))
    np.testing.assert_array_equal(one.features, other.features)


def test_a_window_that_would_be_empty_is_refused() -> None:
    table = pd.DataFrame({"request_id": range(20), "arrival_s": 5, "departure_s": 9, "cpu_cores": 1.0, "mem_gib": 1.0})
    trace = Trace(table, 10)
    with pytest.raises(ValueError, match="the train window must hold requests"):
        split_by_time(build_rows(trace, default_encoder(trace)))
    with pytest.raises(ValueError, match=r"test_share must be between 0 and 1, got 1\.5"):
        split_by_time(build_rows(trace, default_encoder(trace)), 1.5)
