"""What CONTRIBUTING asks of a policy: a test of its scorers with the arithmetic, and a slow twin."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from naive_replay import Replay
from sojourn.simulator import POLICIES, PerResource, Policy
from studies.policies import STUDY_POLICIES

FOLDER = Path(__file__).resolve().parent
STUDIES = FOLDER.parents[1] / "studies"
ALL = {**POLICIES, **STUDY_POLICIES}


def scorers_of(policy: Policy) -> set[str]:
    """The names of the functions that score a host."""
    plain = [each.scorer if isinstance(each, PerResource) else each for each in policy.scorers]
    return {getattr(each, "py_func", each).__name__ for each in plain}


def called_in_tests(source: str) -> Iterator[str]:
    """Names of the functions that the test functions of a file call, as they are called in their own module."""
    tree = ast.parse(source)
    real = {alias.asname or alias.name: alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
            for alias in node.names}
    for test in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")):
        for call in (node for node in ast.walk(test) if isinstance(node, ast.Call)):
            function = call.func.value if isinstance(call.func, ast.Attribute) else call.func  # draw.py_func(...)
            if isinstance(function, ast.Name):
                yield real.get(function.id, function.id)


TESTED = {name for file in sorted([*FOLDER.glob("test_*.py"), *STUDIES.glob("test_*.py")])
          if file.name != Path(__file__).name for name in called_in_tests(file.read_text())}


@pytest.mark.parametrize("policy", ALL.values(), ids=lambda policy: policy.name)
def test_each_scorer_has_a_test_with_its_arithmetic(policy: Policy) -> None:
    untested = scorers_of(policy) - TESTED
    assert not untested, f"{policy.name} needs tests of its scorers in {FOLDER.name}/: {', '.join(sorted(untested))}"


def two_requests() -> Replay:
    """One after the other, on two hosts."""
    return Replay([0, 60], [600, 900], [[2, 4], [1, 2]], [[8, 16], [8, 16]], [[(0, 600)], [(0, 840)]], 1_000)


@pytest.mark.parametrize("name", ALL)
def test_each_policy_has_a_slow_twin(name: str) -> None:
    assert all(host in (0, 1) for host in two_requests().run(name))


def test_a_policy_without_test_or_twin_is_found() -> None:
    def brand_new(*_: Any) -> float:
        return 0.0

    scorer: Callable[..., float] = brand_new
    policy = Policy("brand-new", scorers=(scorer,))
    assert scorers_of(policy) - TESTED == {"brand_new"}
    with pytest.raises(ValueError, match="brand-new"):
        two_requests().run("brand-new")
