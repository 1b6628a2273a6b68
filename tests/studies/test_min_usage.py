"""Baselines of MinUsageTime packing; the arithmetic stands above each row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.simulator import Cluster, Request
from sojourn.simulator.engine.policy_check import check_compiled
from studies.policies import MIN_USAGE, classify_departure, hybrid, move_to_front
from studies.policies.classify_departure import interval_mismatch, interval_state
from studies.policies.hybrid import duration_class, hybrid_state, is_of_own, kind_mismatch
from studies.policies.move_to_front import front_state, places_behind

HOUR = 3600


def hosts_with(state: Any, n_hosts: int = 3, cores: int = 8) -> Cluster:
    """Empty hosts."""
    capacity = np.full((n_hosts, 1), cores)
    return Cluster(capacity, capacity.copy(), np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.int64), state=state)


def come(module: Any, hosts: Cluster, host: int, asked: Request, now: int = 0) -> None:
    """What the engine does."""
    hosts.n_running[host] += 1
    module.placed(hosts, host, asked, now)


def go(module: Any, hosts: Cluster, host: int, row: int, now: int = 0) -> None:
    module.departed(hosts, host, row, now)
    hosts.n_running[host] -= 1
    if hosts.n_running[host] == 0:
        module.emptied(hosts, host, now)


def asked(row: int, exit_s: int, need: int = 2, age_s: int = 0) -> Request:
    return Request(row, np.array([need]), exit_s, age_s)


def test_move_to_front_counts_placements_since_a_hosts_last_one() -> None:
    hosts = hosts_with(front_state(3, 9))
    for row, host in enumerate((0, 1, 0, 1, 1)):
        come(move_to_front, hosts, host, asked(row, 0))
    # five placements: host 1 had the fifth, host 0 the third; host 2 is empty: 5 + 1
    assert [places_behind(hosts, host, asked(5, 0), 0) for host in range(3)] == [2, 0, 6]
    go(move_to_front, hosts, 1, 1)
    # a departure moves nothing
    assert [places_behind(hosts, host, asked(5, 0), 0) for host in range(3)] == [2, 0, 6]


@pytest.mark.parametrize(("exit_s", "expected"), [
    # intervals of 6 h: hosts have 0 and 1, the third is empty; 5:59:59 is in 0, 6:00 in 1, 12:00 in 2
    (6 * HOUR - 1, [0, 2, 1]), (6 * HOUR, [2, 0, 1]), (12 * HOUR, [2, 2, 1]),
    # a prediction that has passed counts as now (3 h)
    (-9 * HOUR, [0, 2, 1]),
])
def test_classes_by_departure(exit_s: int, expected: list[int]) -> None:
    hosts = hosts_with(interval_state(3, 9))
    come(classify_departure, hosts, 0, asked(0, 5 * HOUR))
    come(classify_departure, hosts, 1, asked(1, 7 * HOUR))
    come(classify_departure, hosts, 0, asked(2, 90 * HOUR))  # no room elsewhere: the host keeps its interval
    assert [interval_mismatch(hosts, host, asked(3, exit_s), 3 * HOUR) for host in range(3)] == expected
    go(classify_departure, hosts, 1, 1)
    assert interval_mismatch(hosts, 1, asked(3, exit_s), 3 * HOUR) == 1


@pytest.mark.parametrize(("lifetime_s", "expected"), [
    # up to 2 min; 4; 8; 2^10 min = 17.07 h
    (-5, 1), (120, 1), (121, 2), (240, 2), (241, 3), (61_440, 10), (61_441, 11),
])  # fmt: skip
def test_classes_of_the_hybrid_algorithm_double(lifetime_s: int, expected: int) -> None:
    assert duration_class(lifetime_s) == expected


def test_few_of_a_type_share_general_hosts_and_many_have_their_own() -> None:
    hosts = hosts_with(hybrid_state(4, 9), 4, cores=16)
    # class 4 (8 to 16 min): on general hosts up to 16 / (2 sqrt(4)) = 4 cores
    come(hybrid, hosts, 0, asked(0, 900, need=3))
    assert not is_of_own(hosts, asked(1, 900, need=1), 0)
    assert is_of_own(hosts, asked(1, 900, need=2), 0)
    # general host, empty ones
    assert [kind_mismatch(hosts, host, asked(1, 900, need=1), 0) for host in range(4)] == [0, 1, 1, 1]
    # with 2 more it is 5: a host of its own, which is to be opened
    assert [kind_mismatch(hosts, host, asked(1, 900, need=2), 0) for host in range(4)] == [2, 1, 1, 1]
    come(hybrid, hosts, 1, asked(1, 900, need=2))
    # now that there is one, a small one goes there, too
    assert [kind_mismatch(hosts, host, asked(2, 900, need=1), 0) for host in range(4)] == [2, 0, 1, 1]
    # the next interval of 16 min is another type, and so is class 3
    assert [kind_mismatch(hosts, host, asked(2, 960 + 900, need=1), 960) for host in range(4)] == [0, 2, 1, 1]
    assert [kind_mismatch(hosts, host, asked(2, 480, need=1), 0) for host in range(4)] == [0, 2, 1, 1]
    # without its own host the type's 3 cores on host 0 count: 3 + 1 <= 4; without those, 4 are few
    go(hybrid, hosts, 1, 1)
    assert [kind_mismatch(hosts, host, asked(2, 900, need=1), 0) for host in range(4)] == [0, 1, 1, 1]
    assert is_of_own(hosts, asked(2, 900, need=4), 0)
    go(hybrid, hosts, 0, 0)
    assert not is_of_own(hosts, asked(2, 900, need=4), 0)


def test_what_came_in_an_earlier_interval_counts_no_more() -> None:
    hosts = hosts_with(hybrid_state(3, 9), cores=16)
    come(hybrid, hosts, 0, asked(0, 900, need=4))  # class 4, interval 0
    come(hybrid, hosts, 0, asked(1, 1000 + 900, need=1), now=1000)  # class 4, interval 1
    # 1 + 3 <= 4, though 4 more of the type before run on
    assert not is_of_own(hosts, asked(2, 1000 + 900, need=3), 1000)
    # one that is to migrate from a general host counts once: 4 <= 4, not 1 + 4
    assert not is_of_own(hosts, asked(1, 1000 + 900, need=4), 1000)
    go(hybrid, hosts, 0, 0, now=1001)
    # taken away from nothing: still 1
    assert not is_of_own(hosts, asked(2, 1000 + 900, need=3), 1000)
    assert is_of_own(hosts, asked(2, 1000 + 900, need=4), 1000)
    # one that migrates keeps the interval in which it began: 0 for 900 s with an age of 1,000 s
    assert not is_of_own(hosts, asked(3, 900, need=4, age_s=1000), 1000)


@pytest.mark.parametrize(("policy", "hosts"), [
    # class 4 and 16 cores, 4 on general hosts: 3 are few, the next 3 are 6 and open host 1, the 2 join it; class 7
    # (64 to 128 min) alone has 16 / (2 sqrt(7)) = 3.02 on general hosts, so the 4 open host 2
    ("hybrid", [0, 1, 1, 2]),
    # all leave in the first 6 h
    pytest.param("classify-departure", [0, 0, 0, 0], marks=pytest.mark.slow),  # a loop of its own
])
def test_it_takes_the_first_host_of_a_kind(policy: str, hosts: list[int]) -> None:
    rows = [(0, 800, 3.0), (0, 800, 3.0), (0, 800, 2.0), (10, 5_000, 4.0)]
    table = pd.DataFrame([(k, begin, end, cores, 1.0) for k, (begin, end, cores) in enumerate(rows)],
                         columns=["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"])
    workload = sim.build_workload("trace", sim.Trace(table, 6_000), cpu_cores=16, mem_gib=64, n_hosts=3)
    assert sim.simulate(workload, policy, sim.Oracle(workload)).host.tolist() == hosts


def test_residents_are_asked_only_before_a_deadline() -> None:
    hooks = sim.POLICIES["joint-exact"].hooks
    assert hooks is not None
    with pytest.raises(ValueError, match="resident must come with at_deadline, got it alone"):
        replace(hooks, at_deadline=None)


def test_a_state_without_deadlines_is_a_named_tuple_all_the_same() -> None:
    policy = MIN_USAGE["move-to-front"]
    assert policy.hooks is not None
    other = replace(policy, hooks=replace(policy.hooks, state=lambda n_hosts, n_requests: np.zeros(n_hosts)))
    with pytest.raises(ValueError, match="must be a NamedTuple of NumPy arrays, got ndarray"):
        check_compiled(other, 1, np.zeros(1))
