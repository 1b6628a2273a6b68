"""The bound, demand and integrals against their slow twins; figures of hosts and failures worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from sojourn.simulator.engine.metrics import fewest_hosts, integral_at
from sojourn.simulator.workloads import Demand
from sojourn.simulator.workloads.workload import demand

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


def workload_of(rows: list[tuple[int, int, float, float]], horizon_s: int, n_hosts: int,
                warmup_s: int) -> sim.Workload:
    trace = naive.trace_of(rows, horizon_s)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 8.0, "mem_gib": 8.0})
    return sim.Workload("test", trace, hosts, trace.lifetime_s(), warmup_s)


def test_before_the_first_arrival_the_bound_is_all_hosts_empty() -> None:
    rows = [(50, 90, 1.0, 1.0)]
    trace = naive.trace_of(rows, 100)
    result = sim.simulate(sim.build_workload("trace", trace, cpu_cores=4, mem_gib=4, n_hosts=2))
    # one of two hosts for 40 of 100 s: 1 - 40 / 200
    assert (result.metrics.empty_hosts_pct, result.bound_empty_hosts_pct) == (80.0, 80.0)
    assert result.series["bound_empty_hosts_pct"].iloc[0] == 100.0


@pytest.mark.slow  # the whole engine compiles for half a minute
def test_failures_void_what_was_run_since_the_last_start() -> None:
    # 4 cores start at 0. Host 0 fails at 3,600 s, the warm-up's end: 4 core-h are void, it starts again on host 1,
    # which fails at 5,400 s: 2 more; host 0 is back at 5,000 s and takes it. A request of 8 cores comes to host 1 at
    # 7,200 s, when that is back at 6,000 s, and is lost with it at 9,000 s, host 0 being full: 8 x 0.5 h = 4 core-h.
    rows = [(0, 20_000, 4.0, 4.0), (7_200, 20_000, 8.0, 8.0)]
    failures = [sim.Failure(0, 3_600, 1_400), sim.Failure(1, 5_400, 600), sim.Failure(1, 9_000, 100)]
    metrics = sim.simulate(workload_of(rows, 20_000, 2, 3_600), upkeep=failures).metrics
    assert (metrics.n_rescheduled, metrics.n_lost) == (2, 1)
    assert metrics.voided_core_h == pytest.approx(4 + 2 + 4)
