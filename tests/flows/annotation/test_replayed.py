"""A trace as a bundle reads it: which rows are held out, whose history, and on which clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from learnt_bundle import Learnt
from sojourn.features import Trace
from sojourn.flows.annotation.bounds import Replayed
from sojourn.serving import load_bundle

DAY_S = 86_400


def _with(trace: Trace, requests: pd.DataFrame, **meta: object) -> Trace:
    return Trace(requests, trace.horizon_s, trace.roles, meta={**trace.meta, **meta})


def test_of_the_training_trace_the_test_window_is_held_out(learnt: Learnt) -> None:
    found = Replayed.of(load_bundle(learnt.folder), learnt.trace)
    assert found.has_own_history and found.is_clock_known
    assert found.held_out_s == learnt.split.test_from_s
    np.testing.assert_array_equal(found.held_out().idx_row, learnt.split.test.idx_row)
    np.testing.assert_array_equal(found.rows.features, learnt.rows.features)


def test_a_trace_without_the_training_requests_goes_on_from_the_bundles_history(learnt: Learnt) -> None:
    """The bundle's history knows ends up to its trace's end: what was asked for before is not held out."""
    later = learnt.trace.select(learnt.trace.start_s() >= learnt.split.test_from_s)
    found = Replayed.of(load_bundle(learnt.folder), later)
    assert not found.has_own_history
    assert found.held_out_s == learnt.trace.horizon_s
    assert len(found.held_out()) == 0
    assert not found.rows.is_event.any()  # ends that the history has are not counted twice


def test_what_came_after_the_bundles_history_is_held_out(learnt: Learnt) -> None:
    """The last week once more, after the bundle's end, with dates that say so."""
    shift_s = learnt.trace.span_s
    week = learnt.trace.select(learnt.trace.start_s() >= learnt.trace.horizon_s - 7 * DAY_S)
    later = week.moved(shift_s, learnt.trace.begin_s + shift_s)
    found = Replayed.of(load_bundle(learnt.folder), later)
    assert not found.has_own_history and len(found.held_out()) == len(found.rows) == len(week)
    assert found.trace.horizon_s == learnt.trace.horizon_s + shift_s
    ended = next(name for name in found.rows.names if name.endswith(":ended"))
    assert (found.rows.features[:, found.rows.names.index(ended)] > 0).mean() > 0.5  # owners known from the bundle


def test_a_trace_on_another_clock_gives_the_same_rows(learnt: Learnt) -> None:
    """A later export begins three days later: its dates are the same."""
    requests, begin_s = learnt.trace.requests, learnt.trace.begin_s + 3 * DAY_S
    requests = requests[~(requests["departure_s"] < begin_s).fillna(False)]
    other = Trace(requests, learnt.trace.horizon_s, learnt.trace.roles,
                  meta={**learnt.trace.meta, "start_unix_s": begin_s})
    found, same = (Replayed.of(load_bundle(learnt.folder), each) for each in (other, learnt.trace))
    clock = [found.rows.names.index(name) for name in ("hour", "weekday")]
    ids = found.trace.requests["request_id"].to_numpy()[found.rows.idx_request]
    assert len(ids) > 10
    before = dict(zip(learnt.trace.requests["request_id"].to_numpy()[same.rows.idx_request],
                      same.rows.features[:, clock].tolist(), strict=True))
    assert found.rows.features[:, clock].tolist() == [before[each] for each in ids]
    assert found.trace.horizon_s == learnt.trace.horizon_s and found.trace.begin_s == begin_s


def test_a_trace_that_ended_before_the_bundles_began_is_refused(learnt: Learnt) -> None:
    old = learnt.trace.moved(-100 * DAY_S, learnt.trace.begin_s - 100 * DAY_S)
    with pytest.raises(ValueError, match=r"trace must .*, got one that ended"):
        Replayed.of(load_bundle(learnt.folder), old)


def test_a_column_that_the_trace_lacks_is_not_known(learnt: Learnt) -> None:
    lean = Trace(learnt.trace.requests.drop(columns="zone"), learnt.trace.horizon_s,
                 replace(learnt.trace.roles, categories=tuple(
                     name for name in learnt.trace.roles.categories if name != "zone")), meta=learnt.trace.meta)
    found = Replayed.of(load_bundle(learnt.folder), lean)
    assert found.missing == ("zone",)
    assert len(found.rows) == len(learnt.rows)


def test_without_dates_the_clocks_are_one(learnt: Learnt) -> None:
    undated = learnt.trace.since_begin()
    found = Replayed.of(load_bundle(learnt.folder), undated)
    assert not found.is_clock_known
    np.testing.assert_array_equal(found.rows.features, learnt.rows.features)
