"""Policies that declare `are_empty_hosts_alike`: the ranked scan ends at an empty host, and places as the plain one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sojourn.simulator as sim
from made_workloads import each_policy
from sojourn.features.synthetic import synthesize
from studies.policies import STUDY_POLICIES

DECLARED = [name for name, policy in {**sim.POLICIES, **STUDY_POLICIES}.items() if policy.are_empty_hosts_alike]
PENALTY = np.linspace(1.0, 0.0, 200)


@sim.kernel
def by_index(cluster: Any, host: int, request: Any, now: int) -> float:
    return PENALTY[host]


def placed(policy: sim.Policy, is_ranked: bool) -> list[int]:
    workload = sim.build_workload("synthetic", synthesize(3_000, seed=0), load=0.5)
    return sim.simulate(workload, policy, sim.Oracle(workload), is_ranked=is_ranked).host.tolist()


@pytest.mark.parametrize("name", each_policy(DECLARED))
def test_a_policy_that_declares_it_places_as_the_plain_scan(name: str) -> None:
    assert placed(sim.KNOWN_POLICIES[name], is_ranked=True) == placed(sim.KNOWN_POLICIES[name], is_ranked=False)


def test_a_scorer_that_distinguishes_empty_hosts_is_right_without_and_wrong_with_it() -> None:
    policy = sim.Policy("by-index", (by_index, *sim.PACKING))
    plain = placed(policy, is_ranked=False)
    assert placed(policy, is_ranked=True) == plain
    assert placed(replace(policy, are_empty_hosts_alike=True), is_ranked=True) != plain
