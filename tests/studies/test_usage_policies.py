"""Policies of the loop by usage: scores by hand, sums that follow arrivals and departures, and a plain replay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.simulator import Cluster, Request
from studies.policies.lifetime_period import lifetime_period
from studies.policies.usage_scores import (
    period_aware,
    squared_load,
    squares,
    summed_load,
    violating_share,
    violation_above_mean,
    violation_fit,
)
from studies.policies.usage_state import UsageProfile, departed, placed


def _cluster(profile: UsageProfile, n_hosts: int = 2, cores: int = 4) -> Cluster:
    capacity = np.full((n_hosts, 1), cores * 1000)
    return Cluster(capacity, capacity.copy(), np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.int64),
                   state=profile.state(n_hosts, len(profile.milli_cores)))


def _request(row: int) -> Request:
    return Request(row, np.array([1]), 0)


def test_scores_by_hand() -> None:
    """Host 0 runs (3, 1) cores, the newcomer uses (2, 1): 1 of its 3 is above 4; squares 2x3x2 + 4 + 2 + 1."""
    cluster = _cluster(UsageProfile(np.array([[3000, 1000], [2000, 1000]]), 0))
    placed(cluster, 0, _request(0), 0)
    new = _request(1)
    assert violating_share(cluster, 0, new, 0) == pytest.approx(1 / 3)
    assert violating_share(cluster, 1, new, 0) == 0.0
    assert squared_load(cluster, 0, new, 0) == pytest.approx(12 + 4 + 2 + 1)
    assert squared_load(cluster, 1, new, 0) == pytest.approx(4 + 1)
    assert summed_load(cluster, 0, new, 0) == 4000.0
    # mean load with it: (2.5, 1); host 0: min(2, 5 - 2.5) + min(1, 2 - 1); host 1: 0 + 0
    assert violation_above_mean(cluster, 0, new, 0) == 3000.0
    assert violation_above_mean(cluster, 1, new, 0) == 0.0
    departed(cluster, 0, 0, 9)
    assert not cluster.state.load.any() and not cluster.state.total.any()


def _workload(seed: int, n: int = 60) -> sim.Workload:
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 400, n))
    table = pd.DataFrame({"request_id": np.arange(n), "arrival_s": arrival,
                          "departure_s": arrival + rng.integers(1, 200, n), "cpu_cores": 1.0, "mem_gib": 1.0})
    return sim.build_workload("trace", sim.Trace(table, 600), cpu_cores=40, mem_gib=400, n_hosts=4)


@pytest.mark.parametrize("name", ["squares", pytest.param("period-aware", marks=pytest.mark.slow)])  # a loop each
@pytest.mark.parametrize("seed", [0, 1])
def test_squares_and_period_aware_place_as_a_plain_replay(seed: int, name: str) -> None:
    """A host of 40 cores holds every request, so that only scores decide."""
    workload = _workload(seed)
    profiles = np.random.default_rng(seed).integers(0, 4, (60, 3)) * 250
    profile = UsageProfile(profiles, workload.resources.index("cpu_cores"))

    def squared(load: np.ndarray, use: np.ndarray, line: np.ndarray) -> float:
        return float(((load + use) ** 2 - load**2).sum())

    def added(load: np.ndarray, use: np.ndarray, line: np.ndarray) -> float:
        return float((np.maximum(load + use - line, 0) - np.maximum(load - line, 0)).sum())

    make, score = (squares, squared) if name == "squares" else (period_aware, added)
    hosts: list[int] = []
    for k in range(60):
        now = workload.placed_s[k]
        load = np.zeros((4, 3), np.int64)
        for other, host in enumerate(hosts):
            if workload.departure_s[other] > now:
                load[host] += profiles[other]
        line = (load.sum(axis=0) + profiles[k]) // 4
        hosts.append(min(range(4), key=lambda host: (score(load[host], profiles[k], line), load[host].sum(), host)))
    assert sim.simulate(workload, make(profile)).host.tolist() == hosts


def _without_use(workload: sim.Workload) -> UsageProfile:
    return UsageProfile(np.zeros((60, 2), np.int64), workload.resources.index("cpu_cores"))


def test_without_use_lifetime_period_is_joint_fit() -> None:
    workload = _workload(3)
    source = sim.Oracle(workload)
    joint = sim.simulate(workload, "joint-fit", source).host.tolist()
    assert sim.simulate(workload, lifetime_period(_without_use(workload), 64), source).host.tolist() == joint


@pytest.mark.slow  # a loop of its own
def test_without_use_violation_fit_is_best_fit() -> None:
    workload = _workload(3)
    assert (sim.simulate(workload, violation_fit(_without_use(workload))).host.tolist()
            == sim.simulate(workload, "best-fit").host.tolist())


def test_lifetime_period_keeps_apart_what_is_busy_together() -> None:
    """Both requests stay as long; joint-fit puts them on one host, where they would use 6 of 4 cores by day."""
    table = pd.DataFrame({"request_id": [0, 1, 2], "arrival_s": [0, 1, 2], "departure_s": [90, 90, 90],
                          "cpu_cores": 1.0, "mem_gib": 1.0})
    workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=4, mem_gib=16, n_hosts=2)
    day, night = [3000, 0], [0, 3000]
    profile = UsageProfile(np.array([day, day, night]), workload.resources.index("cpu_cores"))
    source = sim.Oracle(workload)
    assert sim.simulate(workload, "joint-fit", source).host.tolist() == [0, 0, 0]
    assert sim.simulate(workload, lifetime_period(profile), source).host.tolist() == [0, 1, 0]


def test_bad_profiles_and_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        UsageProfile(np.zeros((2, 3)), 0)
    with pytest.raises(ValueError, match="must be from 0"):
        UsageProfile(np.array([[-1]]), 0)
    with pytest.raises(ValueError, match="weight must be one of 1, 4, 16, 64"):
        lifetime_period(UsageProfile(np.zeros((1, 1), np.int64), 0), 2)
