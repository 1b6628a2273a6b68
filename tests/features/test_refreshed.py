"""Rows of running requests: the features that the live history gives at each age, and nothing of what came later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.refreshed import RefreshedRows, refreshed_rows
from sojourn.features.split import known_at
from sojourn.features.synthetic import synthesize

AGES_S = (600, 3_600)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return synthesize(1_500, seed=3)


def _rows(trace: Trace) -> RefreshedRows:
    encoder = default_encoder(trace)
    return refreshed_rows(trace, encoder, build_rows(trace, encoder), AGES_S)


def _after_changed(trace: Trace, cut_s: int) -> Trace:
    """Later requests are of other owners, and all that still runs at the cut ends at another time."""
    rng = np.random.default_rng(0)
    table = trace.requests.copy()
    start, end = trace.start_s(), trace.end_s()
    is_later = start >= cut_s
    order = rng.permutation(np.flatnonzero(is_later))
    for name in trace.roles.columns():
        table.loc[is_later, name] = table[name].to_numpy()[order]
    is_changed = end > cut_s
    ends = np.where(is_changed, rng.integers(np.maximum(start, cut_s) + 1, trace.horizon_s + 1), end)
    departure = pd.array(ends, "Int64")
    departure[~trace.is_event() & ~is_changed] = pd.NA
    table["departure_s"] = departure
    return Trace(table, trace.horizon_s, trace.roles, meta=trace.meta)


def _until(trace: Trace, rows: RefreshedRows, cut_s: int) -> dict[tuple[int, int], bytes]:
    own = build_rows(trace, default_encoder(trace))
    asked_s = own.arrival_s[rows.idx_row] + rows.age_s
    return {(int(own.idx_request[row]), int(age_s)): rows.features[k].tobytes()
            for k, (row, age_s) in enumerate(zip(rows.idx_row, rows.age_s, strict=True)) if asked_s[k] < cut_s}


def test_changing_all_that_came_after_changes_no_row_of_before(trace: Trace) -> None:
    cut_s = int(np.quantile(trace.start_s(), 0.6))
    changed = _after_changed(trace, cut_s)
    before, after = _until(trace, _rows(trace), cut_s), _until(changed, _rows(changed), cut_s)
    assert len(before) > 300
    assert before == after


def test_the_change_does_reach_rows_of_after(trace: Trace) -> None:
    cut_s = int(np.quantile(trace.start_s(), 0.6))
    changed = _after_changed(trace, cut_s)
    assert _until(trace, _rows(trace), trace.horizon_s) != _until(changed, _rows(changed), trace.horizon_s)


def _siblings(ends: list[int | None]) -> Trace:
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": [0, 0, 700], "departure_s": ends,
                          "cpu_cores": 1.0, "mem_gib": 1.0, "user": "ann"})
    return Trace(table, 5_000, Roles(owners=("user",)))


def test_a_row_knows_siblings_that_ended_by_its_moment_and_no_later_arrival() -> None:
    trace = _siblings([None, 600, 4_000])
    encoder = default_encoder(trace)
    rows = refreshed_rows(trace, encoder, build_rows(trace, encoder), AGES_S)
    names = encoder.feature_names()
    assert rows.idx_row.tolist() == [0, 2, 0] and rows.age_s.tolist() == [600, 600, 3_600]
    ended, running = (rows.features[:, names.index(f"user:{part}")] for part in ("ended", "running"))
    # b ends at 600, within the second in which a is asked again; c runs at 3,600
    np.testing.assert_allclose(ended, np.log1p([1, 1, 1]))
    np.testing.assert_allclose(running, np.log1p([1, 2, 2]))


def test_an_end_after_the_moment_is_not_known() -> None:
    trace = _siblings([None, 601, 4_000])
    encoder = default_encoder(trace)
    rows = refreshed_rows(trace, encoder, build_rows(trace, encoder), (600,))
    assert rows.features[0, encoder.feature_names().index("user:ended")] == 0.0


def test_examples_enter_at_their_age_and_keep_the_windows_labels(trace: Trace) -> None:
    encoder = default_encoder(trace)
    own = build_rows(trace, encoder)
    rows = refreshed_rows(trace, encoder, own, AGES_S)
    window = known_at(own, np.ones(len(own), bool), int(np.quantile(own.decided_s, 0.5)))
    idx, aged = rows.of(window, 3_600)
    assert len(aged) and (aged.entry_s == 3_600.0).all() and (aged.lifetime_s > 3_600.0).all()
    np.testing.assert_array_equal(aged.lifetime_s, window.lifetime_s[idx])
    np.testing.assert_array_equal(aged.is_event, window.is_event[idx])
    alive = (window.lifetime_s > 3_600.0) & (window.entry_s <= 3_600.0)
    np.testing.assert_array_equal(idx, np.flatnonzero(alive))
    assert len(rows.examples(window)) == len(aged) + len(rows.of(window, 600)[1])


def test_a_trace_in_which_nothing_lives_that_long_has_no_rows() -> None:
    trace = _siblings([10, 20, 710])
    encoder = default_encoder(trace)
    own = build_rows(trace, encoder)
    rows = refreshed_rows(trace, encoder, own, AGES_S)
    everything = known_at(own, np.ones(len(own), bool), None)
    assert len(rows) == 0 and len(rows.examples(everything)) == 0
