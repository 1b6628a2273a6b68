"""Runs on one store at once: each registers the bundle that its own gates saw, and a model has one writer."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sojourn.flows.commands.options import CHALLENGER, REFUSED
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.store.lock import model_lock
from sojourn.flows.tracking.tracker import CHAMPION, Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG, BundleBytes, read_sha256
from sojourn.serving import load_bundle

COMMAND = [sys.executable, "-c", "from sojourn.flows.cli import app; app()"]


def _seeds(tracker: Tracker, store: Path, name: str) -> dict[int, str]:
    """The seed that each version's run was given, once its hash is the same wherever it stands."""
    client = MlflowClient(tracker.uri.plain)
    found = {}
    for version in tracker.versions(name):
        folder = tracker.fetch(name, version, store / "looked" / name / str(version))
        run = client.get_run(tracker.run_of(name, version))
        sha256 = BundleBytes.read(folder).sha256
        assert sha256 == tracker.version_tags(name, version)[BUNDLE_TAG] == run.data.tags[BUNDLE_TAG]
        schema = load_bundle(folder).schema.document
        assert schema["training"]["data_hash"].startswith(run.data.tags["data_hash"])
        assert run.info.status == "FINISHED"
        found[version] = run.data.params["seed"]
    champion = tracker.version_of(name, CHAMPION)
    if champion is not None:
        assert read_sha256(store / "bundles" / name) == tracker.version_tags(name, champion)[BUNDLE_TAG]
    assert tracker.running() == {}
    assert list((store / "promotions").iterdir()) == []
    return found


@pytest.mark.slow
def test_first_runs_of_two_models_and_a_comparison_at_once_all_finish(tmp_path: Path) -> None:
    store = tmp_path / "store"
    environment = {**os.environ, "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600"}
    with ExitStack() as stack:
        begun = [stack.enter_context(subprocess.Popen(
            [*COMMAND, *arguments, "--store", str(store), "--n-requests", "1500"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
            for arguments in (["train", "--no-simulate", "--seed", "1", "--model-name", "one"],
                              ["train", "--no-simulate", "--seed", "2", "--model-name", "two"],
                              ["gain", "--policy", "nilas", "--n-seeds", "1", "--n-workers", "1"])]
        for process in begun:
            stack.callback(process.kill)
        for process in begun:
            _, err = process.communicate(timeout=900)
            assert process.returncode in (0, CHALLENGER), err
    tracker = Tracker(RetrainConfig(store=store).mlflow_uri, store / "artifacts")
    assert (_seeds(tracker, store, "one"), _seeds(tracker, store, "two")) == ({1: "1"}, {1: "2"})
    assert len(tracker.comparisons()) == 1


@pytest.mark.slow
def test_a_second_retrain_of_a_model_ends_with_one_line_and_makes_no_run(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with model_lock(store, "one"):
        done = subprocess.run([*COMMAND, "train", "--no-simulate", "--model-name", "one", "--store", str(store),
                               "--n-requests", "1500"], capture_output=True, text=True, timeout=600)
    assert done.returncode == REFUSED
    assert done.stderr.startswith(f"error: one must have one writer at a time, got a second one: wait for process "
                                  f"{os.getpid()} ")
    assert done.stderr.count("\n") == 1
    assert not (store / "mlflow.db").exists()
