"""Two runs on one store: each registers the bundle that its own gates saw."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sojourn.flows.commands.options import CHALLENGER
from sojourn.flows.reports import figures
from sojourn.flows.retrain import job as retrain_log
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.tracking.registry import CHAMPION
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG, BundleBytes, read_sha256
from sojourn.serving import load_bundle

pytestmark = pytest.mark.slow
NAME = "sojourn-lifetime"


def _seeds(tracker: Tracker, store: Path) -> dict[int, str]:
    """The seed that each version's run was given, once its hash is the same wherever it stands."""
    client = MlflowClient(tracker.uri.plain)
    found = {}
    for version in tracker.versions(NAME):
        folder = tracker.fetch(NAME, version, store / "looked" / str(version))
        run = client.get_run(tracker.run_of(NAME, version))
        sha256 = BundleBytes.read(folder).sha256
        assert sha256 == tracker.version_tags(NAME, version)[BUNDLE_TAG] == run.data.tags[BUNDLE_TAG]
        schema = load_bundle(folder).schema.document
        assert schema["training"]["data_hash"].startswith(run.data.tags["data_hash"])
        assert run.info.status == "FINISHED"
        found[version] = run.data.params["seed"]
    champion = tracker.version_of(NAME, CHAMPION)
    if champion is not None:
        assert read_sha256(store / "bundles" / NAME) == tracker.version_tags(NAME, champion)[BUNDLE_TAG]
    assert tracker.running() == {}
    assert list((store / "promotions").iterdir()) == []
    return found


@pytest.mark.usefixtures("prefect_server")
def test_a_run_stopped_at_its_figures_goes_on_with_its_own_bundle(
        new_store: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.flows.retrain.job import retrain

    store = new_store(tmp_path)
    tracker = Tracker(RetrainConfig(store=store).mlflow_uri, store / "artifacts")

    def config(seed: int) -> RetrainConfig:
        return RetrainConfig(store=store, n_requests=1_500, n_threads=1, is_simulated=False, seed=seed)

    draw = figures.accuracy_figure

    def stopped(*args: object) -> object:
        monkeypatch.setattr(retrain_log, "accuracy_figure", draw)
        retrain(config(2))
        return draw(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(retrain_log, "accuracy_figure", stopped)
    slow = retrain(config(1))
    assert slow.promotion.version == 2
    assert _seeds(tracker, store) == {1: "2", 2: "1"}
    assert load_bundle(slow.bundle).version == tracker.version_tags(NAME, 2)[BUNDLE_TAG][:12]


def test_two_first_runs_at_once_both_finish(tmp_path: Path) -> None:
    store = tmp_path / "store"
    environment = {**os.environ, "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600"}
    command = [sys.executable, "-c", "from sojourn.flows.cli import app; app()"]
    with ExitStack() as stack:
        begun = [stack.enter_context(subprocess.Popen(
            [*command, *arguments, "--store", str(store), "--n-requests", "1500"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
            for arguments in (["retrain", "--no-simulate", "--seed", "1"], ["retrain", "--no-simulate", "--seed", "2"],
                              ["compare", "--policy", "nilas", "--n-seeds", "1", "--n-workers", "1"])]
        for process in begun:
            stack.callback(process.kill)
        for process in begun:
            _, err = process.communicate(timeout=900)
            assert process.returncode in (0, CHALLENGER), err
    tracker = Tracker(RetrainConfig(store=store).mlflow_uri, store / "artifacts")
    assert sorted(_seeds(tracker, store).values()) == ["1", "2"]
    assert len(tracker.comparisons()) == 1
