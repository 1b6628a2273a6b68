"""A folder for what is not finished, beside its place; what a killed process left there is removed by the next one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn.features.usage.stored_files import MARK, REQUESTS

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_N_RANDOM = 8
"""Characters that `mkdtemp` adds to a name."""


@contextmanager
def spool_folder(target: Path) -> Iterator[Path]:
    """An empty folder `.NAME.*` beside `target` of this process alone; removed where the block fails.

    The folder is locked while its process lives, and the system ends the lock with the process. So before a folder is
    made, those without a lock are removed. Where the system has no such locks, nothing is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_left(target)
    fresh, lock = _locked(target)
    try:
        yield fresh
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _locked(target: Path) -> tuple[Path, int | None]:
    """A folder and its lock; made anew where another process took it for a left one in between."""
    while True:
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        if fcntl is None:
            return fresh, None
        lock = os.open(fresh, os.O_RDONLY)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if fresh.is_dir():
                return fresh, lock
        os.close(lock)


def _remove_left(target: Path) -> None:
    if fcntl is None:
        return
    for left in sorted(target.parent.iterdir()):
        if not _is_ours(left, target):
            continue
        with suppress(OSError):  # gone meanwhile, or its process lives
            lock = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


def _is_ours(left: Path, target: Path) -> bool:
    """Whether it has such a name and holds parts of a store alone, so that a folder of the user stays."""
    prefix = f".{target.name}."
    if not left.name.startswith(prefix) or len(left.name) != len(prefix) + _N_RANDOM:
        return False
    if left.is_symlink() or not left.is_dir():
        return False
    return all(path.name in (MARK, REQUESTS) or path.name.startswith("part-") for path in left.iterdir())
