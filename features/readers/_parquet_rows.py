"""Streams Parquet columns as blocks of numbers with row numbers and refusals: millions of rows, no text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._text_rows import BLOCK_LINES

MAX_USAGE_ROWS = 5_000_000
"""Rows up to which a reader fills `Trace.usage` unasked: about 120 MB."""
NO_USAGE = pd.DataFrame({"request_id": np.zeros(0, np.int64), "time_s": np.zeros(0, np.int64), "cpu_frac": np.zeros(0)})
_BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)


@dataclass(slots=True)
class NumberRows:
    """One block of numeric rows; refusing narrows `is_kept`, and each refused row goes to the ledger once.

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
        """Leave out the rows where `is_bad` (bool, shape (n,)) that no earlier rule left out."""
        index = np.flatnonzero(self.is_kept & is_bad)
        raw = [",".join(f"{values[i]:.15g}" for values in self.columns.values()) for i in index]
        self.ledger.refuse(rule, self.file, self.first_row + index, raw)
        self.is_kept[index] = False

    def refuse_not_later(self, rule: str, key: np.ndarray, time: np.ndarray, last: dict[float, float]) -> None:
        """Refuse kept rows whose time is not above that of every kept row of their key before.

        last: key -> latest time of the blocks before; gains this block's.
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

    Raises FileNotFoundError where the file is missing and ValueError where it is not Parquet, damaged, or without
    one of the columns as numbers.
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
