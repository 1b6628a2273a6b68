"""A store with an empty MLflow database, its tracker, and bundles to register."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from made_bundles import Made, make
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.tracker import Tracker


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture()
def store(new_store: Callable[[Path], Path], tmp_path: Path) -> Path:
    return new_store(tmp_path / "store")


@pytest.fixture()
def tracker(store: Path) -> Tracker:
    return Tracker(TrackingUri.of_file(store / "mlflow.db"), store / "artifacts")
