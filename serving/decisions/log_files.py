"""Files of a decision log: one is appended to, closed when it is large or old, and the oldest ones go."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from sojourn.publishing import sync
from sojourn.serving.decisions.log_settings import LogSettings

FILE_NAME = re.compile(r"decisions-[0-9]{13}-[0-9a-f]{16}-[0-9]{6}\.log")
"""Unix milliseconds of its beginning, the session that writes it, its place among the session's files."""
_MIB = 1 << 20


def log_files(folder: Path) -> list[Path]:
    """The files of a log, in the order of their names; empty where there is no folder. Others are not looked at."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name))


class LogFile:
    """Appends to the latest of one session's files; for one thread at a time.

    The names of files hold the wall clock for people only: whether a file is old is asked of a clock that is never set
    back, and of files that others wrote, by when they were last written.
    """

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self._folder, self._settings = folder, settings
        self.session = secrets.token_hex(8)
        self._n_files = 0
        self._descriptor: int | None = None
        self._path = folder
        self._n_bytes, self._opened_s = 0, 0.0

    def append(self, content: Callable[[bool], bytes]) -> None:
        """Add frames to the file, given whether it is a new one; OSError where nothing of them was kept.

        A file that was removed meanwhile is not written to: another is begun.
        """
        is_new = self._is_over()
        if is_new:
            self.close()
            self._begin()
        try:
            self._write(content(is_new))
        except OSError:
            if is_new:
                self._drop()
            raise

    def close(self) -> None:
        """Flush the file to disk and end it; the next `append` begins another."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def abandon(self) -> None:
        """Leave the file to the process that this one was forked from, and go on as another session."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self.session = secrets.token_hex(8)
        self._n_files = 0

    def _is_over(self) -> bool:
        settings = self._settings
        if self._descriptor is None or self._n_bytes >= settings.file_mib * _MIB:
            return True
        if time.monotonic() - self._opened_s >= settings.file_s:
            return True
        try:
            return self._path.stat().st_ino != os.fstat(self._descriptor).st_ino
        except OSError:
            return True

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._clear()
        name = f"decisions-{max(time.time_ns(), 0) // 1_000_000:013d}-{self.session}-{self._n_files:06d}.log"
        self._path = self._folder / name
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._n_files += 1
        self._n_bytes, self._opened_s = 0, time.monotonic()
        sync(self._folder)

    def _drop(self) -> None:
        """Remove the file that was just begun."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._path.unlink(missing_ok=True)

    def _write(self, content: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError("a file must be open")
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(descriptor, view):]
        except OSError:
            os.ftruncate(descriptor, self._n_bytes)  # what was written of it: a reader would pass over it anyway
            raise
        self._n_bytes += len(content)

    def _clear(self) -> None:
        """Remove the oldest files beyond what is to be kept; those that others removed meanwhile are gone anyway."""
        found = []
        for path in log_files(self._folder):
            try:
                stat = path.stat()
            except OSError:
                continue
            found.append((stat.st_mtime, path, stat.st_size))
        n_bytes, now_s = sum(size for _, _, size in found), time.time()
        for written_s, path, size in sorted(found):
            if n_bytes <= self._settings.keep_mib * _MIB and now_s - written_s <= self._settings.keep_s:
                break
            path.unlink(missing_ok=True)
            n_bytes -= size
