"""What kept things are kept under: all code and libraries that decide them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sojourn
from sojourn.flows.compare import grid
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.retrain import features as feature_rows
from sojourn.flows.retrain import features as partitioned_rows
from sojourn.flows.retrain import ingest as configured_trace
from sojourn.flows.retrain.features import feature_code
from sojourn.flows.retrain.ingest import input_hash
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.store import caches as code_version
from sojourn.flows.store.caches import source_commit, source_hash
from sojourn.source_closure import installed


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Appends a line to a file of the package, in a copy that keys are made of."""
    folder = tmp_path / "copy" / "sojourn"
    shutil.copytree(sojourn.__path__[0], folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_version, "_folder", lambda: folder)

    def append(name: str) -> None:
        with (folder / name).open("a") as file:
            file.write("# an edit\n")
        source_hash.cache_clear()

    source_hash.cache_clear()
    yield append
    source_hash.cache_clear()


def _cell(tmp_path: Path, policy: str, predictor: str = "oracle", start: str = "cold") -> Cell:
    config = CompareConfig.model_validate({
        "store": tmp_path, "n_requests": 1_000, "policies": (policy,), "predictors": (predictor,), "seeds": (0,),
        "starts": (start,)})
    return next(cell for cell in config.cells() if cell.predictor is not None and cell.predictor.name == predictor)


def _keys(folder: Path) -> dict[str, Callable[[], str]]:
    return {"trace": lambda: input_hash(RetrainConfig().source), "features": feature_code,
            "partitions": partitioned_rows.feature_code, "cell": _cell(folder, "nilas").key,
            "later cell": _cell(folder, "nilas", start="warm").key,
            "curves": _cell(folder, "nilas", "km", "warm").key}


ALL = {"trace", "features", "partitions", "cell", "later cell", "curves"}


def test_an_edit_makes_what_it_decides_anew(edit: Callable[[str], None], tmp_path: Path) -> None:
    keys = _keys(tmp_path)
    before = {what: key() for what, key in keys.items()}
    for name, stale in (
        ("features/synthetic.py", ALL), ("features/readers/swf.py", ALL),
        ("flows/retrain/ingest.py", {"trace"}),
        ("serving/inputs/owner.py", ALL),
        ("flows/retrain/features.py", {"features", "partitions", "later cell", "curves"}),
        ("flows/retrain/train.py", {"later cell", "curves"}),
        ("simulator/loop/replay.py", {"cell", "later cell", "curves"}),
        ("models/lifetime/hazard.py", ALL - {"trace"}),
        ("flows/cli.py", set[str]()), ("flows/compare/tables.py", set[str]()),
    ):
        edit(name)
        after = {what: key() for what, key in keys.items()}
        assert (name, {what for what in keys if after[what] != before[what]}) == (name, stale)
        before = after


@pytest.mark.parametrize(("makers", "rooms"), [
    (("sojourn.flows.retrain.ingest",), configured_trace.ROOMS),
    (("sojourn.flows.retrain.features",), feature_rows.ROOMS),
    (("sojourn.flows.compare.cells",), grid.REPLAYED_BY),
    (("sojourn.flows.placement.predictors", "sojourn.flows.retrain.train"), (*grid.LEARNT_BY, *grid.CUT_BY)),
])
def test_all_that_makes_a_kept_thing_is_in_its_rooms(makers: tuple[str, ...], rooms: tuple[str, ...]) -> None:
    """Of what a maker imports, what is below all parts, settings and workers decide nothing; inputs have own keys."""
    folder, found = Path(sojourn.__path__[0]), set[str]()
    for maker in makers:
        for module in installed().closure(maker):
            place = folder.joinpath(*module.split(".")[1:])
            file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
            found.add(str(file.relative_to(folder)))
    decide_nothing = ("flows/store/", "flows/settings/", "flows/workers/", "flows/console.py", "flows/process.py",
                      "flows/retrain/ingest.py", "flows/retrain/features.py")
    below = {name for name in found if "/" not in name or name.startswith(decide_nothing)}
    assert [name for name in sorted(found - below)
            if not any(name == room or name.startswith(f"{room}/") for room in rooms)] == []


def test_another_version_of_a_library_that_decides_a_thing_is_another_key(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = _keys(tmp_path)
    before = {name: key() for name, key in keys.items()}
    own, seen = code_version._version, {}
    for library in ("numpy", "lightgbm", "mlflow", "plotly"):
        monkeypatch.setattr(code_version, "_version", lambda name, up=library: own(name) + "+1" * (name == up))
        source_hash.cache_clear()
        seen[library] = {name for name, key in keys.items() if key() != before[name]}
    source_hash.cache_clear()
    learns = ALL - {"trace"}
    assert seen == {"numpy": ALL, "lightgbm": learns, "mlflow": set(), "plotly": set()}


def test_a_room_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"a room must .*, got 'features/none'"):
        source_hash("features/none")


def test_without_source_byte_code_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.pyc").write_bytes(b"1")
    monkeypatch.setattr(code_version, "_folder", lambda: tmp_path)
    source_hash.cache_clear()
    before = source_hash("room"), source_hash("room/a.py")
    (tmp_path / "room" / "a.pyc").write_bytes(b"2")
    source_hash.cache_clear()
    assert source_hash("room") != before[0] and source_hash("room/a.py") != before[1]
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
