"""A real tracking server that serves artifacts, on PostgreSQL if that is installed, else on SQLite: retrain, retrain
again, pull and results; its password is nowhere."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from made_postgres import postgres_folder, postgres_server
from made_servers import mlflow_server
from sojourn.flows.commands.options import CHALLENGER
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.tracker import CHAMPION, STUDY, SYSTEM, Tracker
from sojourn.serving import Predictor

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SECRET, DECODED = "s3cret%21word", "s3cret!word"
NAME = "sojourn-lifetime"
FOUND = {
    "trace": "small", "data_hash": "0123456789abcdef", "code_version": "0.1", "n_past": 700, "n_test": 300,
    "test_from_s": 5_000, "threshold_s": 43_200, "chosen": "km", "fit_s": {"km": 0.1},
    "scores": {"km": {"creation.ap_1h": 0.5}}, "best_of_all": "km", "n_owners": 25, "validation": {"km": 0.15},
    "intervals": {"km": {"creation.ap_1h": (0.5, 0.7)}}, "differences": {}, "refused": {},
}  # fmt: skip


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    for name in ("home", "one", "other", "server"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture()
def uri(root: Path) -> Iterator[str]:
    """The server's URI, with a user name and a password that the server does not ask for."""
    with ExitStack() as stack:
        has_postgres = postgres_folder() is not None
        database = stack.enter_context(postgres_server()).new_database("mlflow") if has_postgres else None
        port = stack.enter_context(mlflow_server(root / "server", database=database, HOME=str(root / "home")))
        yield f"http://me:{SECRET}@127.0.0.1:{port}"


def _sojourn(root: Path, folder: str, uri: str, *arguments: str,
             code: str = "from sojourn.flows.cli import app; app()") -> str:
    """What a command prints that runs in a folder of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SOJOURN_"))}
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=root / folder, text=True,
        env={**environment, "HOME": str(root / "home"), "PYTHONPATH": str(ROOT), "SOJOURN_TRACKING_URI": uri,
             "SOJOURN_N_DRAWS": "20", "SOJOURN_FAMILIES": '["hazard"]'}, capture_output=True, timeout=600, check=False)
    assert found.returncode in (0, CHALLENGER), found.stderr
    assert SECRET not in found.stdout + found.stderr
    assert DECODED not in found.stdout + found.stderr
    return found.stdout


def test_a_server_keeps_runs_and_artifacts_and_no_password(root: Path, uri: str) -> None:
    import mlflow

    retrain = ("train", "--no-simulate", "--n-requests", "1000", "--n-threads", "1", "--store", "store")
    assert "version 1" in _sojourn(root, "one", uri, *retrain)
    tracker = Tracker(TrackingUri(uri), root / "unused")
    tracker.set_alias(NAME, CHAMPION, 1)
    _sojourn(root, "one", uri, *retrain, "--again")  # without the first one's store: the champion comes from the server
    with tracker.run("study", {"kind": STUDY, "trace": "small"}) as run:
        tracker.log_text(run, json.dumps(FOUND), f"{SYSTEM}/{STUDY}.json")

    client = mlflow.MlflowClient(uri, uri)
    second = client.get_model_version(NAME, "2")
    gates = [name for name in second.tags if name.startswith("gate.accuracy against champion v1")]
    assert len(gates) == 1
    logged = client.get_run(second.run_id or "")
    assert (logged.info.artifact_uri or "").startswith("mlflow-artifacts:/")
    assert logged.data.params["tracking_uri"] == uri.replace(f"me:{SECRET}@", "")
    kept = _bytes_of(root)
    shutil.rmtree(root / "one")  # another host knows the server alone

    assert "version 1" in _sojourn(root, "other", uri, "model", "pull", f"models:/{NAME}@{CHAMPION}", "served")
    life = Predictor.load(root / "other" / "served").predict({"cpu_cores": 4, "mem_gib": 16}, 1_706_486_400)
    assert life.remaining(0) > 0.0
    _sojourn(root, "other", uri, "results.md", code="from studies.results import main; main()")
    assert "| km" in (root / "other" / "results" / "small.md").read_text()

    kept |= _bytes_of(root)
    assert not (root / "unused").exists()
    assert any(path.name == "prefect.db" for path in kept)
    for path, content in kept.items():
        assert SECRET.encode() not in content, path
        assert DECODED.encode() not in content, path


def _bytes_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_server_that_is_away_is_found_before_training(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with pytest.raises(AssertionError) as raised:
        _sojourn(root, "other", f"http://me:{SECRET}@127.0.0.1:{port}", "train", "--store", "store")
    said = str(raised.value).splitlines()[0]
    assert said.startswith(f"error: the tracking store must answer at http://127.0.0.1:{port}, got ")
    assert SECRET not in str(raised.value)
    assert not (root / "other" / "store" / "traces").exists()
