"""The one way by which compiled loops are kept on disk: under a hash of all source that is compiled into them.

numba's own cache looks at the file that holds a kernel, not at the functions that it calls in other files, so that an
edit there leaves the old answer in use. Here the key is the closure of the module's imports and the versions of what
compiles; the processor is in numba's own part of it. Each signature has its file, named by its key: no process reads
what another one's source gave. Imported only where numba is installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import sys
import tempfile
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


def keep(compiled: Any, function: Callable[..., Any]) -> Any:
    """`compiled`, numba's dispatcher of a function that takes no functions, from now on kept on disk.

    Where nothing can be kept (no folder that may be written, no source installed), each process compiles it anew.
    """
    stamp = _stamp(function.__module__)
    folder = None if stamp is None else _folder(function.__code__.co_filename)
    if stamp is not None and folder is not None:
        compiled._cache = _Kept(function, folder, stamp)  # noqa: SLF001  # where numba looks
    return compiled


class _Place:
    """What numba calls a locator; `_py_file` is named in its warnings."""

    def __init__(self, function: Any, folder: Path, stamp: str) -> None:
        self._py_file = function.__code__.co_filename
        self.folder, self.stamp = folder, stamp

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return self.stamp


class _Results(CompileResultCacheImpl):
    """How numba lays a compiled function flat. Its constructor would look for a place of its own."""

    def __init__(self, function: Any, place: _Place) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = place
        self._filename_base = function.__qualname__


class _Kept(FunctionCache):
    """A kernel's compiled forms. What is damaged or can't be written is compiled, never an error."""

    def __init__(self, function: Any, folder: Path, stamp: str) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Results(function, _Place(function, folder, stamp))
        self._folder, self._stamp = folder, stamp
        self._cache_path = str(folder)
        self._module = function.__module__.rpartition(".")[2]
        self.enable()

    def flush(self) -> None:
        _remove(self._folder.glob(f"{self._module}.{self._py_func.__qualname__}-{self._stamp}-*"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        if not self._enabled:
            return None
        try:
            key = self._index_key(sig, target_context.codegen())
            kept = self._file(key).load(key)
            return None if kept is None else self._impl.rebuild(target_context, kept)
        except Exception:  # a damaged file raises nearly anything
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not self._enabled or not self._impl.check_cachable(data):
            return
        key = self._index_key(sig, data.codegen)
        with contextlib.suppress(OSError):  # a full disk, a folder that is gone
            file = self._file(key)
            file.flush()  # numba would read a damaged index first
            file.save(key, self._impl.reduce(data))
            _remove_others(self._folder, self._module, self._stamp)

    def _file(self, key: Any) -> Any:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
        base = f"{self._module}.{self._py_func.__qualname__}-{self._stamp}-{digest}.{_tag()}"
        return IndexDataCacheFile(str(self._folder), base, self._stamp)


@cache
def _stamp(module: str) -> str | None:
    """16 hex digits of a module's closure and of what compiles it; None where its source is not there to be read."""
    versions = f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version} {platform.machine()}"
    try:
        return hashlib.sha256(f"{installed().hash(module)} {versions}".encode()).hexdigest()[:16]
    except (NoSource, ValueError):
        return None


@cache
def _folder(source: str) -> Path | None:
    """NUMBA_CACHE_DIR, else beside a source file, else the user's cache: the first that may be written."""
    own = Path(source).parent
    private = f"{own.name}_{hashlib.sha256(str(own).encode()).hexdigest()[:16]}"
    told = config.CACHE_DIR  # type: ignore[attr-defined]  # made from the environment
    folders = [Path(told) / private] if told else []
    folders += [own / "__pycache__"] if own.is_dir() else []  # not so in an archive
    folders.append(Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / private)
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
        except OSError:
            continue
    warnings.warn("NUMBA_CACHE_DIR must name a folder that may be written, so that compiled code is kept; got none, so "
                  "each process compiles it, for up to a minute", RuntimeWarning, stacklevel=3)
    return None


@cache
def _remove_others(folder: Path, module: str, stamp: str) -> None:
    """Remove what other versions of a module's source left, once a process: nothing would ever read it again."""
    _remove(path for path in folder.glob(f"{module}.*.{_tag()}.*") if f"-{stamp}-" not in path.name)


def _remove(paths: Any) -> None:
    for path in list(paths):
        with contextlib.suppress(OSError):
            path.unlink()


def _tag() -> str:
    return f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
