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

TESTS = Path(hostile_forests.__file__).parent


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=150)
def test_walks_at_the_edges_equal_their_slow_twin(seed: int) -> None:
    hostile_forests.check_walks(np.random.default_rng(seed))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_first_answer_at_the_edges_equals_the_long_way(seed: int) -> None:
    hostile_forests.check_first_answer(np.random.default_rng(seed))


@pytest.mark.slow
def test_no_kernel_reads_beside_its_arrays(tmp_path: Path) -> None:
    """Compiled anew with every index checked: an IndexError would end the process."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    run = subprocess.run([sys.executable, str(TESTS / "hostile_forests.py"), "300"], env=environment, text=True,
                         capture_output=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-3_000:]
    assert run.stdout == "ok\n"
