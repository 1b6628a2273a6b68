"""Opening a store for a run that writes to it."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.flows.outside.mlflow_database import check_whole, ready_database
from sojourn.flows.outside.run_artifacts import check_place
from sojourn.flows.outside.tracking import Tracker
from sojourn.flows.settings.store import StoreSettings
from sojourn.flows.store.code_version import source_commit
from sojourn.flows.store.processes import enter_store
from sojourn.flows.versions.repair import repair_store


def open_store(settings: StoreSettings, names: Sequence[str] = ()) -> Tracker:
    """The tracker of a run that writes; its runs name this process, which from now on is seen to live.

    What killed runs left is repaired first. names: models whose champion is to be in `bundles`. ValueError or OSError
    where artifacts can't be kept at their place; nothing is then made or changed.
    """
    artifacts = settings.store / "artifacts"
    if settings.mlflow_uri.database is not None:  # before a file is tried in what may be a link to another store
        check_whole(settings.mlflow_uri.database, artifacts)
    if not settings.mlflow_uri.is_server:  # before a database is made, which keeps its place
        check_place(settings.mlflow_uri, settings.artifacts or artifacts)
    if settings.mlflow_uri.database is not None:  # before this process is seen: a database is upgraded alone
        ready_database(settings.mlflow_uri.database, artifacts)
    commit = source_commit()
    source = {} if commit is None else {"mlflow.source.git.commit": commit}
    tracker = Tracker(settings.mlflow_uri, settings.artifacts or artifacts,
                      run_tags={**enter_store(settings.store).tags(), **source}, wait_s=settings.tracking_wait_s)
    tracker.check_artifacts()
    repair_store(settings.store, tracker, names)
    return tracker
