"""Follows a bundle's folder: what is published there is served, what must not be served is reported.

Lets one reload at a time through, and forks before any further one: reloads back to back cannot keep a fork waiting.

A plain lock that is taken again as soon as it is given back may never reach the thread that waits for it.
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
"""The files that are served are hashed again at every so many looks, though nothing says that they changed."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watcher found. is_served: the version was loaded and is served now; else `reason` says why not.

    version: of the manifest that was found. Where that is the version being served, and `is_served` is false, its files
    were changed in place: the loaded model serves on, but the next process could not load it.
    """

    version: str
    is_served: bool
    reason: str = ""


class Reloadable(Protocol):
    """What a watcher asks of a predictor."""

    @property
    def version(self) -> str:
        """Of the bundle that is served."""
        ...

    def reload(self, folder: Path) -> str:
        """Serve the folder's bundle from now on; the version that is served then. BundleError where it can't be."""
        ...

    def count(self, name: str) -> None:
        """One more of what is counted under a name."""
        ...


class Watch:
    """A daemon thread that reloads a predictor whenever another version lies in its folder; `stop` ends it.

    It never dies and never logs: failures are counted (`reload_errors`, `watch_errors`) and told to `on_event`. A
    version that was refused is not tried again until one of its files changes; one that could not be read is. The
    served version's own files are checked against their hashes when one of them changes, and at every 60th look. It
    runs in forked children, too. A folder that is missing for now is not an event: the served version serves on.

    files, check: of the folder's kind, a lifetime bundle's by default. beside: a watcher that ends with this one.
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
        self._told: WatchEvent | None = None
        self._begin()
        join_forks(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the thread; returns once a reload under way is through. Stopping twice does no harm."""
        self._is_over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if self._beside is not None:
            self._beside.stop()

    def poll(self) -> None:
        """Look once, as the thread does every interval; raises nothing."""
        try:
            self._look()
        except Exception:  # whatever it is, the next look may fare better
            self._predictor.count("watch_errors")

    def before_fork(self) -> None:
        """Nothing is held."""

    def after_fork(self, *, is_child: bool) -> None:
        """Start a thread in the child, where only the forking one lives on."""
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
            found = version_of((self._folder / MANIFEST).read_bytes())
        except OSError:
            return
        # The other files, too: who copies into the folder may write the manifest first.
        seen = (found, *(_stamp(self._folder / name) for name in self._files))
        self._n_looks += 1
        is_served = found == self._predictor.version
        if seen == self._seen and (not is_served or self._n_looks % N_LOOKS_UNCHECKED):
            return
        event, is_final = self._checked(found) if is_served else self._reloaded(found)
        if is_final:
            self._seen = seen
        is_news = event is not None and event != self._told
        self._told = event
        if is_served and is_news:
            self._predictor.count("corruptions")
        if event is not None and is_news and self._on_event is not None:
            self._on_event(event)

    def _reloaded(self, found: str) -> tuple[WatchEvent, bool]:
        """What came of reloading, and whether the files as they are deserve no second try."""
        try:
            return WatchEvent(self._predictor.reload(self._folder), True), True
        except Exception as error:
            return WatchEvent(found, False, f"{type(error).__name__}: {error}"), _is_verdict(error)

    def _checked(self, found: str) -> tuple[WatchEvent | None, bool]:
        """What is wrong with the files of the version that is served, and whether they were read."""
        try:
            self._check(self._folder)
        except Exception as error:
            is_verdict = _is_verdict(error)
            return WatchEvent(found, False, f"{type(error).__name__}: {error}") if is_verdict else None, is_verdict
        return None, True


def _is_verdict(error: Exception) -> bool:
    """Whether it says that the files are wrong, not that they could not be read."""
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
        """Wait for the reload under way, if any; none begins until the fork is through."""
        self._free.acquire()
        self._n_forking += 1
        while self._is_taken:
            self._free.wait()

    def after_fork(self, *, is_child: bool) -> None:
        """Let reloads go on; in the child nobody waits any more."""
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
