"""With rules, queues, failures, drains, waves, batches and migration every decision equals the slow twin's.

Compiling takes longer than replaying here, so few policies have everything compiled, and all else is asked of these.
"""

from typing import Any

import pytest
from hypothesis import given, settings

import sojourn.simulator as sim
from made_workloads import check_full, full_cases


@settings(deadline=None, max_examples=150)
@given(case=full_cases())
def test_all_that_can_happen_equals_the_slow_twin(case: Any) -> None:
    check_full(sim.POLICIES["nilas"], case, is_ranked=False)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "is_ranked"), [
    ("best-fit", True), ("la-binary", True), ("nilas", True), ("lava", True), ("lava", False), ("waste-min", True),
])  # fmt: skip
@settings(deadline=None, max_examples=120)
@given(case=full_cases(are_hosts_alike=True))
def test_all_that_can_happen_equals_the_slow_twin_in_depth(policy: str, is_ranked: bool, case: Any) -> None:
    check_full(sim.POLICIES[policy], case, is_ranked=is_ranked)
