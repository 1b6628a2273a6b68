"""Watches a bundle's folder: serves each valid version that is published there, and reports each invalid one.

`ReloadGate` admits one reload at a time, and a waiting fork before the next reload. With a plain
lock, reloads in sequence could keep a fork waiting for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sojourn.serving.bundle import FILES, MANIFEST, check_files, version_of
from sojourn.serving.errors import BundleError
from sojourn.serving.forking import join_forks

N_LOOKS_UNCHECKED = 60
"""Every so many looks, the served files are hashed again even if their size and time are the same."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A version that a watcher served or refused.

    is_served: it was loaded and is served now; else `reason` has the error. version: of the
    manifest in the folder. If it is the served version, and `is_served` is false, its files were
    changed in place: the loaded model serves on, but a new process could not load it.
    """

    version: str
    is_served: bool
    reason: str = ""


class Reloadable(Protocol):
    """What a watcher needs of a predictor."""

    @property
    def version(self) -> str:
        """The version of the served bundle."""
        ...

    def reload(self, folder: Path) -> str:
        """Serve the folder's bundle from now on; returns its version. BundleError if it cannot be served."""
        ...

    def count(self, name: str) -> None:
        """Add 1 to a counter."""
        ...


class Watch:
    """A daemon thread that reloads a predictor whenever another version lies in its folder; `stop` ends it.

    It never raises and never logs: failures are counted (`reload_errors`, `watch_errors`) and given
    to `on_event`. A refused version is tried again only if one of its files changes; one that could
    not be read is tried again at once. The files of the served version are checked against their
    hashes if one of them changes, and at every 60th look. It runs in forked children, too. A
    missing folder is no event: the served version serves on.

    files, check: for the folder's kind, by default a lifetime bundle. beside: a watcher that `stop`
    also ends.
    """

    def __init__(self, predictor: Reloadable, folder: Path, interval_s: float,
                 on_event: Callable[[WatchEvent], object] | None = None, *, files: Sequence[str] = FILES,
                 check: Callable[[Path], str] = check_files, beside: Watch | None = None) -> None:
        is_number = isinstance(interval_s, int | float) and not isinstance(interval_s, bool)
        if not is_number or not 0.0 < interval_s <= threading.TIMEOUT_MAX:
            raise ValueError(f"interval_s must be finite and above 0, got {interval_s!r}")
        self._predictor = predictor
        self._folder = folder
        self._interval_s = interval_s
        self._on_event = on_event
        self._files, self._check = tuple(files), check
        self._beside = beside
        self._seen: tuple[object, ...] = ()
        self._n_looks = 0
        self._event: WatchEvent | None = None
        self._begin()
        join_forks(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the thread after the reload that runs, if any. May be called twice."""
        self._is_over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._beside is not None:
            self._beside.stop()

    def poll(self) -> None:
        """Check the folder once, as the thread does every interval; never raises."""
        try:
            self._look()
        except Exception:  # the next look may succeed
            self._predictor.count("watch_errors")

    def before_fork(self) -> None:
        """Hold nothing."""

    def after_fork(self, *, is_child: bool) -> None:
        """Start a thread in the child, which has only the thread that forked."""
        if is_child and not self._is_over.is_set():
            self._begin()

    def _begin(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._is_over,), name="sojourn-watch", daemon=True)
        self._thread.start()

    def _run(self, is_over: threading.Event) -> None:
        while not is_over.wait(self._interval_s):
            self.poll()

    def _look(self) -> None:
        try:
            version = version_of((self._folder / MANIFEST).read_bytes())
        except OSError:
            return
        # The other files, too: a copy into the folder may write the manifest first.
        stamps = (version, *(_stamp(self._folder / name) for name in self._files))
        self._n_looks += 1
        is_served = version == self._predictor.version
        if stamps == self._seen and (not is_served or self._n_looks % N_LOOKS_UNCHECKED):
            return
        event, is_final = self._checked(version) if is_served else self._reloaded(version)
        if is_final:
            self._seen = stamps
        is_news = event is not None and event != self._event
        self._event = event
        if is_served and is_news:
            self._predictor.count("corruptions")
        if event is not None and is_news and self._on_event is not None:
            self._on_event(event)

    def _reloaded(self, version: str) -> tuple[WatchEvent, bool]:
        """The result of a reload, and whether it is final for the files as they are."""
        try:
            return WatchEvent(self._predictor.reload(self._folder), True), True
        except Exception as error:
            return WatchEvent(version, False, f"{type(error).__name__}: {error}"), _is_verdict(error)

    def _checked(self, version: str) -> tuple[WatchEvent | None, bool]:
        """The error in the files of the served version, if any, and whether the check is final."""
        try:
            self._check(self._folder)
        except Exception as error:
            is_verdict = _is_verdict(error)
            return WatchEvent(version, False, f"{type(error).__name__}: {error}") if is_verdict else None, is_verdict
        return None, True


def _is_verdict(error: Exception) -> bool:
    """Whether the files are wrong, and not only unreadable."""
    cause = error.__cause__
    is_unread = isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)
    return isinstance(error, BundleError) and not is_unread


def _stamp(file: Path) -> object:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class ReloadGate:
    """A context manager around a reload; a fork holds the gate from `before_fork` to `after_fork`.

    >>> gate = ReloadGate()
    >>> with gate:
    ...     pass
    """

    _free: threading.Condition
    _is_taken: bool
    _n_forking: int

    def __init__(self) -> None:
        self._open()

    def __enter__(self) -> None:
        with self._free:
            while self._is_taken or self._n_forking:
                self._free.wait()
            self._is_taken = True

    def __exit__(self, *_: object) -> None:
        with self._free:
            self._is_taken = False
            self._free.notify_all()

    def before_fork(self) -> None:
        """Wait for the running reload, if any; none begins before the fork is done."""
        self._free.acquire()
        self._n_forking += 1
        while self._is_taken:
            self._free.wait()

    def after_fork(self, *, is_child: bool) -> None:
        """Allow reloads again; in the child no thread waits any more."""
        if is_child:
            self._open()
            return
        self._n_forking -= 1
        self._free.notify_all()
        self._free.release()

    def _open(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._is_taken = False
        self._n_forking = 0
