"""Policies written in NumPy: equal to the same policy as scorers, and what they and scorers may not give."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import naive
import sojourn.simulator as sim
from made_workloads import cases
from sojourn.simulator import Cluster, Request, kernel
from sojourn.simulator.policies.nilas import BUCKET_S


def packing(cluster: Cluster, request: Request) -> tuple[np.ndarray, ...]:
    """Non-empty hosts first, then the least free share left, by resource."""
    left = np.divide(cluster.free - request.need, cluster.capacity, where=cluster.capacity > 0,
                     out=np.zeros(cluster.capacity.shape))
    return (cluster.n_running == 0, *np.abs(left).T)  # it is below 0 where there is no room


def best_fit(cluster: Cluster, request: Request, now: int) -> tuple[np.ndarray, ...]:
    return packing(cluster, request)


def nilas(cluster: Cluster, request: Request, now: int) -> tuple[np.ndarray, ...]:
    host_exit = np.where(cluster.n_running > 0, np.maximum(cluster.exit_s, now), now)
    return (np.searchsorted(BUCKET_S, request.exit_s - host_exit, side="right"), *packing(cluster, request))


BEST_FIT = sim.Policy("best-fit in NumPy", host_scores=best_fit)
NILAS = sim.Policy("nilas in NumPy", host_scores=nilas, predictions="current")


@pytest.mark.parametrize(("policy", "name"), [(BEST_FIT, "best-fit"), (NILAS, "nilas")])
@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_the_same_policy_in_numpy_decides_alike(policy: sim.Policy, name: str, case: Any) -> None:
    workload, curves, _ = case
    source = sim.Held(workload.request_ids, curves)
    found, expected = (sim.simulate(workload, one, source, is_ranked=False) for one in (policy, name))
    assert found.host.tolist() == expected.host.tolist()
    assert found.metrics.empty_hosts_pct == expected.metrics.empty_hosts_pct


def three_hosts(n_requests: int = 1, cores: float = 1.0) -> sim.Workload:
    """Hosts of 4, 4 and 2 cores, and requests "r0", "r1" ... at 10 s, 20 s ..."""
    trace = naive.trace_of([(10 * (k + 1), 90, cores, 1.0) for k in range(n_requests)], 100)
    named = sim.Trace(trace.requests.assign(request_id=[f"r{k}" for k in range(n_requests)]), 100)
    hosts = pd.DataFrame({"host_id": ["a", "b", "c"], "cpu_cores": [4.0, 4.0, 2.0], "mem_gib": 8.0})
    return sim.Workload("test", named, hosts, trace.lifetime_s())


def hosts_of(scores: Any, cores: float = 1.0, n_requests: int = 1) -> list[int]:
    policy = sim.Policy("x", host_scores=lambda cluster, request, now: scores)
    return sim.simulate(three_hosts(n_requests, cores), policy).host.tolist()


@pytest.mark.parametrize(("scores", "expected"), [
    (np.array([2.0, 1.0, 0.5]), 2),
    # equal: the lowest index
    (np.array([1, 1, 1]), 0),
    # the first level ties 0 and 2, the second parts them
    ((np.array([0.0, 1.0, 0.0]), np.array([5.0, 0.0, 4.0])), 2),
    # eight levels, of which the last one counts
    ((*[np.zeros(3)] * 7, np.array([1.0, 0.0, 1.0])), 1),
    # infinity keeps a host out on any level, also where it would be the best
    (np.array([np.inf, 3.0, np.inf]), 1),
    ((np.array([0.0, 1.0, 2.0]), np.array([np.inf, np.inf, 9.0])), 2),
    (np.array([np.inf, np.inf, np.inf]), -1),
])  # fmt: skip
def test_levels_and_infinity(scores: Any, expected: int) -> None:
    assert hosts_of(scores) == [expected]


def test_a_host_kept_out_by_infinity_is_a_filter() -> None:
    policy = sim.Policy("x", host_scores=lambda cluster, request, now: np.full(3, np.inf))
    assert dict(sim.simulate(three_hosts(), policy).metrics.rejections) == {"filter": 1}


def test_scores_of_hosts_without_room_are_not_looked_at() -> None:
    # 3 cores: the third host has 2
    assert hosts_of(np.array([1.0, 0.0, np.nan]), cores=3.0) == [1]
    assert hosts_of(np.array([1.0, 0.0, -1.0]), cores=3.0) == [1]


def raising(cluster: Cluster, request: Request, now: int) -> np.ndarray:
    if now == 20:
        raise ZeroDivisionError("no hosts left")
    return np.zeros(3)


@pytest.mark.parametrize(("scores", "message"), [
    (np.array([0.0, np.nan, 0.0]), "must score 0 or more, got less, infinity or NaN"),
    (np.array([0.0, -1.0, 0.0]), "must score 0 or more, got less, infinity or NaN"),
    (np.zeros(2), r"host_scores must be arrays of shape \(3,\), got \(2,\)"),
    (np.zeros((3, 1)), r"of shape \(3,\), got \(3, 1\)"),
    # no silent broadcasting
    (np.zeros(1), r"of shape \(3,\), got \(1,\)"),
    (0.0, r"of shape \(3,\), got \(\)"),
    (None, r"of shape \(3,\), got \(\)"),
    ((), "host_scores must give 1 to 8 arrays, got 0"),
    (tuple(np.zeros(3) for _ in range(9)), "host_scores must give 1 to 8 arrays, got 9"),
    (np.array(["a", "b", "c"]), "could not convert string to float"),
])  # fmt: skip
def test_what_numpy_policies_may_not_give(scores: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"policy 'x', asked about request 'r0' at 10 s,.*" + message):
        hosts_of(scores)


def test_a_numpy_policy_that_raises_is_named_with_request_and_time() -> None:
    expected = r"policy 'y', asked about request 'r1' at 20 s, must not raise, got ZeroDivisionError: no hosts left"
    with pytest.raises(ValueError, match=expected) as caught:
        sim.simulate(three_hosts(3), sim.Policy("y", host_scores=raising))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("spoil", [
    lambda cluster, request: cluster.free.fill(10**6),
    lambda cluster, request: cluster.capacity.__setitem__(0, 0),
    lambda cluster, request: cluster.n_running.__iadd__(1),
    lambda cluster, request: cluster.exit_s.sort(),
    lambda cluster, request: cluster.closed.fill(1),
    lambda cluster, request: cluster.is_updated.fill(1),
    lambda cluster, request: request.need.fill(0),
    lambda cluster, request: request.uptimes_s.fill(5),
    lambda cluster, request: request.overhang_s.fill(5),
    lambda cluster, request: cluster.free.setflags(write=True),
    lambda cluster, request: cluster.free[0].setflags(write=True),
    lambda cluster, request: cluster.free.base.setflags(write=True) if isinstance(
        cluster.free.base, np.ndarray) else cluster.free.base.__setitem__((0, 0), 7),
    lambda cluster, request: request.need.setflags(write=True),
    lambda cluster, request: request.uptimes_s.view().setflags(write=True),
    lambda cluster, request: setattr(cluster.n_running.flags, "writeable", True),
])
def test_a_numpy_policy_cannot_change_what_it_is_shown(spoil: Any) -> None:
    def spoiling(cluster: Cluster, request: Request, now: int) -> np.ndarray:
        spoil(cluster, request)
        return np.zeros(3)

    workload = three_hosts(2)
    policy = sim.Policy("y", host_scores=spoiling, predictions="current")
    curves = sim.Curves(np.array([0, 1, 2]), np.zeros(2), np.full(2, 60), None, np.full(2, 9))
    source = sim.Held(workload.request_ids, curves)
    refused = "(read-only|cannot set WRITEABLE flag to True of this array|cannot modify read-only memory)"
    with pytest.raises(ValueError, match=f"policy 'y', asked about request 'r0' at 10 s, .*{refused}"):
        sim.simulate(workload, policy, source)
    with pytest.raises((ValueError, TypeError), match=refused):
        sim.explain(workload, sim.Policy("y", host_scores=spoiling, predictions="current"), source, "r0")
    assert (workload.need == [1000, 1024]).all()


def test_a_numpy_policy_sees_the_cluster_and_no_state_of_the_engine() -> None:
    seen: list[tuple[Any, ...]] = []

    def looking(cluster: Cluster, request: Request, now: int) -> np.ndarray:
        seen.append((cluster.free[:, 0].tolist(), cluster.n_running.tolist(), len(cluster.state)))
        return np.zeros(3)

    sim.simulate(three_hosts(2), sim.Policy("y", host_scores=looking))
    assert seen == [([4000, 4000, 2000], [0, 0, 0], 0), ([3000, 4000, 2000], [1, 0, 0], 0)]


def test_an_interrupt_in_a_numpy_policy_ends_the_replay() -> None:
    def interrupted(cluster: Cluster, request: Request, now: int) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sim.simulate(three_hosts(), sim.Policy("y", host_scores=interrupted))


def test_host_scores_stand_alone() -> None:
    for more in ({"scorers": (peculiar,)}, {"filter": peculiar}, {"hooks": sim.POLICIES["lava"].hooks}):
        with pytest.raises(ValueError, match="host_scores must stand alone"):
            sim.Policy("y", host_scores=best_fit, **more)


@kernel
def peculiar(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Good on host 0; elsewhere by how many milli-cores are asked for: NaN, negative, infinite, raised."""
    if host == 0 or request.need[0] == 500:
        return 1.0
    if request.need[0] == 1000:
        return float(np.nan)
    if request.need[0] == 1100:
        return -0.5
    if request.need[0] == 1200:
        return float(np.inf)
    raise ArithmeticError("out of numbers")


@pytest.mark.parametrize(("cores", "message"), [
    (1.0, "must score 0 or more, got less, infinity or NaN"),
    (1.1, "must score 0 or more, got less, infinity or NaN"),
    (1.2, "must score 0 or more, got less, infinity or NaN"),
    (1.3, "must not raise, got ArithmeticError: out of numbers"),
])
def test_what_scorers_may_not_give(cores: float, message: str) -> None:
    policy = sim.Policy("z", (peculiar,))
    assert sim.simulate(three_hosts(1, 0.5), policy).host.tolist() == [0]
    with pytest.raises(ValueError, match=r"policy 'z', asked about request 'r0' at 10 s, " + message):
        sim.simulate(three_hosts(1, cores), policy)
