"""One Prefect server for all flow tests, in a folder of its own; one migrated MLflow database, copied to each store."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import sojourn.flows  # noqa: F401 - before any test imports MLflow or Prefect: it sets their environment
from learnt_bundle import Learnt, learn

os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "600"  # a busy machine fails no test


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prefect's own test harness draws its port at random, and may draw one that is taken meanwhile."""
    from sojourn.flows.workers.prefect import prefect_server

    with prefect_server(tmp_path_factory.mktemp("prefect")):
        yield


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    return learn(tmp_path_factory.mktemp("learnt"))
