"""With rules, queues, failures, drains, waves, batches and migration every decision equals the slow twin's.

Compiling takes longer than replaying here, so few policies have everything compiled, and all else is asked of these.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import naive
import sojourn.simulator as sim
from made_workloads import check_full, full_cases, twin_of, with_all
from studies.policies import MIN_USAGE


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(case=full_cases())
def test_all_that_can_happen_equals_the_slow_twin(case: Any) -> None:
    check_full(sim.POLICIES["nilas"], case, is_ranked=False)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "is_ranked"), [
    ("best-fit", True), ("la-binary", True), ("nilas", True), ("lava", True), ("lava", False), ("waste-min", True),
    *((name, False) for name in MIN_USAGE),
    ("joint-exact", True), ("open-fgd", True),
])  # fmt: skip
@settings(deadline=None, max_examples=40)
@given(case=full_cases(are_hosts_alike=True))
def test_all_that_can_happen_equals_the_slow_twin_in_depth(policy: str, is_ranked: bool, case: Any) -> None:
    is_plain_too = is_ranked and policy in {"lava", "nilas", "open-fgd"}  # plain loops with every invariant and GPUs
    check_full(sim.KNOWN_POLICIES[policy], case if is_plain_too else with_all(case), is_ranked=is_ranked)


@pytest.mark.slow
def test_waste_min_remembers_each_request_once_as_the_slow_twin_does() -> None:
    # some 30 migrations each: in 7 of the 40 a request that counted again would change where others go
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = [(int(at), int(at + rng.integers(50, 400)), float(rng.integers(1, 8)), float(rng.integers(1, 12)))
                for at in np.sort(rng.integers(0, 300, 60))]
        trace = naive.trace_of(rows, 1_000)
        hosts = pd.DataFrame({"host_id": range(8), "cpu_cores": 16.0, "mem_gib": 32.0})
        workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
        upkeep = tuple(sim.Drain(host, 40 + 30 * host, 55 + 30 * host) for host in range(8))
        migration = sim.Migration("trace", duration_s=5)
        found = sim.simulate(workload, "waste-min", upkeep=upkeep, migration=migration, is_checked=True)
        twin = replace(twin_of(workload, [[(0, 60)]] * 60), upkeep=upkeep, migration=migration)
        assert found.host.tolist() == twin.run("waste-min"), seed
