"""The C core of leaf masks: the bits of ONNX Runtime's scores, from tables that Python packs."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from made_c import compiled, needs_c
from made_forests import N_FEATURES, N_VARYING, random_forest, random_rows, without_sets
from sojourn.models import to_onnx
from sojourn.serving.forest import AgeFeatures, Forest, MaskTables, OnnxForest, mask_tables

pytestmark = needs_c
CORE = Path(__file__).resolve().parents[3] / "serving" / "c" / "core"
LOOPS = """#include "forest.h"
#include <stdlib.h>
static sj_forest read_tables(const void *const *tables)
{
    sj_forest forest;
    int idx = 0;
#define SJ_READ(type, name) forest.name = (const type *)tables[idx++];
    SJ_FOREST_FIELDS(SJ_READ)
#undef SJ_READ
    return forest;
}
void scores(const void *const *tables, const double *rows, long n, int n_row, int what, double *found)
{
    const sj_forest forest = read_tables(tables);
    void *scratch = malloc(sj_scratch_bytes(&forest));
    long idx;
    for (idx = 0; idx < n; idx++) {
        double *at = found + idx * (what == 0 ? 1 : forest.shape[SJ_N_STEPS]);
        if (what == 0) {
            *at = sj_row_score(&forest, rows + idx * n_row, scratch);
        } else if (what == 1) {
            sj_step_scores(&forest, rows + idx * n_row, at, scratch);
        } else {
            sj_interval_scores(&forest, rows + idx * n_row, at, scratch);
        }
    }
    free(scratch);
}
"""


@pytest.fixture(scope="module", params=["", "-DSJ_NO_AVX512", "-DSJ_PLAIN"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The core for the processor's widest vectors, for narrower ones, and without any."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "loops.c").write_text(LOOPS)
    options = ("-shared", "-fPIC", f"-I{CORE}", *([request.param] if request.param else []))
    return ctypes.CDLL(str(compiled(folder / "core.so", folder / "loops.c", options=options)))


def scores(library: ctypes.CDLL, tables: MaskTables, rows: np.ndarray, what: int) -> np.ndarray:
    """Scores of rows: 0 of each whole row, 1 at every step, 2 at every step with features set against the age."""
    found = np.empty((len(rows), 1 if what == 0 else int(tables.shape[6])))
    pointers = (ctypes.c_void_p * len(tables))(*(table.ctypes.data for table in tables))
    library.scores(pointers, ctypes.c_void_p(rows.ctypes.data), ctypes.c_long(len(rows)),
                   ctypes.c_int(rows.shape[1]), ctypes.c_int(what), ctypes.c_void_p(found.ctypes.data))
    return found


def _forest(seed: int, kind: str, n_trees: int = 6, depth: int = 5) -> Forest:
    return without_sets(random_forest(np.random.default_rng([seed, 5]), kind, n_trees, depth))


@pytest.mark.parametrize(("n_trees", "depth", "n_ages"), [(6, 5, 5), (1, 1, 1), (6, 5, 40), (70, 6, 41), (70, 6, 63)])
@pytest.mark.parametrize("kind", ["hazard", "uptime"])
def test_scores_have_the_bits_of_onnx_runtime(library: ctypes.CDLL, kind: str, n_trees: int, depth: int,
                                              n_ages: int) -> None:
    """Trees of up to 64 leaves, of which many are left; steps that fill no vector, one, and more."""
    forest = _forest(n_ages, kind, n_trees, depth)
    ages_s = np.geomspace(1.0, 1e6, n_ages)
    aged = AgeFeatures((2, 3), (True, False), tuple(ages_s.tolist()), tuple(np.log10(ages_s).tolist()))
    is_aged = kind == "hazard"
    grid = np.arange(float(n_ages)) if is_aged else np.append(forest.splits_on(N_FEATURES), np.inf)
    tables = mask_tables(forest, grid, aged) if is_aged else mask_tables(forest, grid)
    assert tables is not None
    rows = random_rows(np.random.default_rng(n_ages), forest, 150)
    runtime = OnnxForest(to_onnx(forest), forest.n_features)
    assert scores(library, tables, rows, 0)[:, 0].tobytes() == runtime.scores(rows).tobytes()
    features = np.ascontiguousarray(rows[:, :N_FEATURES])
    steps = np.tile(np.arange(len(grid)), len(rows))
    every = np.repeat(features, len(grid), axis=0)
    every = aged.rows(every, steps) if is_aged else np.column_stack([every, grid[steps]])
    found = scores(library, tables, features, 2 if is_aged else 1)
    assert found.tobytes() == runtime.scores(np.ascontiguousarray(every, dtype=np.float64)).tobytes()


@pytest.mark.parametrize("n_pairs", [4, 5, 30])
def test_any_number_of_features_is_set_against_the_age(library: ctypes.CDLL, n_pairs: int,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace with four keys of owners has nine; nothing bounds them but the number of columns."""
    monkeypatch.setitem(N_VARYING, "hazard", 2 * n_pairs + 1)
    forest, ages_s = _forest(n_pairs, "hazard", 30, 6), np.geomspace(1.0, 1e6, 36)
    aged = AgeFeatures((2, 3) * n_pairs, (True, False) * n_pairs, tuple(ages_s.tolist()),
                       tuple(np.log10(ages_s).tolist()))
    tables = mask_tables(forest, np.arange(36.0), aged)
    assert tables is not None
    rows = random_rows(np.random.default_rng(n_pairs), forest, 100)
    features = np.ascontiguousarray(rows[:, :N_FEATURES])
    every = aged.rows(np.repeat(features, 36, axis=0), np.tile(np.arange(36), len(rows)))
    expected = OnnxForest(to_onnx(forest), forest.n_features).scores(np.ascontiguousarray(every, dtype=np.float64))
    assert scores(library, tables, features, 2).tobytes() == expected.tobytes()


def test_what_does_not_fit_has_no_tables() -> None:
    forest, ages_s = _forest(0, "hazard"), tuple(np.geomspace(1.0, 1e6, 64).tolist())
    aged = AgeFeatures((2, 3), (True, False), ages_s, tuple(np.log10(ages_s).tolist()))
    assert mask_tables(forest, np.arange(64.0), aged) is None
    assert mask_tables(random_forest(np.random.default_rng(0), "hazard", 6, 9), np.arange(5.0), aged) is None


def test_the_fields_are_those_of_python_in_order_and_type() -> None:
    text = (CORE / "forest.h").read_text()
    fields = re.findall(r"^ {4}FIELD\((\w+), (\w+)\)", text, re.MULTILINE)
    tables = mask_tables(_forest(0, "uptime"), np.array([0.0, np.inf]))
    assert tables is not None
    assert [name for _, name in fields] == list(MaskTables._fields)
    names = {"double": "float64"}
    assert [names.get(kind, kind.removesuffix("_t")) for kind, _ in fields] == [table.dtype.name for table in tables]


def test_it_is_cpp_too(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ is installed")
    (tmp_path / "main.cpp").write_text('#include "forest.h"\nint main() { return 0; }\n')
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic",
                    f"-I{CORE}", "-c", str(tmp_path / "main.cpp"), "-o", str(tmp_path / "main.o")], check=True)
