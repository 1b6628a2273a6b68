"""Events of a run, and what happens before the k-th of them: a kill, or an error of the disk.

An event is a statement or a commit of a database, or a change of a file under the store: a file opened for writing,
renamed, deleted, flushed to disk, a folder made or deleted. Nothing here knows how Sojourn does its work: files are
seen by Python's audit hook, statements by SQLAlchemy's events, flushes by a wrapper of `os.fsync`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

_CHANGES = {"os.rename": 2, "os.remove": 1, "os.mkdir": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2,
            "os.truncate": 1}
"""Audit events that change files, and which of their arguments, from 1, is the path that changes."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Action = Callable[[str], None]
"""Called with an event's description before it happens; may not return."""


class Events:
    """Counts the events of this process under a folder; before number `at` (from 1) it calls `action`, once.

    at: or a text: before the first event that holds it.
    log: a file that every event is written to, a line each; None = not written.
    """

    def __init__(self, folder: Path, at: int | str = 0, action: Action | None = None, log: Path | None = None) -> None:
        self.n = 0
        self._folder = os.path.realpath(folder)
        self._at, self._action = at, action
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._pid = os.getpid()

    def install(self) -> None:
        """Watch from now on; a hook cannot be taken out, so a process is watched to its end."""
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        sys.addaudithook(self._audited)
        flush = os.fsync

        def flushed(file: Any) -> None:
            number = file if isinstance(file, int) else file.fileno()
            self._file("fsync", str(Path(f"/proc/self/fd/{number}").readlink()))
            flush(file)

        os.fsync = flushed  # type: ignore[assignment]

        @event.listens_for(Engine, "before_cursor_execute")
        def _(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
                self._happens(f"sql {' '.join(statement.split())[:90]}")

        @event.listens_for(Engine, "commit")
        def _(_conn: Any) -> None:
            self._happens("sql COMMIT")

    def _audited(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open":
            path, mode, flags = arguments
            is_writing = any(letter in mode for letter in "wax+") if isinstance(mode, str) else flags & _WRITING
            if is_writing and isinstance(path, str | bytes | os.PathLike):
                self._file("open", os.fspath(path))
        elif name in _CHANGES:
            path = arguments[_CHANGES[name] - 1]  # of a rename the new name
            if isinstance(path, str | bytes | os.PathLike):
                self._file(name, os.fspath(path))

    def _file(self, what: str, path: str | bytes) -> None:
        place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  (what is renamed or deleted may be a link)
        if place == self._folder or place.startswith(f"{self._folder}{os.sep}"):
            self._happens(f"{what} {place.removeprefix(self._folder)}")

    def _happens(self, description: str) -> None:
        if os.getpid() != self._pid:
            return
        self.n += 1
        if self._log is not None:
            os.write(self._log, f"{description}\n".encode())
        action = self._action
        if action is not None and (self.n == self._at if isinstance(self._at, int) else self._at in description):
            self._action = None
            action(description)


def kill(_: str) -> NoReturn:
    """End this process as `kill -9` does: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process does not go on")


def stop(_: str) -> None:
    """Halt this process until somebody sends it SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)


def disk_full(description: str) -> NoReturn:
    """The error of a disk that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), description)
