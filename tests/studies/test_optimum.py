"""The optimum of small instances, against trying every placement."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.simulator.colocation import UNITS, Colocation, host_loads, place, violations
from studies.optimum import optimum

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_placement_is_better(seed: int) -> None:
    use = np.random.default_rng(seed).integers(0, 8, (7, 3)) / 8
    colocation = Colocation(use, 3, 0.9)
    least = min(int(np.maximum(host_loads(colocation.used, np.array(hosts), 3) - UNITS, 0).sum())
                for hosts in itertools.product(range(3), repeat=7))
    found = optimum(colocation, np.zeros(7, np.int64))
    assert (found.status, found.gap_pct) == ("optimal", 0.0)
    assert found.severity_pct == pytest.approx(100 * least / colocation.used.sum())
    assert found.severity_pct == pytest.approx(violations(colocation.used, found.hosts, 3).severity_pct)
    assert found.hosts.tolist() == optimum(colocation, np.zeros(7, np.int64)).hosts.tolist()


def test_without_time_the_first_placement_stays_and_the_gap_is_shown() -> None:
    use = np.random.default_rng(3).integers(1, 8, (40, 12)) / 8
    colocation = Colocation(use, 8, 2.3)
    first = place(colocation, "squares", np.arange(40))
    found = optimum(colocation, first, limit_s=1e-6)
    assert found.status == "feasible"
    assert found.severity_pct <= violations(colocation.used, first, 8).severity_pct
    assert found.gap_pct == pytest.approx(found.severity_pct - found.bound_pct)
    assert found.gap_pct > 0


@pytest.mark.parametrize(("first", "words"), [
    ([0], r"first must be whole numbers of the shape \(5,\), got \[0\]"), ([0] * 6, "first must be whole numbers"),
    ([0, 1, 2, 0, 1], r"first must be 0 \.\. n_hosts - 1, 1, got 2 of request 2"),
    ([0, 1, 0, 1, -1], "got -1 of request 4"),
    ([0.0] * 5, "first must be whole numbers"), ("abcde", "first must be numbers, got 'abcde'"),
])  # fmt: skip
def test_a_first_placement_that_is_none_is_refused(first: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        optimum(Colocation(np.full((5, 2), 0.3), 2, 1.0), first)


@pytest.mark.parametrize(("settings", "words"), [
    ({"limit_s": 0.0}, "limit_s must be above 0, got 0.0"), ({"limit_s": float("nan")}, "limit_s must be above 0"),
    ({"seed": -1}, "seed must be a whole number, at least 0, got -1"), ({"seed": 1.5}, "seed must be a whole number"),
    ({"n_workers": 0}, "n_workers must be a whole number, at least 1, got 0"),
])  # fmt: skip
def test_settings_of_the_solver_that_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        optimum(Colocation(np.full((2, 2), 0.3), 2, 1.0), np.zeros(2, np.int64), **settings)


def test_only_the_planner_of_the_product_imports_or_tools() -> None:
    parts = ("features", "models", "serving", "simulator", "flows")
    users = {file.relative_to(ROOT).as_posix() for part in parts for file in (ROOT / part).rglob("*.py")
             if "from ortools" in file.read_text()}
    assert users == {"simulator/planning/_cp_sat.py"}
