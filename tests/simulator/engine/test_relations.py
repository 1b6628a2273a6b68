"""Relations between replays: what may not matter, and ways to compute the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import naive
import sojourn.simulator as sim
import studies.policies  # noqa: F401  # their names are known then
from made_workloads import cases, each_policy
from sojourn.features.synthetic import synthesize

NEVER_DRAINED = 10**9


def busy(n: int = 300, seed: int = 0, time: int = 60, amount: float = 1.0) -> list[Any]:
    """Requests at odd times and of odd amounts, so that no two hosts are equally good by chance."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 500, n))
    stay = np.where(rng.random(n) < 0.8, rng.integers(1, 20, n), rng.integers(50, 400, n))
    cores, mem = rng.integers(200, 4_000, n) / 1_000, rng.integers(100, 8_000, n) / 1_024
    return [(int(a) * time, int(a + s) * time, float(c) * amount, float(m) * amount)
            for a, s, c, m in zip(arrival, stay, cores, mem, strict=True)]


def workload_of(rows: list[Any], horizon: int, cores: np.ndarray, gib: np.ndarray) -> sim.Workload:
    trace = naive.trace_of(rows, horizon)
    hosts = pd.DataFrame({"host_id": range(len(cores)), "cpu_cores": cores, "mem_gib": gib})
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)))


CORES = np.random.default_rng(7).permutation(np.arange(15_011, 18_000, 149)) / 1_000
GIB = np.random.default_rng(8).permutation(np.arange(30_001, 36_000, 299))[: len(CORES)] / 1_024


@pytest.mark.parametrize("policy", each_policy(["best-fit", "worst-fit", "la-binary", "nilas", "lava"]))
def test_the_order_of_hosts_does_not_matter(policy: str) -> None:
    order = np.random.default_rng(1).permutation(len(CORES))
    plain = workload_of(busy(), 60_000, CORES, GIB)
    mixed = workload_of(busy(), 60_000, CORES[order], GIB[order])
    expected, found = (sim.simulate(one, policy, sim.Oracle(one)) for one in (plain, mixed))
    assert (expected.host >= 0).sum() > 250
    assert np.append(order, -1)[found.host].tolist() == expected.host.tolist()
    assert found.metrics == expected.metrics


@pytest.mark.parametrize("policy", each_policy(sim.POLICIES))
def test_the_unit_of_amounts_does_not_matter(policy: str) -> None:
    # a factor of 4 leaves every share the same to the last bit
    small, large = (workload_of(busy(amount=scale), 60_000, CORES * scale, GIB * scale) for scale in (1.0, 4.0))
    expected, found = (sim.simulate(one, policy, sim.Oracle(one)) for one in (small, large))
    assert (large.need == 4 * small.need).all()
    assert found.host.tolist() == expected.host.tolist()


@pytest.mark.parametrize("policy", each_policy(["best-fit", "first-fit", "worst-fit", "nilas-unbucketed"]))
def test_the_units_of_time_and_amounts_do_not_matter_together(policy: str) -> None:
    """For policies without times of their own; predictions are scaled as the lifetimes are."""
    slow = workload_of(busy(time=420, amount=4.0), 420_000, CORES * 4.0, GIB * 4.0)
    fast = workload_of(busy(), 60_000, CORES, GIB)
    total = sim.NoisyOracle(fast, 1.0).curves(fast.trace.requests).total_s
    found, expected = (sim.simulate(one, policy, sim.Held(one.request_ids, sim.one_step(scale * total)))
                       for one, scale in ((slow, 7), (fast, 1)))
    assert found.host.tolist() == expected.host.tolist()
    assert found.metrics.empty_hosts_pct == pytest.approx(expected.metrics.empty_hosts_pct)


def check_extents(policy: str, case: Any, is_ranked: bool | None, is_checked: bool = False) -> None:
    """A drain that never comes changes nothing but which loop is compiled."""
    workload, curves, _ = case
    source = sim.Held(workload.request_ids, curves)
    plain = sim.simulate(workload, policy, source)
    full = sim.simulate(workload, policy, source, is_ranked=is_ranked, is_checked=is_checked,
                        upkeep=[sim.Drain(0, NEVER_DRAINED, NEVER_DRAINED + 1)])
    assert full.host.tolist() == plain.host.tolist()
    assert replace(full.metrics, n_rescores=0) == replace(plain.metrics, n_rescores=0)
    pd.testing.assert_frame_equal(full.series, plain.series)


@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_what_cannot_happen_does_not_matter(case: Any) -> None:
    check_extents("nilas", case, is_ranked=False, is_checked=True)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["best-fit", "lava", "nilas-60s"])
@settings(deadline=None, max_examples=30)
@given(case=cases())
def test_what_cannot_happen_does_not_matter_in_depth(policy: str, case: Any) -> None:
    check_extents(policy, case, is_ranked=None)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["nilas", "lava"])
@settings(deadline=None, max_examples=30)
@given(case=cases(are_hosts_alike=True))
def test_exact_exits_decide_as_rescoring_everything(policy: str, case: Any) -> None:
    """With a second's patience every host is asked anew at each new second, and after each event on it."""
    workload, curves, _ = case
    source = sim.Held(workload.request_ids, curves)
    known = sim.POLICIES[policy]
    exact = sim.simulate(workload, known, source)
    every = sim.simulate(workload, replace(known, name="impatient", refresh_s=1), source)
    assert exact.host.tolist() == every.host.tolist()
    assert exact.metrics.n_rescores <= every.metrics.n_rescores


@pytest.mark.slow
def test_exact_exits_need_few_rescores() -> None:
    workload = sim.build_workload("synthetic", synthesize(60_000, seed=0))
    total = np.sort(workload.total_s)
    uptime = np.unique(np.append(0, np.quantile(total, np.linspace(0.04, 0.9999, 23)).astype(np.int64)))
    means = [int(total[total > u].mean()) for u in uptime]
    curve = sim.Curves(np.array([0, len(uptime)]), uptime, np.maximum(means, np.append(uptime[1:], 0)),
                       np.zeros(len(total), np.int64))
    for source in (sim.Oracle(workload), sim.Held(workload.request_ids, curve)):
        for policy in ("nilas", "lava"):
            metrics = sim.simulate(workload, policy, source).metrics
            assert metrics.n_rescores <= 0.3 * metrics.n_requests, (policy, metrics.n_rescores / metrics.n_requests)
