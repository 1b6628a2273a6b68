"""Files and folders that are there whole or not at all, whoever else writes or reads them, also after a power cut.

Each is written under a temporary name beside its place, flushed to disk and renamed; then the folder that holds it is
flushed, too. Only Python's own library is imported here, so that all parts may use it.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD, _EXCHANGE = -100, 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
"""No room on the disk, in a file or in a quota."""
FRESH, OLD = "fresh.", "old."
"""What follows `.NAME.` in the names of temporary folders beside a target; then come 8 letters."""
_LEFT_S = 3_600
_HAS_FOLDER_FILES = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened, and so flushed: not on Windows."""


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if not _HAS_FOLDER_FILES and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush a folder with all files and folders in it to disk, innermost first."""
    for path in sorted(folder.rglob("*"), reverse=True):
        sync(path)
    sync(folder)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Where there is no room for what is written within, the OSError names the file: Python itself names none.

    >>> with naming(Path("a.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'a.json'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in NO_ROOM:
            error.filename = str(file)
        raise


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A temporary name to write to, moved to `file` at the end; what is there after a power cut is old or new.

    Of several writers each has a name of its own, threads and machines on a shared folder too; the last one stays.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        with naming(file):
            yield temporary
            sync(temporary)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    sync(file.parent)


def publish_files(target: Path, contents: Mapping[str, bytes], mark: str,
                  others: Collection[str] | None = None) -> None:
    """Put files, by name, into a folder all at once; a reader sees the older folder or this one.

    mark: as in `publish_folder`. others: where it is given, an older one may hold these names besides, and anything
    else is somebody's own: ValueError. Also ValueError where the folder is not known by its mark, OSError where the
    disk fails: it then stays as it was. What a killed call for the same target left an hour ago or more is removed.
    """
    _check_replaceable(target, mark)
    known = {*contents, *(others or ())}
    odd = sorted(path.name for path in target.iterdir() if path.name not in known) if target.is_dir() else []
    if odd and others is not None:
        raise ValueError(f"{target} must hold nothing but {', '.join(sorted(known))}, got {odd[0]!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.{FRESH}", dir=target.parent))
    try:
        for name, content in contents.items():
            with naming(target / name):
                (fresh / name).write_bytes(content)
        publish_folder(fresh, target, mark)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def publish_folder(fresh: Path, target: Path, mark: str) -> None:
    """Move the finished folder `fresh` to `target`; both are on one file system, and so is the older one's folder.

    mark: the file by which an older one is known. Anything else at `target` is not ours to remove: ValueError. Where
    the system cannot exchange folders, a reader for a moment sees none; a crash in that moment leaves the older one
    beside it, in `.NAME.old.*`.
    """
    _check_replaceable(target, mark)
    fresh.chmod(0o755)  # a temporary folder is its maker's only
    sync_tree(fresh)
    if not target.exists():
        fresh.rename(target)
    elif exchange(fresh, target):
        sync(target.parent)  # before the older one is deleted
        shutil.rmtree(fresh, ignore_errors=True)
    else:
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.{OLD}", dir=target.parent))
        target.rename(old / "was")
        fresh.rename(target)
        sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    sync(target.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two existing folders of one file system; False where the system cannot do that at once.

    Linux can on most file systems (renameat2, RENAME_EXCHANGE); Python has no call for it.
    """
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _sweep(target: Path) -> None:
    """Remove temporary folders that killed calls left beside the target; a call takes seconds, not an hour."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.{FRESH}*"):
        try:
            if time.time() - left.stat().st_mtime > _LEFT_S:
                shutil.rmtree(left, ignore_errors=True)
        except FileNotFoundError:  # another call has removed it, or is done with it
            continue


def _check_replaceable(target: Path, mark: str) -> None:
    is_empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not is_empty and not (target / mark).is_file():
        raise ValueError(f"{target} must be new, empty or a folder with {mark}, got something else there")


@cache
def _renameat2() -> Any:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call
