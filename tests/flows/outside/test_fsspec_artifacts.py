"""Artifacts on file systems of fsspec: a version goes there and comes back whole or is refused; cleaning removes it."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from mlflow.exceptions import MlflowException

from made_bundles import Made, make
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.tracking.artifacts import artifact_bytes, check_place, remove_artifacts
from sojourn.flows.tracking.fsspec_artifacts import FsspecArtifactRepository
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import BundleBytes, open_store, read_store
from sojourn.flows.workers.job import check_before_work
from sojourn.serving import BundleError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture(params=["memory", "local", "file", "folder"])
def config(request: pytest.FixtureRequest, new_store: Callable[[Path], Path], tmp_path: Path) -> RetrainConfig:
    kept = tmp_path / "kept"
    url = {"memory": f"memory://{kept}", "local": f"local://{kept}", "file": kept.as_uri(), "folder": str(kept)}
    return RetrainConfig(store=new_store(tmp_path / "store"), artifacts=url[request.param])


def _registered(tracker: Tracker, made: Made) -> str:
    with tracker.run("run", {}) as run:
        source = log_bundle(tracker, run, made.folders["hazard"], made.encoder, made.request(0))
        tracker.register("made", source, run, "", {})
    return run


def test_a_version_goes_there_and_comes_back(config: RetrainConfig, made: Made, tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    run = _registered(open_store(config), made)
    reader = read_store(config)
    held = BundleBytes.read(reader.fetch("made", 1, tmp_path / "fetched"))
    assert held.sha256 == BundleBytes.read(made.folders["hazard"]).sha256
    assert not (config.store / "artifacts").exists() and list(working.iterdir()) == []
    place = reader.artifact_uri(run)
    assert artifact_bytes(reader.uri, place) > sum(map(len, held.files.values()))
    remove_artifacts(reader.uri, place)
    remove_artifacts(reader.uri, place)  # what is not there is removed
    assert artifact_bytes(reader.uri, place) == 0
    with pytest.raises((OSError, BundleError), match=r"artifacts of version 1 must be|must be a readable file"):
        BundleBytes.read(reader.fetch("made", 1, tmp_path / "again"))


def test_what_was_cut_off_in_mid_upload_is_not_read(new_store: Callable[[Path], Path], made: Made,
                                                    tmp_path: Path) -> None:
    config = RetrainConfig(store=new_store(tmp_path / "store"), artifacts=f"memory://{tmp_path}/cut")
    tracker = open_store(config)
    run = _registered(tracker, made)
    uri = tracker.artifact_uri(run).replace("memory:/", "memory:///", 1)
    files, place = fsspec.core.url_to_fs(f"{uri}/bundle/model.onnx")
    files.pipe(place, files.cat(place)[:-1])
    with pytest.raises(BundleError, match=r"model\.onnx must have the sha256"):
        BundleBytes.read(tracker.fetch("made", 1, tmp_path / "fetched"))


def test_another_place_for_the_same_store_is_refused(new_store: Callable[[Path], Path], tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    with open_store(RetrainConfig(store=store)).run("run", {}):
        pass
    with pytest.raises(ValueError, match=r"artifacts must be file://\S+, where this store has kept them from"):
        open_store(RetrainConfig(store=store, artifacts="memory://other")).start("run", {})
    with open_store(RetrainConfig(store=store, artifacts=str(store / "artifacts"))).run("run", {}):
        pass


@pytest.mark.parametrize(("place", "message"), [
    ("foo://bucket/path", "artifacts must be a folder or a URL that MLflow can write to here, got 'foo://bucket/path'"),
    ("hf://datasets/a", "artifacts must be a "),
    ("{file}/inside", "artifacts must be a place that can be written and read, got '{file}/inside'"),
])  # fmt: skip
def test_a_place_that_keeps_nothing_is_refused_before_anything_is_made(tmp_path: Path, place: str, message: str,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a_file"
    file.write_text("")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # absent, also where it is installed
    config = RetrainConfig(store=tmp_path / "store", artifacts=place.format(file=file))
    for refusing in (open_store, check_before_work):
        with pytest.raises((OSError, ValueError)) as raised:
            refusing(config)
        assert message.format(file=file) in str(raised.value)
    assert not config.store.exists()


def test_a_place_is_left_as_it_was(tmp_path: Path) -> None:
    tracking = TrackingUri.of_file(tmp_path / "mlflow.db")
    for place in (tmp_path / "a" / "b", (tmp_path / "a" / "b").as_uri()):
        check_place(tracking, place)
    assert list(tmp_path.iterdir()) == []
    check_place(tracking, f"memory://{tmp_path}")
    assert fsspec.filesystem("memory").find(str(tmp_path)) == []


def test_a_place_that_gives_back_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(_: object, remote_file_path: str, local_path: str) -> None:
        Path(local_path).write_bytes(remote_file_path.encode())

    monkeypatch.setattr(FsspecArtifactRepository, "_download_file", other)
    with pytest.raises(OSError, match="artifacts must be a place that gives back what was written"):
        check_place(TrackingUri.of_file(tmp_path / "mlflow.db"), f"memory://{tmp_path}")


def test_a_database_bound_to_another_stores_folder_is_refused(new_store: Callable[[Path], Path],
                                                              tmp_path: Path) -> None:
    shared = TrackingUri.of_file(new_store(tmp_path / "shared") / "mlflow.db")
    one, other = (tmp_path / name for name in ("one", "other"))
    with open_store(RetrainConfig(store=one, tracking_uri=shared)).run("run", {}):
        pass
    open_store(RetrainConfig(store=one, tracking_uri=shared))  # its own place
    with pytest.raises(ValueError, match=rf'set artifacts = "file://{one}/artifacts" \(SOJOURN_ARTIFACTS\)'):
        open_store(RetrainConfig(store=other, tracking_uri=shared))
    with open_store(RetrainConfig(store=other, tracking_uri=shared, artifacts=str(one / "artifacts"))).run("run", {}):
        pass
    assert not (other / "artifacts").exists()


def test_a_url_that_a_database_is_bound_to_is_taken(new_store: Callable[[Path], Path], tmp_path: Path) -> None:
    shared, place = TrackingUri.of_file(new_store(tmp_path / "shared") / "mlflow.db"), f"memory://{tmp_path}/kept"
    with open_store(RetrainConfig(store=tmp_path / "one", tracking_uri=shared, artifacts=place)).run("run", {}):
        pass
    tracker = open_store(RetrainConfig(store=tmp_path / "other", tracking_uri=shared))
    with tracker.run("run", {}) as run:
        assert f"{tmp_path}/kept/" in tracker.artifact_uri(run)


@pytest.mark.parametrize(("settings", "message"), [
    ({"artifacts": "sftp://me:s3cret@host/path"}, "without user, password, query or chain"),
    ({"artifacts": "s3://bucket/path?key=s3cret"}, "without user, password, query or chain"),
    ({"artifacts": "simplecache::s3://bucket/path"}, "without user, password, query or chain"),
    ({"artifacts": "s3://bucket", "tracking_uri": "http://127.0.0.1:9"}, "must not be given with a tracking server"),
])  # fmt: skip
def test_impossible_places_are_refused_and_not_shown(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        RetrainConfig(**settings)  # type: ignore[arg-type]
    assert "s3cret" not in str(raised.value)


def test_nothing_outside_of_its_url_is_touched(tmp_path: Path) -> None:
    kept = FsspecArtifactRepository(f"local://{tmp_path}/kept")
    for path in ("../other", "/etc", "a/../../b"):
        with pytest.raises(MlflowException, match="artifact_path must lie below"):
            kept.delete_artifacts(path)
    assert kept.list_artifacts() == []
    file = tmp_path / "a.txt"
    file.write_text("a")
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    shutil.copy(file, tmp_path / "tree" / "deep")
    kept.log_artifacts(str(tmp_path / "tree"), "sub")
    assert [(info.path, info.is_dir, info.file_size) for info in kept.list_artifacts("sub/deep")] == [
        ("sub/deep/a.txt", False, 1)]
    assert [info.path for info in kept.list_artifacts()] == ["sub"]


def test_every_scheme_is_one_that_fsspec_knows_and_mlflow_lacks() -> None:
    from fsspec.registry import known_implementations
    from mlflow.store.artifact import artifact_repository_registry as registry

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["mlflow.artifact_repository"]
    assert set(named) <= {*known_implementations, "local"}
    known = registry._artifact_repository_registry.get_registered_artifact_repositories()  # type: ignore[no-untyped-call]
    assert {name for name, kept in known.items() if kept is FsspecArtifactRepository} == set(named)
