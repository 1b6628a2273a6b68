"""No forest that is accepted makes compiled code read beside its arrays, or loading take more than is stated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
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
from sojourn.serving.native import NATIVE

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


SANITIZED = """
import importlib.util, runpy, sys
name = "sojourn.serving.native.compiled"
spec = importlib.util.spec_from_file_location(name, sys.argv.pop(1))
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.skipif(NATIVE is None or shutil.which("gcc") is None, reason="gcc or the extension is not there")
def test_the_extension_reads_nothing_beside_its_memory(tmp_path: Path) -> None:
    """Built anew with gcc's sanitizers, which end the process at the first address or overflow that is wrong."""
    built = tmp_path / "compiled.abi3.so"
    source = Path(str(NATIVE.__file__)).with_name("compiled.c")
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-ffp-contract=off", "-fsanitize=address,undefined",
                    "-fno-sanitize-recover=all", f"-I{sysconfig.get_path('include')}", str(source), "-o", str(built),
                    "-lm"], check=True)
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    environment = os.environ | {"LD_PRELOAD": library.strip(), "ASAN_OPTIONS": "detect_leaks=0",
                                "PYTHONMALLOC": "malloc",
                                "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-c", SANITIZED, str(built), str(TESTS / "hostile_forests.py"), "60"],
                         env=environment, text=True, capture_output=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-3_000:]
    assert run.stdout == "ok\n"
