"""Every placement of the engine equals the slow twin's, which recomputes everything at every decision."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import sojourn.simulator as sim
from made_workloads import cases, each_policy, twin_of
from sojourn.simulator import PACKING
from studies.policies import MIN_USAGE, VARIANTS

POLICY_NAMES = sorted({**sim.POLICIES, **MIN_USAGE})
RANKED_NAMES = [name for name in POLICY_NAMES if sim.KNOWN_POLICIES[name].scorers[-len(PACKING):] == PACKING]


@pytest.mark.parametrize("policy", each_policy(POLICY_NAMES))
@settings(deadline=None, max_examples=50)
@given(case=cases())
def test_every_decision_equals_the_slow_twin(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    source = sim.Held(workload.request_ids, curves)
    result = sim.simulate(workload, policy, source)
    expected = twin_of(workload, per_request, curves).run(policy)
    assert result.host.tolist() == expected


@pytest.mark.parametrize("policy", each_policy(RANKED_NAMES))
@settings(deadline=None, max_examples=60)
@given(case=cases(are_hosts_alike=True))
def test_ranked_and_plain_scan_decide_alike(policy: str, case: Any) -> None:
    workload, curves, _ = case
    source = sim.Held(workload.request_ids, curves)
    ranked = sim.simulate(workload, policy, source, is_ranked=True)
    plain = sim.simulate(workload, policy, source, is_ranked=False)
    assert ranked.host.tolist() == plain.host.tolist()
    pd.testing.assert_frame_equal(ranked.series, plain.series)


@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_oracle_and_one_shot_equal_the_slow_twin(case: Any) -> None:
    workload, curves, per_request = case
    sources: list[tuple[sim.LifetimeSource, list[Any]]] = [
        (sim.Oracle(workload), [[(0, int(total))] for total in workload.total_s]),
        (sim.OneShot(sim.Held(workload.request_ids, curves)), [curve[:1] for curve in per_request]),
    ]
    for source, pairs in sources:
        expected = twin_of(workload, pairs).run("nilas")
        assert sim.simulate(workload, "nilas", source).host.tolist() == expected


@pytest.mark.parametrize("policy", ["best-fit", "nilas"])
@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_empty_hosts_equal_the_slow_twin_without_warmup(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    cold = sim.Workload("test", workload.trace, workload.hosts, workload.total_s)
    result = sim.simulate(cold, policy, sim.Held(cold.request_ids, curves))
    twin = twin_of(cold, per_request)
    twin.run(policy)
    room = cold.trace.horizon_s * len(cold.hosts)
    assert result.metrics.empty_hosts_pct == pytest.approx(100 * twin.empty_seconds / room)
    assert (result.series["empty_hosts_pct"] * np.diff([*result.series["time_s"], cold.trace.horizon_s])).sum() == \
        pytest.approx(100 * twin.empty_seconds / len(cold.hosts))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*POLICY_NAMES, *sorted(VARIANTS)])
@settings(deadline=None, max_examples=40)
@given(case=cases())
def test_every_decision_equals_the_slow_twin_in_depth(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    expected = twin_of(workload, per_request, curves).run(policy)
    assert sim.simulate(workload, policy, sim.Held(workload.request_ids, curves)).host.tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lava-95", "lava-any-class", "lava-from-opening", "lava-no-class-down",
                                    "lava-no-class-up", "lava-soft", "lava-soft-expected", "lava-soft-joint",
                                    "nilas-60s", "nilas-unbucketed"])
@settings(deadline=None, max_examples=25)
@given(case=cases(are_hosts_alike=True))
def test_ranked_variants_decide_as_the_slow_twin(policy: str, case: Any) -> None:
    workload, curves, per_request = case
    expected = twin_of(workload, per_request, curves).run(policy)
    assert sim.simulate(workload, policy, sim.Held(workload.request_ids, curves)).host.tolist() == expected
