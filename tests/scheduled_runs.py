"""What tests of schedules share: an environment, a wait for what other processes do, and a champion in a store."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from made_bundles import make
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import Tracker
from sojourn.flows.versions.promotion import BundleBytes
from sojourn.serving import Predictor


def own_environment(**more: str) -> dict[str, str]:
    """The environment without what other tests of the session may have set for Prefect, MLflow or Sojourn."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "SOJOURN"))}
    return {**kept, "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600", **more}


def wait_for(what: Callable[[], object], limit_s: float) -> object:
    ends_s = time.monotonic() + limit_s
    while time.monotonic() < ends_s:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError("nothing came")


def version_1(store: Path, folder: Path) -> str:
    """Version 1 of the model, which no run of two thousand requests without a simulation replaces."""
    made = make(folder / "made")
    tracker = Tracker(TrackingUri.of_file(store / "mlflow.db"), store / "artifacts")
    run = tracker.start("made", {"mlflow.parentRunId": "none"})
    own = Path(shutil.copytree(made.folders["hazard"], candidate_folder(store, "m", run)))
    source = log_bundle(tracker, run, own, made.encoder, made.request(0))
    promote.fn(tracker, store, Judged("m", run, source, BundleBytes.read(own).sha256, None, ()), "card\n", {})
    return Predictor.load(store / "bundles" / "m").version
