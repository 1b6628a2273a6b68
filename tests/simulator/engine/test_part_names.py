"""Names of the modules that a loop is composed of: none takes another's place but those that a chain may replace."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from sojourn.simulator import POLICIES, Policy
from sojourn.simulator.engine import composition
from sojourn.simulator.engine.composition import names_of_parts
from sojourn.simulator.loop import PARTS
from sojourn.simulator.policies import opens_host


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
def test_every_policy_replaces_only_what_it_may(policy: Policy) -> None:
    text, names = composition.composed(policy, 2, is_ranked=False, extent="full", is_checked=True)
    composition.composed(policy, 2, is_ranked=composition.is_packing_last(policy), extent="plain", is_checked=False)
    assert "def choose(" in text and "violation" in names


def test_a_scan_ends_early_only_for_the_scorer_that_it_was_declared_for() -> None:
    joint = POLICIES["joint-fit"]
    other = replace(joint, scorers=(opens_host, *joint.scorers))
    for policy, is_ranked, ends_early in ((joint, True, True), (joint, False, False), (other, True, False)):
        names = composition.composed(policy, 2, is_ranked=is_ranked, extent="plain", is_checked=False)[1]
        assert ("share_left" in names) == ends_early


def test_what_may_be_replaced_is_there_to_be_replaced() -> None:
    sources = {part.__name__: inspect.getsource(part) for part in PARTS}
    assert names_of_parts(sources).keys() >= composition.REPLACEABLE


@pytest.mark.parametrize("name", ["wait", "schedule", "World", "np"])
def test_a_part_must_not_define_what_another_part_defines_or_imports(name: str) -> None:
    sources = {part.__name__: inspect.getsource(part) for part in PARTS}
    with pytest.raises(ValueError, match=f"{name} must name one thing in all parts, got .* and added.{name}"):
        names_of_parts(sources | {"added": f"def {name}(): ..."})


def test_a_module_may_import_what_another_one_imports() -> None:
    sources = {part.__name__: inspect.getsource(part) for part in PARTS}
    imported = "import numpy as np\nfrom sojourn.simulator.loop.host_events import wait\nOWN: int = 1"
    assert names_of_parts(sources | {"added": imported})["OWN"] == "added.OWN"


def test_a_chain_must_leave_other_names_alone() -> None:
    composition.check_replaced(["choose", "is_allowed", "scorer_0", "may_take"])
    with pytest.raises(ValueError, match=r"names that a chain gives must be new .*, got admit, schedule"):
        composition.check_replaced(["choose", "schedule", "admit"])
