"""Fixed batches of migrations: which hosts, and how many migrations each order carries out."""

from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from studies.ab_trial import Batch, batches, expected_exits, n_carried_out

Order = Literal["longest-first", "shortest-first", "trace", "random"]


def test_the_hosts_with_least_in_use_are_taken() -> None:
    # best fit on hosts of 4 cores: 3 + 1 on host 0, 2 on host 1 until 30, 4 on host 2, 3 on host 1 from 40 on
    rows = [(0, 90, 3.0, 1.0), (0, 90, 1.0, 1.0), (1, 30, 2.0, 1.0), (2, 90, 4.0, 1.0), (40, 90, 3.0, 1.0)]
    trace = naive.trace_of(rows, 100)
    hosts = pd.DataFrame({"host_id": range(4), "cpu_cores": 4.0, "mem_gib": 4.0})
    workload = sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)), warmup_s=10)
    still = sim.simulate(workload)
    assert still.host.tolist() == [0, 0, 1, 2, 1]
    found = list(batches(workload, still, n_hosts=2, every_s=30))
    assert [batch.at_s for batch in found] == [10, 40, 70]
    # at 10: host 1 has 2 cores in use; hosts 0 and 2 have 4 cores, host 2 with one request and so less memory
    assert (found[0].rows.tolist(), found[0].position.tolist()) == ([2, 3], [0, 1])
    # from 40 on: host 1 has 3 cores in use, and host 2 again goes before host 0
    assert (found[1].rows.tolist(), found[1].position.tolist()) == ([3, 4], [1, 0])
    assert found[2].rows.tolist() == [3, 4]


def test_orders_by_hand() -> None:
    batch = Batch(0, np.array([3, 5, 8, 9]), np.array([1, 0, 0, 1]))
    ends_s = np.array([500, 3_000, 1_300, 9_000])

    def count(order: Order, is_across: bool = True) -> int:
        return n_carried_out(batch, ends_s, ends_s, sim.Migration(order, is_across, n_at_once=1))

    # one slot, 1,200 s each: 3 leaves at 500 and frees the slot, then 5 to 1,700; 8 has gone at 1,300; 9
    assert count("trace") == 3
    # 9 to 1,200, 5 to 2,400; 8 and 3 have gone
    assert count("longest-first") == 2
    # 3 to 500, 8 to 1,300, 5 to 2,500, 9
    assert count("shortest-first") == 4
    # host 0: 5 to 1,200, 8 to 1,300 (it leaves then); host 1: 9 to 2,500, 3 has gone
    assert count("longest-first", is_across=False) == 3
    # host 0: 5 to 1,200, 8 to 1,300; host 1: 3 has gone, 9
    assert count("trace", is_across=False) == 3


def _slowly(batch: Batch, ends_s: list[int], order: list[int], n_at_once: int, duration_s: int) -> int:
    """Second by second."""
    running: list[int] = []
    n_begun, waiting = 0, list(order)
    for now in range(batch.at_s, max(ends_s, default=0) + 1):
        running = [until for until in running if until > now]
        while waiting and len(running) < n_at_once:
            k = waiting.pop(0)
            if ends_s[k] > now:
                running.append(min(now + duration_s, ends_s[k]))
                n_begun += 1
    return n_begun


@given(st.lists(st.tuples(st.integers(6, 40), st.integers(0, 2)), max_size=8), st.integers(1, 3), st.integers(1, 9),
       st.booleans())
def test_counts_equal_the_slow_twin(requests: list[tuple[int, int]], n_at_once: int, duration_s: int,
                                    is_across: bool) -> None:
    ends_s, position = [end for end, _ in requests], [place for _, place in requests]
    batch = Batch(5, np.arange(len(requests)), np.array(position, np.int64))
    migration = sim.Migration("longest-first", is_across, n_at_once, duration_s)
    order = sorted(range(len(requests)), key=lambda k: (0 if is_across else position[k], -ends_s[k], k))
    ends = np.array(ends_s, np.int64)
    assert n_carried_out(batch, ends, ends, migration) == _slowly(batch, ends_s, order, n_at_once, duration_s)


def test_a_random_order_is_of_the_seed() -> None:
    rng = np.random.default_rng(0)
    batch, ends_s = Batch(0, np.arange(200), np.zeros(200, np.int64)), rng.integers(1, 90_000, 200)
    counts = [n_carried_out(batch, ends_s, ends_s, sim.Migration("random", seed=seed)) for seed in (0, 0, 1, 2, 3)]
    assert counts[0] == counts[1]
    assert len(set(counts)) > 1


@pytest.mark.parametrize(("at_s", "exits"), [
    (0, [60, 40]),  # first predictions
    (50, [60, 80]),  # 40 is outlived at 50, and doubles
    (60, [120, 80]),  # a total is outlived once the uptime reaches it
])  # fmt: skip
def test_expected_exits_are_of_the_age_then(at_s: int, exits: list[int]) -> None:
    trace = naive.trace_of([(0, 90, 1.0, 1.0), (0, 90, 1.0, 1.0)], 100)
    workload = sim.build_workload("trace", trace, cpu_cores=4, mem_gib=4, n_hosts=1)
    source = sim.Held(workload.request_ids, sim.one_step(np.array([60, 40])))
    assert expected_exits(workload, source, Batch(at_s, np.arange(2), np.zeros(2, np.int64))).tolist() == exits
