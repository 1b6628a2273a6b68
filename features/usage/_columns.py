"""Columns of a file in large blocks: numbers as float64, ids as values and rows of the request table."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import record_batches
from sojourn.features.usage.usage_stream import RequestTable
from sojourn.inflated import inflated

BLOCK_ROWS = 262_144
"""Samples held at once: about 20 MB."""
_BLOCK_BYTES = 1 << 24
_FLOAT_ID_MAX = 2.0 ** 53
"""From here on two integers may be the same float64."""


def parquet_columns(path: Path, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
    """Number of the first row, from 1, and the columns `names` of each block; refuses as `record_batches` does."""
    first_row = 1
    for batch in record_batches(path, names, BLOCK_ROWS):
        try:
            columns = {name: batch.column(name) for name in names}
        except KeyError as error:
            raise ValueError(f"{path} must hold each column once, got {error}") from error
        yield first_row, columns
        first_row += batch.num_rows


def parquet_names(path: Path) -> list[str]:
    """Names of the columns of a Parquet file; ValueError for another file."""
    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} must be a Parquet file, got {error}") from error


def csv_columns(path: Path, names: Sequence[str], ledger: ReadLedger, *, wanted: Sequence[str] = (),
                has_header: bool = True) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
    """The same for a CSV file, plain or gzipped, as columns of text; a row with another number of columns is refused.

    names: all columns if there is no header, else those that the header must have. wanted: the
    columns to read, by default all of `names`. Raises FileNotFoundError if the file is missing,
    ValueError if it is damaged or lacks a column.
    """
    n_wrong = 0

    def wrong(row: pcsv.InvalidRow) -> str:
        nonlocal n_wrong
        n_wrong += 1
        ledger.read(1)
        ledger.refuse(f"not {row.expected_columns} columns", path.name, np.array([row.number or 0]),
                      [str(row.text)[:200]])
        return "skip"

    columns = list(wanted or names)
    if has_header:
        _check_once(path, columns)
    with inflated(path) as source:
        try:
            reader = pcsv.open_csv(
                pa.PythonFile(source, mode="r"),
                pcsv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False,
                                 column_names=None if has_header else list(names)),
                pcsv.ParseOptions(invalid_row_handler=wrong),
                pcsv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string()),
                                    strings_can_be_null=True, null_values=["", "NaN", "nan"]))
            first_row, n_rows = 1, 0
            for batch in reader:
                if batch.num_rows:
                    n_rows += batch.num_rows
                    yield first_row, {name: batch.column(name) for name in columns}
                    first_row += batch.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, EOFError) as error:
            raise ValueError(f"{path} must be a CSV file with the columns {', '.join(columns)}; got {error}") from error
    if not n_rows:
        raise ValueError(f"{path} must hold at least one row of {len(names)} columns, got none"
                         f"{f' and {n_wrong} of another count' if n_wrong else ''}")


def _check_once(path: Path, columns: Sequence[str]) -> None:
    """ValueError if a header has one of the columns twice, which is ambiguous."""
    header = next(csv.reader([first_line(path)]), [])
    for name in columns:
        if header.count(name) > 1:
            raise ValueError(f"{path} must hold each column once, got {name} {header.count(name)} times")


def first_line(path: Path) -> str:
    """The first line of a file, plain or gzipped; "" if it is empty. Raises FileNotFoundError, ValueError."""
    data = b""
    with inflated(path) as source:
        while b"\n" not in data and len(data) < 1 << 20 and (block := source.read1()):
            data += block
    return data.partition(b"\n")[0].decode("utf-8", "replace").rstrip()


def numbers(column: pa.Array) -> np.ndarray:
    """The column as float64 (n,); NaN where missing or no number. ValueError for a column of times, lists or booleans.

    >>> numbers(pa.array(["1.5", "x", None])).tolist()
    [1.5, nan, nan]
    """
    if pa.types.is_temporal(column.type) or pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        shown = f" such as {column[0]}" if len(column) else ""
        raise ValueError(f"a column of numbers must have numbers, got {column.type}{shown}")
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.to_numpy(zero_copy_only=False).astype(np.float64)
    try:
        return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    except pa.ArrowException:
        return np.asarray(pd.to_numeric(pd.Series(column.to_pylist(), dtype=object), errors="coerce"), np.float64)


def unix_seconds(column: pa.Array) -> np.ndarray:
    """A column of time stamps as seconds since 1970, float64 (n,), NaN where missing; ValueError for another type."""
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        raise ValueError(f"a column of time stamps must have time stamps, got {column.type}")
    micro = pc.cast(column, pa.timestamp("us", tz=getattr(column.type, "tz", None)))
    return numbers(pc.cast(micro, pa.int64())) / 1e6


def request_rows(column: pa.Array, table: RequestTable) -> tuple[np.ndarray, np.ndarray]:
    """Ids (n,) as int64 or str objects ("" = missing), and their rows in the table, int32 (n,).

    Bytes are read as UTF-8. ValueError for ids that are neither text nor numbers.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        try:
            column = column.cast(kind).cast(pa.binary()).cast(pa.string())
        except pa.ArrowException as error:
            raise ValueError(f"ids must be text or whole numbers, got {error}") from error
    elif not _is_id(kind):
        raise ValueError(f"ids must be text or whole numbers, got {column.type}")
    elif pa.types.is_null(kind):
        column = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        column = _whole_numbers(column.cast(kind))
    elif pa.types.is_unsigned_integer(kind) and kind.bit_width == 64:
        try:
            column = column.cast(kind).cast(pa.int64())
        except pa.ArrowException as error:
            raise ValueError(f"ids must be below 2**63, got {error}") from error
    coded = column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    values = coded.dictionary.to_pylist()
    is_number = pa.types.is_integer(column.type)
    missing = -1 if is_number else ""
    rows = np.append(table.rows(values), np.int32(-1)).astype(np.int32)
    names = np.array([*values, missing], np.int64 if is_number else object)
    return names[codes], rows[codes]


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Ids that are floats, since some are missing, as int64; NaN = missing."""
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    is_missing = np.isnan(values)
    is_bad = ~is_missing & ((values != np.floor(values)) | (np.abs(values) >= _FLOAT_ID_MAX))
    if is_bad.any():
        raise ValueError(f"ids must be text or whole numbers, got {values[is_bad.argmax()]}")
    return pa.array(np.where(is_missing, 0.0, values).astype(np.int64), mask=is_missing)


def _is_id(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
                or pa.types.is_string_view(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))
