"""The bound, demand and integrals against their slow twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import naive
from sojourn.simulator.amounts import Demand, demand
from sojourn.simulator.metrics import fewest_hosts, integral_at

AMOUNT = st.integers(0, 30)


@given(st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1, max_size=6),
       st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5))
def test_fewest_hosts_equals_the_slow_twin(steps: list[tuple[int, int]], hosts: list[tuple[int, int]]) -> None:
    found = fewest_hosts(Demand(np.arange(len(steps)), np.array(steps)), np.array(hosts))
    assert found.tolist() == [naive.fewest_hosts(list(step), [list(host) for host in hosts]) for step in steps]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20), AMOUNT), min_size=1, max_size=12))
def test_demand_and_its_integral_equal_a_sum_over_seconds(rows: list[tuple[int, int, int]]) -> None:
    arrival = np.array([a for a, _, _ in rows])
    departure = arrival + np.array([stay for _, stay, _ in rows])
    need = np.array([[amount] for _, _, amount in rows])
    per_second = [sum(n for (a, s, n) in rows if a <= t < a + s) for t in range(31)]
    steps = demand(arrival, departure, need, 30)
    assert steps.peak()[0] == max(per_second)
    marks = np.arange(31)
    assert integral_at(steps.time_s, steps.amount[:, 0], marks).tolist() == np.cumsum([0, *per_second[:30]]).tolist()
