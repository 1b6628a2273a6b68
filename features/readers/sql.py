"""Reads the rows of a SQL query; with a file of kept rows, only those since the last read."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa

from sojourn.features.read_report import ReadReport
from sojourn.features.readers._parts import (
    Declaration,
    KeptParts,
    Part,
    SqlSource,
    check_drift,
    checked_part,
    held_parts,
    joined_rows,
    save_parts,
    shrunk,
    times_s,
    trace_of_parts,
)
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import DAY_S, Trace

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

TIED = "another row of the request has the same watermark: one with an end counts"
_BLOCK_ROWS = 65_536
_SNAPSHOT = ("postgresql", "mysql", "mariadb")
"""Databases with a snapshot isolation level; SQLite has it within a transaction."""


class SourceUnavailable(ConnectionError):
    """The database does not respond now; the same read may succeed later."""


def read_sql(path: str | Path, *, horizon_s: int | None = None, kept: KeptParts | None = None,
             is_shrunk_allowed: bool = False) -> tuple[Trace, ReadReport]:
    """The trace of a query in the TOML file `path`; an environment variable has the database's URL.

    The row with the latest watermark of a request counts; the table may be updated or only appended to. kept: the file
    of rows from earlier reads; then only rows with a watermark after the last read, minus the overlap, are queried. If
    the number of requests, or of rows of an append-only table, then differs from the table, all rows are read anew. The
    trace is that of one full read, unless a request's row was updated with a watermark before the overlap.
    is_shrunk_allowed: accept fewer requests than at the last read.

    Raises ValueError if the declaration or the query is wrong, a watermark is missing or a column drifts, and
    SourceUnavailable if the database does not respond. No message contains the URL's secrets.
    """
    file = Path(path)
    declaration = Declaration.read(file, is_sql=True)
    sql = declaration.sql
    assert sql is not None
    url = _url(sql)
    key = hashlib.sha256(json.dumps([declaration.hash, sql.query, sql.watermark,
                                     url.set(password=None, query={}).render_as_string()]).encode()).hexdigest()
    started_s = int(time.time())
    kept_parts, _, notes_kept = held_parts(kept)
    if notes_kept.get("key") != key:
        kept_parts, notes_kept = [], {}
    with _connected(url) as connection:
        n_rows, n_now = _counts(connection, sql, declaration.columns["request_id"])
        if n_now < notes_kept.get("n_requests", 0) and not is_shrunk_allowed:
            raise shrunk(f"{n_now:,} requests in the query of {file}, which had {notes_kept['n_requests']:,}")
        parts: list[Part] = []
        note = ""
        if kept_parts:
            parts, note = _with_new(connection, declaration, sql, key, kept_parts, int(notes_kept.get("read_at_s", 0)))
            total = len(joined_rows(parts)), _n_ids(parts)
            # after updates in place, kept rows of a request may no longer exist in the table
            if total[1] != n_now or (n_rows != n_now and total[0] != n_rows):
                note = (f"all rows read anew: the table holds {n_rows:,} rows of {n_now:,} requests, and with those "
                        f"since the last read {total[0]:,} of {total[1]:,} were known (rows deleted, or written later "
                        "than the overlap)")
                parts = []
        if not parts:
            parts = _parts(_rows(connection, sql, None, ""), declaration, sql, key)
            note = note or "all rows read"
    if not parts:
        raise ValueError(f"{file}: the query must give at least one row, got none")
    check_drift([part.label for part in parts], declaration)
    table = joined_rows(parts)
    result = trace_of_parts(str(file), parts, table, declaration, horizon_s, (note,))
    if kept is not None:
        save_parts(kept, parts, table, {"key": key, "n_requests": n_now, "read_at_s": started_s})
    return result


def check_sql(path: Path) -> None:
    """ValueError if the declaration is wrong, or the environment has no URL; runs no query."""
    declaration = Declaration.read(path, is_sql=True)
    assert declaration.sql is not None
    _url(declaration.sql)


def _with_new(connection: Connection, declaration: Declaration, sql: SqlSource, key: str,
              kept_parts: Sequence[Part], read_at_s: int) -> tuple[list[Part], str]:
    """The kept parts of days before the overlap, new parts since, and a line on them. read_at_s:
    Unix second of the last read. With a wrong clock, a watermark may be later: one such row must
    not prevent reading all others again.
    """
    kind = kept_parts[-1].label.schema[sql.watermark]
    last = date.fromisoformat(kept_parts[-1].label.day).toordinal() - date(1970, 1, 1).toordinal()
    cut_s = (min(last * DAY_S, read_at_s - DAY_S) - sql.overlap_s) // DAY_S * DAY_S
    cut = datetime.fromtimestamp(cut_s, UTC)
    earlier = [part for part in kept_parts if part.label.day < f"{cut:%Y-%m-%d}"]
    fresh = _parts(_rows(connection, sql, cut, kind), declaration, sql, key)
    return [*earlier, *fresh], (f"{sum(part.label.n_rows for part in fresh):,} rows read, those written since "
                                f"{cut:%Y-%m-%d}; {sum(part.label.n_rows for part in earlier):,} kept from earlier "
                                "reads")


def _parts(raw: pa.Table | None, declaration: Declaration, sql: SqlSource, key: str) -> list[Part]:
    """Rows by the day of their watermark, and within a day in its order."""
    if raw is None:
        return []
    for name in (sql.watermark, declaration.columns["request_id"]):
        if name not in raw.column_names:
            raise ValueError(f"sql.query must give the column {name!r}, got {', '.join(raw.column_names)}")
    seconds, is_time, is_bad = times_s(raw.column(sql.watermark))
    if not is_time.all():
        idx = int(np.flatnonzero(is_bad if is_bad.any() else ~is_time)[0])
        row_id = raw.column(declaration.columns["request_id"])[idx].as_py()
        raise ValueError(f"sql.watermark {sql.watermark!r} must be a time in every row, got "
                         f"{int((~is_time).sum()):,} rows without, such as {raw.column(sql.watermark)[idx].as_py()!r} "
                         f"of the request {row_id!r}")
    marks = raw.column(sql.watermark).to_pandas()
    ids = raw.column(declaration.columns["request_id"]).to_pandas()
    order = pd.DataFrame({"day": seconds // DAY_S, "mark": marks, "id": ids.astype(str)})
    if order.duplicated().any():  # two versions with one watermark: an end comes last, then order by content
        order["end"] = np.asarray(raw.column(declaration.columns["departure"]).is_valid(), bool)
        order["content"] = pd.util.hash_pandas_object(raw.to_pandas().astype(str), index=False)
    order = order.sort_values(list(order.columns), kind="stable")
    is_tied = (order.duplicated(["day", "mark", "id"]) & ~order.duplicated()).to_numpy()
    table = raw.take(pa.array(order.index.to_numpy()))
    days = order["day"].to_numpy()
    starts = np.flatnonzero(np.diff(days, prepend=days[0] - 1))
    parts = []
    for lo, hi in zip(starts, np.append(starts[1:], len(days)), strict=True):
        day = datetime.fromtimestamp(int(days[lo]) * DAY_S, UTC).strftime("%Y-%m-%d")
        part = checked_part(day, f"rows of {day}", key, table.slice(lo, hi - lo), declaration)
        n_tied = int(is_tied[lo:hi].sum())
        if n_tied:
            part = replace(part, label=replace(part.label, repaired={**part.label.repaired, TIED: n_tied}))
        parts.append(part)
    return parts


def _rows(connection: Connection, sql: SqlSource, cut: datetime | None, kind: str) -> pa.Table | None:
    """The rows of the query, from a midnight of the watermark on; None if there are none. kind: of the watermark."""
    from sqlalchemy import text

    statement, bound = f"SELECT * FROM ({sql.query}\n) AS rows_of_source", {}  # the query may end in a comment
    if cut is not None:
        mark = connection.dialect.identifier_preparer.quote(sql.watermark)
        statement += f" WHERE {mark} >= :cut"
        bound = {"cut": {"number": int(cut.timestamp()), "text": f"{cut:%Y-%m-%d}",
                         "time": cut if connection.dialect.name == "postgresql" else cut.replace(tzinfo=None)}[kind]}
    result = connection.execution_options(stream_results=True).execute(text(statement), bound)
    names = list(result.keys())
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"sql.query must give each column once, got {twice[0]!r} twice")
    blocks = [pa.table({name: _column(name, [row[idx] for row in rows]) for idx, name in enumerate(names)})
              for rows in result.partitions(_BLOCK_ROWS)]
    if not blocks:
        return None
    try:
        return pa.concat_tables(blocks, promote_options="permissive").combine_chunks()
    except pa.ArrowException as error:
        raise ValueError(f"each column of sql.query must have one type, got {error}") from error


def _column(name: str, values: list[Any]) -> pa.Array:
    if any(isinstance(value, uuid.UUID) for value in values):
        values = [None if value is None else str(value) for value in values]
    try:
        return pa.array(values)
    except pa.ArrowException as error:
        raise ValueError(f"the column {name!r} of sql.query must have one type, got {error}") from error


def _counts(connection: Connection, sql: SqlSource, request_id: str) -> tuple[int, int]:
    from sqlalchemy import text

    name = connection.dialect.identifier_preparer.quote(request_id)
    statement = f"SELECT COUNT(*), COUNT(DISTINCT {name}) FROM ({sql.query}\n) AS rows_of_source"
    n_rows, n_requests = connection.execute(text(statement)).one()
    return int(n_rows), int(n_requests)


def _n_ids(parts: Sequence[Part]) -> int:
    ids = joined_rows(parts).column("request_id")
    return len(ids.drop_null().unique()) if parts else 0


def _url(sql: SqlSource) -> URL:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    url_text = os.environ.get(sql.url_variable, "")
    if not url_text:
        raise ValueError(f"the environment variable {sql.url_variable} must hold the database's URL, such as "
                         "postgresql://USER:PASSWORD@HOST/DATABASE, got nothing")
    try:
        url = make_url(url_text)
        url.get_dialect()
    except (SQLAlchemyError, ValueError):
        raise ValueError(f"the environment variable {sql.url_variable} must hold a URL of SQLAlchemy, such as "
                         f"postgresql://USER:PASSWORD@HOST/DATABASE, got {len(url_text)} other characters") from None
    later = "" if url.get_backend_name() == "sqlite" else url.database or ""
    if "@" in f"{url.host or ''}{later}":  # the text before it is the rest of the password
        raise ValueError(f"the environment variable {sql.url_variable} must hold a URL with one @ before the host, got "
                         "another one: write an @ of the password as %40")
    if url.drivername == "postgresql":  # SQLAlchemy's default is psycopg2
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).is_file()):
        raise FileNotFoundError(f"the SQLite file of {sql.url_variable} must exist, got {url.database!r}")
    return url


@contextmanager
def _connected(url: URL) -> Iterator[Connection]:
    """A connection with one snapshot of the database; its errors contain no secret of the URL."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    backend = url.get_backend_name()
    options: dict[str, Any] = {"isolation_level": "REPEATABLE READ"} if backend in _SNAPSHOT else {}
    engine = create_engine(url, poolclass=NullPool, hide_parameters=True, **options)
    try:
        with engine.connect() as connection:
            if backend == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = ON")
                connection.exec_driver_sql("BEGIN")
            yield connection
    except SQLAlchemyError as error:
        message = _public(url, str(error.orig if isinstance(error, DBAPIError) else error))
        if "not a database" in message:
            raise ValueError(f"the SQLite file of the trace must be a database, got {url.database!r}") from None
        is_wrong = "no such" in message or "syntax error" in message
        if isinstance(error, OperationalError | InterfaceError) and not is_wrong:
            raise SourceUnavailable(f"the database of the trace must answer, got {message}") from None
        raise ValueError(f"sql.query must be one that the database takes, got {message}") from None
    finally:
        engine.dispose()


def _public(url: URL, text: str) -> str:
    """The first line of a message without the URL's password and without the values of its query."""
    line = next((each for each in text.splitlines() if each.strip()), "no reason")
    values = [value for each in url.query.values() for value in ([each] if isinstance(each, str) else each)]
    secrets = {str(url.password or ""), *values}
    for secret in sorted({form for each in secrets for form in (each, quote(each, safe=""))}, key=len, reverse=True):
        if len(secret) >= 3:
            line = line.replace(secret, "***")
    return line


SQL = Reader(
    read_sql,
    path="TOML file that declares a query; the database's URL stands in an environment variable",
    arrival="`arrival`",
    departure="`departure`; none where missing, or after the day of its row's watermark",
    owners="as declared",
    categories="as declared",
    numbers="as declared",
    no_role="`known_at_end` as declared, `submit_s`",
    is_growing=True,
    is_queried=True,
)
