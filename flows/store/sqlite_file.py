"""An SQLite database that is there whole or not at all: made or upgraded under a temporary name, then renamed."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sojourn.publishing import sync

BUSY_S = 60.0
"""How long a database is waited for that another program holds."""
_BESIDE = ("", "-journal", "-wal", "-shm")


def tables_of(file: Path) -> set[str]:
    """The names of a database's tables; none where there is no file, or an empty one as SQLite leaves it.

    Raises OSError where the file is no database.
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
    """Bytes of a database that hold nothing; 0 where there is no database, or it can't be asked now."""
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
