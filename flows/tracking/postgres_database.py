"""MLflow's PostgreSQL database: made by one run at a time, and refused where its schema is another MLflow's.

A lock on a store's folder does not cover a database that two stores share, so the database's own advisory locks are
used: PostgreSQL releases one when its connection ends, however that ends."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sojourn.flows.console import stage
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.tracking.client import TrackingError, answering, connect
from sojourn.flows.tracking.databases import known_revisions, quiet

if TYPE_CHECKING:
    from sqlalchemy import Engine

TIMEOUT_S = 600.0
"""As for the lock of a store: longer than what is done under it takes."""
_PAUSE_S, _CONNECT_S = 0.2, 10
_REVISIONS = "alembic_version"


def ready_postgres(uri: TrackingUri, artifacts: str) -> None:
    """See that the database has the tables of this MLflow's schema: made now, or there already.

    artifacts: URI of the default experiment's artifacts. PostgreSQL takes back what a killed run had not committed, so
    that the next one goes on. TrackingError: it does not answer; its schema is older (it may be shared, so it is
    upgraded by a person) or unknown; or it holds other tables.
    """
    with answering(uri):
        connect(uri)
        engine = _engine(uri)
        if _is_current(uri, engine):
            return
        with advisory_lock(uri, "schema"):
            if not _is_current(uri, engine):  # else made by the one who held the lock
                with stage("make MLflow's database"):
                    _make(uri, artifacts)


@contextmanager
def advisory_lock(uri: TrackingUri, what: str, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
    """Hold a lock of that name in the database, against whoever else uses the database.

    TrackingError after `timeout_s`, or where the database does not answer. It needs a connection of its own all the
    while: a pooler between must keep sessions.
    """
    number = int.from_bytes(hashlib.sha256(f"sojourn {what}".encode()).digest()[:8], "big", signed=True)
    ends = time.monotonic() + timeout_s
    with answering(uri):
        connection = _engine(uri).connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        while True:
            with answering(uri):
                is_held = connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (number,)).scalar()
            if is_held:
                break
            if time.monotonic() >= ends:
                raise TrackingError(f"the database {uri} must be free for this within {timeout_s:g} s, got another "
                                    f"process that holds its lock for {what!r}")
            time.sleep(_PAUSE_S)
        yield
    finally:
        with suppress(Exception):  # a connection that was lost has released the lock
            connection.invalidate()
            connection.close()


def _engine(uri: TrackingUri) -> Engine:
    from sqlalchemy import NullPool, create_engine

    return create_engine(uri.with_driver, poolclass=NullPool, connect_args={"connect_timeout": _CONNECT_S})


def _is_current(uri: TrackingUri, engine: Engine) -> bool:
    """True where the tables are this MLflow's, False where there are none yet; TrackingError for any others."""
    from mlflow.store.tracking.dbmodels.initial_models import Base
    from sqlalchemy import inspect, text

    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        rows = connection.execute(text(f"SELECT version_num FROM {_REVISIONS}")).scalars().all() \
            if _REVISIONS in tables else []
    known = known_revisions()
    if not rows:
        strangers = sorted(tables - {_REVISIONS} - set(Base.metadata.tables))
        if strangers:
            raise TrackingError(f"the database {uri} must be empty or MLflow's own, got the table {strangers[0]!r} and "
                                "no schema of MLflow")
        return False
    if rows == [known[0]]:
        return True
    if len(rows) == 1 and rows[0] in known:
        raise TrackingError(f"the database {uri} must have the schema {known[0]} of this MLflow, got the older "
                            f"{rows[0]}: make a backup, end what uses the database, and run `mlflow db upgrade URI`")
    raise TrackingError(f"the database {uri} must have a schema that this MLflow knows (up to {known[0]}), got "
                        f"{', '.join(map(str, rows))}: a newer MLflow wrote it, or another program such as Prefect, "
                        "which needs a database of its own")


def _make(uri: TrackingUri, artifacts: str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    quiet()
    made = SqlAlchemyStore(uri.with_driver, artifacts)  # type: ignore[no-untyped-call]
    made.engine.dispose()
