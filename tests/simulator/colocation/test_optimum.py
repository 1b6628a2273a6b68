"""The optimum of small instances, against trying every placement."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from sojourn.simulator.colocation import UNITS, Colocation, host_loads, optimum, place, violations

ROOT = Path(__file__).parents[3]


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


def test_only_these_files_import_or_tools() -> None:
    parts = ("features", "models", "serving", "simulator", "flows")
    users = {file.relative_to(ROOT).as_posix() for part in parts for file in (ROOT / part).rglob("*.py")
             if "from ortools" in file.read_text()}
    assert users == {"simulator/colocation/optimum.py", "simulator/planning/_cp_sat.py",
                     "simulator/planning/_mixed_integer.py"}
