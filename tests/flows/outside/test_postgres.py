"""MLflow's store in a real PostgreSQL: made once, promoted on, lost and found again, and its password nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from sqlalchemy import NullPool, create_engine, text
from typer.testing import CliRunner

from made_bundles import Made, make
from made_postgres import PASSWORD, PostgresServer
from sojourn.flows.cli import app
from sojourn.flows.commands.options import CHALLENGER
from sojourn.flows.settings.trace import TraceSettings
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.tracking.client import TrackingError
from sojourn.flows.tracking.databases import known_revisions
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.postgres_database import advisory_lock
from sojourn.flows.tracking.registry import CHAMPION
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import open_store
from sojourn.serving import Predictor

pytestmark = pytest.mark.slow
NAME = "made"

FIRST_RUN = """
import sys
from pathlib import Path
from sojourn.flows.settings.trace import TraceSettings
from sojourn.flows.versions.promotion import open_store
tracker = open_store(TraceSettings(store=Path(sys.argv[1]), artifacts=sys.argv[2]))
with tracker.run("first", {}) as run:
    tracker.log(run, {"p": 1}, {"m": 1.0})
"""


def _execute(uri: str, *statements: str) -> None:
    with create_engine(TrackingUri(uri).with_driver, poolclass=NullPool).begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of all stores of the database."""
    return str(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def uri(postgres: PostgresServer, artifacts: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An MLflow database that two first runs of two stores made at once."""
    uri, folder = postgres.new_database("mlflow"), tmp_path_factory.mktemp("first")
    runs = [subprocess.Popen([sys.executable, "-c", FIRST_RUN, str(folder / name), artifacts], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env={**os.environ, "SOJOURN_TRACKING_URI": uri})
            for name in ("one", "other")]
    printed = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], printed
    assert sum("make MLflow's database" in text for text in printed) == 1, printed
    return uri


@pytest.fixture()
def tracker(uri: str, artifacts: str) -> Tracker:
    return Tracker(TrackingUri(uri), Path(artifacts), wait_s=60.0)


def test_a_store_with_another_folder_is_refused(uri: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"artifacts must be file://\S+, where the runs of this database are kept"):
        open_store(TraceSettings(store=tmp_path / "third", tracking_uri=TrackingUri(uri)))


def test_both_first_runs_are_there_and_whole(tracker: Tracker) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracker.uri.with_driver)
    found = client.search_runs([tracker._experiment], "attributes.run_name = 'first'")
    assert [(run.info.status, run.data.metrics, run.data.params) for run in found] == [
        ("FINISHED", {"m": 1.0}, {"p": "1"})] * 2


def test_a_database_that_is_not_this_mlflows_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    uri = postgres.new_database("other")
    for rows, message in (
        ((known_revisions()[3],), f"this MLflow, got the older {known_revisions()[3]}: make a backup"),
        (("abcdef",), "got abcdef: a newer MLflow wrote it, or another program such as Prefect"),
        ((), "must be empty or MLflow's own, got the table 'orders'"),
    ):  # fmt: skip
        _execute(uri, "CREATE TABLE IF NOT EXISTS alembic_version (version_num text)", "DELETE FROM alembic_version",
                 "CREATE TABLE IF NOT EXISTS orders (id int)",
                 *(f"INSERT INTO alembic_version VALUES ('{row}')" for row in rows))
        with pytest.raises(TrackingError) as raised:
            Tracker(TrackingUri(uri), tmp_path)
        assert message in str(raised.value)
        assert PASSWORD not in str(raised.value) and "p0stgres" not in str(raised.value)


def test_what_a_killed_first_run_left_is_finished(postgres: PostgresServer, tmp_path: Path) -> None:
    from mlflow.store.tracking.dbmodels.initial_models import Base

    uri = postgres.new_database("half")
    engine = create_engine(TrackingUri(uri).with_driver, poolclass=NullPool)
    Base.metadata.create_all(engine)  # the first of MLflow's two transactions
    with Tracker(TrackingUri(uri), tmp_path).run("next", {}) as run:
        assert run


def test_a_lock_is_one_for_all_stores_and_ends_with_its_connection(uri: str) -> None:
    own = TrackingUri(uri)
    with advisory_lock(own, "a model"):
        with pytest.raises(TrackingError, match=r"must be free for this within 0\.3 s, got another process that"), \
                advisory_lock(own, "a model", timeout_s=0.3):
            pass
        with advisory_lock(own, "another model"):
            pass
        _execute(uri, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        with advisory_lock(own, "a model", timeout_s=30.0):
            pass


def _registered(tracker: Tracker, made: Made, kind: str) -> int:
    with tracker.run(kind, {}) as run:
        source = log_bundle(tracker, run, made.folders[kind], made.encoder, made.request(0))
        return tracker.register(NAME, source, run, "", {})


def test_a_retrain_with_mlflow_and_prefect_in_postgres_leaves_no_password(
        postgres: PostgresServer, uri: str, artifacts: str, tmp_path: Path) -> None:
    settings = tmp_path / "run.toml"
    settings.write_text('families = ["km"]\nis_simulated = false\nn_requests = 1000\nn_threads = 1\n')
    prefect = postgres.new_database("prefect")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SOJOURN_"))}
    retrain = subprocess.run(
        [sys.executable, "-c", "from sojourn.flows.cli import app; app()", "retrain", "--config", str(settings)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
        env={**environment, "HOME": str(tmp_path), "SOJOURN_TRACKING_URI": uri, "SOJOURN_ARTIFACTS": artifacts,
             "PREFECT_API_DATABASE_CONNECTION_URL": prefect.replace("postgresql", "postgres", 1)})
    assert retrain.returncode in (0, CHALLENGER), retrain.stderr
    assert Tracker(TrackingUri(uri), tmp_path).versions("sojourn-lifetime") == [1]
    with create_engine(TrackingUri(prefect).with_driver, poolclass=NullPool).connect() as connection:
        flows = connection.execute(text("SELECT state_type::text, parameters::text FROM flow_run")).all()
    assert [state for state, _ in flows] == ["COMPLETED"]
    kept = [retrain.stdout, retrain.stderr, *(parameters for _, parameters in flows)]
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] + [each.encode() for each in kept]
    assert len(contents) > 20
    assert not any(b"p0stgres" in content for content in contents)


@pytest.fixture()
def _environment(uri: str, artifacts: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SOJOURN_TRACKING_URI", uri)
    monkeypatch.setenv("SOJOURN_ARTIFACTS", artifacts)
    yield


@pytest.mark.usefixtures("_environment")
def test_versions_rollback_pull_and_ui(tracker: Tracker, made: Made, tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [_registered(tracker, made, kind) for kind in ("hazard", "once")]
    tracker.set_alias(NAME, CHAMPION, numbers[1])
    store = str(tmp_path / "store")
    done = [CliRunner().invoke(app, [*words, "--store", store]) for words in (
        ["rollback", NAME, "--to", str(numbers[0]), "--why", "slow"], ["versions", NAME],
        ["pull", f"models:/{NAME}@{CHAMPION}", str(tmp_path / "served")])]
    assert [each.exit_code for each in done] == [0, 0, 0], [each.output for each in done]
    assert "rolled back: slow" in done[1].output
    assert Predictor.load(tmp_path / "served").version == Predictor.load(made.folders["hazard"]).version
    seen: dict[str, str] = {}

    def started(program: str, arguments: list[str], environment: dict[str, str]) -> None:
        seen.update(arguments=" ".join(arguments), uri=environment["MLFLOW_BACKEND_STORE_URI"])
        raise typer.Exit(0)

    monkeypatch.setattr(os, "execve", started)
    opened = CliRunner().invoke(app, ["ui", "--store", store])
    assert opened.exit_code == 0, opened.output
    assert seen["uri"] == tracker.uri.with_driver and "p0stgres" not in seen["arguments"] + opened.output
    assert not any("p0stgres" in each.output for each in done)


def test_a_server_that_restarts_is_waited_for_and_nothing_is_there_twice(
        postgres: PostgresServer, tracker: Tracker, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    with tracker.run("run", {}) as run:
        postgres.stop(is_killed=True)
        again = threading.Timer(2.0, postgres.start)
        again.start()
        try:
            tracker.log(run, {"p": 2}, {"m": 2.0})
        finally:
            again.join()
        assert "the tracking store answers again, after" in capsys.readouterr().out
        source = log_bundle(tracker, run, made.folders["hazard"], made.encoder, made.request(0))
        postgres.stop(is_killed=True)  # pooled connections are dead, and the server is back
        postgres.start()
        version = tracker.register("twice", source, run, "", {})
        assert tracker.register("twice", source, run, "", {}) == version
    assert tracker.versions("twice") == [version]
    assert tracker.run_metrics(run) == {"m": 2.0}


def test_a_server_that_stays_away_ends_a_run_once(postgres: PostgresServer, uri: str, artifacts: str,
                                                  tmp_path: Path) -> None:
    tracker = Tracker(TrackingUri(uri), Path(artifacts), wait_s=1.0)
    run = tracker.start("lost", {})
    postgres.stop()
    try:
        for _ in range(20):  # the first waits, the others know
            with pytest.raises(TrackingError) as raised:
                tracker.log(run, {"p": 1})
            assert raised.value.is_away
        with pytest.raises(TrackingError, match="must answer at postgresql://127"):
            Tracker(TrackingUri(uri), tmp_path)
    finally:
        postgres.start()
    tracker.log(run, {"p": 1})
    tracker.end(run)
