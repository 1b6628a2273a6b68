"""Artifacts in a folder or at a URL of MLflow: a version comes back whole or is refused; cleaning removes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.store.artifact import artifact_repository_registry
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from made_bundles import Made, make
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.client import artifact_bytes, check_place, remove_artifacts
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import BundleBytes, open_store, read_store
from sojourn.flows.workers.flow import check_before_work
from sojourn.serving import BundleError


class _Made(LocalArtifactRepository):
    """Stands for MLflow's classes of s3, gs and others: artifacts at `made://PATH`, which no folder of ours names."""

    def __init__(self, artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None) -> None:
        super().__init__(f"file://{artifact_uri.removeprefix('made:').removeprefix('//')}", tracking_uri, registry_uri)


@pytest.fixture(autouse=True)
def _scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = artifact_repository_registry._artifact_repository_registry
    monkeypatch.setattr(registry, "_registry", {**registry._registry, "made": _Made})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture(params=["made", "file", "folder"])
def config(request: pytest.FixtureRequest, new_store: Callable[[Path], Path], tmp_path: Path) -> RetrainConfig:
    kept = tmp_path / "kept"
    url = {"made": f"made://{kept}", "file": kept.as_uri(), "folder": str(kept)}
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
    config = RetrainConfig(store=new_store(tmp_path / "store"), artifacts=f"made://{tmp_path}/cut")
    tracker = open_store(config)
    run = _registered(tracker, made)
    file = Path(tracker.artifact_uri(run).removeprefix("made:")) / "bundle" / "model.onnx"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BundleError, match=r"model\.onnx must have the sha256"):
        BundleBytes.read(tracker.fetch("made", 1, tmp_path / "fetched"))


def test_another_place_for_the_same_store_is_refused(new_store: Callable[[Path], Path], tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    with open_store(RetrainConfig(store=store)).run("run", {}):
        pass
    with pytest.raises(ValueError, match=r"artifacts must be file://\S+, where this store has kept them from"):
        open_store(RetrainConfig(store=store, artifacts=f"made://{tmp_path}/other")).start("run", {})
    with open_store(RetrainConfig(store=store, artifacts=str(store / "artifacts"))).run("run", {}):
        pass


@pytest.mark.parametrize(("place", "message"), [
    ("foo://bucket/path", "artifacts must be a folder or a URL that MLflow can write to here, got 'foo://bucket/path'"),
    ("{file}/inside", "artifacts must be a place that can be written and read, got '{file}/inside'"),
])  # fmt: skip
def test_a_place_that_keeps_nothing_is_refused_before_anything_is_made(tmp_path: Path, place: str,
                                                                       message: str) -> None:
    file = tmp_path / "a_file"
    file.write_text("")
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
    check_place(tracking, f"made://{tmp_path}/c")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_place_that_gives_back_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(_: object, artifact_path: str, dst_path: str) -> str:
        (Path(dst_path) / artifact_path).write_bytes(artifact_path.encode())
        return str(Path(dst_path) / artifact_path)

    monkeypatch.setattr(_Made, "download_artifacts", other)
    with pytest.raises(OSError, match="artifacts must be a place that gives back what was written"):
        check_place(TrackingUri.of_file(tmp_path / "mlflow.db"), f"made://{tmp_path}/c")


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
    shared, place = TrackingUri.of_file(new_store(tmp_path / "shared") / "mlflow.db"), f"made://{tmp_path}/kept"
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
