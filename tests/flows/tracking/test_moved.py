"""A store that was copied or moved writes into its own folder, and nothing under the original changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from made_bundles import Made, make
from made_store import another_process, copied, made_store
from sojourn.flows.settings.trace import TraceSettings
from sojourn.flows.tracking import databases
from sojourn.flows.tracking.pull import ModelUri, find_version, pull
from sojourn.flows.versions.promotion import open_store, read_store
from sojourn.flows.versions.version_list import roll_back


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def kept(made: Made, new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = new_store(tmp_path_factory.mktemp("kept") / "a 100%" / ".sojourn")
    made_store(made, store, "m")
    return store


@pytest.fixture
def original(kept: Path, tmp_path: Path) -> Path:
    """A store with two versions of m, in a folder whose name is escaped in a URI."""
    return copied(kept, tmp_path / "a 100%" / ".sojourn")


def _copied(original: Path, *options: str) -> Path:
    folder = original.parents[1] / "b"
    folder.mkdir()
    subprocess.run(["cp", *(options or ("-r",)), str(original), str(folder)], check=True)
    return folder / ".sojourn"


def _hash(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)} {path.lstat().st_mtime_ns}".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def _work(store: Path) -> None:
    """What a retrain, a monitor and a rollback do to a store: log, register, move the alias."""
    tracker = open_store(TraceSettings(store=store))
    with tracker.run("monitor m", {"kind": "monitor"}) as run:
        tracker.log_text(run, "page", "report.html")
    assert (store / "artifacts" / run / "artifacts" / "report.html").read_text() == "page"
    roll_back(tracker, store, "m", 1, "a try")


def test_nothing_under_the_original_changes_as_its_copy_works(original: Path) -> None:
    before = _hash(original)
    store = _copied(original)
    _work(store)
    assert _hash(original) == before
    with closing(sqlite3.connect(store / "mlflow.db")) as database:
        assert not [line for line in database.iterdump() if "a%20100%25" in line]
    shutil.rmtree(original)
    tracker = read_store(TraceSettings(store=store))
    target = original.parent / "pulled"
    pull(tracker, "m", find_version(tracker, ModelUri("m", None, 2)), target)  # of the copy's own artifacts


def test_a_moved_store_finishes_its_cut_off_promotion(original: Path) -> None:
    tracker = read_store(TraceSettings(store=original))
    run = tracker.run_of("m", 2)
    source = f"{tracker.artifact_uri(str(run))}/bundle"
    (original / "promotions").mkdir(exist_ok=True)
    (original / "promotions" / "x.json").write_text(json.dumps({"source": source, "name": "m"}))
    (original / "promotions" / "y.json").write_text("{")
    store = original.parents[1] / "b"
    original.rename(store)
    read_store(TraceSettings(store=store))
    changed = json.loads((store / "promotions" / "x.json").read_text())
    assert changed == {"source": f"{(store / 'artifacts').as_uri()}/{run}/artifacts/bundle", "name": "m"}
    assert not original.exists()
    _work(store)
    assert not original.exists()


def test_a_store_that_is_seen_under_two_paths_is_left_alone(original: Path) -> None:
    link = original.parents[1] / "link"
    link.symlink_to(original)
    before = (original / "mlflow.db").read_bytes()
    read_store(TraceSettings(store=link))
    assert (original / "mlflow.db").read_bytes() == before


def test_a_change_that_was_cut_off_is_made_by_the_next_one(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _copied(original)
    with monkeypatch.context() as patch:
        patch.setattr(databases, "_PLACES", (*databases._PLACES[:3], ("runs", "no_such_column")))
        with pytest.raises(OSError, match=r"must be given its artifacts' new place .*no_such_column"):
            read_store(TraceSettings(store=store))
    assert (store / "mlflow.db").read_bytes() == (original / "mlflow.db").read_bytes()
    before = _hash(original)
    _work(store)
    assert _hash(original) == before


def _without_artifacts(store: Path, original: Path) -> None:
    shutil.rmtree(store / "artifacts")


def _without_one_run(store: Path, original: Path) -> None:
    shutil.rmtree(next(path for path in (store / "artifacts").iterdir() if len(path.name) == 32))


def _linked_artifacts(store: Path, original: Path) -> None:
    shutil.rmtree(store / "artifacts")
    (store / "artifacts").symlink_to(original / "artifacts")


def _linked_database(store: Path, original: Path) -> None:
    (store / "mlflow.db").unlink()
    os.link(original / "mlflow.db", store / "mlflow.db")


@pytest.mark.parametrize(("spoil", "words"), [
    (_without_artifacts, "artifacts must hold the artifacts that .* names, got no folder"),
    (_without_one_run, "artifacts must hold the artifacts that its store names, got no "),
    (_linked_artifacts, "artifacts must be a folder of its own, got a link to that of the store "),
    (_linked_database, "mlflow.db must be a file of its own, got a link to that of the store "),
])
def test_a_copy_that_is_not_whole_is_refused(spoil: Callable[[Path, Path], None], words: str, original: Path) -> None:
    before = _hash(original)
    store = _copied(original)
    spoil(store, original)
    for opened in (read_store, open_store):
        with pytest.raises(OSError, match=f"{words}.*: copy all of it .* or use --store "):
            opened(TraceSettings(store=store))
    assert _hash(original) == before


def test_a_store_is_not_changed_under_a_living_process(original: Path) -> None:
    store = _copied(original)
    with another_process(store), \
            pytest.raises(OSError, match="new place while no other process uses the store, got one that does"):
        read_store(TraceSettings(store=store))
    read_store(TraceSettings(store=store))
