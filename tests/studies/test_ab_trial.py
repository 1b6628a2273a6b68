"""Halves of a pool, trials on them, and a policy that counts from a time on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from studies.ab_trial import Trial, ab_trial, halves
from studies.policies.switched import switched


def workload_of(n: int = 400, n_hosts: int = 9, warmup_s: int = 0) -> sim.Workload:
    rng = np.random.default_rng(0)
    arrival = np.sort(rng.integers(0, 50_000, n))
    stay = np.where(rng.random(n) < 0.8, rng.integers(60, 3_600, n), rng.integers(7_200, 40_000, n))
    rows: list[Any] = [(int(a), int(a + s), float(c), 1.0) for a, s, c in
                       zip(arrival, stay, rng.choice([1.0, 2.0, 4.0], n), strict=True)]
    trace = naive.trace_of(rows, 100_000)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 32.0, "mem_gib": 64.0})
    return sim.Workload("test", trace, hosts, trace.lifetime_s(), warmup_s)


def test_halves_hold_every_host_and_request_once() -> None:
    workload = workload_of(warmup_s=1_000)
    a, b = halves(workload, np.random.default_rng(1))
    assert sorted([*a.hosts["host_id"], *b.hosts["host_id"]]) == list(range(9))
    assert sorted([*a.request_ids, *b.request_ids]) == list(range(400))
    assert (len(a.hosts), len(b.hosts), a.warmup_s) == (5, 4, 1_000)
    for half in (a, b):
        assert (half.total_s == workload.total_s[half.request_ids]).all()
    # 400 requests, each with 5 in 9: 222 +- 4 x sqrt(400 x 20/81) = 40
    assert abs(len(a.trace) - 222) < 40
    again, other = (halves(workload, np.random.default_rng(seed))[0] for seed in (1, 2))
    assert again.request_ids.tolist() == a.request_ids.tolist()
    assert other.hosts["host_id"].tolist() != a.hosts["host_id"].tolist()


def test_a_request_goes_where_it_can_fit() -> None:
    trace = naive.trace_of([(t, t + 10, 8.0, 1.0) for t in range(50)], 100)
    hosts = pd.DataFrame({"host_id": [0, 1], "cpu_cores": [8.0, 4.0], "mem_gib": 64.0})
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    for seed in range(4):
        with pytest.raises(ValueError, match="requests must be at least one, got none"):
            halves(workload, np.random.default_rng(seed))
    mixed = naive.trace_of([(t, t + 10, 8.0 if t % 2 else 4.0, 1.0) for t in range(50)], 100)
    parts = halves(sim.Workload("test", mixed, hosts, mixed.lifetime_s()), np.random.default_rng(0))
    small = next(half for half in parts if half.hosts["cpu_cores"].iloc[0] == 4)
    assert set(small.trace.requests["cpu_cores"]) == {4.0}


def test_a_trial_is_the_two_replays_and_their_difference() -> None:
    workload = workload_of(warmup_s=20_000)
    trial = ab_trial(workload, "nilas", sim.Oracle, seed=3)
    a, b = halves(workload, np.random.default_rng(3))
    ours, theirs = sim.simulate(a, "nilas", sim.Oracle(a)), sim.simulate(b)
    # 500 bins of 200 s, 400 of them after the warm-up: ten blocks of 40, whose mean is the whole's
    difference_pp = ours.metrics.empty_hosts_pct - theirs.metrics.empty_hosts_pct
    assert trial.by_block().mean() == pytest.approx(difference_pp)
    assert trial.by_block(is_adjusted=True).mean() == pytest.approx(
        difference_pp - ours.bound_empty_hosts_pct + theirs.bound_empty_hosts_pct)
    assert isinstance(trial, Trial)


def test_what_can_not_be_split_is_refused() -> None:
    with pytest.raises(ValueError, match=r"hosts must .*, got 1"):
        halves(workload_of(n=2, n_hosts=1), np.random.default_rng(0))
    bound = replace(workload_of(), constraints=sim.Constraints(apart_by="cpu_cores"))
    with pytest.raises(ValueError, match="workload must have no constraints on hosts"):
        halves(bound, np.random.default_rng(0))


@pytest.mark.slow
def test_a_switched_policy_is_best_fit_and_then_itself() -> None:
    workload, source = workload_of(), sim.Oracle(workload_of())
    never, always = (sim.simulate(workload, switched(sim.POLICIES["nilas"], at_s), source) for at_s in (10**6, 0))
    best, nilas = sim.simulate(workload), sim.simulate(workload, "nilas", source)
    assert never.host.tolist() == best.host.tolist()
    assert always.host.tolist() == nilas.host.tolist() != best.host.tolist()


@pytest.mark.slow  # one more loop to compile
def test_a_switch_leaves_what_came_before_alone() -> None:
    workload = workload_of()
    found = sim.simulate(workload, switched(sim.POLICIES["nilas"], 25_000), sim.Oracle(workload))
    is_before = workload.placed_s < 25_000
    best = sim.simulate(workload)
    assert found.host[is_before].tolist() == best.host[is_before].tolist()
    assert found.host.tolist() != best.host.tolist()


@pytest.mark.parametrize("name", ["random", "worst-fit", "first-fit"])
def test_a_policy_without_packing_is_not_switched(name: str) -> None:
    with pytest.raises(ValueError, match=f"policy must be scorers of whole hosts, then PACKING, .*, got '{name}'"):
        switched(sim.POLICIES[name], 0)
