"""Bytes of a file, plain or gzipped: inflated as they are read, and never beyond what a small file may hold.

All readers of text open their files here.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

N_BYTES_FREE, EXPANSION_MAX = 256 << 20, 200
"""A gzip may hold N_BYTES_FREE + EXPANSION_MAX x what was read of it. Real logs and lists of pods are 5 to 50 times as
large as their gzip, and deflate ends at 1,032 times."""
_N_BLOCK = 1 << 18
_GZIP = b"\x1f\x8b"


class InflatedFile:
    """What `inflated` opens. Nothing is held but a block."""

    def __init__(self, raw: BinaryIO, path: Path, is_gzip: bool, place: Callable[[], str]) -> None:
        self._counted, self._path, self._place = _Counted(raw), path, place
        self._gzip = gzip.GzipFile(fileobj=self._counted, mode="rb") if is_gzip else None  # type: ignore[call-overload]
        self._n_bytes = 0
        self.closed = False

    def read(self, n_bytes: int) -> bytes:
        """The next `n_bytes`; fewer at the end of the file. Raises as `read1`."""
        found = self.read1(n_bytes)
        if len(found) == n_bytes:
            return found
        pieces, n_left = [found], n_bytes - len(found)
        while n_left and (block := self.read1(n_left)):
            pieces.append(block)
            n_left -= len(block)
        return b"".join(pieces)

    def read1(self, n_bytes: int = _N_BLOCK) -> bytes:
        """The next bytes, at most `n_bytes` and a block; none at the end of the file.

        Raises ValueError where a gzip is damaged, cut short or holds more than it may.
        """
        n_bytes = min(n_bytes, _N_BLOCK)
        if self._gzip is None:
            return self._counted.read(n_bytes)
        try:
            block = bytes(self._gzip.read1(n_bytes))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self._path}: gzip must be whole, got {error}{self._place()}") from error
        self._n_bytes += len(block)
        if self._n_bytes > N_BYTES_FREE + EXPANSION_MAX * self._counted.n_bytes:
            raise ValueError(f"{self._path}: gzip must hold at most {N_BYTES_FREE >> 20} MiB and {EXPANSION_MAX} times "
                             f"its own size, got {self._n_bytes:,} bytes from {self._counted.n_bytes:,}{self._place()}")
        return block


@contextmanager
def inflated(path: Path, place: Callable[[], str] = str) -> Iterator[InflatedFile]:
    """The file's bytes; a gzip is recognised by its first bytes, not by its name. Raises OSError as `open` does.

    place: where the reader stands, as " after line 7", for errors.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "jobs"
    >>> _ = file.write_bytes(gzip.compress(b"1 2 3"))
    >>> with inflated(file) as source:
    ...     source.read1(), source.read1()
    (b'1 2 3', b'')
    """
    with path.open("rb") as raw:
        yield InflatedFile(raw, path, raw.peek(2)[:2] == _GZIP, place)


def inflated_bytes(path: Path, n_bytes_max: int) -> bytes:
    """The whole file; ValueError where it holds more than `n_bytes_max`, which is then not read to its end."""
    found = bytearray()
    with inflated(path) as source:
        while block := source.read1():
            found += block
            if len(found) > n_bytes_max:
                raise ValueError(f"{path}: must hold at most {n_bytes_max >> 20} MiB of text, got more")
    return bytes(found)


class _Counted:
    """A file that counts what was read of it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self.n_bytes = raw, 0

    def read(self, n_bytes: int = -1) -> bytes:
        block = self._raw.read(n_bytes)
        self.n_bytes += len(block)
        return block
