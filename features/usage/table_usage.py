"""Usage of one's own: a CSV or Parquet table with a row a sample, and columns of any name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import n_parquet_rows
from sojourn.features.usage._columns import csv_columns, numbers, parquet_columns, request_rows, unix_seconds
from sojourn.features.usage.usage_block import RequestTable
from sojourn.features.usage.usage_reader import UsageReader
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, UsageStream
from sojourn.serving.usage import DayClock

_UNIX_MAX_S = 1e11
"""In the year 5138, and in milliseconds in 1973: a stamp above it is in another unit."""


def stream_table(path: str | Path, *, request: str = "request_id", time: str = "time_s", cpu: str = "cpu_frac",
                 mem: str = "", full: float = 1.0, unit_s: float = 1.0, timezone: str = "UTC",
                 max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of a table, a row each in any order; path: a Parquet file, or a CSV with a header, plain or gzipped.

    request, time, cpu, mem: names of the columns; mem "" = none. full: the number that says "all that is reserved", 1
    for shares, 100 for %. Times are time stamps (UTC where they have no zone), dates as text (ISO 8601), or numbers of
    `unit_s` seconds (0.001 for ms); parts of a second are cut off. Samples have
    the table's own times, Unix seconds if those are dates. Sizes are not read: a request has 1 core and 0 GiB; a folder
    of `Trace.save` has them.

    Raises FileNotFoundError where the file is missing, ValueError where it is damaged, lacks a column or has no
    time in any row, or times that no second of this millennium reaches (milliseconds).
    """
    source = Path(path)
    if source.is_dir():
        raise ValueError(f"path must be a CSV or Parquet file, got the folder {str(source)!r}")
    for name, value in (("full", full), ("unit_s", unit_s)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value!r}")
    names = (request, time, cpu, *([mem] if mem else []))
    if len(set(names)) < len(names):
        raise ValueError(f"request, time, cpu and mem must be different columns, got {', '.join(names)}")
    with source.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"

    def columns_of(ledger: ReadLedger) -> Iterator[tuple[int, Mapping[str, pa.Array]]]:
        return parquet_columns(source, names) if is_parquet else csv_columns(source, names, ledger)

    stamps = (_seconds(columns[time], unit_s) for _, columns in columns_of(ReadLedger()))
    first = next((block[np.isfinite(block)][0] for block in stamps if np.isfinite(block).any()), None)
    if first is None:
        raise ValueError(f"{source}: {time} must be times or numbers, got none in any row")
    if abs(first) > _UNIX_MAX_S:
        raise ValueError(f"{source}: {time} must be seconds below {_UNIX_MAX_S:g}, got {first:.15g}: if it is in "
                         "milliseconds, set unit_s to 0.001")

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in columns_of(ledger):
            ids, rows = request_rows(columns[request], table)
            yield RawSamples(source.name, first_row, ids, rows, _seconds(columns[time], unit_s),
                             numbers(columns[cpu]) / full, numbers(columns[mem]) / full if mem else None)

    return UsageStream(source.name, DayClock(0, timezone), read, max_cpu=max_cpu,
                       n_rows=n_parquet_rows(source, names) if is_parquet else None)


TABLE = UsageReader(stream_table, path="a table of one's own: Parquet, or CSV with a header, plain or gzipped",
                    cpu="`full`; mem: the same", stamp="as its source")


def _seconds(column: pa.Array, unit_s: float) -> np.ndarray:
    """Whole seconds since 1970, or of the table's clock, float64 (n,), NaN where missing."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return np.floor(unix_seconds(column))
    text = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string(text.type) or pa.types.is_large_string(text.type):
        number = np.asarray(pd.to_numeric(pd.Series(text.to_pylist(), dtype=object), errors="coerce"), np.float64)
        if np.isnan(number).any():
            stamp = pd.to_datetime(pd.Series(text.to_pylist(), dtype=object), utc=True, errors="coerce",
                                   format="ISO8601")
            unix_s = stamp.to_numpy("datetime64[s]")
            is_stamp = np.isnan(number) & ~np.isnat(unix_s)
            return np.where(is_stamp, unix_s.astype(np.int64).astype(np.float64), np.floor(number * unit_s))
        return np.floor(number * unit_s)
    return np.floor(numbers(text) * unit_s)
