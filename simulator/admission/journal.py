"""The journal of an admission: a line for each answer, on disk before the answer is given; one process at a time."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from sojourn.publishing import naming, sync

JOURNAL = "journal.log"


def line_of(entry: list[Any]) -> bytes:
    """A line: CRC-32 of the text, a space, the entry as JSON.

    >>> line_of(["ended", "a", 7])
    b'4c8e486c ["ended","a",7]\\n'
    """
    text = json.dumps(entry, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def read_journal(file: Path) -> tuple[list[list[Any]], int]:
    """Entries, and the bytes that they take. A torn last line is left out: its answer was not given.

    ValueError for a damaged line with others after it.
    """
    content = file.read_bytes() if file.is_file() else b""
    entries: list[list[Any]] = []
    n_bytes = 0
    for line in content.splitlines(keepends=True):
        digest, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or digest != b"%08x" % zlib.crc32(text):
            break
        entries.append(json.loads(text))
        n_bytes += len(line)
    if content.find(b"\n", n_bytes) not in (-1, len(content) - 1):
        raise ValueError(f"{file}: line {len(entries) + 1} must match its CRC-32, got another one")
    return entries, n_bytes


class Journal:
    """The open journal of a folder, which no other process may open meanwhile. The lock stands beside the folder, since
    saving replaces the folder as a whole."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # not on Windows, where the rest of this room works

        self.file, self._descriptor, self._n_bytes = folder / JOURNAL, -1, 0
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ValueError(f"{folder} must be open in one process, got another one that has it open") from error

    def begin(self, n_bytes: int) -> None:
        """Append from here on; what follows n_bytes is torn and is cut off."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._n_bytes = n_bytes
        os.ftruncate(self._descriptor, n_bytes)
        os.fsync(self._descriptor)
        sync(self.file.parent)

    def check(self) -> None:
        """ValueError if nothing can be appended any more."""
        if self._descriptor < 0:
            raise ValueError(f"{self.file} must be open, got one that is closed or that failed; open the folder again")

    def append(self, entry: list[Any]) -> None:
        """Write a line and flush it to disk. OSError: it is not in the journal, or not surely, and nothing more is
        taken until the folder is opened again."""
        self.check()
        view = memoryview(line_of(entry))
        length = len(view)
        try:
            with naming(self.file):
                while view:
                    view = view[os.write(self._descriptor, view):]
                os.fsync(self._descriptor)
        except BaseException:
            try:
                os.ftruncate(self._descriptor, self._n_bytes)
            finally:
                os.close(self._descriptor)
                self._descriptor = -1
            raise
        self._n_bytes += length

    def close(self) -> None:
        """End it, and let others open the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
