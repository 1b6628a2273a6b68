"""One Prefect server for all flow tests, in a folder of its own; databases that are copies; pictures that are empty."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import sojourn.flows  # noqa: F401 - before any test imports MLflow or Prefect: it sets their environment
from learnt_bundle import Learnt, learn

os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "600"  # a busy machine fails no test

DRAWN = ("test_bad_traces.py", "test_comparison.py", "test_plan.py", "test_retrain.py", "test_search.py",
         "test_study.py", "test_train_usage.py")
"""Files of tests whose runs draw their pictures: of each kind, and of odd traces."""


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prefect's own test harness draws its port at random, and may draw one that is taken meanwhile."""
    from sojourn.flows.workers.prefect import prefect_server

    with prefect_server(tmp_path_factory.mktemp("prefect")):
        yield


@pytest.fixture(autouse=True)
def small_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time of a small run in a new store is its database and its pictures.

    The database is a copy, and runs log empty files for pictures, except in files of tests about them."""
    from sojourn.flows.tracking import databases
    from sojourn.flows.tracking.tracker import Tracker

    made = databases._make

    def copied(file: Path, artifacts: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(databases, "_make", made)
            empty: Path = request.getfixturevalue("empty_database")
        shutil.copy(empty, file)
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("UPDATE experiments SET artifact_location = ?", [f"{artifacts.absolute().as_uri()}/0"])

    if request.path.name != "test_mlflow_database.py":
        monkeypatch.setattr(databases, "_make", copied)
    if request.path.name not in DRAWN:
        monkeypatch.setattr(Tracker, "log_figure", lambda self, run_id, figure, name: self.log_text(run_id, "", name))


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    return learn(tmp_path_factory.mktemp("learnt"))
