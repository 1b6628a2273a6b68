"""What kept things are kept under: all code and libraries that decide them, and none that only draws."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sojourn
from sojourn.flows.compare import grid
from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.compare.grid import Cell
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.stages.feature_rows import feature_code
from sojourn.flows.stages.ingest import input_hash
from sojourn.flows.store import code_version
from sojourn.flows.store.code_version import source_commit, source_hash
from sojourn.source_closure import NoSource, SourceTree, installed

READS = (
    "features/describe.py", "features/synthetic.py", "features/synthetic.py", "features/trace.py",
    "features/readers/swf.py", "features/readers/_rows.py", "features/readers/openb.py", "features/read_report.py",
    "features/creation.py", "features/split.py", "serving/inputs/owner.py", "serving/predictor.py",
    "serving/bundle/bundle.py", "simulator/loop/replay.py", "simulator/policies/lava.py", "simulator/page/page.py",
    "simulator/page/static_figures.py", "simulator/page/figures.py", "simulator/page/comparison_data.py",
    "models/lifetime/hazard.py", "models/curve_table.py", "models/measures/concordance.py",
    "flows/stages/configured_trace.py", "flows/stages/windows.py", "flows/compare/learning.py",
    "flows/compare/replay.py", "flows/stages/build_features.py", "flows/cli.py", "flows/progress.py",
    "flows/compare/comparison_tables.py", "simulator/measures/columns.py",
)  # fmt: skip
"""Files of ours that the tests edit."""


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Appends a text to a file of the package, in a copy that keys are made of from then on."""
    folder = tmp_path / "copy" / "sojourn"
    shutil.copytree(sojourn.__path__[0], folder, ignore=shutil.ignore_patterns("__pycache__"))

    def append(name: str, text: str) -> None:
        with (folder / name).open("a") as file:
            file.write(text)
        tree = SourceTree(folder)
        monkeypatch.setattr(code_version, "installed", lambda: tree)
        source_hash.cache_clear()

    source_hash.cache_clear()
    yield append
    source_hash.cache_clear()


def stale(edit: Callable[[str, str], None], key: Callable[[], str]) -> set[str]:
    """The files of READS an edit of which changes a key."""
    found, before = set(), key()
    for name in READS:
        edit(name, "# an edit\n")
        if (after := key()) != before:
            found.add(name)
            before = after
    return found


def _cell(tmp_path: Path, policy: str, predictor: str = "oracle", start: str = "cold") -> Cell:
    config = CompareConfig.model_validate({
        "store": tmp_path, "n_requests": 1_000, "policies": (policy,), "predictors": (predictor,), "seeds": (0,),
        "starts": (start,)})
    return next(cell for cell in config.cells() if cell.predictor is not None and cell.predictor.name == predictor)


SYNTHETIC = {"features/describe.py", "features/synthetic.py", "features/trace.py"}
ROWS = {"features/trace.py", "features/creation.py", "serving/inputs/owner.py"}
REPLAY = SYNTHETIC | {"simulator/loop/replay.py", "simulator/policies/lava.py", "flows/compare/replay.py"}


def test_a_generated_trace_is_made_anew_after_an_edit_of_all_that_its_generator_imports(
        edit: Callable[[str, str], None]) -> None:
    assert stale(edit, lambda: input_hash(RetrainConfig().source)) == {*SYNTHETIC, "flows/stages/configured_trace.py"}


def test_a_file_is_read_anew_after_an_edit_of_its_own_reader_alone(
        edit: Callable[[str, str], None], tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("; a log")
    config = RetrainConfig(trace=tmp_path / "log.swf", reader="swf")
    assert stale(edit, lambda: input_hash(config.source)) == {
        "features/readers/swf.py", "features/readers/_rows.py", "features/read_report.py", "features/trace.py",
        "flows/stages/configured_trace.py"}


def test_features_are_built_anew_after_an_edit_of_what_builds_them(edit: Callable[[str, str], None]) -> None:
    assert stale(edit, feature_code) == {*ROWS, "flows/stages/build_features.py"}


def test_a_cell_is_replayed_anew_after_an_edit_of_what_decides_it(
        edit: Callable[[str, str], None], tmp_path: Path) -> None:
    cell = _cell(tmp_path, "nilas")
    assert stale(edit, cell.key) == REPLAY


def test_a_later_part_is_replayed_anew_where_its_cut_may_move(
        edit: Callable[[str, str], None], tmp_path: Path) -> None:
    cell = _cell(tmp_path, "nilas", start="warm")
    cut = ROWS | {"features/split.py", "flows/stages/windows.py", "flows/compare/learning.py",
                  "flows/stages/build_features.py"}
    assert stale(edit, cell.key) == REPLAY | cut


def test_a_model_is_fitted_anew_after_an_edit_of_what_it_learns_by(
        edit: Callable[[str, str], None], tmp_path: Path) -> None:
    cell = _cell(tmp_path, "nilas", "km", "warm")
    learnt = ROWS | {"features/split.py", "flows/stages/windows.py", "flows/compare/learning.py",
                     "flows/stages/build_features.py", "serving/bundle/bundle.py",
                     "models/lifetime/hazard.py", "models/curve_table.py"}
    assert stale(edit, cell.key) == REPLAY | learnt


def test_a_module_that_a_generator_imports_from_now_on_enters_its_key(edit: Callable[[str, str], None]) -> None:
    edit("features/new_shapes.py", "SHAPES = 1\n")
    before = input_hash(RetrainConfig().source)
    edit("features/new_shapes.py", "MORE = 2\n")
    assert input_hash(RetrainConfig().source) == before
    edit("features/synthetic.py", "\n\ndef shapes():\n    from sojourn.features import new_shapes\n")
    with_it = input_hash(RetrainConfig().source)
    assert with_it != before
    edit("features/new_shapes.py", "SHAPES = 3\n")
    assert input_hash(RetrainConfig().source) != with_it


def test_what_draws_reports_or_orchestrates_is_imported_by_nothing_that_is_kept() -> None:
    for maker in (grid._REPLAYED_BY, grid._LEARNT_BY, grid._CUT_BY, "sojourn.flows.stages.feature_rows"):
        assert not {"plotly", "matplotlib", "rich", "prefect", "mlflow", "typer", "pydantic"} & set(
            installed().libraries(maker)), maker


def test_another_version_of_a_library_that_decides_a_thing_is_another_key(
        edit: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, Callable[[], str]] = {
        "trace": lambda: input_hash(RetrainConfig().source), "features": feature_code,
        "cell": _cell(tmp_path, "nilas").key, "curves": _cell(tmp_path, "nilas", "km", "warm").key}
    before = {name: key() for name, key in keys.items()}
    own, seen = code_version._version, {}
    for library in ("numpy", "pandas", "numba", "lightgbm", "sksurv", "prefect", "mlflow", "plotly"):
        monkeypatch.setattr(code_version, "_version", lambda name, up=library: own(name) + "+1" * (name == up))
        source_hash.cache_clear()
        seen[library] = {name for name, key in keys.items() if key() != before[name]}
    learns, computes = {"curves"}, {"features", "cell", "curves"}
    assert seen == {"numpy": {*computes, "trace"}, "pandas": {*computes, "trace"}, "numba": computes,
                    "lightgbm": learns, "sksurv": learns, "prefect": set(), "mlflow": set(), "plotly": set()}


@pytest.mark.parametrize("library", sorted({
    library for maker in (grid._REPLAYED_BY, grid._LEARNT_BY, "sojourn.flows.stages.feature_rows",
                          "sojourn.features.readers")
    for library in installed().libraries(maker)}))
def test_every_library_has_a_version(library: str) -> None:
    assert code_version._version(library)[0].isdigit()


def test_without_source_everything_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compiled:
        def hash(self, *names: str) -> str:
            raise NoSource("sojourn.x must be installed with its source")

    monkeypatch.setattr(code_version, "installed", Compiled)
    source_hash.cache_clear()
    assert feature_code() == source_hash("sojourn.features.synthetic") != ""
    source_hash.cache_clear()


def test_the_commit_is_told_of_a_checkout_that_holds_the_source_and_of_no_other(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*asked: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *asked]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def told() -> str | None:
        source_commit.cache_clear()
        return source_commit()

    package = tmp_path / "sojourn" / "__init__.py"
    package.parent.mkdir()
    package.write_text("")
    monkeypatch.setattr(sojourn, "__file__", str(package))
    assert told() is None  # in no checkout
    git("init", "-q")
    (tmp_path / "other.txt").write_text("1")
    git("add", "other.txt")
    git("commit", "-qm", "other")
    assert told() is None  # a package that lies in somebody's checkout
    git("add", "sojourn")
    git("commit", "-qm", "ours")
    head = git("rev-parse", "HEAD").strip()
    assert told() == head
    package.write_text("# changed")
    assert told() == f"{head}-changed"
    monkeypatch.setenv("PATH", "")
    assert told() is None
    source_commit.cache_clear()
