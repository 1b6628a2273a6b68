"""Opening a store for a command that only reads: with the libraries of `sojourn[pull]` alone."""

from __future__ import annotations

from sojourn.flows.outside.mlflow_database import check_database
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.settings.store import StoreSettings


def read_store(settings: StoreSettings, *, is_asked: bool = True) -> Tracker:
    """The tracker of a command that only reads; FileNotFoundError where there is no database yet.

    is_asked: False = a server need not answer yet.
    """
    if settings.mlflow_uri.database is not None:
        check_database(settings.mlflow_uri.database)
    return Tracker(settings.mlflow_uri, settings.artifacts or settings.store / "artifacts", is_asked=is_asked)
