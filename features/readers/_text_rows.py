"""Streams rows as blocks with line numbers and refusals: delimited text, plain or gzipped, or typed values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.inflated import inflated, not_utf_8

BLOCK_LINES = 65_536
"""Lines parsed at once: bounds the memory that does not depend on the rows kept."""
BLOCK_BYTES = 1 << 26
"""A block of longer lines ends here."""
MAX_LINE_BYTES = 1 << 20
N_PROBED = 20
"""A file whose first 20 rows all have a wrong column count is not the format at all."""
MAX_NUMBER = 1e15
"""Above this float64 no longer tells all integers apart with room to spare."""
MAX_TIME_S = 3_200_000_000
"""About 100 years: covers Unix stamps, and keeps hourly series over a trace small."""


@dataclass(slots=True)
class TextRows:
    """One block of rows; refusing narrows `is_kept`, and each refused row goes to the ledger once.

    line: line numbers from 1, int64, shape (n,). raw: the n lines as read. cells: n lists of equal length.
    separator: of the file's cells; "" where it has none.
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

        A row whose cell is no finite number of at most 1e15 in size is refused; an empty one only
        where `is_required`.
        """
        text = self.text(name)
        values = np.asarray(pd.to_numeric(text, errors="coerce"), np.float64)
        is_bad = ~(np.abs(values) <= MAX_NUMBER)
        if not is_required:
            is_bad &= text != ""
        self.refuse(f"{name} not a number", is_bad)
        return np.where(is_bad, np.nan, values)

    def refuse(self, rule: str, is_bad: np.ndarray, cell_of: str = "") -> None:
        """Leave out the rows where `is_bad` (bool, shape (n,)) that no earlier rule left out.

        cell_of: the column whose cell is shown before the row.
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

    def refuse_duplicates(self, rule: str, keys: np.ndarray, seen: set[object]) -> None:
        """Refuse kept rows whose key came before, in this block or in `seen`; `seen` gains the kept keys."""
        is_again = np.zeros(len(keys), bool)
        for i in np.flatnonzero(self.is_kept):
            if keys[i] in seen:
                is_again[i] = True
            seen.add(keys[i])
        self.refuse(rule, is_again)


def text_rows(path: Path, ledger: ReadLedger, *, separator: str | None, names: Sequence[str],
              has_header: bool, comment: str = "", on_comment: Callable[[str], None] | None = None,
              ) -> Iterator[TextRows]:
    """Blocks of rows of the file `path`, in file order.

    separator: None = any run of blanks. names: the columns in order, or with `has_header` those that the
    header must hold (it may hold more, in any order). comment: lines that start with it go to `on_comment`;
    they need not be UTF-8.

    Raises OSError where the file cannot be opened and ValueError where it is cut short, not UTF-8 or not this format
    (wrong header, no row, the first 20 rows all of a wrong column count).
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
    """Number of the first line and up to 65,536 lines, fewer where they have 64 MiB, again and again.

    Bytes that are not UTF-8 raise ValueError, but in lines that start with `comment` (where it is given) they become
    U+FFFD. A gzip is recognised by its first bytes, not by its name. Raises ValueError for a gzip that is cut short or
    damaged, saying after which line, and for a line above 1 MiB.
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
