"""Greedy Autoscaling against arithmetic and its slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_ctcl
from sojourn.simulator.mixed import Autoscaler, greedy, homogeneous, machines_for
from sojourn.simulator.mixed.rules import LATER, TOO_LARGE
from sojourn.simulator.pool import MachineType, type_capacities

SMALL = MachineType("small", {"cpu_cores": 4.0, "mem_gib": 8.0}, 1.0)
WIDE = MachineType("wide", {"cpu_cores": 4.0, "mem_gib": 32.0}, 2.0)
CORE, GIB = 1000, 1024


def test_the_type_with_the_highest_score_is_ordered() -> None:
    # two requests of 2 cores and 4 GiB fill `small`: .38 * 4/4 + .62 * 8/8 = 1; `wide`: .38 + .62 * 8/32 = .535
    made = machines_for(np.array([[2 * CORE, 4 * GIB]] * 2), greedy((SMALL, WIDE)))
    assert (made.type_of.tolist(), made.machine.tolist()) == ([0], [0, 0])
    # one of 1 core and 30 GiB fits only `wide`: .38 / 4 + .62 * 30/32 = .676
    made = machines_for(np.array([[1 * CORE, 30 * GIB]]), greedy((SMALL, WIDE)))
    assert (made.type_of.tolist(), made.machine.tolist()) == ([1], [0])


def test_the_largest_request_is_bound_first() -> None:
    # by the first type: 1 core and 1 GiB = .1725, 4 cores and 8 GiB = 1: the second takes the first machine alone
    made = machines_for(np.array([[1 * CORE, 1 * GIB], [4 * CORE, 8 * GIB]]), greedy((SMALL,)))
    assert made.machine.tolist() == [1, 0]


def test_of_equal_scores_the_cheapest_type_is_ordered() -> None:
    cheap = MachineType("cheap", SMALL.capacities, 0.5)
    assert machines_for(np.array([[CORE, GIB]]), greedy((SMALL, cheap))).type_of.tolist() == [1]
    assert machines_for(np.array([[CORE, GIB]]), greedy((cheap, SMALL))).type_of.tolist() == [0]


def test_a_homogeneous_pool_gains_one_machine_a_round() -> None:
    made = machines_for(np.array([[4 * CORE, 8 * GIB]] * 3), homogeneous(SMALL))
    assert made.type_of.tolist() == [0]
    assert made.machine.tolist() == [0, -1, -1]
    assert made.reason == ("", LATER, LATER)


def test_a_request_larger_than_every_type_has_its_reason_and_stops_nobody() -> None:
    made = machines_for(np.array([[5 * CORE, 1 * GIB], [1 * CORE, 1 * GIB], [CORE, 33 * GIB]]), greedy((SMALL, WIDE)))
    assert made.machine.tolist() == [-1, 0, -1]
    assert made.reason == (TOO_LARGE, "", TOO_LARGE)


def test_nothing_pending_orders_nothing() -> None:
    made = machines_for(np.zeros((0, 2), np.int64))
    assert len(made.type_of) == len(made.machine) == 0


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"types must .*, got none"):
        Autoscaler(())
    with pytest.raises(ValueError, match="weights must be one of each"):
        Autoscaler(weights=(1.0,))
    with pytest.raises(ValueError, match="most_at_once must be a whole number, at least 1"):
        Autoscaler(most_at_once=0)
    with pytest.raises(ValueError, match="idle_release_s must be 0 or more"):
        Autoscaler(idle_release_s=float("nan"))
    with pytest.raises(ValueError, match=r"idle_release_s must .*, got inf"):
        Autoscaler(idle_release_s=float("inf"))
    with pytest.raises(ValueError, match=r"most_at_once must .*, got 1\.5"):
        Autoscaler(most_at_once=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights must be one of each"):
        Autoscaler(weights=(float("nan"), 1.0))
    with pytest.raises(ValueError, match=r"demand must have the shape \(n, 2\)"):
        machines_for(np.zeros((1, 3), np.int64))
    with pytest.raises(ValueError, match="demand must be 0 or more"):
        machines_for(np.array([[-1, 0]]))


_AMOUNT = st.tuples(st.integers(0, 9), st.integers(0, 9))


@settings(deadline=None, max_examples=60)
@given(st.lists(_AMOUNT, max_size=12), st.lists(_AMOUNT.filter(any), min_size=1, max_size=3, unique=True),
       st.integers(1, 9))
def test_every_round_equals_the_slow_twin(demand: list[tuple[int, int]], sizes: list[tuple[int, int]],
                                          most: int) -> None:
    types = tuple(MachineType(f"t{k}", {"cpu_cores": size[0] / CORE, "mem_gib": size[1] / GIB}, k % 2)
                  for k, size in enumerate(sizes))
    scaler = Autoscaler(types, most_at_once=most)
    made = machines_for(np.array(demand, np.int64).reshape(-1, 2), scaler)
    assert type_capacities(types, scaler.resources).tolist() == [list(size) for size in sizes]
    expected = naive_ctcl.scale_out(demand, sizes, [k % 2 for k in range(len(sizes))], scaler.weights, most)
    assert (made.type_of.tolist(), made.machine.tolist()) == expected
