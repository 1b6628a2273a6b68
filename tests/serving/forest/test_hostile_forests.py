"""No forest that is accepted makes compiled code read beside its arrays, or loading take more than is stated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile_forests
from made_forests import comb
from sojourn.serving.forest import AgeFeatures, MaskWalk, varying_walk
from sojourn.serving.forest.leaf_masks import leaf_masks
from sojourn.serving.forest.walks import RangeWalk

TESTS = Path(hostile_forests.__file__).parent


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_walks_at_the_edges_equal_their_slow_twin(seed: int) -> None:
    hostile_forests.check_walks(np.random.default_rng(seed))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_first_answer_at_the_edges_equals_the_long_way(seed: int) -> None:
    hostile_forests.check_first_answer(np.random.default_rng(seed))


def test_tables_of_turns_that_would_not_fit_into_memory_are_not_made() -> None:
    """63 thresholds against 300 ages turn at 18,900 values, of 300 rows each: 45 MB; against 200 ages, 20 MB."""
    forest = comb(np.linspace(1.0, 2.0, 63).tolist(), n_features=3, feature=1)
    for n_ages, is_met in ((200, True), (300, False)):
        ages_s = np.arange(1.0, n_ages + 1)
        ages = AgeFeatures((0,), (False,), tuple(ages_s.tolist()), tuple(np.log10(ages_s).tolist()))
        assert (leaf_masks(forest, ages) is not None) == is_met
        walk = varying_walk(forest, np.arange(float(n_ages)), ages)
        assert isinstance(walk, MaskWalk if is_met else RangeWalk)
        rows = np.array([[300.0, 0.0, 0.0]])
        found = [int((np.linspace(1.0, 2.0, 63) < 300.0 / age_s).sum()) for age_s in ages_s]
        assert walk.scores(rows)[0].tolist() == found


@pytest.mark.slow
def test_no_kernel_reads_beside_its_arrays(tmp_path: Path) -> None:
    """Compiled anew with every index checked: an IndexError would end the process."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    run = subprocess.run([sys.executable, str(TESTS / "hostile_forests.py"), "120"], env=environment, text=True,
                         capture_output=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-3_000:]
    assert run.stdout == "ok\n"
