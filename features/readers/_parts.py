"""Parts of a growing source: rows of one day, checked and in our columns; kept between reads in one file.

`Declaration` is the source's TOML file with its clock and the meanings of columns. `trace_of_parts` joins the parts to
one row for each request, the newest; the trace does not depend on how it was read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sojourn.features.frame_requests import FIRST_STAMP_S, LAST_STAMP_S
from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import Horizon, cut_at, since_start
from sojourn.features.trace import DAY_S, RESOURCES, Roles, Trace
from sojourn.inflated import toml_of
from sojourn.publishing import whole_file

MAX_TEXTS = 200
"""The most refused rows of each rule and part with their text."""
_NEVER_S = 253_402_300_800
"""The year 10000: larger numbers are no seconds, but, for example, milliseconds."""
_N_FEW, _MOST = 10, 0.5
"""If more than this share of a part with so many rows is refused, the source has changed."""
_MANIFEST = b"sojourn.parts"
_NAMED = frozenset({"number", "text", "time", "truth", "empty"})
"""Types of columns with names."""


@dataclass(frozen=True, slots=True)
class KeptParts:
    """The file in which a reader keeps parts.

    code: version of the reading code. A damaged file, or one of other code, is ignored: then everything is read anew.
    """

    file: Path
    code: str


@dataclass(frozen=True, slots=True)
class PartLabel:
    """A part without its rows.

    day: ISO date on which its rows were written. name: of its file. key: hash of its content and of the way of reading.
    n_rows: number of rows. schema: the source's columns and the class of their type. repaired, refused: rows by rule.
    rejected: line, rule and text of refused rows.
    """

    day: str
    name: str
    key: str
    n_rows: int
    schema: dict[str, str]
    repaired: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    rejected: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one day in our columns, with refused ones (`is_refused`), since they replace older rows.

    table: `request_id`, `arrival_s` and `departure_s` (int64, Unix), resources and numbers (float64), names (string).
    """

    label: PartLabel
    table: pa.Table


def checked_part(day: str, name: str, key: str, raw: pa.Table, declaration: Declaration) -> Part:
    """A part from rows of the source.

    ValueError with a declared column that is missing or has no names, or the rule that refuses most
    rows: then a unit has changed, and a refused newest row hides all older ones of its request.
    """
    schema = {field.name: type_class(field.type) for field in raw.schema}
    read = [*declaration.columns.values(), *declaration.roles.columns(), *declaration.roles.resources,
            *declaration.known_at_end]
    missing = [column for column in read if column not in schema]
    if missing:
        raise ValueError(f"{name} must have the column {missing[0]!r}, got {', '.join(schema)}")
    rows = _Rows(raw)
    of = declaration.columns
    for column in (of["request_id"], *declaration.roles.owners, *declaration.roles.categories,
                   *declaration.known_at_end):
        if schema[column] not in _NAMED:
            raise ValueError(f"{name}: the column {column!r} must hold texts or numbers, got {schema[column]}")
    ids = raw.column(of["request_id"])
    ids = ids.cast(pa.int64()) if pa.types.is_integer(ids.type) else _texts(ids)
    ids = ids if ids.null_count < len(ids) else pa.nulls(len(ids))  # fits any type of other parts
    rows.refuse("request_id missing", np.asarray(ids.is_null()))
    ends_s = _day_end_s(day)
    arrival, has_arrival, is_bad = times_s(raw.column(of["arrival"]))
    rows.refuse("arrival missing or not a time", is_bad | ~has_arrival)
    departure, has_departure, is_bad = times_s(raw.column(of["departure"]), is_never_known=True)
    rows.refuse("departure not a time", is_bad)
    columns: dict[str, Any] = {}
    if "submit" in of:
        submit, has_submit, is_bad = times_s(raw.column(of["submit"]))
        rows.refuse("submit missing or not a time", is_bad | ~has_submit)
        rows.refuse("arrival before submit", submit > arrival)
        columns["submit_s"] = pa.array(submit)
    rows.refuse("departure before arrival", has_departure & (departure < arrival))
    rows.refuse("begins after its day", arrival > ends_s)
    rows.refuse("ended before the origin", has_departure & (departure < declaration.origin_s))
    is_early = has_departure & (departure > ends_s)
    rows.repair("end after its day: still running", is_early)
    for column in (*RESOURCES, *declaration.roles.resources):
        if column in of or column in declaration.roles.resources:
            values = numbers(raw.column(of.get(column, column)))
            rows.refuse(f"{column} not a number from 0 to 1e9", ~((values >= 0) & (values <= 1e9)))
            columns[column] = pa.array(values)
    for column in declaration.roles.numbers:
        columns[column] = pa.array(numbers(raw.column(column)))
    for column in (*declaration.roles.owners, *declaration.roles.categories):
        columns[column] = pc.fill_null(_texts(raw.column(column)), "missing")
    for column in declaration.known_at_end:
        columns[column] = _texts(raw.column(column))
    _check_most_are_taken(name, rows, raw, of)
    table = pa.table({
        "request_id": ids, "arrival_s": pa.array(arrival),
        "departure_s": pa.array(departure, mask=~has_departure | is_early), **columns,
        "is_refused": pa.array(rows.is_refused),
    })  # fmt: skip
    return Part(PartLabel(day, name, key, raw.num_rows, schema, rows.repaired, rows.refused, rows.rejected), table)


def _check_most_are_taken(name: str, rows: _Rows, raw: pa.Table, of: Mapping[str, str]) -> None:
    n_refused = int(rows.is_refused.sum())
    if raw.num_rows < _N_FEW or n_refused <= _MOST * raw.num_rows:
        return
    rule = max(rows.refused, key=lambda each: rows.refused[each])
    hint = ""
    for key in ("arrival", "departure"):
        values = numbers(raw.column(of[key]))
        if rule.startswith(key) and np.isfinite(values).any() and float(np.nanmedian(values)) >= _NEVER_S:
            hint = f"; {of[key]!r} looks like milliseconds or a smaller unit, where Unix seconds are expected"
    raise ValueError(f"{name} must hold at most {_MOST:.0%} refused rows, got {n_refused:,} of {raw.num_rows:,}, most "
                     f"by the rule: {rule}{hint}")


class _Rows:
    """The refused rows of a part, with their rules; a row counts once, under its first rule."""

    def __init__(self, raw: pa.Table) -> None:
        self._raw = raw
        self.is_refused = np.zeros(raw.num_rows, bool)
        self.repaired: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.rejected: list[tuple[int, str, str]] = []

    def refuse(self, rule: str, is_bad: np.ndarray) -> None:
        idx = np.flatnonzero(is_bad & ~self.is_refused)
        if len(idx):
            self.refused[rule] = len(idx)
            texts = self._raw.take(pa.array(idx[:MAX_TEXTS])).to_pylist()
            self.rejected += [(int(row) + 1, rule, ",".join("" if value is None else str(value)
                                                            for value in text.values()))
                              for row, text in zip(idx, texts, strict=False)]
            self.is_refused[idx] = True

    def repair(self, rule: str, is_changed: np.ndarray) -> None:
        n_rows = int((is_changed & ~self.is_refused).sum())
        if n_rows:
            self.repaired[rule] = n_rows


def check_drift(labels: Sequence[PartLabel], declaration: Declaration) -> None:
    """ValueError with the first day on which a column is new, missing or has another type than before.

    labels: in the order of days. A column without values has no type.
    """
    kind_of: dict[str, str] = {}
    is_first = True
    for label in labels:
        kinds = {name: kind for name, kind in label.schema.items() if name not in declaration.ignored}
        for name in sorted(kind_of.keys() | kinds.keys() if not is_first else set()):
            before, now = kind_of.get(name), kinds.get(name)
            if now is None:
                raise _drift(label, f"the column {name!r} ({before}) of the days before is gone")
            if before is None:
                raise _drift(label, f"the new column {name!r} ({now})")
            if before != now and "empty" not in (before, now):
                raise _drift(label, f"the column {name!r} of the type {now}, which was {before}")
        kind_of |= {name: kind for name, kind in kinds.items() if kind != "empty" or name not in kind_of}
        is_first = False


def _drift(label: PartLabel, change: str) -> ValueError:
    return ValueError(f"columns must stay as they are, got {change} on {label.day} ({label.name}); a column that does "
                      "not matter can be named in `ignored`")


def load_parts(kept: KeptParts) -> tuple[list[PartLabel], pa.Table | None, dict[str, Any]]:
    """Labels of the kept parts, their concatenated rows, and notes; empty if nothing is kept.

    The rows are None if other code read them.
    """
    if not kept.file.is_file():
        return [], None, {}
    try:
        table = pq.read_table(kept.file)
        document = json.loads(table.schema.metadata[_MANIFEST])
        labels = [PartLabel(**{**each, "rejected": [tuple(row) for row in each["rejected"]]})
                  for each in document["parts"]]
        if document["code"] != kept.code:
            return labels, None, document["noted"]
        table.validate(full=True)
        if sum(label.n_rows for label in labels) != table.num_rows:
            return labels, None, document["noted"]
        return labels, table.replace_schema_metadata(None), document["noted"]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return [], None, {}


def save_parts(kept: KeptParts, parts: Sequence[Part], table: pa.Table, noted: dict[str, Any]) -> None:
    """Write the parts, with their concatenated rows `table`, for the next read, in one step."""
    document = {"code": kept.code, "parts": [asdict(part.label) for part in parts], "noted": noted}
    with whole_file(kept.file) as temporary:
        pq.write_table(table.replace_schema_metadata({_MANIFEST: json.dumps(document).encode()}), temporary)


def held_parts(kept: KeptParts | None) -> tuple[list[Part], list[PartLabel], dict[str, Any]]:
    """Kept parts with their rows; the labels of all kept parts, also without usable rows; the notes."""
    if kept is None:
        return [], [], {}
    labels, table, noted = load_parts(kept)
    parts: list[Part] = []
    at = 0
    for label in labels if table is not None else []:
        assert table is not None
        parts.append(Part(label, table.slice(at, label.n_rows)))
        at += label.n_rows
    return parts, labels, noted


def type_class(kind: pa.DataType) -> str:
    """The class of a column's type: number, text, time, truth, empty; else Arrow's name."""
    if pa.types.is_dictionary(kind):
        return type_class(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    if pa.types.is_boolean(kind):
        return "truth"
    return "empty" if pa.types.is_null(kind) else str(kind)


def times_s(column: pa.ChunkedArray, *,
            is_never_known: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unix seconds (int64, truncated, 0 where missing), masks of present cells, and of present cells that are no time.

    Times without a zone are UTC; numbers are Unix seconds; texts are ISO 8601. is_never_known: a
    time from LAST_STAMP_S to the year 9999, such as 9999-12-31, becomes the last valid second; else
    it is no time. A time before FIRST_STAMP_S, such as Go's year 1 and 1970, is none either.
    """
    is_there = np.asarray(column.is_valid(), bool)
    kind = type_class(column.type)
    if kind == "time":
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        micros = column.cast(pa.timestamp("us", zone), safe=False)
        values = pc.fill_null(micros.cast(pa.int64()), 0).to_numpy().astype(np.float64) / 1e6
    elif kind == "number":
        values = numbers(column)
        is_there = is_there & ~np.isnan(values)
    elif kind == "text":
        parsed = pd.to_datetime(pd.Series(column.to_pylist(), dtype="str"), utc=True, errors="coerce",
                                format="ISO8601")
        values = np.where(parsed.isna(), np.nan, parsed.dt.as_unit("us").astype("int64") / 1e6)
    else:
        values = np.full(len(column), np.nan)
    if is_never_known:
        values = np.where((values >= LAST_STAMP_S) & (values < _NEVER_S), LAST_STAMP_S - 1, values)
    is_time = (values >= FIRST_STAMP_S) & (values < LAST_STAMP_S)
    return np.floor(np.where(is_time & is_there, values, 0.0)).astype(np.int64), is_there & is_time, \
        is_there & ~is_time


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers as float64, NaN where missing or no number."""
    kind = type_class(column.type)
    if kind not in ("number", "truth"):
        return np.full(len(column), np.nan)
    return np.asarray(column.cast(pa.float64(), safe=False), np.float64)


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names as strings; whole numbers have no decimals, even if others of the column are missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        values = column.cast(pa.float64(), safe=False).to_pylist()
        return pa.chunked_array([pa.array([
            None if value is None or value != value else str(int(value)) if value == int(value) else repr(value)
            for value in values], pa.string())])
    return column.cast(pa.string())


def _day_end_s(day: str) -> int:
    return int((date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal() + 1) * DAY_S)


REQUIRED = ("request_id", "arrival", "departure", "cpu_cores", "mem_gib")
OPTIONAL = ("gpu", "submit")
"""Read only if listed in `[columns]`."""
_LISTS = ("owners", "categories", "numbers", "resources", "known_at_end", "ignored")
_SQL = ("url_variable", "query", "watermark", "overlap")
_SPAN = re.compile(r"([0-9]+)([dh])")
_UNITS_S = {"d": 86_400, "h": 3_600}
URL_VARIABLE = "SOJOURN_SQL_URL"


@dataclass(frozen=True, slots=True)
class SqlSource:
    """A query.

    url_variable: environment variable with the SQLAlchemy URL. query: a SELECT. watermark: the
    column that rises whenever a row is written or changed. overlap_s: rows from so long before the
    last read are read again, for late commits.
    """

    url_variable: str
    query: str
    watermark: str
    overlap_s: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """The columns of a growing source and its clock.

    origin_s: Unix second of second 0 of the trace; from then on the source has all requests. columns: our name -> the
    source's. known_at_end: columns without a role. ignored: columns that may change.
    """

    origin_s: int
    columns: Mapping[str, str]
    roles: Roles
    known_at_end: tuple[str, ...]
    ignored: tuple[str, ...]
    sql: SqlSource | None = None

    @property
    def hash(self) -> str:
        """sha256 hex of all settings for reading a row."""
        parts = [self.origin_s, dict(self.columns), *(getattr(self.roles, name) for name in Roles.__slots__),
                 self.known_at_end]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, file: Path, *, is_sql: bool = False) -> Declaration:
        """The declaration in a TOML file; ValueError with a key that is unknown, missing or of another type."""
        document = toml_of(file)
        keys = ("origin", "columns", *_LISTS, *(("sql",) if is_sql else ()))
        _refuse_unknown(file, "", document, keys)
        lists = {name: _names(file, name, document.get(name, [])) for name in _LISTS}
        columns = document.get("columns", {})
        if not isinstance(columns, dict) or not all(isinstance(value, str) and value for value in columns.values()):
            raise ValueError(f"{file}: columns must be a table of our name = \"the source's\", got {columns!r}")
        _refuse_unknown(file, "columns.", columns, (*REQUIRED, *OPTIONAL))
        roles = Roles(lists["owners"], lists["categories"], lists["numbers"], lists["resources"])
        read = [*roles.columns(), *roles.resources, *lists["known_at_end"]]
        read += [columns.get(name, name) for name in REQUIRED]
        read += [columns[name] for name in OPTIONAL if name in columns]
        twice = sorted({name for name in read if read.count(name) > 1})
        if twice:
            raise ValueError(f"{file}: a column must have one meaning, got {twice[0]!r} twice")
        reserved = {*REQUIRED, *OPTIONAL, "arrival_s", "departure_s", "submit_s"}
        clashes = [name for name in (*roles.columns(), *roles.resources, *lists["known_at_end"]) if name in reserved]
        if clashes:
            raise ValueError(f"{file}: roles must not name {clashes[0]!r}, which has a meaning of its own")
        return cls(_origin_s(file, document.get("origin")),
                   {name: columns.get(name, name) for name in (*REQUIRED, *OPTIONAL)
                    if name in REQUIRED or name in columns},
                   roles, lists["known_at_end"], lists["ignored"], _sql(file, document) if is_sql else None)


def span_s(text: str, name: str) -> int:
    """Seconds of `90d` or `12h`.

    >>> span_s("90d", "since"), span_s("12h", "since")
    (7776000, 43200)
    """
    match = _SPAN.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= 100_000:
        raise ValueError(f"{name} must be a number of days or hours, such as 90d or 12h, got {text!r}")
    return int(match[1]) * _UNITS_S[match[2]]


def _origin_s(file: Path, value: Any) -> int:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    elif isinstance(value, date):
        moment = datetime.combine(value, time(), UTC)
    else:
        raise ValueError(f"{file}: origin must be a date such as 2026-01-01: second 0 of the trace's clock, from which "
                         f"on the source holds every request; got {value!r}")
    return int(moment.timestamp())


def _names(file: Path, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError(f"{file}: {name} must be a list of column names, got {value!r}")
    return tuple(value)


def _sql(file: Path, document: Mapping[str, Any]) -> SqlSource:
    table = document.get("sql")
    if not isinstance(table, dict):
        raise ValueError(f"{file} must have a table [sql] with query and watermark, got {table!r}")
    if "url" in table:  # not printed: it may contain a password
        raise ValueError(f"{file}: sql.url must not stand in a file: put it into the environment variable "
                         f"{URL_VARIABLE}, or name another one by sql.url_variable")
    _refuse_unknown(file, "sql.", table, _SQL)
    texts = {"url_variable": URL_VARIABLE, "overlap": "7d", **table}
    for name in _SQL:
        if not isinstance(texts.get(name), str) or not texts[name].strip():
            raise ValueError(f"{file}: sql.{name} must be a text, got {texts.get(name)!r}")
    if texts["url_variable"].startswith("SOJOURN_") and not texts["url_variable"].startswith(URL_VARIABLE):
        raise ValueError(f"{file}: sql.url_variable must begin with {URL_VARIABLE} or not with SOJOURN_, which names "
                         f"settings, got {texts['url_variable']!r}")
    query = texts["query"].strip().rstrip(";").strip()
    if not re.match(r"(?i)(select|with)\b", query):
        raise ValueError(f"{file}: sql.query must be a SELECT, got {query[:60]!r}")
    return SqlSource(texts["url_variable"], query, texts["watermark"],
                     span_s(texts["overlap"], f"{file}: sql.overlap"))


def _refuse_unknown(file: Path, where: str, keys: Mapping[str, Any], known_keys: tuple[str, ...]) -> None:
    unknown = [name for name in keys if name not in known_keys]
    if unknown:
        raise ValueError(f"{file}: a key must be one of {', '.join(known_keys)}, got {where}{unknown[0]}")


def joined_rows(parts: Sequence[Part]) -> pa.Table:
    """All rows of the parts, in order; their columns have no drift (`check_drift`)."""
    return pa.concat_tables([part.table for part in parts], promote_options="default").combine_chunks()


def trace_of_parts(name: str, parts: Sequence[Part], table: pa.Table, declaration: Declaration,
                   horizon_s: int | None, notes: Sequence[str]) -> tuple[Trace, ReadReport]:
    """The trace of parts in the order of days, and its report.

    table: their rows (`joined_rows`). A request's last row counts; if it is refused, the request is dropped. The trace
    depends only on the rows that count; the report lists the others. The horizon is the last time in the rows that
    count, at most the end of the last day. ValueError if no request remains.
    """
    ledger = _ledger_of(parts)
    rows = table.to_pandas(strings_to_categorical=False)
    is_named = rows["request_id"].notna().to_numpy()
    is_last = is_named & ~rows["request_id"].duplicated(keep="last").to_numpy()
    versions = _versions(rows[is_named], declaration)
    rows = rows[is_last & ~rows["is_refused"].to_numpy(bool)]
    if rows.empty:
        raise ValueError(f"{name}: must hold at least one request, got none; refused: {dict(ledger.report(0).refused)}")
    requests = _requests(rows, declaration)
    last_s = int(np.maximum(requests["arrival_s"].max(), requests["departure_s"].fillna(0).max()))
    horizon_s = since_start(horizon_s, declaration.origin_s, last_s)
    horizon = Horizon(last_s if horizon_s is None else horizon_s, 1, int((requests["arrival_s"] > last_s).sum()),
                      last_s, len(requests), horizon_s is not None)
    if horizon.time_s <= 0:
        raise ValueError(f"{name}: a request must begin or end after the origin, got the last time at second {last_s}")
    if horizon_s is not None:
        requests = cut_at(requests, horizon, ledger, name)
    else:
        ledger.note(f"horizon {last_s:,} s ({_moment(declaration.origin_s + last_s)}), the last time in the source")
    for line in (*versions, *notes):
        ledger.note(line)
    roles = declaration.roles
    names = (*roles.owners, *roles.categories, *declaration.known_at_end)
    requests = requests.astype(dict.fromkeys(names, "category"))
    meta = {"source": "growing source", "known_at_end": list(declaration.known_at_end)}
    trace = Trace(requests, horizon.time_s, roles, meta=meta).moved(declaration.origin_s, declaration.origin_s)
    return trace, ledger.report(len(trace), is_event_log=True)


def _requests(rows: pd.DataFrame, declaration: Declaration) -> pd.DataFrame:
    """The requests' table on the trace's clock, in an order that depends only on its content."""
    roles = declaration.roles
    order = ["request_id", "arrival_s", "departure_s",
             *(name for name in RESOURCES if name in rows), *roles.resources, *roles.columns(),
             *(name for name in ("submit_s",) if name in rows), *declaration.known_at_end]
    requests = rows[order].sort_values(["arrival_s", "request_id"], kind="stable").reset_index(drop=True)
    for name in ("arrival_s", "departure_s"):
        requests[name] = requests[name].astype("Int64") - declaration.origin_s
    if "submit_s" in requests:
        requests["submit_s"] = requests["submit_s"].astype(np.int64) - declaration.origin_s
    return requests


def _ledger_of(parts: Sequence[Part]) -> ReadLedger:
    ledger = ReadLedger(max_texts=None)
    for part in parts:
        label = part.label
        ledger.read(label.n_rows)
        for rule, n_rows in label.repaired.items():
            ledger.repair(rule, n_rows)
        for rule, n_rows in label.refused.items():
            shown = [(line, raw) for line, of, raw in label.rejected if of == rule]
            lines = np.zeros(n_rows, np.int64)
            lines[:len(shown)] = [line for line, _ in shown]
            texts = [raw for _, raw in shown] + [""] * (n_rows - len(shown))
            ledger.refuse(rule, label.name, lines, texts)
    return ledger


def _versions(rows: pd.DataFrame, declaration: Declaration) -> list[str]:
    """Lines on the changes in rows that a later row of the same request replaced."""
    again = rows[rows["request_id"].duplicated(keep=False)]
    if again.empty:
        return []
    again = again.sort_values("request_id", kind="stable")
    same_id = (again["request_id"].to_numpy()[1:] == again["request_id"].to_numpy()[:-1])
    at_end = ("departure_s", *declaration.known_at_end)
    is_same, is_end_same = np.ones(len(again) - 1, bool), np.ones(len(again) - 1, bool)
    for name in again:
        if name in at_end:
            is_end_same &= _equal(again[name])
        elif name != "request_id":
            is_same &= _equal(again[name])
    had_end = again["departure_s"].notna().to_numpy()
    is_ended = same_id & is_same & ~is_end_same & ~had_end[:-1] & had_end[1:]
    is_again = same_id & is_same & is_end_same
    is_corrected = same_id & ~is_again & ~is_ended
    lines = []
    for n_rows, words in ((is_again.sum(), "came again unchanged"),
                          (is_ended.sum(), "gave the end of a request that an earlier row began"),
                          (is_corrected.sum(), "corrected an earlier row: the newer one counts")):
        if n_rows:
            lines.append(f"{int(n_rows):,} row{'s' if n_rows > 1 else ''} {words}")
    if is_corrected.any():
        names = again["request_id"].to_numpy()[1:][is_corrected][:3].tolist()
        lines[-1] += f" (such as {', '.join(map(str, names))})"
    return lines


def _equal(column: pd.Series) -> np.ndarray:
    """Whether each value equals the one before; missing values are equal. Bool, shape (n - 1,)."""
    values, is_missing = column.to_numpy(object), column.isna().to_numpy()
    return (values[1:] == values[:-1]) & ~is_missing[1:] | is_missing[1:] & is_missing[:-1]


def _moment(unix_s: int) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M} UTC"


def shrunk(what: str) -> ValueError:
    """The error if a source has less than at its last read."""
    return ValueError(f"a trace that grows must not shrink, got {what}; --allow-shrunk takes it as it is now")
