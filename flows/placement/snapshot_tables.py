"""The tables of a snapshot, CSV or Parquet: cells as they stand in the file, and what they must be, told by row.

Nothing is guessed: in CSV each cell is text, so that an id `007` stays one, and only columns that are asked for as
numbers are converted.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.inflated import text_of

SUFFIXES = (".parquet", ".csv")
N_BYTES_MAX = 256 << 20
"""Of a table, inflated: some millions of rows."""
N_CELLS_MAX = 20_000_000
"""Of the columns that are read: about 2 GB."""
_BATCH_ROWS = 1_024
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FLAGS = {"true": True, "yes": True, "1": True, "1.0": True, "false": False, "no": False, "0": False, "0.0": False}
_INDEX = re.compile(r"|__index_level_\d+__")
"""How pandas names an index that has no name, in CSV and in Parquet."""
_BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError)


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    """cells: of each column that is read, one value a row: text where is_text (CSV), else as Parquet has it, None where
    missing. rows: the number of each row in errors, of a text table its line. unread: columns of the file that nobody
    reads.
    """

    file: str
    cells: dict[str, list[Any]]
    rows: Sequence[int]
    unread: list[str]
    is_text: bool

    def __len__(self) -> int:
        """Rows."""
        return len(self.rows)

    def at(self, row: int) -> str:
        """Where a row stands, for errors."""
        return f"{self.file}, {self._named(row)}"

    def _named(self, row: int) -> str:
        return f"{'line' if self.is_text else 'row'} {self.rows[row]}"

    def ids(self, column: str) -> list[str]:
        """Texts, or whole numbers as text; ValueError for a missing one."""
        return self._all(column, "text or a whole number", _id)

    def unique_ids(self, column: str) -> list[str]:
        """As `ids`; ValueError also for one that stands there twice."""
        first: dict[str, int] = {}
        ids = self.ids(column)
        for row, value in enumerate(ids):
            if value in first:
                raise ValueError(f"{self.at(row)}: {column} must be unique, got {value!r}, which "
                                 f"{self._named(first[value])} has too")
            first[value] = row
        return ids

    def texts(self, column: str) -> list[Any]:
        """Texts, or whole numbers as text, or booleans; None where missing."""
        return self._all(column, "text or a whole number", _text)

    def numbers(self, column: str, most: int) -> np.ndarray:
        """float64 (n,), each in 0..most; ValueError for a missing one."""
        return np.array(self._all(column, f"a number in 0..{most}",
                                  lambda value: self._number(value, 0.0, float(most))), np.float64)

    def optional_numbers(self, column: str, least: float) -> list[float | None]:
        """Finite numbers from `least` on; None where missing."""
        rule = "a finite number, or missing" if least < 0 else f"a finite number from {least:g} on, or missing"
        return self._all(column, rule,
                         lambda value: None if is_missing(value) else self._number(value, least, math.inf))

    def flags(self, column: str) -> np.ndarray:
        """bool (n,): true, false, yes, no, 1 or 0, in capitals too; true where missing."""
        return np.array(self._all(column, "true or false", _flag), bool)

    def _number(self, value: Any, least: float, most: float) -> float:
        if isinstance(value, str) is not self.is_text:
            raise ValueError
        number = number_of(value)
        if not least <= number <= most:
            raise ValueError
        return number

    def _all(self, column: str, rule: str, convert: Callable[[Any], Any]) -> list[Any]:
        found = []
        for row, value in enumerate(self.cells[column]):
            try:
                found.append(convert(value))
            except (ValueError, OverflowError):
                raise ValueError(f"{self.at(row)}: {column} must be {rule}, got {repr(value)[:80]}") from None
        return found


def snapshot_table(folder: Path, name: str, needed: Sequence[str], others: Collection[str]) -> SnapshotTable:
    """The table `name` of a folder, CSV or Parquet.

    needed: columns that must be there. others: columns that are read where they are there. ValueError where the file is
    not there, twice, broken, not in UTF-8, or has a column twice, or a row with another number of cells.
    """
    files = [folder / f"{name}{suffix}" for suffix in SUFFIXES if (folder / f"{name}{suffix}").is_file()]
    if len(files) != 1:
        found = " and ".join(file.name for file in files) or "neither"
        raise ValueError(f"snapshot must be a folder with {name}.csv or {name}.parquet, got {found} in {str(folder)!r}")
    return table_of(files[0], needed, others)


def table_of(file: Path, needed: Sequence[str], others: Collection[str]) -> SnapshotTable:
    """As `snapshot_table`, of one file: Parquet where its name ends so, else CSV, plain or gzipped."""
    known = {*needed, *others}
    is_text = file.suffix != ".parquet"
    columns, cells, rows = (_csv_cells if is_text else _parquet_cells)(file, needed, known)
    unread = [column for column in columns if column not in known and not _INDEX.fullmatch(column)]
    return SnapshotTable(file.name, cells, rows, unread, is_text)


def unread_words(table: SnapshotTable, known: Collection[str]) -> str:
    """The columns that nobody reads, each with the one that may be meant; empty where there are none.

    >>> unread_words(SnapshotTable("a.csv", {}, [], ["migrateable", "rack"], True), ["migratable"])
    'a.csv: not read: migrateable (migratable?), rack'
    """
    absent = [column for column in known if column not in table.cells]
    told = []
    for column in table.unread:
        near = difflib.get_close_matches(column.lower(), absent, 1, 0.8)
        told.append(f"{column} ({near[0]}?)" if near else column)
    return f"{table.file}: not read: {', '.join(told)}" if told else ""


def _csv_cells(file: Path, needed: Sequence[str],
               known: Collection[str]) -> tuple[list[str], dict[str, list[Any]], Sequence[int]]:
    text = text_of(file, N_BYTES_MAX)
    header: list[str] = []
    cells: dict[str, list[Any]] = {}
    read: list[tuple[int, list[Any]]] = []
    rows: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            if not header and row:
                header = [name.strip() for name in row]
                _check_names(file, header, needed)
                cells = {name: [] for name in header if name in known}
                read = [(at, cells[name]) for at, name in enumerate(header) if name in known]
            elif row:
                if len(row) != len(header):
                    raise ValueError(f"{file.name}, line {line}: must have {len(header)} cells as the header, got "
                                     f"{len(row)}")
                for at, column in read:
                    column.append(row[at])
                rows.append(line)
                _check_size(file, len(rows), len(read))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{file.name}, line {line}: must be CSV, got: {error}") from None
    if not header:
        raise ValueError(f"{file.name} must begin with a header of columns, got an empty file")
    return header, cells, rows


def _parquet_cells(file: Path, needed: Sequence[str],
                   known: Collection[str]) -> tuple[list[str], dict[str, list[Any]], Sequence[int]]:
    try:
        with file.open("rb") as stream:
            table = pq.ParquetFile(stream)
            names = list(table.schema_arrow.names)
            _check_names(file, names, needed)
            columns = [name for name in names if name in known]
            cells: dict[str, list[Any]] = {name: [] for name in columns}
            n_bytes, n = 0, table.metadata.num_rows
            _check_size(file, n, len(columns))
            for batch in table.iter_batches(_BATCH_ROWS, columns=columns):
                n_bytes += batch.nbytes
                if n_bytes > N_BYTES_MAX:
                    raise ValueError(f"{file.name}: must hold at most {N_BYTES_MAX >> 20} MiB, got more")
                for name in columns:
                    cells[name] += batch.column(name).to_pylist()
    except _BROKEN as error:
        if str(error).startswith(file.name):
            raise
        raise ValueError(f"{file.name} must be a Parquet file that can be read, got: {str(error)[:200]}") from None
    return names, cells, range(1, n + 1)


def _check_names(file: Path, names: Sequence[str], needed: Sequence[str]) -> None:
    """ValueError for a column that stands there twice or not at all, before any row is read."""
    seen: set[str] = set()
    for name in filter(None, names):
        if name in seen:
            raise ValueError(f"{file.name} must have each column once, got {name!r} twice")
        seen.add(name)
    missing = [column for column in needed if column not in seen]
    if missing:
        raise ValueError(f"{file.name} must have the columns {', '.join(needed)}, got none named {missing[0]!r}")


def _check_size(file: Path, n_rows: int, n_columns: int) -> None:
    if n_rows * n_columns > N_CELLS_MAX:
        raise ValueError(f"{file.name} must hold at most {N_CELLS_MAX:,} cells that are read, got more in "
                         f"{n_rows:,} rows of {n_columns}")


def number_of(value: Any) -> float:
    """A cell as a finite number; ValueError where it is none, `True` and `1_000` among them.

    >>> number_of(" 1e3 "), number_of(2)
    (1000.0, 2.0)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, or null or NaN in Parquet."""
    return value is None or (isinstance(value, str) and not value.strip()) or (
        isinstance(value, float | Decimal) and value != value)


def _text(value: Any) -> Any:
    """As training reads a table: whole numbers without a point."""
    if is_missing(value):
        return None
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    raise ValueError


def _id(value: Any) -> str:
    found = _text(value)
    if not isinstance(found, str):
        raise ValueError
    return found


def _flag(value: Any) -> bool:
    if is_missing(value):
        return True
    if not isinstance(value, str | bool | int | float) or str(value).strip().lower() not in _FLAGS:
        raise ValueError
    return _FLAGS[str(value).strip().lower()]
