"""Streams of rows as blocks with line numbers and refusals: delimited text, plain or gzipped, or typed values.

Also tables with a header as blocks of cells (separated text with quoted cells, or Parquet), and
Parquet columns as blocks of numbers, for millions of rows.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.read_report import ReadLedger
from sojourn.inflated import inflated, not_utf_8

BLOCK_LINES = 65_536
"""Lines parsed at once, which bounds the memory."""
BLOCK_BYTES = 1 << 26
"""A block of longer lines ends here."""
MAX_LINE_BYTES = 1 << 20
N_PROBED = 20
"""If the first 20 rows all have a wrong column count, the file has another format."""
MAX_NUMBER = 1e15
"""Above this, float64 cannot distinguish all integers, with a margin."""
MAX_TIME_S = 3_200_000_000
"""About 100 years: includes Unix stamps, and bounds hourly series over a trace."""


@dataclass(slots=True)
class TextRows:
    """One block of rows; `refuse` narrows `is_kept`, and each refused row goes to the ledger once.

    line: line numbers from 1, int64, shape (n,). raw: the n lines as read. cells: n lists of equal length.
    separator: of the file's cells; "" if it has none.
    """

    file: str
    names: Sequence[str]
    line: np.ndarray
    raw: list[str]
    cells: list[list[str]]
    ledger: ReadLedger
    separator: str = ""
    is_kept: np.ndarray = field(init=False)
    _columns: list[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.is_kept = np.ones(len(self.raw), bool)
        self._columns = list(zip(*self.cells, strict=True))

    def text(self, name: str) -> np.ndarray:
        """The column `name`, stripped strings as an object array, shape (n,)."""
        column = np.empty(len(self.raw), object)
        column[:] = [cell.strip() for cell in self._columns[self.names.index(name)]]
        return column

    def number(self, name: str, *, is_required: bool = True) -> np.ndarray:
        """The column `name` as float64, shape (n,); an empty cell is NaN.

        A row is refused if its cell is no finite number of at most 1e15 in size; an empty one only if `is_required`.
        """
        text = self.text(name)
        values = np.asarray(pd.to_numeric(text, errors="coerce"), np.float64)
        is_bad = ~(np.abs(values) <= MAX_NUMBER)
        if not is_required:
            is_bad &= text != ""
        self.refuse(f"{name} not a number", is_bad)
        return np.where(is_bad, np.nan, values)

    def refuse(self, rule: str, is_bad: np.ndarray, cell_of: str = "") -> None:
        """Refuse the rows where `is_bad` (bool, shape (n,)) that no earlier rule refused.

        cell_of: the column whose cell is printed before the row.
        """
        index = np.flatnonzero(self.is_kept & is_bad)
        raw = [self.raw[i] for i in index]
        if cell_of and raw:
            cells = self._columns[self.names.index(cell_of)]
            raw = [f"{cell_of}={cells[i].strip()!r} in {row}" for i, row in zip(index, raw, strict=True)]
        self.ledger.refuse(rule, self.file, self.line[index], raw)
        self.is_kept[index] = False

    def repair(self, rule: str, is_repaired: np.ndarray) -> None:
        """Count the kept rows where `is_repaired` (bool, shape (n,)) as changed by `rule`."""
        self.ledger.repair(rule, int((self.is_kept & is_repaired).sum()))

    def refuse_duplicates(self, rule: str, keys: np.ndarray, earlier: set[object]) -> None:
        """Refuse kept rows with a repeated key, in this block or in `earlier`, which gets the kept keys."""
        is_again = np.zeros(len(keys), bool)
        for i in np.flatnonzero(self.is_kept):
            if keys[i] in earlier:
                is_again[i] = True
            earlier.add(keys[i])
        self.refuse(rule, is_again)


def text_rows(path: Path, ledger: ReadLedger, *, separator: str | None, names: Sequence[str],
              has_header: bool, comment: str = "", on_comment: Callable[[str], None] | None = None,
              ) -> Iterator[TextRows]:
    """Blocks of rows of the file `path`, in file order.

    separator: None = any run of blanks. names: the columns in order, or with `has_header` those that the header must
    hold (it may hold more, in any order). comment: lines that start with it go to `on_comment`; they need not be UTF-8.

    Raises OSError if the file cannot be opened, and ValueError if it is truncated, not UTF-8 or has
    another format (wrong header, no row, the first 20 rows all with a wrong column count).
    """
    columns: Sequence[str] | None = None if has_header else names
    n_rows = n_good = 0
    for first_line, lines in line_blocks(path, comment=comment):
        raw, cells, number, wrong, wrong_raw = [], [], [], [], []
        for offset, line in enumerate(lines):
            if comment and line.startswith(comment):
                if on_comment is not None:
                    on_comment(line)
                continue
            if not line.strip():
                continue
            fields = line.split(separator)
            if columns is None:
                columns = _checked_header(path, first_line + offset, fields, names)
            elif len(fields) == len(columns):
                raw.append(line)
                cells.append(fields)
                number.append(first_line + offset)
            else:
                wrong.append(first_line + offset)
                wrong_raw.append(line)
        if columns is None:
            continue
        n_rows += len(raw) + len(wrong)
        n_good += len(raw)
        if not n_good and n_rows >= N_PROBED:
            raise _not_this_format(path, columns, wrong, wrong_raw, separator)
        ledger.read(len(raw) + len(wrong))
        ledger.refuse(f"not {len(columns)} columns", path.name, np.array(wrong, np.int64), wrong_raw)
        if raw:
            yield TextRows(path.name, columns, np.array(number, np.int64), raw, cells, ledger)
        elif not n_good and wrong:
            last = (wrong, wrong_raw)
    if columns is None:
        raise ValueError(f"{path}: line 1 must have the columns {', '.join(names)}; got an empty file")
    if not n_good and n_rows:
        raise _not_this_format(path, columns, last[0], last[1], separator)
    if not n_rows:
        raise ValueError(f"{path}: must hold at least one row of {len(columns)} columns, got none")


def value_rows(file: str, names: Sequence[str], first_row: int, values: Iterable[Sequence[object]],
               ledger: ReadLedger) -> TextRows:
    """One block of typed rows (Parquet, SQLite) under the same rules as text; None is an empty cell.

    values: at least one row, in the order of `names`. first_row: number of its first row, from 1.
    """
    cells = [["" if value is None else str(value) for value in row] for row in values]
    ledger.read(len(cells))
    line = np.arange(first_row, first_row + len(cells), dtype=np.int64)
    return TextRows(file, names, line, [",".join(row) for row in cells], cells, ledger)


def line_blocks(path: Path, *, comment: str = "") -> Iterator[tuple[int, list[str]]]:
    """Blocks: number of the first line, and up to 65,536 lines or 64 MiB.

    Bytes that are not UTF-8 raise ValueError; in lines that start with `comment` they become
    U+FFFD. A gzip is recognised by its first bytes, not by its name. Raises ValueError for a
    truncated or damaged gzip, with the last line, and for a line above 1 MiB.
    """
    n_lines = n_waiting_bytes = 0
    waiting: list[str] = []
    tail = b""
    with inflated(path, lambda: f" after line {n_lines + len(waiting)}") as source:
        while True:
            block = source.read1()
            pieces = (tail + block).split(b"\n") if block else [tail, b""]
            tail = pieces.pop()
            if len(tail) > MAX_LINE_BYTES:
                so_far = n_lines + len(waiting) + len(pieces) + 1
                raise ValueError(f"{path}: line {so_far} must be at most {MAX_LINE_BYTES} bytes long")
            if block or pieces != [b""]:
                try:
                    texts = [piece.decode() for piece in pieces]
                except UnicodeDecodeError:
                    texts = _decoded(path, n_lines + len(waiting) + 1, pieces, comment.encode())
                waiting += [text.rstrip("\r") for text in texts]
                n_waiting_bytes += len(block)
            while waiting and (len(waiting) >= BLOCK_LINES or n_waiting_bytes >= BLOCK_BYTES or not block):
                yield n_lines + 1, waiting[:BLOCK_LINES]
                n_lines += len(waiting[:BLOCK_LINES])
                waiting = waiting[BLOCK_LINES:]
                n_waiting_bytes = 0
            if not block:
                return


def _decoded(path: Path, first: int, pieces: Sequence[bytes], comment: bytes) -> list[str]:
    """The pieces, lines from number `first` on, as text; ValueError for the first that is not UTF-8 and no comment."""
    texts = []
    for line, piece in enumerate(pieces, first):
        try:
            texts.append(piece.decode("utf-8", "replace" if comment and piece.startswith(comment) else "strict"))
        except UnicodeDecodeError as error:
            raise not_utf_8(path, line, error.start + 1, piece[error.start]) from None
    return texts


def _checked_header(path: Path, line: int, fields: list[str], names: Sequence[str]) -> list[str]:
    columns = [name.strip().removeprefix("\ufeff").strip('"') for name in fields]
    missing = [name for name in names if name not in columns]
    if missing or len(set(columns)) < len(columns):
        got = ", ".join(columns)[:200]
        raise ValueError(f"{path}: line {line} must have the columns {', '.join(names)} once; got {got!r}")
    return columns


def _not_this_format(path: Path, columns: Sequence[str], line: list[int], raw: list[str],
                     separator: str | None) -> ValueError:
    got = len(raw[0].split(separator))
    expected = f"{len(columns)} columns ({columns[0]} .. {columns[-1]})"
    return ValueError(f"{path}: line {line[0]} must have {expected}, got {got} in {raw[0][:80]!r}")


SEPARATORS = (",", ";", "\t", "|")
MAX_CELL_LINES = 100
"""A quoted cell with more lines has an unclosed quote."""
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

    Raises OSError if it cannot be opened, and ValueError if it has another known format that is no table.
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

    The separator is the one of comma, semicolon, tab and bar that gives the header most columns. A
    cell in quotes may have separators and line breaks. Rows with another number of cells than the
    header are refused; one more empty cell is allowed.

    Raises ValueError without a header of two columns, without rows, for a byte that is not UTF-8,
    or if the first 20 rows all have a wrong number of cells.
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
        while (numbered := self._next()) is not None:
            at, line = numbered
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
        """The row that starts with this line; if its quote is not closed soon, the line alone, and False."""
        if line.count('"') % 2 == 0 or not _is_open(line, self.separator):
            return line, True
        lines: list[tuple[int, str]] = []
        text = line
        while len(lines) < MAX_CELL_LINES and (more := self._next()) is not None:
            lines.append(more)
            text += "\n" + more[1]
            if '"' in more[1] and not _is_open(text, self.separator):
                return text, True
        self._ahead.extendleft(reversed(lines))
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
    """The cells of a row, [] if one is too long."""
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
    scaled = ["" if value is None or value != value else value / unit for value in values]
    return [str(int(value)) if isinstance(value, float) and value.is_integer() else str(value) for value in scaled]


MAX_USAGE_ROWS = 5_000_000
"""The most rows for which a reader fills `Trace.usage` by default: about 120 MB."""
NO_USAGE = pd.DataFrame({"request_id": np.zeros(0, np.int64), "time_s": np.zeros(0, np.int64), "cpu_frac": np.zeros(0)})
_BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


@dataclass(slots=True)
class NumberRows:
    """One block of numeric rows; `refuse` narrows `is_kept`, and each refused row goes to the ledger once.

    columns: name -> float64, shape (n,), NaN where missing. first_row: number of the first row, from 1.
    """

    file: str
    first_row: int
    columns: dict[str, np.ndarray]
    ledger: ReadLedger
    is_kept: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.is_kept = np.ones(len(next(iter(self.columns.values()))), bool)

    def number(self, name: str) -> np.ndarray:
        """The column `name`; a row without a finite number in it is refused and counts as 0."""
        values = self.columns[name]
        is_bad = ~np.isfinite(values)
        self.refuse(f"{name} not a number", is_bad)
        return np.where(is_bad, 0.0, values)

    def refuse(self, rule: str, is_bad: np.ndarray) -> None:
        """Refuse the rows where `is_bad` (bool, shape (n,)) that no earlier rule refused."""
        index = np.flatnonzero(self.is_kept & is_bad)
        raw = [",".join(f"{values[i]:.15g}" for values in self.columns.values()) for i in index]
        self.ledger.refuse(rule, self.file, self.first_row + index, raw)
        self.is_kept[index] = False

    def refuse_not_later(self, rule: str, key: np.ndarray, time: np.ndarray, last: dict[float, float]) -> None:
        """Refuse kept rows whose time is not above those of all earlier kept rows with their key.

        last: key -> latest time of the blocks before; updated with this block.
        """
        index = np.flatnonzero(self.is_kept)
        index = index[np.argsort(key[index], kind="stable")]
        is_late = np.zeros(len(self.is_kept), bool)
        starts = np.flatnonzero(np.diff(key[index], prepend=np.nan) != 0)
        for lo, hi in zip(starts, np.append(starts[1:], len(index)), strict=False):
            rows = index[lo:hi]
            of = float(key[rows[0]])
            before = np.maximum.accumulate(np.append(last.get(of, -np.inf), time[rows]))
            is_late[rows] = time[rows] <= before[:-1]
            last[of] = float(before[-1])
        self.refuse(rule, is_late)


def number_rows(path: Path, names: Sequence[str], ledger: ReadLedger) -> Iterator[NumberRows]:
    """Blocks of up to 65,536 rows with the numeric columns `names` of the file `path`, in file order.

    Raises FileNotFoundError if the file is missing, and ValueError if it is not Parquet, damaged,
    or lacks one of the columns as numbers.
    """
    n_rows = 0
    for batch in record_batches(path, names):
        columns = {}
        for name in names:
            column = batch.column(name)
            if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                raise ValueError(f"{path}: {name} must be a column of numbers, got {column.type}")
            columns[name] = column.to_numpy(zero_copy_only=False).astype(np.float64)
        ledger.read(batch.num_rows)
        yield NumberRows(path.name, n_rows + 1, columns, ledger)
        n_rows += batch.num_rows


def record_batches(path: Path, names: Sequence[str], n_rows: int = BLOCK_LINES) -> Iterator[pa.RecordBatch]:
    """Non-empty batches of up to `n_rows` rows with the columns `names`; raises as `number_rows` does."""
    with path.open("rb") as handle:
        try:
            table = pq.ParquetFile(handle)
            missing = [name for name in names if name not in table.schema_arrow.names]
            if missing:
                raise pa.ArrowInvalid(f"no {', '.join(missing)}")
            for batch in table.iter_batches(batch_size=n_rows, columns=list(names)):
                batch.validate(full=True)
                if batch.num_rows:
                    yield batch
        except _BROKEN as error:
            raise _not_this(path, names, error) from error


def n_parquet_rows(path: Path, names: Sequence[str]) -> int:
    """Rows of the file by its footer; raises as `number_rows` does."""
    with path.open("rb") as handle:
        try:
            return int(pq.ParquetFile(handle).metadata.num_rows)
        except _BROKEN as error:
            raise _not_this(path, names, error) from error


def _not_this(path: Path, names: Sequence[str], error: BaseException) -> ValueError:
    return ValueError(f"{path} must be a Parquet file with the columns {', '.join(names)}; got {error}")
