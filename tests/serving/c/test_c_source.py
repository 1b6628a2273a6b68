"""Models in C: compiled without a warning, raw scores bit-equal, answers equal, and no bundle can inject code."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naive_forest
from made_bundles import Made
from made_c import GCC, CModels, code_of, compiled, needs_c
from made_forests import N_FEATURES, made_bundle, random_forest, random_rows, without_sets
from sojourn.serving import Bundle, BundleError, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.c import c_source
from sojourn.serving.c.c_source import CSource, plain_text
from sojourn.serving.curves import HALF_S, LONGEST_S, N_STEPS_MAX, lifetime_class
from sojourn.serving.forest import LEQ, MEMBER, Forest, OnnxForest

pytestmark = needs_c
KINDS = ("hazard", "hazard-limit", "uptime", "once")
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
OTHER_CODE = pytest.mark.parametrize("kind", ["hazard-limit", *(pytest.param(kind, marks=pytest.mark.slow)
                                                                for kind in ("uptime", "once"))])
"""A hazard with a limit has all that one without has."""
N_FORESTS = 4
LIMITS_S = (60.0, 59.999, 120.5, 3_600.0, 86_400.0, 94_608_000.0, 94_608_001.0, 4e6)
"""Some of them are no limits; half of some lies beyond the last edge."""
DOCS = Path(__file__).resolve().parents[3] / "docs" / "serving" / "c.md"


def named(kind: str) -> str:
    """A kind as a part of a name in C."""
    return kind.replace("-", "_")


@pytest.fixture(scope="module")
def forests() -> dict[str, Forest]:
    drawn = {f"{named(kind)}{idx}": random_forest(np.random.default_rng([idx, len(kind)]), kind)
             for kind in KINDS for idx in range(N_FORESTS)}
    return {name: forest if idx % 2 else without_sets(forest) for idx, (name, forest) in enumerate(drawn.items())}


@pytest.fixture(scope="module")
def bundles(forests: dict[str, Forest], made: Made) -> dict[str, Bundle]:
    random = {name: made_bundle(forest, name.rstrip("0123456789").replace("_", "-"))
              for name, forest in forests.items()}
    return random | {f"made_{named(kind)}": load_bundle(made.folders[kind]) for kind in KINDS}


@pytest.fixture(scope="module")
def models(bundles: dict[str, Bundle], tmp_path_factory: pytest.TempPathFactory) -> CModels:
    return CModels(tmp_path_factory.mktemp("c"), [c_source(bundle, name) for name, bundle in bundles.items()])


@EVERY_KIND
def test_raw_scores_have_the_bits_of_the_slow_twin_and_of_onnx_runtime(forests: dict[str, Forest], models: CModels,
                                                                       bundles: dict[str, Bundle], kind: str) -> None:
    for idx in range(N_FORESTS):
        name = f"{named(kind)}{idx}"
        forest = forests[name]
        rows = random_rows(np.random.default_rng(idx), forest, 500)
        found = models.scores(name, rows)
        assert found.tolist() == [naive_forest.forest_score(forest, row) for row in rows.tolist()]
        assert found.tobytes() == OnnxForest(bundles[name].model, forest.n_features).scores(rows).tobytes()


@pytest.mark.slow
@EVERY_KIND
def test_rows_by_the_million_have_the_bits_of_onnx_runtime(made: Made, tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(7)
    drawn = random_forest(rng, kind, n_trees=60, depth=8)
    pairs = {"drawn": made_bundle(drawn, kind), "learnt": load_bundle(made.folders[kind])}
    models = CModels(tmp_path, [c_source(bundle, name) for name, bundle in pairs.items()])
    for name, bundle in pairs.items():
        forest = drawn if name == "drawn" else CurveBuilder(bundle.schema, bundle.model, is_compiled=False).forest
        runtime = OnnxForest(bundle.model, forest.n_features)
        for _ in range(10):
            rows = random_rows(rng, forest, 100_000)
            assert models.scores(name, rows).tobytes() == runtime.scores(rows).tobytes()


def asked_of(bundle: Bundle, rng: np.random.Generator) -> np.ndarray:
    """Uptimes at and beside all that an answer can turn on, with shares and horizons."""
    builder = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    numbers = bundle.schema.numbers
    of_limits = [share * limit_s - HALF_S for share in numbers.shares for limit_s in LIMITS_S]
    turns = np.array([*numbers.edges, *builder.thresholds, *of_limits, 100.0, 1e4])
    turns = turns[(turns > 0.0) & (turns < 1e15)]
    uptimes_s = np.concatenate([[0.0, -0.0, 5e-324, 0.5, 1e9, 1e18, 1e308], turns, np.nextafter(turns, 0.0),
                                np.nextafter(turns, np.inf), 10.0 ** rng.uniform(0.0, 8.0, 40)])
    shares = np.resize([1e-300, 1e-9, 0.1, 0.5, 0.9, 1.0 - 2.0**-53], len(uptimes_s))
    horizons_s = rng.permutation(np.resize([0.0, 1.0, 3_600.0, 1e7, 1e308, *turns[:40]], len(uptimes_s)))
    return np.column_stack([uptimes_s, rng.permutation(shares), horizons_s])


def answers_of(builder: CurveBuilder, features: list[float], asked: np.ndarray) -> list[tuple[float, ...]]:
    curve = builder.curve(features)
    return [(curve.remaining(uptime_s), curve.quantile(share, uptime_s), curve.survival(horizon_s, uptime_s),
             curve.next_change(uptime_s), lifetime_class(curve.remaining(uptime_s)))
            for uptime_s, share, horizon_s in asked.tolist()]


@pytest.mark.parametrize("name", [f"{named(kind)}{idx}" for kind in KINDS for idx in range(0, N_FORESTS, 3)]
                         + [f"made_{named(kind)}" for kind in KINDS])
def test_curves_answer_as_in_python(models: CModels, bundles: dict[str, Bundle], made: Made, name: str) -> None:
    rng = np.random.default_rng(3)
    bundle = bundles[name]
    builder = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    if name.startswith("made"):
        features = np.vstack([made.rows.features[rng.integers(0, len(made.rows), 25)],
                              np.full((1, made.rows.features.shape[1]), np.nan)])
    else:
        features = np.ascontiguousarray(random_rows(rng, builder.forest, 25)[:, :N_FEATURES])
        assert (features[:, 3] < 0.0).any()  # values against the age that rise
        if bundle.schema.numbers.shares:
            features[::2, bundle.schema.numbers.limit_place] = np.resize(LIMITS_S, len(features[::2]))
    asked = asked_of(bundle, rng)
    found = models.answers(name, features, asked)
    expected = np.array([answers_of(builder, row, asked) for row in features.tolist()])
    assert np.isfinite(expected[..., :3]).all()
    np.testing.assert_array_equal(found[..., [0, 1, 3, 4]], expected[..., [0, 1, 3, 4]])
    np.testing.assert_allclose(found[..., 2], expected[..., 2], rtol=0.0, atol=1e-12)


@EVERY_KIND
def test_bad_arguments_give_nan_and_class_0(models: CModels, kind: str) -> None:
    features = np.zeros((1, N_FEATURES))
    for bad in (-1.0, -5e-324, math.nan, math.inf, -math.inf):
        assert np.isnan(models.answers(f"{named(kind)}0", features, np.array([[bad, 0.5, 1.0]]))[0, 0, :4]).all()
        assert models.answers(f"{named(kind)}0", features, np.array([[bad, 0.5, 1.0]]))[0, 0, 4] == 0.0
        found = models.answers(f"{named(kind)}0", features, np.array([[1.0, 0.5, bad]]))[0, 0]
        assert np.isnan(found).tolist() == [False, False, True, False, False]
    for bad in (0.0, 1.0, -0.1, 1.1, math.nan):
        found = models.answers(f"{named(kind)}0", features, np.array([[1.0, bad, 1.0]]))[0, 0]
        assert np.isnan(found).tolist() == [False, True, False, False, False]


def test_a_model_without_splits_on_the_age_and_without_a_grid_is_written(tmp_path: Path) -> None:
    found = _stump_answers(tmp_path, (2.0, 3.0), np.array([[0.0, 0.5, 60.0], [7.0, 0.5, 60.0]]))
    assert found["hazard"][0, 3] == math.inf


def test_an_uptime_and_a_total_beyond_three_years_are_answered_as_in_python(tmp_path: Path) -> None:
    found = _stump_answers(tmp_path, (8.5, 9.5), np.array([[0.0, 0.5, 60.0], [1.0, 0.9, 1e8], [2e8, 0.5, 1e8]]))
    assert found["once"][:, 1].tolist() == [LONGEST_S] * 3


def _stump_answers(folder: Path, leaves: tuple[float, float], asked: np.ndarray) -> dict[str, np.ndarray]:
    """What the C of a forest of one split answers, by kind; asserts that it is what Python answers."""
    stump = {"mode": np.array([LEQ], np.uint8), "roots": np.array([0]), "feature": np.array([0]),
             "split": np.array([1.0]), "on_true": np.array([~0]), "on_false": np.array([~1]),
             "is_nan_true": np.array([True]), "leaves": np.array(leaves), "member_start": np.array([0, 0]),
             "members": np.array([])}
    widths = {"hazard": N_FEATURES + 3, "hazard-limit": N_FEATURES + 3, "uptime": N_FEATURES + 1, "once": N_FEATURES}
    bundles = {kind: made_bundle(Forest(n, is_zero_missing=np.zeros(n, bool), **stump), kind, grid=[])
               for kind, n in widths.items()}
    models = CModels(folder, [c_source(bundle, named(kind)) for kind, bundle in bundles.items()], "-O0")
    features, found = np.full((1, N_FEATURES), np.nan), {}
    for kind, bundle in bundles.items():
        builder = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
        found[kind] = models.answers(named(kind), features, asked)[0]
        assert found[kind].tolist() == [list(answer) for answer in answers_of(builder, features[0].tolist(), asked)]
    return found


@pytest.mark.slow
def test_large_trees_and_sets_take_wider_numbers(tmp_path: Path) -> None:
    """One tree of 80,000 nodes, as full as can be; its first has a set of 70,000 values."""
    n = 80_000
    node, rng = np.arange(n), np.random.default_rng(0)
    on_true, on_false = (np.where(child < n, child, n - child - 1) for child in (2 * node + 1, 2 * node + 2))
    forest = Forest(
        N_FEATURES, np.array([0]), np.where(node == 0, 1, 0), np.where(node == 0, 0.0, rng.normal(0.0, 9.0, n)),
        np.where(node == 0, MEMBER, LEQ).astype(np.uint8), on_true, on_false, np.zeros(n, bool), np.arange(n + 1.0),
        np.append(0, np.full(n, 70_000)), np.arange(70_000.0), np.zeros(N_FEATURES, bool),
    )  # fmt: skip
    source = c_source(made_bundle(forest, "once"), "wide")
    assert "int32_t skip" in source.header
    models = CModels(tmp_path, [source])
    rows = np.array([[depth + 0.5, value, 0, 0, 0, 0] for depth in range(-20, 20) for value in (-1, 69_999)])
    assert models.scores("wide", rows).tolist() == [naive_forest.forest_score(forest, row) for row in rows.tolist()]


@OTHER_CODE
def test_it_keeps_no_state_and_calls_nothing_but_mathematics(made: Made, tmp_path: Path, kind: str) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm is installed")
    file = code_of(c_source(load_bundle(made.folders[kind])), tmp_path)
    target = compiled(tmp_path / "model.o", file, options=("-c", "-fno-stack-protector"))
    listed = subprocess.run([nm, "-P", str(target)], capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[:2] for line in listed.splitlines()]
    constant = "HISTORY_RULES"  # it holds addresses, so the linker writes it once, then it is read-only
    assert not [name for name, where in symbols if where in "bBdDcC" and name != constant]
    assert {name for name, where in symbols if where == "U"} <= {
        "ceil", "exp", "expm1", "floor", "frexp", "ldexp", "log10", "log1p", "pow", "sqrt", "memset", "memcpy",
        "memmove", "__cpu_model", "_GLOBAL_OFFSET_TABLE_"}
    assert sorted(name for name, where in symbols if where == "T") == [
        f"sojourn_lifetime_{part}" for part in
        ("admit", "curve_fill", "encode", "ended", "lifetime_class", "next_change", "parse", "quantile", "remaining",
         "score", "started", "state_begin", "state_resume", "state_size", "survival", "withdraw")]


@OTHER_CODE
@pytest.mark.parametrize(("compiler", "options"), [("clang", ()), ("gcc", ("-Wconversion", "-Wshadow", "-std=gnu17")),
                                                   ("gcc", ("-O0",))])
def test_other_compilers_and_options_take_it(made: Made, tmp_path: Path, kind: str, compiler: str,
                                             options: tuple[str, ...]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} is installed")
    file = code_of(c_source(load_bundle(made.folders[kind])), tmp_path)
    assert compiled(tmp_path / "model.o", file, compiler=compiler, options=("-c", *options)).stat().st_size > 1_000


@OTHER_CODE
@pytest.mark.parametrize("options", [("-std=c++17", "-O0"), ("-std=c++20", "-Wconversion")])
def test_the_code_is_cpp_too(made: Made, tmp_path: Path, kind: str, options: tuple[str, ...]) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ is installed")
    code = code_of(c_source(load_bundle(made.folders[kind])), tmp_path).rename(tmp_path / "model.cpp")
    main = tmp_path / "main.cpp"
    main.write_text('#include "sojourn_lifetime.h"\n'
                    "int main() { sojourn_lifetime_curve curve; double features[SOJOURN_LIFETIME_N_FEATURES] = {0.0};\n"
                    "sojourn_lifetime_curve_fill(&curve, features);\n"
                    "return sojourn_lifetime_remaining(&curve, 0.0) >= 0.0 ? 0 : 1; }\n")
    subprocess.run(["g++", *options, "-Wall", "-Wextra", "-Werror", "-pedantic", str(main), str(code), "-o",
                    str(tmp_path / "main")], check=True)
    subprocess.run([str(tmp_path / "main")], check=True)


def _answers_of_the_docs(bundle: Bundle) -> str:
    """What the examples of the docs print, from Python."""
    names = bundle.schema.encoder.feature_names()
    features = [{"cpu_cores": 2.0, "mem_gib": 8.0, "hour": 9.5, "weekday": 0.0}.get(name, math.nan) for name in names]
    curve = CurveBuilder(bundle.schema, bundle.model).curve(features)
    return "".join(f"after {uptime_s:.0f} s: {curve.remaining(uptime_s):.0f} s left on average, 1 in 10 stays longer "
                   f"than {curve.quantile(0.9, uptime_s):.0f} s\n" for uptime_s in (0.0, 3_600.0, 86_400.0))


def test_the_example_of_the_docs_runs_and_prints_what_python_answers(made: Made, tmp_path: Path) -> None:
    example, *_ = re.findall(r"^```c\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "main.c").write_text(example)
    bundle = load_bundle(made.folders["hazard"])
    c_source(bundle).write(tmp_path)
    program = compiled(tmp_path / "main", tmp_path / "main.c")
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    assert printed == _answers_of_the_docs(bundle)


def test_the_go_example_of_the_docs_runs_and_prints_what_python_answers(made: Made, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go compiler (go) is installed")
    (example,) = re.findall(r"^```go\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    package = tmp_path / "package"
    package.mkdir()
    (package / "main.go").write_text(example)
    (package / "go.mod").write_text("module example\n")
    (package / "model.c").write_text('#define SOJOURN_LIFETIME_IMPLEMENTATION\n#include "sojourn_lifetime.h"\n')
    bundle = load_bundle(made.folders["hazard"])
    c_source(bundle).write(package)
    environment = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GOPATH": str(tmp_path / "path"),
                                "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1"}
    subprocess.run([go, "build", "-o", "main", "."], cwd=package, env=environment, check=True)
    printed = subprocess.run([str(package / "main")], capture_output=True, text=True, check=True).stdout
    assert printed == _answers_of_the_docs(bundle)


@EVERY_KIND
def test_the_same_bundle_gives_the_same_bytes_and_another_one_others(made: Made, kind: str) -> None:
    bundle = load_bundle(made.folders[kind])
    source = c_source(bundle)
    assert c_source(load_bundle(made.folders[kind])) == source
    assert source.header.isascii()
    for told in (bundle.version, f"family made-{kind}", f"kind {kind}"):
        assert told in source.header
    other = c_source(replace(bundle, version="ba9876543210"))
    assert other.header != source.header


HOSTILE = ("*/ int evil(void); /*", "\\", "ends in \\\n#error evil\n", "??/", "a??/\n#error evil", '"; int evil; "',
           "// evil", "\r#define evil", "\x00evil", "\u202eevil\u2066", "${name} %s $NAME {0}", "evil" * 100, "",
           "a b", "a_b", "A+B", "\ud800", "hour", "x_0", "é", "int", "N_FEATURES")  # fmt: skip


@pytest.mark.parametrize(("kind", "family"), [
    *zip(KINDS, HOSTILE, strict=False),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in zip(KINDS, HOSTILE[4:8], strict=True))])
def test_a_hostile_bundle_injects_no_code(tmp_path: Path, kind: str, family: str) -> None:
    """Preprocessed, the C is that of an innocent bundle but for the names of positions."""
    n = len(HOSTILE) + 2
    wide = random_forest(np.random.default_rng(0), kind)
    aged = np.arange(N_FEATURES, wide.n_features)
    forest = replace(wide, n_features=n + len(aged),
                     feature=np.where(wide.feature >= N_FEATURES, wide.feature - N_FEATURES + n, wide.feature),
                     is_zero_missing=np.resize(np.append(wide.is_zero_missing[:2], np.zeros(n, bool)), n + len(aged)))
    named = {"innocent": made_bundle(forest, kind, numbers=[f"x{idx}" for idx in range(n - 2)], family="plain"),
             "hostile": made_bundle(forest, kind, numbers=list(HOSTILE), family=family)}
    seen = {}
    for who, bundle in named.items():
        (tmp_path / who).mkdir()
        file = code_of(c_source(bundle, "m"), tmp_path / who)
        compiled(tmp_path / f"{who}.o", file, options=("-c",))
        for path in file.parent.iterdir():
            assert re.fullmatch(r"[\n -~]*", path.read_text())
            assert "??" not in path.read_text()
        printed = subprocess.run([str(GCC), "-std=c99", "-E", "-P", str(file)], capture_output=True, text=True,
                                 check=True).stdout
        seen[who] = re.sub(r"M_FEATURE_\w+ =", "M_FEATURE =", printed)
        symbols = re.findall(r"(M_FEATURE_\w+) = (\d+)", printed)
        assert len({symbol for symbol, _ in symbols}) == n
        assert [int(position) for _, position in symbols] == list(range(n))
    assert seen["hostile"] == seen["innocent"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_lands_in_comments_and_strings_is_plain(text: str) -> None:
    assert re.fullmatch("[A-Za-z0-9 _.,:;+()=<>-]{0,60}", plain_text(text))


@pytest.mark.parametrize("name", ["", "1a", "_a", "a_", "a__b", "a-b", "a b", "../a", "a/b", "a.c", "a\n", "é",
                                  "a" * 61])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name must be letters, digits and single `_`"):
        c_source(made_bundle(random_forest(np.random.default_rng(0), "once"), "once"), name)


def test_a_version_that_is_none_is_refused() -> None:
    bundle = made_bundle(random_forest(np.random.default_rng(0), "once"), "once")
    with pytest.raises(BundleError, match="version must be 12 hexadecimal digits, got"):
        c_source(replace(bundle, version='"; evil'))


def test_a_model_that_does_not_fit_is_refused() -> None:
    forest = random_forest(np.random.default_rng(0), "uptime")
    marked = np.append(np.zeros(N_FEATURES, bool), True)
    with pytest.raises(BundleError, match=r"model.onnx: what varies with the age"):
        c_source(made_bundle(replace(forest, is_zero_missing=marked), "uptime"))
    n = N_STEPS_MAX
    node = np.arange(n)
    steps = Forest(N_FEATURES + 1, node, np.full(n, N_FEATURES), node + 0.5, np.zeros(n, np.uint8), ~(2 * node),
                   ~(2 * node + 1), np.zeros(n, bool), np.zeros(2 * n), np.zeros(n + 1, np.int64), np.array([]),
                   np.zeros(N_FEATURES + 1, bool))
    with pytest.raises(BundleError, match="steps must be at most 4096 in C, got 4097"):
        c_source(made_bundle(steps, "uptime"))


def test_fast_math_is_refused(made: Made, tmp_path: Path) -> None:
    file = code_of(c_source(load_bundle(made.folders["once"])), tmp_path)
    with pytest.raises(RuntimeError, match="without -ffast-math"):
        compiled(tmp_path / "model.o", file, options=("-c", "-ffast-math"))


def test_only_earlier_exports_are_replaced_and_nothing_else_is_left(tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = CSource("m", "/* Written by sojourn model export-c. 1"), CSource("m", "2")
    old.write(tmp_path)
    with monkeypatch.context() as broken:
        def refuse(*_: Any) -> None:
            raise OSError("disk full")

        broken.setattr(Path, "write_bytes", refuse)
        with pytest.raises(OSError, match="disk full"):
            new.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["m.h"]
    assert (tmp_path / "m.h").read_text() == old.header
    assert new.write(tmp_path).read_text() == "2"
    with pytest.raises(ValueError, match=r"m\.h must be a file of an earlier export"):
        old.write(tmp_path)
