"""The journal of an admission: a line for each answer, on disk before the answer is given; one process at a time."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.publishing import naming, sync

JOURNAL = "journal.log"
_CHANGES = ("ended", "extended", "cancel")


N_LINE_MAX = 1 << 20
"""Of a line, bytes: the job's name is the only part that may be long."""


def line_of(entry: list[Any], before: int = 0) -> tuple[bytes, int]:
    """A line: CRC-32, a space, the entry as JSON; and its CRC, which goes on from that of the line before.

    >>> line_of(["ended", "a", 7])
    (b'4c8e486c ["ended","a",7]\\n', 1284393068)
    """
    text = json.dumps(entry, separators=(",", ":")).encode()
    crc = zlib.crc32(text, before)
    return b"%08x %b\n" % (crc, text), crc


@dataclass(frozen=True, slots=True)
class Read:
    """entries: of a journal. n_bytes: that they take. crc: of the last line."""

    entries: list[list[Any]]
    n_bytes: int
    crc: int


def read_journal(file: Path, seed: int) -> Read:
    """What a journal holds. seed: CRC-32 of the saved state that it goes on from. No file is an empty journal.

    A last line without its end was torn by a kill and is left out: its answer was not given. ValueError for anything
    else: a line that does not match its CRC-32, which a line that is lost, doubled or moved does not either.
    """
    entries: list[list[Any]] = []
    n_bytes, crc = 0, seed
    if not file.exists():
        return Read(entries, n_bytes, crc)
    if not file.is_file():
        raise ValueError(f"{file} must be a file, got something else")
    with file.open("rb") as stream:
        while line := stream.readline(N_LINE_MAX):
            digest, _, text = line.rstrip(b"\n").partition(b" ")
            found = zlib.crc32(text, crc)
            is_whole = line.endswith(b"\n")
            if not is_whole and len(line) < N_LINE_MAX and digest != b"%08x" % zlib.crc32(text[:-1], crc):
                break
            place = f"{file}: line {len(entries) + 1}"
            if not is_whole or digest != b"%08x" % found:
                raise ValueError(f"{place} must end and match its CRC-32, which goes on from the line before and the "
                                 f"saved state, got {line[:60]!r}")
            entries.append(_entry(text, place))
            n_bytes, crc = n_bytes + len(line), found
    return Read(entries, n_bytes, crc)


def _entry(text: bytes, place: str) -> list[Any]:
    try:
        found = json.loads(text)
        if isinstance(found, list) and found[0] == "offer":
            _, job, is_accepted, start_s = found
            *numbers, name = job
            is_good = len(numbers) == 4 and isinstance(is_accepted, bool) and _are_whole([start_s or 0])
        else:
            what, name, *numbers = found
            is_good = what in _CHANGES and len(numbers) == 2
    except (ValueError, TypeError, IndexError, RecursionError):
        is_good = False
    if not is_good or not isinstance(name, str) or not _are_whole(numbers):
        raise ValueError(f"{place} must be an offer or a change, got {text[:60]!r}")
    return list(found)


def _are_whole(numbers: list[Any]) -> bool:
    return all(isinstance(each, int) and not isinstance(each, bool) for each in numbers)


class Journal:
    """The open journal of a folder, which no other process may open meanwhile. The lock stands beside the folder, since
    saving replaces the folder as a whole."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # not on Windows, where the rest of this room works

        self.file, self._descriptor, self._n_bytes, self._crc = folder / JOURNAL, -1, 0, 0
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ValueError(f"{folder} must be open in one process, got another one that has it open") from error

    def begin(self, n_bytes: int, crc: int) -> None:
        """Append from here on; what follows n_bytes is torn and is cut off. crc: of the last line, or the seed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._n_bytes, self._crc = n_bytes, crc
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
        line, crc = line_of(entry, self._crc)
        view, length = memoryview(line), len(line)
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
        self._n_bytes, self._crc = self._n_bytes + length, crc

    def close(self) -> None:
        """End it, and let others open the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
