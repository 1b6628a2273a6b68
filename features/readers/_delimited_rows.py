"""Tables with a header as blocks of cells: separated text, plain or gzipped, with quoted cells; and Parquet."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._parquet_rows import record_batches
from sojourn.features.readers._text_rows import BLOCK_LINES, N_PROBED, TextRows, line_blocks

SEPARATORS = (",", ";", "\t", "|")
MAX_CELL_LINES = 100
"""A quoted cell of more lines is one whose quote was never closed."""
_STARTS = (
    (b"PK\x03\x04", "an Excel workbook or a zip archive: save it as CSV"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook: save it as CSV"),
    (b"\xff\xfe", "text in UTF-16: save it as CSV in UTF-8"), (b"\xfe\xff", "text in UTF-16: save it as CSV in UTF-8"),
    (b"SQLite format 3", "an SQLite database: give --reader sql a query, or export the table"),
    (b"BZh", "compressed by bzip2: only gzip is read"), (b"\xfd7zXZ", "compressed by xz: only gzip is read"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: only gzip is read"),
)  # fmt: skip


def is_parquet(path: Path) -> bool:
    """Whether the file is Parquet, by its first bytes.

    Raises OSError where it cannot be opened and ValueError where it is another known format that is no table.
    """
    if path.is_dir():
        raise ValueError(f"{path} must be a file: a table with a header, got a folder")
    with path.open("rb") as stream:
        start = stream.read(16)
    for magic, words in _STARTS:
        if start.startswith(magic):
            raise ValueError(f"{path} must be a table as text or Parquet, got {words}")
    return start.startswith(b"PAR1")


def parquet_names(path: Path) -> list[str]:
    """The columns of a Parquet file."""
    with path.open("rb") as stream:
        try:
            return list(pq.ParquetFile(stream).schema_arrow.names)
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise ValueError(f"{path} must be a Parquet file, got {error}") from error


def parquet_rows(path: Path, names: Sequence[str], ledger: ReadLedger) -> Iterator[TextRows]:
    """Blocks of the columns `names`, typed values written as text: times as ISO 8601, durations as seconds."""
    first = 1
    for batch in record_batches(path, names):
        columns = [_as_text(path, name, batch.column(name)) for name in names]
        cells = [list(row) for row in zip(*columns, strict=True)]
        ledger.read(len(cells))
        line = np.arange(first, first + len(cells), dtype=np.int64)
        yield TextRows(path.name, names, line, [",".join(row) for row in cells], cells, ledger)
        first += len(cells)


def delimited_rows(path: Path, ledger: ReadLedger) -> Iterator[TextRows]:
    """Blocks of rows of a text table, in file order, under the names of its header.

    The separator is the one of comma, semicolon, tab and bar that gives the header most columns. A cell in quotes may
    hold separators and line breaks. Rows with another number of cells than the header are refused; one more empty cell
    does not matter.

    Raises ValueError where there is no header with two columns, no row, a byte that is not UTF-8, or the first 20
    rows all have a wrong number of cells.
    """
    records = _Records(path)
    names, separator = records.names, records.separator
    n = len(names)
    n_rows = n_good = 0
    wrong: list[tuple[int, str]] = []
    for block in records.blocks():
        raw, cells, number = [], [], []
        wrong, broken = [], []
        for at, line, is_closed in block:
            if not is_closed:
                broken.append((at, line))
                continue
            fields = line.split(separator) if '"' not in line else _fields(line, separator)
            if len(fields) == n + 1 and not fields[-1].strip():
                fields.pop()
            if len(fields) == n:
                raw.append(line)
                cells.append(fields)
                number.append(at)
            else:
                wrong.append((at, line))
        n_rows += len(raw) + len(wrong) + len(broken)
        n_good += len(raw)
        if not n_good and n_rows >= N_PROBED:
            break
        ledger.read(len(raw) + len(wrong) + len(broken))
        for rule, rows in ((f"not {n} columns", wrong), ("quote not closed", broken)):
            ledger.refuse(rule, path.name, np.array([at for at, _ in rows], np.int64), [line for _, line in rows])
        if raw:
            yield TextRows(path.name, names, np.array(number, np.int64), raw, cells, ledger, separator)
    if not n_rows:
        raise ValueError(f"{path}: must hold at least one row below its header, got none")
    if not n_good:
        at, line = (wrong or [(records.header_line + 1, "a quote that is not closed")])[0]
        raise ValueError(f"{path}: line {at} must have {n} columns as the header ({names[0]} .. {names[-1]}), got "
                         f"{line[:80]!r}")


class _Records:
    """The rows of a text table, each with the number of its first line; lines of one quoted cell joined."""

    def __init__(self, path: Path) -> None:
        self._lines = _numbered(path)
        self._ahead: deque[tuple[int, str]] = deque()
        filled = ((at, line) for at, line in self._lines if line.strip("\ufeff \t"))
        self.header_line, header = next(filled, (1, ""))
        header = header.removeprefix("\ufeff")
        declared = re.fullmatch(r"sep=(.)", header.strip("\r\n"))
        if declared:  # as Excel writes it
            self.header_line, header = next(self._lines, (2, ""))
        plain = re.sub(r'"[^"]*"', "", header)
        self.separator = declared[1] if declared else max(SEPARATORS, key=plain.count)
        while header.count('"') % 2 and (more := next(self._lines, None)) is not None and header.count("\n") < 10:
            header += "\n" + more[1]
        self.names = [" ".join(name.split()) for name in _fields(header, self.separator)]
        if len(self.names) > 1 and not self.names[-1]:
            self.names.pop()
        is_json = header.lstrip().startswith(("{", "["))
        if len(self.names) < 2 or not any(self.names) or "\x00" in header or is_json:
            hint = " (JSON: what kubectl writes is read by --reader kubernetes)" if is_json else ""
            raise ValueError(f"{path}: line {self.header_line} must be a header of columns separated by comma, "
                             f"semicolon, tab or |, got {header[:80]!r}{hint}")

    def blocks(self) -> Iterator[list[tuple[int, str, bool]]]:
        """Number of the first line, text, and whether all quotes are closed, of up to 65,536 rows at a time."""
        block: list[tuple[int, str, bool]] = []
        while (found := self._next()) is not None:
            at, line = found
            is_closed = True
            if '"' in line:
                line, is_closed = self._whole(line)
            elif not line or line.isspace():
                continue
            block.append((at, line, is_closed))
            if len(block) == BLOCK_LINES:
                yield block
                block = []
        if block:
            yield block

    def _next(self) -> tuple[int, str] | None:
        return self._ahead.popleft() if self._ahead else next(self._lines, None)

    def _whole(self, line: str) -> tuple[str, bool]:
        """The row that begins with this line; where its quote is not closed soon, the line alone, and False."""
        if line.count('"') % 2 == 0 or not _is_open(line, self.separator):
            return line, True
        taken: list[tuple[int, str]] = []
        text = line
        while len(taken) < MAX_CELL_LINES and (more := self._next()) is not None:
            taken.append(more)
            text += "\n" + more[1]
            if '"' in more[1] and not _is_open(text, self.separator):
                return text, True
        self._ahead.extendleft(reversed(taken))
        return line, False


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    for first, lines in line_blocks(path):
        yield from enumerate(lines, first)


def _is_open(text: str, separator: str) -> bool:
    try:
        next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def _fields(line: str, separator: str) -> list[str]:
    """The cells of a row, [] where one is too long."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _as_text(path: Path, name: str, column: pa.Array) -> list[str]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = "Z" if pa.types.is_timestamp(kind) and kind.tz else ""
        micros = column.cast(pa.timestamp("us", kind.tz if zone else None), safe=False).cast(pa.int64())
        stamps = np.datetime_as_string(micros.fill_null(0).to_numpy().astype("datetime64[us]"))
        return [f"{stamp}{zone}" if is_there else "" for stamp, is_there in zip(stamps, micros.is_valid().to_pylist(),
                                                                                strict=True)]
    if pa.types.is_duration(kind):
        unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return _numbers_as_text(column.cast(pa.int64()).to_pylist(), unit)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _numbers_as_text(column.cast(pa.float64()).to_pylist(), 1)
    if pa.types.is_null(kind):
        return [""] * len(column)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind) or \
            pa.types.is_large_string(kind):
        return list(column.cast(pa.string()).fill_null("").to_pylist())
    raise ValueError(f"{path}: the column {name!r} must hold texts, numbers or times, got {kind}")


def _numbers_as_text(values: Sequence[float | None], unit: int) -> list[str]:
    """Numbers over `unit` as text, whole ones without a point."""
    found = ["" if value is None or value != value else value / unit for value in values]
    return [str(int(value)) if isinstance(value, float) and value.is_integer() else str(value) for value in found]
