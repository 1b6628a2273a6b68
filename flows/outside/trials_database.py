"""Optuna's SQLite database of a store's searches: made whole before anyone opens it."""

from __future__ import annotations

from pathlib import Path

from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.store.lock import store_lock
from sojourn.flows.store.sqlite_file import make_database, tables_of

TRIALS = "optuna.db"


def ready_trials(store: Path) -> Path:
    """The database's file, made now or there already.

    Optuna makes its tables one by one; two searches that begin at once find each other's.
    """
    file = store / TRIALS
    if not tables_of(file):
        with store_lock(store):
            if not tables_of(file):
                make_database(file, _make)
    return file


def _make(file: Path) -> None:
    from optuna.storages import RDBStorage

    made = RDBStorage(TrackingUri.of_file(file).plain)
    made.remove_session()
    made.engine.dispose()
