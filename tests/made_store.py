"""A store with two registered versions, made of small bundles in seconds: what commands about versions work on.

And other processes in a store, for which this one stands."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from made_bundles import Made
from sojourn.flows.retrain.judge import candidate_folder
from sojourn.flows.retrain.promote import Judged, promote
from sojourn.flows.retrain.verdict import Gate, Promotion
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.store import lock
from sojourn.flows.store.lock import USE, is_locked
from sojourn.flows.tracking.databases import ready_database
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.tracker import CHAMPION, Tracker
from sojourn.flows.versions.promotion import BundleBytes
from sojourn.flows.versions.version_list import JUDGED_TAG, JudgedOn, keyed


def promoted(made: Made, store: Path, tracker: Tracker, kind: str, name: str = "made",
             data: str = "aaa") -> Promotion:
    """The bundle of this kind as a new version, and as champion."""
    run = tracker.start(kind, {})
    judged_on = JudgedOn("made", data, "w").key
    tracker.log(run, metrics=keyed(judged_on, {"ages.ibs": 0.25}))
    folder = Path(shutil.copytree(made.folders[kind], candidate_folder(store, name, run)))
    source = log_bundle(tracker, run, folder, made.encoder, made.request(0))
    judged = Judged(name, run, source, BundleBytes.read(folder).sha256, tracker.version_of(name, CHAMPION),
                    (Gate("any", True, "fine"),), kind)
    tags = {"trace": "made", "data_hash": data, "window": "w", JUDGED_TAG: judged_on}
    return promote.fn(tracker, store, judged, "card\n", tags)


def made_store(made: Made, store: Path, name: str) -> Path:
    """Versions 1 and 2 of a name in a store whose database is ready; returns the champion's bundle."""
    tracker = tracker_of(store)
    promoted(made, store, tracker, "once", name)
    promoted(made, store, tracker, "hazard", name, data="bbb")
    return store / "bundles" / name


def tracker_of(store: Path) -> Tracker:
    """The tracker of a store whose database is ready, and names the store's own artifacts from now on."""
    ready_database(store / "mlflow.db", store / "artifacts")
    return Tracker(TrackingUri.of_file(store / "mlflow.db"), store / "artifacts")


def copied(kept: Path, store: Path) -> Path:
    """A copy of a store made with `tracker_of`, to be changed: a tenth of the time that a second one would take."""
    shutil.copytree(kept, store, dirs_exist_ok=True)
    ready_database(store / "mlflow.db", store / "artifacts")
    return store


@contextmanager
def another_process(store: Path) -> Iterator[None]:
    """Another process uses the store meanwhile: locks are of descriptors, so that this one can stand for it."""
    with (store / USE).open("a") as file:
        assert not is_locked(file.fileno(), fcntl.LOCK_SH)
        yield


def as_a_new_process(store: Path) -> None:
    """What this process did in the store counts as that of a dead one."""
    file = lock._used.pop(lock._key(store), None)
    if file is not None:
        os.close(file)
