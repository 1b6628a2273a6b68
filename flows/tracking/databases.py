"""SQLite databases of a store: there whole or not at all, and at home where the store is.

MLflow's and Optuna's are made whole, or upgraded on a copy under a temporary name that is then renamed, before they are
opened. MLflow makes its tables by some sixty migrations, and SQLite commits each separately. If it is killed half way,
no later run can open the database; and two processes that make it at once disturb each other.

MLflow keeps absolute places of artifacts. With them, a run in a copied store would write its
artifacts into the original, so a store that was copied or moved gets its own."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sojourn.flows.console import stage
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.store.lock import LOCK, is_alone, store_lock
from sojourn.publishing import sync, whole_file

_DEFAULT = "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
_VERSIONS = ("model_versions", "source")
_PLACES = (("experiments", "artifact_location"), ("runs", "artifact_uri"), _VERSIONS,
           ("model_versions", "storage_location"), ("logged_models", "artifact_location"))
"""Columns of MLflow's tables that hold an artifact's place."""
_ORDERS = "promotions/*.json"
"""Files beside the database whose field `source` is an artifact's place."""
BUSY_S = 60.0
"""How long a database is waited for that another program holds."""
_BESIDE = ("", "-journal", "-wal", "-shm")


def made_at(file: Path, artifacts: Path) -> Path | None:
    """The folder of artifacts at the place where this database was made; None if it is `artifacts`.

    MLflow's default experiment names it: no run writes there, so nothing else ever changes it.
    """
    if "experiments" not in tables_of(file):
        return None
    for (location,) in read_rows(file, _DEFAULT):
        place = urlsplit(str(location))
        before = Path(unquote(place.path)).parent
        if place.scheme == "file" and before.name == artifacts.name and not _is_same(before, artifacts):
            return before
    return None


def check_own(file: Path, before: Path, artifacts: Path) -> None:
    """OSError if the store shares a file with its original, or lacks artifacts that its database names."""
    original, store = before.parent, artifacts.absolute().parent
    way_out = f"copy all of it with `cp -rL {original} {store}` into a place without it, or use --store {original}"
    with suppress(FileNotFoundError):
        if (original / file.name).samefile(file):
            raise OSError(f"{file} must be a file of its own, got a link to that of the store {original}: {way_out}")
    if artifacts.resolve() == before.resolve():
        raise OSError(f"{artifacts} must be a folder of its own, got a link to that of the store {original}: {way_out}")
    for uri in _named(file, before, *_VERSIONS):
        if not artifacts.is_dir():
            raise OSError(f"{artifacts} must hold the artifacts that {file} names, got no folder: {way_out}")
        _check_copied(uri, before, artifacts, way_out)
    for uri in _named(file, before, "runs", "artifact_uri"):
        _check_copied(uri, before, artifacts, way_out)


def move_places(file: Path, before: Path, artifacts: Path) -> None:
    """Make the database and the orders beside it name this store's artifacts, the database in one transaction.

    The orders go first: the database still names the old place if this is killed, so it is done again.
    """
    old, new = before.as_uri(), artifacts.absolute().as_uri()
    for order in sorted(file.parent.glob(_ORDERS)):
        with suppress(ValueError):  # damaged: reported by who carries it out
            document = json.loads(order.read_text())
            source = document.get("source") if isinstance(document, dict) else None
            if isinstance(source, str) and _is_below(source, old):
                changed = {**document, "source": new + source[len(old):]}
                with whole_file(order) as temporary:
                    temporary.write_text(json.dumps(changed, indent=1) + "\n")
    tables = tables_of(file)
    try:
        with closing(sqlite3.connect(file, BUSY_S)) as database, database:
            for table, column in _PLACES:
                if table in tables:
                    database.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                        f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                        (new, len(old) + 1, old, len(old) + 1, f"{old}/"))
    except sqlite3.Error as error:
        raise OSError(f"{file} must be given its artifacts' new place {artifacts}, got {error}") from error


def _named(file: Path, before: Path, table: str, column: str) -> Iterator[str]:
    """The places below the original's artifacts that a column names."""
    for (uri,) in read_rows(file, f"SELECT {column} FROM {table}"):
        if _is_below(str(uri), before.as_uri()):
            yield str(uri)


def _check_copied(uri: str, before: Path, artifacts: Path, way_out: str) -> None:
    was = Path(unquote(urlsplit(uri).path))
    here = artifacts / was.relative_to(before)
    if was.exists() and not here.exists():
        raise OSError(f"{artifacts} must hold the artifacts that its store names, got no {here}: {way_out}")


def _is_below(uri: str, folder: str) -> bool:
    return uri == folder or uri.startswith(f"{folder}/")


def _is_same(before: Path, artifacts: Path) -> bool:
    """One store under two paths, as through a link to its folder or a second mount."""
    stores = before.parent, artifacts.absolute().parent
    with suppress(OSError):
        return stores[0].samefile(stores[1])
    return stores[0].resolve() == stores[1].resolve()


def tables_of(file: Path) -> set[str]:
    """The names of a database's tables; none without a file, or for an empty one.

    OSError if the file is no database.
    """
    if not file.is_file() or file.stat().st_size == 0:
        return set()
    try:
        return {str(name) for (name,) in read_rows(file, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.OperationalError as error:
        raise OSError(f"{file} must be readable, got {error} after {BUSY_S:g} s") from error
    except sqlite3.Error as error:
        raise OSError(f"{file} must be an SQLite database, got {error}") from error


def read_rows(file: Path, query: str) -> list[tuple[object, ...]]:
    """What a query finds in a database; another program that holds it is waited for."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", BUSY_S, uri=True)) as database:
        return database.execute(query).fetchall()


@contextmanager
def new_database(file: Path) -> Iterator[Path]:
    """A temporary name beside `file`; what was written there takes its place at the end. Nothing stays of a failure.

    Who made it has closed it by then.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        yield temporary
        sync(temporary)
        for name in _BESIDE[1:]:
            file.with_name(file.name + name).unlink(missing_ok=True)  # of what was there before
        temporary.replace(file)
        sync(file.parent)
    finally:
        for name in _BESIDE:
            temporary.with_name(temporary.name + name).unlink(missing_ok=True)


def make_database(file: Path, make: Callable[[Path], object]) -> None:
    """Have a library make its tables in a new file, then put that in place. The caller holds the store's lock."""
    with new_database(file) as temporary:
        make(temporary)


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it stands, also while others write to it."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def free_bytes(file: Path) -> int:
    """Free bytes of a database; 0 if there is no database, or it can't be read now."""
    if not file.is_file():
        return 0
    try:
        (pages,), (size,) = read_rows(file, "PRAGMA freelist_count")[0], read_rows(file, "PRAGMA page_size")[0]
    except sqlite3.Error:
        return 0
    assert isinstance(pages, int) and isinstance(size, int)
    return pages * size


def vacuum(file: Path) -> None:
    """Write a database anew without what holds nothing; killed in between, it is as it was.

    OSError while another program holds it.
    """
    try:
        with closing(sqlite3.connect(file, BUSY_S, isolation_level=None)) as database:
            database.execute("VACUUM")
    except sqlite3.Error as error:
        raise OSError(f"{file} must be free to be written anew, got {error}") from error


DATABASE = "mlflow.db"
_LEFTOVER = "_alembic_tmp_"
TRIALS = "optuna.db"


def check_database(file: Path) -> None:
    """Wait until no process makes the database; FileNotFoundError if there is none."""
    if (file.parent / LOCK).is_file() and not tables_of(file):
        with store_lock(file.parent):
            pass  # a first run may be making it
    if not tables_of(file):
        place = file.parent if file.name == DATABASE else file
        raise FileNotFoundError(f"no store at {place}: `sojourn train`, `sojourn lab evaluate` or `sojourn gain` "
                                "makes one")


def ready_database(file: Path, artifacts: Path) -> None:
    """Make or upgrade the database at `file`, unless it is there with this MLflow's schema.

    artifacts: folder of the default experiment's artifacts. In a store that was copied or moved
    here the paths of artifacts are changed. OSError if this fails; then the file is unchanged.
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
    """The schema's revision; None if it has none, because the process that made it was killed."""
    tables = tables_of(file)
    if "alembic_version" not in tables or any(name.startswith(_LEFTOVER) for name in tables):
        return None
    rows = read_rows(file, "SELECT version_num FROM alembic_version")
    return str(rows[0][0]) if len(rows) == 1 else None


@cache
def _known_revisions() -> tuple[str, ...]:
    import mlflow.store.db_migrations
    from alembic.script import ScriptDirectory

    folder = Path(next(iter(mlflow.store.db_migrations.__path__)))
    return tuple(script.revision for script in ScriptDirectory(str(folder)).walk_revisions())


def _make(file: Path, artifacts: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    _quiet()
    with _synced_once():
        # its default experiment, too
        store = SqlAlchemyStore(TrackingUri.of_file(file).plain, artifacts.absolute().as_uri())  # type: ignore[no-untyped-call]
        store.engine.dispose()


@contextmanager
def _synced_once() -> Iterator[None]:
    """SQLite does not wait for the disk after each statement: `new_database` does so once, before the file is used."""
    from sqlalchemy import Engine, event

    def begin(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", begin)
    try:
        yield
    finally:
        event.remove(Engine, "connect", begin)


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
    except Exception as error:  # of MLflow, SQLAlchemy or alembic
        raise OSError(f"{rule}, got {str(error).splitlines()[0][:300]}") from error


def _quiet() -> None:
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def ready_trials(store: Path) -> Path:
    """The database's file, made now or there already.

    Optuna makes its tables one by one, so two searches that begin at once would disturb each other.
    """
    file = store / TRIALS
    if not tables_of(file):
        with store_lock(store):
            if not tables_of(file):
                make_database(file, _make_trials)
    return file


def _make_trials(file: Path) -> None:
    from optuna.storages import RDBStorage

    storage = RDBStorage(TrackingUri.of_file(file).plain)
    storage.remove_session()
    storage.engine.dispose()
