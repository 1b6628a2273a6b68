"""The one way in which compiled loops are kept on disk: in one folder, under a hash of all source compiled into them.

numba's own cache looks at the file that holds a kernel, not at the functions that it calls in other files: an edit
there would leave the old answer in use. Here the key covers all modules that the kernel's module imports, and the
versions of what compiles; the processor is in numba's own part of it. Each signature has files of its own, named by
its key: no process reads code of another source. Imported only if numba is installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.misc.appdirs import AppDirs

from sojourn.source_closure import NoSource, installed

_N_DAYS_UNREAD = 30
"""A compiled form that no process has read for so long is removed."""
_DAY_S = 86_400
FORMS: dict[Path, bool] = {}
"""The index file of each compiled form that this process uses: True = it was compiled here, False = it was read."""


def keep(compiled: Any, function: Callable[..., Any], key: str | None = None) -> Any:
    """`compiled`, numba's dispatcher of a function that takes no functions, from now on kept on disk.

    key: hash of all that the function is made of; default: of its module's imports and of `environment`.
    If nothing can be kept (no folder to write to, no source installed), each process compiles it anew.
    """
    stamp = key or _stamp(function.__module__)
    folder = None if stamp is None else cache_folder()
    if stamp is not None and folder is not None:
        compiled._cache = _Kept(function, folder, stamp)  # noqa: SLF001  # numba looks there
    return compiled


def is_kept(module: str, name: str, key: str) -> bool:
    """Whether a compiled form of a module's function is on disk under a key."""
    folder = cache_folder()
    return folder is not None and any(folder.glob(f"{_base(module, name, key)}-*.nbi"))


def environment() -> str:
    """The versions of all that compiles, for a key."""
    return f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version} {platform.machine()}"


class _Place:
    """numba's locator; `_py_file` is named in its warnings."""

    def __init__(self, function: Any, folder: Path, stamp: str) -> None:
        self._py_file = function.__code__.co_filename
        self.folder, self.stamp = folder, stamp

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return self.stamp


class _Results(CompileResultCacheImpl):
    """How numba serializes a compiled function. Its constructor would look for a folder of its own."""

    def __init__(self, function: Any, place: _Place) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = place
        self._filename_base = function.__qualname__


class _Kept(FunctionCache):
    """A kernel's compiled forms. A file that is damaged or can't be written means a compilation, never an error."""

    def __init__(self, function: Any, folder: Path, stamp: str) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Results(function, _Place(function, folder, stamp))
        self._folder, self._stamp = folder, stamp
        self._cache_path = str(folder)
        self._base = _base(function.__module__, function.__qualname__, stamp)
        self.enable()

    def flush(self) -> None:
        _remove(self._folder.glob(f"{self._base}-*"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        if not self._enabled:
            return None
        try:
            key = self._index_key(sig, target_context.codegen())
            data = self._file(key).load(key)
            if data is None:
                return None
            self._mark_read(key)
            form = self._impl.rebuild(target_context, data)
            FORMS[self._folder / f"{self._name_of(key)}.nbi"] = False
            return form
        except Exception:  # a damaged file raises nearly anything
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not self._enabled or not self._impl.check_cachable(data):
            return
        key = self._index_key(sig, data.codegen)
        FORMS[self._folder / f"{self._name_of(key)}.nbi"] = True
        with contextlib.suppress(OSError):  # a full disk, a folder that was removed
            file = self._file(key)
            file.flush()  # numba would read a damaged index first
            file.save(key, self._impl.reduce(data))
            _remove_unread(self._folder)

    def _file(self, key: Any) -> Any:
        return IndexDataCacheFile(str(self._folder), self._name_of(key), self._stamp)

    def _name_of(self, key: Any) -> str:
        return f"{self._base}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}.{_tag()}"

    def _mark_read(self, key: Any) -> None:
        """Once a day at most: its files get the time of now, by which `_remove_unread` goes."""
        name = self._name_of(key)
        with contextlib.suppress(OSError):  # a folder that is read only
            if time.time() - (self._folder / f"{name}.nbi").stat().st_mtime > _DAY_S:
                for path in self._folder.glob(f"{name}.*"):
                    os.utime(path)


@cache
def _stamp(module: str) -> str | None:
    """16 hex digits of a module's imports and of what compiles it; None if its source cannot be read."""
    try:
        return hashlib.sha256(f"{installed().hash(module)} {environment()}".encode()).hexdigest()[:16]
    except (NoSource, ValueError):
        return None


@cache
def cache_folder() -> Path | None:
    """The folder of all compiled forms; None, with a warning, if there is none.

    The first of: `sojourn` in NUMBA_CACHE_DIR (others may read it; if it is there, it may be read only), `sojourn` in
    the user's cache, `__pycache__` of the installed package.
    """
    folders = [Path(AppDirs(appname="sojourn", appauthor=False).user_cache_dir), Path(__file__).parent / "__pycache__"]
    named = config.CACHE_DIR  # type: ignore[attr-defined]  # made from the environment
    if named:
        folders.insert(0, Path(named) / "sojourn")
        if folders[0].is_dir():
            return folders[0]
    for folder in folders:
        try:
            folder.mkdir(mode=0o755 if named and folder == folders[0] else 0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
        except OSError:
            continue
    warnings.warn("NUMBA_CACHE_DIR must name a folder that may be written, so that compiled code is kept; got none, so "
                  "each process compiles it, for up to a minute", RuntimeWarning, stacklevel=3)
    return None


@cache
def _remove_unread(folder: Path) -> None:
    """Once a process: remove what no process has read for a month, as other versions of the source leave it."""
    oldest = time.time() - _N_DAYS_UNREAD * _DAY_S
    for path in list(folder.glob("*.nb[ci]")):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def _remove(paths: Any) -> None:
    for path in list(paths):
        with contextlib.suppress(OSError):
            path.unlink()


def _base(module: str, name: str, key: str) -> str:
    return f"{module.rpartition('.')[2]}.{name}-{key}"


def _tag() -> str:
    return f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
