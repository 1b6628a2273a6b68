"""Bytes of a file, plain or gzipped: inflated as they are read, and never beyond what a small file may hold.

All readers of text open their files here: tables by blocks, and small files that people write as a whole.
"""

from __future__ import annotations

import gzip
import os
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

N_BYTES_FREE, EXPANSION_MAX = 256 << 20, 200
"""A gzip may hold N_BYTES_FREE + EXPANSION_MAX x what was read of it. Real logs and lists of pods are 5 to 50 times as
large as their gzip, and deflate ends at 1,032 times."""
N_TEXT_MAX = 64 << 20
"""Of a file that is read as a whole, but for tables: ids of half a million requests."""
N_TOML_MAX, N_DOTS_MAX = 1 << 20, 100
"""Of a TOML file and of one line of it: Python reads a key in the square of its dots."""
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
    with open(path, "rb", opener=_opened) as raw:
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


def text_of(path: Path, n_bytes_max: int = N_TEXT_MAX) -> str:
    """The whole file, UTF-8 with or without a byte order mark; ends of lines as they are.

    ValueError naming the line of what is not UTF-8 or a NUL, and where it holds more than `n_bytes_max`.
    """
    raw = inflated_bytes(path, n_bytes_max).removeprefix(b"\xef\xbb\xbf")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line, start = raw.count(b"\n", 0, error.start) + 1, raw.rfind(b"\n", 0, error.start) + 1
        raise not_utf_8(path, line, error.start - start + 1, raw[error.start]) from None
    if "\0" in text:
        raise ValueError(f"{path}: line {text.count(chr(10), 0, text.index(chr(0))) + 1} must be text, got a NUL")
    return text


def toml_of(path: Path) -> dict[str, Any]:
    """What a TOML file says. ValueError for what is none, nests too deeply or holds a number of more than 64 bits."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a TOML file, got {'a folder' if path.is_dir() else 'something else'}")
    text = text_of(path, N_TOML_MAX)
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > N_DOTS_MAX:
            raise ValueError(f"{path}: line {number} must have at most {N_DOTS_MAX} dots, got {line.count('.'):,}")
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{path} must be TOML that is nested less deeply, got more than Python reads") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} must be TOML, got {error}") from error
    except ValueError as error:
        raise ValueError(f"{path} must be TOML with numbers of at most 64 bits, got one of thousands of "
                         "digits") from error
    waiting: list[Any] = list(document.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, int) and not -2**63 <= value < 2**63:
            raise ValueError(f"{path}: {name} must be a number of at most 64 bits, got one of {value.bit_length():,}")
        if "\0" in name or (isinstance(value, str) and "\0" in value):
            raise ValueError(f"{path}: {name!r} must be text without a NUL, got {repr(value)[:80]}")
        waiting += value.items() if isinstance(value, dict) else [(name, each) for each in value] if isinstance(
            value, list) else []
    return document


def not_utf_8(path: Path, line: int, byte: int, value: int) -> ValueError:
    """An error that names the file, the line of its first bad byte, and what to type.

    line, byte: from 1; the byte's place is counted in its line. value: the byte, 0 to 255.

    >>> print(not_utf_8(Path("jobs.txt"), 3, 7, 0xFC))
    jobs.txt: line 3 must be UTF-8, got the byte 0xfc as its byte 7; convert the file, from Latin-1 with: \
iconv -f latin1 -t utf-8
    """
    is_mark = line == byte == 1 and value in (0xFE, 0xFF)
    source = "UTF-16 with: iconv -f utf-16" if is_mark else "Latin-1 with: iconv -f latin1"
    return ValueError(f"{path}: line {line} must be UTF-8, got the byte 0x{value:02x} as its byte {byte}; convert the "
                      f"file, from {source} -t utf-8")


def _opened(path: str, flags: int) -> int:
    """A pipe that nobody writes to is empty; else to open it would wait for somebody who does."""
    file = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(file, True)
    return file


class _Counted:
    """A file that counts what was read of it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self.n_bytes = raw, 0

    def read(self, n_bytes: int = -1) -> bytes:
        block = self._raw.read(n_bytes)
        self.n_bytes += len(block)
        return block
