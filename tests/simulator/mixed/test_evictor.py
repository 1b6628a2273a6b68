"""Shortest Runtime Rescheduling against arithmetic and its slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_ctcl
from sojourn.simulator.mixed import Evictor, evicted, rescheduling_cost_s, updated_demand

WHOLE = np.array([100, 100])


@pytest.mark.parametrize(("host_used", "expected"), [
    ((80, 80), []),  # .38 * .8 + .62 * .8 = .8, not above
    ((81, 80), [1]),  # .8038; without the second .38 * .61 + .62 * .8 = .7278
    ((100, 68), [1]),  # .8016
    ((101, 0), [1]),  # .3838, but more than it has
    ((150, 0), [1, 2, 0]),  # 130, 120, 90
    ((300, 0), [1, 2, 0]),  # all of them, and still overloaded
])  # fmt: skip
def test_the_shortest_runtime_leaves_first_until_it_is_below(host_used: tuple[int, int], expected: list[int]) -> None:
    used, runtime_s = np.array([[30, 0], [20, 0], [10, 0]]), np.array([90.0, 10.0, 50.0])
    host = np.array(host_used)
    assert evicted(used, runtime_s, host, WHOLE).tolist() == expected
    assert host.tolist() == list(host_used)  # as it was given


def test_of_equal_runtimes_the_first_leaves_first() -> None:
    used = np.array([[30, 0], [30, 0]])
    assert evicted(used, np.array([5.0, 5.0]), np.array([110, 0]), WHOLE).tolist() == [0]


def test_cost_is_lost_progress_and_the_way_back() -> None:
    cost = rescheduling_cost_s(np.array([10.0, 0.0]), np.array([70.0, 5.0]), np.array([70.322, 305.0]))
    assert cost.tolist() == pytest.approx([60.322, 305.0])  # 60 + .322; 5 + 300
    assert updated_demand(np.array([[4, 8]]), np.array([[6, 2]])).tolist() == [[6, 2]]


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold must be above 0"):
        Evictor(threshold=0.0)
    with pytest.raises(ValueError, match=r"order must .*, got 'x'"):
        Evictor(order="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"weights must .*, got \(nan, 1\.0\)"):
        Evictor(weights=(float("nan"), 1.0))
    with pytest.raises(ValueError, match="must agree in shape"):
        evicted(np.zeros((2, 2)), np.zeros(1), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="most_used must have the shape"):
        updated_demand(np.zeros((1, 2)), np.zeros((2, 2)))


_AMOUNT = st.tuples(st.integers(0, 9), st.integers(0, 9))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(_AMOUNT, st.integers(0, 4)), max_size=9), _AMOUNT, _AMOUNT.filter(any))
def test_every_choice_equals_the_slow_twin(batch: list[tuple[tuple[int, int], int]], services: tuple[int, int],
                                           capacity: tuple[int, int]) -> None:
    used, rank = [amount for amount, _ in batch], [rank for _, rank in batch]
    host = [sum(column) for column in zip(services, *used, strict=True)]
    found = evicted(np.array(used, np.int64).reshape(-1, 2), np.array(rank, np.float64), np.array(host),
                    np.array(capacity))
    assert found.tolist() == naive_ctcl.evicted(used, rank, host, capacity, (0.38, 0.62), 0.8)
