"""Scorers that tell hosts apart by more than their arrays: the ranked scan decides as the plain one."""

from typing import Any

import numpy as np
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.simulator.engine.composition import are_empty_hosts_alike

PENALTY = np.linspace(1.0, 0.0, 200)
PENALTIES = tuple(PENALTY.tolist())


@sim.kernel
def by_array(cluster: Any, host: int, request: Any, now: int) -> float:
    return PENALTY[host]


@sim.kernel
def by_tuple(cluster: Any, host: int, request: Any, now: int) -> float:
    return PENALTIES[host]


@sim.kernel
def by_index(cluster: Any, host: int, request: Any, now: int) -> float:
    return float(1 - host % 2)


@sim.kernel
def penalty_of(hosts: Any, k: int) -> float:
    return PENALTY[k] + 0 * hosts.free[k, 0]


@sim.kernel
def by_callee(cluster: Any, host: int, request: Any, now: int) -> float:
    return penalty_of(cluster, host)


@sim.kernel
def by_neighbour(cluster: Any, host: int, request: Any, now: int) -> float:
    return float(cluster.n_running[host - 1])


@sim.kernel
def by_slice(cluster: Any, host: int, request: Any, now: int) -> float:
    return float(cluster.n_running[:host].sum())


@sim.kernel
def by_loop(cluster: Any, host: int, request: Any, now: int) -> float:
    for other in range(len(cluster.n_running)):
        if other == host:
            return float(other)
    return 0.0


@sim.kernel
def by_other_array(cluster: Any, host: int, request: Any, now: int) -> float:
    numbers = cluster.n_running
    numbers = PENALTY
    return numbers[host]


@sim.kernel
def by_new_name(cluster: Any, host: int, request: Any, now: int) -> float:
    k = host
    return PENALTY[k]


@sim.kernel
def free_of(hosts: Any, k: int, d: int) -> float:
    return float(hosts.free[k, d])


@sim.kernel
def by_own_room(cluster: Any, host: int, request: Any, now: int) -> float:
    """As ours do: through an alias, a callee, and an index that was read from the host's arrays."""
    free = cluster.free
    return free[host, 0] / 1e9 + PENALTY[cluster.n_running[host] % 3] + free_of(cluster, host, 0) / 1e9


APART = [by_array, by_tuple, by_index, by_callee, by_neighbour, by_slice, by_loop, by_other_array, by_new_name]


def policy_of(scorer: Any) -> sim.Policy:
    return sim.Policy(scorer.__name__, (scorer, *sim.PACKING))


def test_what_tells_hosts_apart_is_seen() -> None:
    assert [are_empty_hosts_alike(policy_of(scorer)) for scorer in APART] == [False] * len(APART)
    assert are_empty_hosts_alike(policy_of(by_own_room))


def test_a_function_whose_source_is_not_at_hand_is_not_proven() -> None:
    names: dict[str, Any] = {}
    exec("def typed(cluster, host, request, now):\n    return 0.0", names)
    assert not are_empty_hosts_alike(policy_of(sim.kernel(names["typed"])))


@pytest.mark.parametrize("name", sorted(sim.KNOWN_POLICIES))
def test_ours_do_not_tell_hosts_apart(name: str) -> None:
    # random does, and is never ranked: it does not end in the packing score
    assert are_empty_hosts_alike(sim.KNOWN_POLICIES[name]) == (name != "random")


@pytest.mark.parametrize("scorer", [by_array, *(pytest.param(scorer, marks=pytest.mark.slow) for scorer in (
    by_index, by_callee, by_neighbour, by_own_room))])
def test_ranked_and_plain_scan_decide_alike_whatever_a_scorer_reads(scorer: Any) -> None:
    workload = sim.build_workload("synthetic", synthesize(3_000, seed=0), load=0.5)
    ranked = sim.simulate(workload, policy_of(scorer), is_ranked=True)
    plain = sim.simulate(workload, policy_of(scorer), is_ranked=False)
    assert ranked.host.tolist() == plain.host.tolist()
