"""A real tracking server that is killed in mid-run: the run waits for it, or is kept and sent; nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from made_servers import mlflow_server
from sojourn.flows.reports import figures
from sojourn.flows.retrain import job as retrain_log
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.tracking.client import TrackingError
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import BUNDLE_TAG, BundleBytes

pytestmark = pytest.mark.slow
NAME = "sojourn-lifetime"


@pytest.mark.usefixtures("prefect_server")
def test_a_server_that_is_killed_is_waited_for_or_the_run_is_kept_and_sent(
        new_store: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    from sojourn.flows.retrain.job import retrain

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    store, served = tmp_path / "store", new_store(tmp_path / "server")
    draw = figures.accuracy_figure
    with ExitStack() as first, ExitStack() as later:
        port = first.enter_context(mlflow_server(served))
        uri = TrackingUri(f"http://127.0.0.1:{port}")

        def killed(*arguments: object) -> object:
            """The children are logged, the run's own figures are not."""
            monkeypatch.setattr(retrain_log, "accuracy_figure", draw)
            first.close()
            return draw(*arguments)  # type: ignore[arg-type]

        def config(seed: int, wait_s: float) -> RetrainConfig:
            return RetrainConfig(store=store, tracking_uri=uri, n_requests=1_000, n_threads=1, is_simulated=False,
                                 families=("km",), seed=seed, tracking_wait_s=wait_s)

        monkeypatch.setattr(retrain_log, "accuracy_figure", killed)
        with pytest.raises(TrackingError, match=r"the run is kept in \S+unsent\S+, and `sojourn sync` or the next"):
            retrain(config(0, 1.0))
        assert len(list((store / "unsent").glob("*/order.json"))) == 1

        started = threading.Thread(target=lambda: later.enter_context(mlflow_server(served, port)))
        started.start()
        started.join()
        monkeypatch.setenv("SOJOURN_TRACKING_URI", uri.plain)
        sent = CliRunner().invoke(_app(), ["sync", "--store", str(store)])
        assert sent.exit_code == 0, sent.output
        tracker = Tracker(uri, tmp_path / "unused")
        assert tracker.versions(NAME) == [1]
        # those that were logged before the server was killed are not there twice
        assert sorted(child.name for child in tracker.children(tracker.run_of(NAME, 1))) == ["gbdt-once", "km"]
        assert not list((store / "unsent").iterdir())

        # now it comes back while the run waits
        first.push(later.pop_all())

        def away_for_a_while(*arguments: object) -> object:
            monkeypatch.setattr(retrain_log, "accuracy_figure", draw)
            first.close()
            threading.Thread(target=lambda: later.enter_context(mlflow_server(served, port))).start()
            return draw(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(retrain_log, "accuracy_figure", away_for_a_while)
        capsys.readouterr()
        done = retrain(config(1, 240.0))
        printed = capsys.readouterr().out
        assert "it is asked again for 240 s" in printed and "the tracking store answers again, after" in printed
        assert (done.promotion.version, tracker.running()) == (2, {})
        for version in (1, 2):
            held = BundleBytes.read(tracker.fetch(NAME, version, tmp_path / str(version))).sha256
            assert tracker.version_tags(NAME, version)[BUNDLE_TAG] == held


def _app() -> Any:
    from sojourn.flows.cli import app

    return app
