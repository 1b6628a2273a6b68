"""A real tracking server that is killed in mid-run: the run ends with one line, and the next one succeeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from made_servers import mlflow_server
from sojourn.flows.reports import figures
from sojourn.flows.retrain import features as building
from sojourn.flows.retrain import ingest
from sojourn.flows.retrain import job as retrain_log
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.client import TrackingError
from sojourn.flows.tracking.tracker import CHAMPION, Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG, BundleBytes, read_sha256
from sojourn.serving import Predictor

pytestmark = pytest.mark.slow
NAME = "sojourn-lifetime"


@pytest.mark.usefixtures("prefect_server")
def test_a_run_whose_server_is_gone_ends_with_one_line_and_the_next_one_succeeds(
        new_store: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.flows.retrain.job import retrain

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    store, served = tmp_path / "store", new_store(tmp_path / "server")
    draw = figures.accuracy_figure
    with ExitStack() as first, ExitStack() as later:
        port = first.enter_context(mlflow_server(served))
        uri = TrackingUri(f"http://127.0.0.1:{port}")
        champion = store / "bundles" / NAME

        def config(seed: int) -> RetrainConfig:
            return RetrainConfig(store=store, tracking_uri=uri, n_requests=1_000, n_threads=1, simulate=False,
                                 families=("km",), seed=seed)

        def killed(*arguments: object) -> object:
            """The children are logged, the run's own figures are not."""
            first.close()
            return draw(*arguments)  # type: ignore[arg-type]

        retrain(config(0))
        tracker = Tracker(uri, tmp_path / "unused")
        tracker.set_alias(NAME, CHAMPION, 1)  # the next run publishes it
        before = tracker.version_tags(NAME, 1)[BUNDLE_TAG]
        with monkeypatch.context() as patched:
            patched.setattr(retrain_log, "accuracy_figure", killed)
            with pytest.raises(TrackingError) as raised:
                retrain(config(1))
        said = str(raised.value)
        assert said.startswith(f"the tracking store must answer at {uri}, got ") and "\n" not in said
        assert said.endswith(f"start it again once that answers: what {store} has in its caches is not made again")
        assert read_sha256(champion) == before
        assert Predictor.load(champion).version

        later.enter_context(mlflow_server(served, port))
        with monkeypatch.context() as patched:
            for room, name in ((ingest, "_read"), (building, "made_rows")):
                patched.setattr(room, name, None)  # a call would fail: trace and features are kept
            done = retrain(config(1))
        assert (done.promotion.version, tracker.versions(NAME), tracker.running()) == (2, [1, 2], {})
        assert [path.name for path in (store / "candidates" / NAME).iterdir()] == [tracker.run_of(NAME, 2)]
        for version in (1, 2):
            held = BundleBytes.read(tracker.fetch(NAME, version, tmp_path / str(version))).sha256
            assert tracker.version_tags(NAME, version)[BUNDLE_TAG] == held
