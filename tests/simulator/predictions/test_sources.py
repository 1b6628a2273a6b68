"""Curves, sources and completions."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from sojourn.simulator.workloads.workload import kaplan_meier


@pytest.mark.parametrize(("offsets", "uptime", "total", "message"), [
    ([0, 1], [0], [-5], r"total_s must be in 0\.\..*, got -5 \(row 0, breakpoint 0\)"),
    ([0, 1, 2], [0, 0], [9.0, np.nan], r"total_s must be whole seconds, got nan \(row 1, breakpoint 0\)"),
    ([0, 1], [0], [np.inf], "total_s must be whole seconds, got inf"),
    ([0, 1], [0], [1.5], "total_s must be whole seconds, got 1.5"),
    ([0, 1], [3], [9], r"uptime_s must be 0 at the start of a curve, got 3 \(row 0, breakpoint 0\)"),
    ([0, 3], [0, 5, 5], [9, 9, 9], r"uptime_s must be strictly increasing, got 5 \(row 0, breakpoint 2\)"),
    ([0, 1, 3], [0, 0, 60], [1, 59, 99], r"at least the next uptime_s 60, got 59 \(row 1, breakpoint 0\)"),
    ([0, 0, 1], [0], [9], "offsets must rise strictly from 0 to 1"),
    ([1], [0], [9], "offsets must rise strictly"),
    ([0, 1], [0], [9, 9], "total_s must be as long as uptime_s"),
    ([0, 1], [0], [2**60], "total_s must be in"),
    ([0, 1], ["a"], [9], "uptime_s must be int64"),
    ([0, 1.5, 3], [0, 0, 0], [9, 9, 9], r"offsets must be whole numbers, got 1.5 \(position 1\)"),
])
def test_bad_curves_are_refused(offsets: list[float], uptime: list[int], total: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sim.Curves(np.array(offsets), np.array(uptime), np.array(total))


def test_a_held_total_may_end_at_the_next_breakpoint() -> None:
    curves = sim.Curves(np.array([0, 2]), np.array([0, 60]), np.array([60, 60]))
    # at 60 the last total, 60, is not above the uptime: it doubles
    assert [curves.total_at(0, u) for u in (0, 59, 60, 119, 120)] == [60, 60, 120, 120, 240]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60)), max_size=6), st.integers(0, 500),
       st.integers(0, 900))
def test_total_at_equals_the_slow_twin(steps: list[tuple[int, int]], last: int, uptime: int) -> None:
    uptimes = np.cumsum([0, *(step for step, _ in steps)])
    totals = [int(u) + extra for u, (_, extra) in zip(uptimes[1:], steps, strict=True)] + [last]
    curves = sim.Curves(np.array([0, len(totals)]), uptimes, np.array(totals))
    assert curves.total_at(0, uptime) == naive.total_at(list(zip(uptimes.tolist(), totals, strict=True)), uptime)


def test_shared_curves_name_the_first_row_that_uses_a_bad_one() -> None:
    with pytest.raises(ValueError, match=r"got -1 \(row 2, breakpoint 0\)"):
        sim.Curves(np.array([0, 1, 2]), np.array([0, 0]), np.array([5, -1]), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match=r"index must be in 0\.\.1, got 2 \(row 1\)"):
        sim.Curves(np.array([0, 1, 2]), np.array([0, 0]), np.array([5, 1]), np.array([0, 2]))


@pytest.mark.parametrize(("overhang", "message"), [
    ([5, 4], r"overhang_s must be as long as uptime_s \(3\), got 2"),
    ([5, 6, 9], r"overhang_s must be at most that of the breakpoint before, got 6 \(row 0, breakpoint 1\)"),
    ([5, 4, -1], r"overhang_s must be in 0\.\.\d+, got -1 \(row 1, breakpoint 0\)"),
    ([5.5, 4, 1], r"overhang_s must be whole seconds, got 5.5 \(row 0, breakpoint 0\)"),
])
def test_bad_overhangs_are_refused(overhang: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sim.Curves(np.array([0, 2, 3]), np.array([0, 10, 0]), np.array([10, 20, 30]), None, np.array(overhang))


def test_held_curves_keep_their_overhangs() -> None:
    curves = sim.Curves(np.array([0, 2, 3]), np.array([0, 10, 0]), np.array([10, 20, 30]), None, np.array([5, 4, 9]))
    held = sim.Held(["a", "b"], curves)
    asked = pd.DataFrame({"request_id": ["b", "a"]})
    found = held.curves(asked).overhang_s
    assert found is not None
    assert found.tolist() == [5, 4, 9]


def test_unknown_requests_are_refused() -> None:
    held = sim.Held(["a"], sim.one_step(np.array([60])))
    with pytest.raises(KeyError, match="got 'b'"):
        held.curves(pd.DataFrame({"request_id": ["a", "b"]}))
    with pytest.raises(ValueError, match="unique"):
        sim.Held(["a", "a"], sim.one_step(np.array([60, 60])))


def test_completions_end_past_the_horizon_and_depend_on_the_seed_alone() -> None:
    rows = [(t, t + 10 * (1 + t % 7), 1.0, 1.0) for t in range(0, 400, 5)]
    trace = naive.trace_of([*rows, *[(500 + t, None, 1.0, 1.0) for t in range(40)], (None, None, 1.0, 1.0)], 545)
    first, again, other = (sim.true_totals(trace, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    is_event = trace.is_event()
    assert (trace.start_s()[~is_event] + first[~is_event] > 545).all()
    assert np.array_equal(first[is_event], trace.lifetime_s()[is_event])


def test_a_request_stays_at_least_a_second() -> None:
    trace = naive.trace_of([(-50, 0, 1.0, 1.0), (7, 7, 1.0, 1.0)], 100)
    # placed at 0 with an age of 50 it leaves at 1; placed at 7 it leaves at 8
    assert sim.true_totals(trace, np.random.default_rng(0)).tolist() == [51, 1]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 5)), min_size=1, max_size=30))
def test_kaplan_meier_equals_the_slow_twin(rows: list[tuple[int, bool, int]]) -> None:
    entry = [min(e, t - 1) for t, _, e in rows]
    total, is_event = [t for t, _, _ in rows], [e for _, e, _ in rows]
    times, survival = kaplan_meier(np.array(total), np.array(is_event), np.array(entry))
    expected = naive.kaplan_meier(total, is_event, entry)
    assert times.tolist() == list(expected)
    assert survival == pytest.approx([float(value) for value in expected.values()])


def test_taken_rows_share_what_was_checked() -> None:
    whole = sim.Curves(np.array([0, 1, 3]), np.array([0, 0, 60]), np.array([10, 90, 120]), np.array([1, 0, 1]),
                   np.array([9, 80, 70]))
    taken = whole.take(np.array([2, 1, 1, 2]))
    assert taken.curve_of().tolist() == [1, 0, 0, 1]
    assert taken.total_s is whole.total_s
    assert [taken.total_at(row, 60) for row in range(4)] == [120, 80, 80, 120]  # 10 doubles until it is above 60
    assert whole.curve_of().tolist() == [1, 0, 1]
    with pytest.raises(IndexError):
        whole.take(np.array([3]))
