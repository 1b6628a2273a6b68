"""Reads any table of requests: separated text, plain or gzipped, or Parquet; its columns are mapped or guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.frame_requests import is_end_name
from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._column_map import ColumnMap, column_map
from sojourn.features.readers._ending import Horizon, all_requests, cut_at, horizon_of, origin_of, since_start, trace_of
from sojourn.features.readers._mapped_table import MappedTable, doubts
from sojourn.features.readers._rows import TextRows, delimited_rows, is_parquet, parquet_names, parquet_rows
from sojourn.features.readers._stamps import moment
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_EDGE_SHARE, _EDGE_ROWS, _MOST = 1e-3, 3, 0.9
"""If so many rows, and at least three, share the first or last second of a file, the file cuts them off."""


def read_csv_table(path: str | Path, *, columns: Sequence[str] = (), columns_file: str | Path | None = None,
                   timezone: str | None = None, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of a table with a header and one row for each request.

    columns: `OURS=THEIRS` each. columns_file: TOML file with the meanings of columns; default:
    `PATH.toml`, if it exists; else meanings are guessed from plain names. timezone: IANA name, for
    times without a zone. Second 0 is the first arrival, or that of the column's clock.

    A row without an end runs at the horizon, the last time in the file. `meta["columns"]` has the interpretation of
    each column. A wrong cell refuses its row. Raises ValueError if the file is no table or the map does not fit.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "vms.csv"
    >>> _ = file.write_text("id;user;created;deleted;vcpus;memory_mb\\n"
    ...                     "a;ann;2026-11-01 00:00;2026-11-01 02:00;2;4096\\n"
    ...                     "b;bob;2026-11-01 01:00;NULL;1;2048\\n")
    >>> trace, report = read_csv_table(file)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [['a', 1793491200, 1793498400, 2.0, 4.0], ['b', 1793494800, <NA>, 1.0, 2.0]]
    >>> trace.span_s, trace.roles.owners
    (7200, ('user',))
    """
    source, ledger = Path(path), ReadLedger()
    beside = source.with_name(source.name + ".toml")
    file = Path(columns_file) if columns_file is not None else beside if beside.is_file() else None
    if is_parquet(source):
        names = parquet_names(source)
        columns_map = _map_of(source, names, columns, file, timezone)
        blocks = parquet_rows(source, columns_map.read(), ledger)
    else:
        blocks = delimited_rows(source, ledger)
        first = next(blocks, None)
        names = [] if first is None else list(first.names)
        columns_map = _map_of(source, names, columns, file, timezone)
        blocks = _with(first, blocks)
    table = MappedTable(source, columns_map, names)
    chunks = [table.requests(rows) for rows in blocks]
    requests = all_requests([chunk for chunk in chunks if len(chunk)], source, "request that ran", ledger)
    return _trace(table, requests, ledger, horizon_s, file)


def _map_of(source: Path, names: Sequence[str], pairs: Sequence[str], file: Path | None,
            timezone: str | None) -> ColumnMap:
    try:
        return column_map(names, pairs, file, timezone)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def _with(first: TextRows | None, later_blocks: Iterator[TextRows]) -> Iterator[TextRows]:
    if first is not None:
        yield first
    yield from later_blocks


def _trace(table: MappedTable, requests: pd.DataFrame, ledger: ReadLedger, horizon_s: int | None,
          file: Path | None) -> tuple[Trace, ReadReport]:
    of = table.map.columns
    is_dated = table.forms[of["arrival"]].is_dated
    origin_s = _origin_s(table, requests, is_dated)
    for name in ("arrival_s", "departure_s", *(["submit_s"] if "submit_s" in requests else [])):
        requests[name] = pd.Series(requests[name] - origin_s, dtype="Float64").astype("Int64")
    is_over = (requests["departure_s"] < 0).fillna(False).to_numpy(bool)
    if is_over.any():
        early = requests[is_over]
        ledger.refuse("ended before the trace's start", table.path.name, early["line"].to_numpy(np.int64),
                      [f"{name}: ended {-end} s before it" for name, end in zip(
                          early["request_id"], early["departure_s"], strict=True)])
        requests = requests[~is_over].reset_index(drop=True)
    times = np.concatenate([requests["arrival_s"].to_numpy(np.int64),
                            requests["departure_s"].dropna().to_numpy(np.int64)])
    if not len(requests) or int(times.max()) <= 0:
        raise ValueError(f"{table.path}: the last time must lie after the first, got one moment alone")
    horizon_s = since_start(horizon_s, origin_s if is_dated else None, int(times.max()))
    horizon = horizon_of(times, horizon_s, is_shared=bool(requests["departure_s"].notna().all()))
    if horizon.most_s not in (None, horizon.time_s):  # the file does not cut its rows off
        horizon = horizon_of(times, horizon_s)
    requests = _at_edges(table, requests, horizon, ledger, is_dated)
    requests = cut_at(requests, horizon, ledger, table.path.name)
    _tell(table, requests, horizon, origin_s if is_dated else None, ledger, file)
    roles = Roles(table.map.owners, table.map.categories,
                  (*(("requested_s",) if "requested_s" in of else ()), *table.map.numbers), table.map.resources)
    at_end = [*table.map.known_at_end, *([of["status"]] if "status" in of else [])]
    at_end = [name for name in dict.fromkeys(at_end) if name not in roles.columns()]
    if "submit_s" in requests:
        requests["submit_s"] = requests["submit_s"].astype(np.int64)
    meta: dict[str, Any] = {"source": table.path.name, "licence": "the user's own", "known_at_end": at_end,
                            "columns": table.understood(), "not_read": table.unread(),
                            "column_map": table.resolved().toml(table.unread())}
    if is_dated:
        meta["start_unix_s"] = origin_s
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=at_end)


def _origin_s(table: MappedTable, requests: pd.DataFrame, is_dated: bool) -> int:
    """Second 0 of the trace on the file's clock: the first arrival, without a few far before all others."""
    if not is_dated:
        return 0
    if table.map.origin_s is not None:
        return table.map.origin_s
    return origin_of(requests["arrival_s"].to_numpy(np.float64))


def _at_edges(table: MappedTable, requests: pd.DataFrame, horizon: Horizon, ledger: ReadLedger,
              is_dated: bool) -> pd.DataFrame:
    """If many rows share the last second as end, or the first as start, the file cuts them off."""
    ends, starts = requests["departure_s"], requests["arrival_s"]
    at_last = (ends == horizon.time_s).fillna(False).to_numpy(bool)
    n_min = max(_EDGE_ROWS, int(len(requests) * _EDGE_SHARE))
    is_cut = table.map.at_horizon == "running" or (
        table.map.at_horizon == "auto" and n_min <= int(at_last.sum()) < _MOST * len(requests)
        and bool(ends.notna().all()) and not horizon.is_declared)
    if is_cut and at_last.any():
        ledger.repair("end at the file's last second: still running (at_horizon)", int(at_last.sum()))
        requests = requests.assign(departure_s=ends.mask(at_last))
    at_first = (starts == 0).to_numpy(bool)
    is_cut = table.map.at_start == "running" or (
        table.map.at_start == "auto" and not is_dated and n_min <= int(at_first.sum()) < _MOST * len(requests))
    if is_cut and at_first.any():
        ledger.repair("start at the file's first second: start unknown (at_start)", int(at_first.sum()))
        requests = requests.assign(arrival_s=starts.mask(at_first))
    return requests


def _tell(table: MappedTable, requests: pd.DataFrame, horizon: Horizon, origin_s: int | None, ledger: ReadLedger,
          file: Path | None) -> None:
    of = table.map.columns
    if file is not None:
        ledger.note(f"columns as in {file.name}: {table.map.pairs()}")
    elif table.map.guessed:
        ledger.note(f"check: columns guessed by their names: {table.map.pairs()} (`sojourn check` shows what "
                    "is read, --column-map and --map-file change it)")
    else:
        ledger.note(f"columns: {table.map.pairs()}")
    unread = table.unread()
    if unread:
        ledger.note(f"not read: {', '.join(unread)}")
    for column, form in table.forms.items():
        n_local = table.local[column].n_local if column in table.local else 0
        zone = f", {n_local:,} without a zone taken as {table.map.timezone or 'UTC'}" if n_local else ""
        ledger.note(f"{column}: {form}{zone}")
    for line in doubts(table, len(requests)):
        ledger.note(f"check: {line}")
    roles = (*table.map.owners, *table.map.categories, *table.map.numbers)
    for column in roles:
        if is_end_name(column) or column == of.get("status"):
            ledger.note(f"check: {column!r} sounds like what is known only at a request's end: a model that sees "
                        f"it knows the answer (--column-map known_at_end={column} keeps it from models)")
    n_at_once = int((requests["departure_s"] == requests["arrival_s"]).fillna(False).sum())
    if n_at_once:
        ledger.note(f"check: {n_at_once:,} of {len(requests):,} requests end in the second in which they begin")
    n_running = int(requests["departure_s"].isna().sum())
    words = ", ".join(f"{word!r} {count:,}" for word, count in table.no_end.most_common(5))
    when = "" if origin_s is None else f" = {moment(origin_s + horizon.time_s)}"
    ledger.note(f"{n_running:,} of {len(requests):,} requests have no end and still run at the horizon, "
                f"{horizon.time_s:,} s{when}" + (f"; cells that say so: {words}" if words else ""))
    if origin_s is not None:
        ledger.note(f"second 0 is {moment(origin_s)}")


CSV = Reader(
    read_csv_table,
    path="a table with a header: CSV, TSV or semicolons, plain or gzipped, or Parquet",
    arrival="as mapped",
    departure="as mapped, or arrival + duration; none where missing",
    owners="as mapped",
    categories="as mapped",
    numbers="as mapped, `requested_s`",
    no_role="`status` and what is known at the end, `submit_s`",
)
