"""MLflow's SQLite database, and Optuna's: made whole, or upgraded on a copy, before anyone opens it.

MLflow makes its tables by some sixty migrations, each of which SQLite commits by itself: killed half way, it leaves a
database that no later run can open, and two that begin at once are in each other's way."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sojourn.flows.console import stage
from sojourn.flows.settings.tracking_uri import TrackingUri
from sojourn.flows.store.lock import LOCK, is_alone, store_lock
from sojourn.flows.store.moved import (
    check_own,
    copy_database,
    made_at,
    make_database,
    move_places,
    new_database,
    read_rows,
    tables_of,
)

DATABASE = "mlflow.db"
_LEFTOVER = "_alembic_tmp_"
TRIALS = "optuna.db"


def check_database(file: Path) -> None:
    """Return once nobody makes the database any more; FileNotFoundError if there is none. Nothing is made."""
    if (file.parent / LOCK).is_file() and not tables_of(file):
        with store_lock(file.parent):
            pass  # a first run may be making it
    if not tables_of(file):
        place = file.parent if file.name == DATABASE else file
        raise FileNotFoundError(f"no store at {place}: `sojourn retrain`, `sojourn evaluate` or `sojourn compare` "
                                "makes one")


def ready_database(file: Path, artifacts: Path) -> None:
    """See that there is a whole database of this MLflow's schema at `file`: made now, upgraded now, or there already.

    artifacts: folder of the default experiment's artifacts. A store that was copied or moved here is made to name its
    own artifacts. OSError where it can be none of these; the file is then as it was.
    """
    _bring_up(file, artifacts)
    if check_whole(file, artifacts) is not None and os.access(file.parent, os.W_OK):
        _settle(file, artifacts)


def check_whole(file: Path, artifacts: Path) -> Path | None:
    """Where a store that was copied or moved kept its artifacts; None for any other.

    OSError if the copy is not whole. Nothing is written, neither here nor through a link into the original.
    """
    if file.absolute().parent != artifacts.absolute().parent:
        return None
    before = made_at(file, artifacts)
    if before is not None:
        check_own(file, before, artifacts)
    return before


def _settle(file: Path, artifacts: Path) -> None:
    """Make a copied or moved store name its own artifacts: with the original's places it would write there."""
    with store_lock(file.parent):
        before = check_whole(file, artifacts)
        if before is None:  # done by the one who held the lock
            return
        _check_alone(file, "given its artifacts' new place")
        with stage("make the copied or moved store name its own artifacts"):
            move_places(file, before, artifacts)


def _check_alone(file: Path, what: str) -> None:
    if not is_alone(file.parent):
        raise OSError(f"{file} must be {what} while no other process uses the store, got one that does")


def _bring_up(file: Path, artifacts: Path) -> None:
    if _is_current(file):
        return
    with store_lock(file.parent):
        if _is_current(file):  # made by the one who held the lock
            return
        if not tables_of(file):
            with stage("make MLflow's database"), _one_line(f"{file} must be made before it is opened"):
                make_database(file, lambda temporary: _make(temporary, artifacts))
        else:
            with stage("upgrade MLflow's database"):
                _upgrade(file)


def _is_current(file: Path) -> bool:
    return bool(tables_of(file)) and _revision(file) == _known_revisions()[0]


def _revision(file: Path) -> str | None:
    """The schema's revision; None where a database has none, as its making was cut off."""
    tables = tables_of(file)
    if "alembic_version" not in tables or any(name.startswith(_LEFTOVER) for name in tables):
        return None
    rows = read_rows(file, "SELECT version_num FROM alembic_version")
    return str(rows[0][0]) if len(rows) == 1 else None


@cache
def _known_revisions() -> tuple[str, ...]:
    """The revisions that this MLflow knows, newest first."""
    import mlflow.store.db_migrations
    from alembic.script import ScriptDirectory

    folder = Path(next(iter(mlflow.store.db_migrations.__path__)))
    return tuple(script.revision for script in ScriptDirectory(str(folder)).walk_revisions())


def _make(file: Path, artifacts: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    _quiet()
    # its default experiment, too
    made = SqlAlchemyStore(TrackingUri.of_file(file).plain, artifacts.absolute().as_uri())  # type: ignore[no-untyped-call]
    made.engine.dispose()


def _upgrade(file: Path) -> None:
    revision, known = _revision(file), _known_revisions()
    if revision is None:
        raise OSError(f"{file} must be a whole MLflow database, got one whose making or upgrade was cut off; move it "
                      "away, and the next run makes a new one")
    if revision not in known:
        raise OSError(f"{file} must have a schema that this MLflow knows (up to {known[0]}), got {revision}: a newer "
                      "MLflow wrote it")
    _check_alone(file, "upgraded")
    with new_database(file) as temporary:
        with _one_line(f"{file} must be upgraded from schema {revision} to {known[0]}"):
            copy_database(file, temporary)
            _migrate(temporary)
        backup = file.with_name(f"{file.name}.{revision}")
        backup.unlink(missing_ok=True)
        os.link(file, backup)


def _migrate(file: Path) -> None:
    from mlflow.store.db.utils import _upgrade_db, create_sqlalchemy_engine_with_retry

    _quiet()
    engine = create_sqlalchemy_engine_with_retry(TrackingUri.of_file(file).plain)  # type: ignore[no-untyped-call]
    try:
        _upgrade_db(engine)  # type: ignore[no-untyped-call]
    finally:
        engine.dispose()


@contextmanager
def _one_line(rule: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever MLflow, SQLAlchemy and alembic raise
        raise OSError(f"{rule}, got {str(error).splitlines()[0][:300]}") from error


def _quiet() -> None:
    """MLflow and alembic tell warnings only."""
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def ready_trials(store: Path) -> Path:
    """The database's file, made now or there already.

    Optuna makes its tables one by one; two searches that begin at once find each other's.
    """
    file = store / TRIALS
    if not tables_of(file):
        with store_lock(store):
            if not tables_of(file):
                make_database(file, _make_trials)
    return file


def _make_trials(file: Path) -> None:
    from optuna.storages import RDBStorage

    made = RDBStorage(TrackingUri.of_file(file).plain)
    made.remove_session()
    made.engine.dispose()
