"""Parts of a growing source: rows of one day, checked and brought to our columns; kept between reads in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sojourn.features.frame_requests import FIRST_STAMP_S, LAST_STAMP_S
from sojourn.features.readers._declaration import Declaration
from sojourn.features.trace import RESOURCES
from sojourn.publishing import whole_file

DAY_S = 86_400
MAX_TEXTS = 200
"""Refused rows of each rule and part that are kept with their text."""
_NEVER_S = 253_402_300_800
"""The year 10000: a later number is no time at all; milliseconds of our day are."""
_N_FEW, _MOST = 10, 0.5
"""A part of so many rows, of which more than this share is refused, is a source that has changed."""
_MANIFEST = b"sojourn.parts"
_NAMED = frozenset({"number", "text", "time", "truth", "empty"})
"""Types of columns whose values can be names."""


@dataclass(frozen=True, slots=True)
class KeptParts:
    """Where a reader keeps the parts that it has read. code: stands for the code that reads them.

    A file that is damaged, or of other code, counts as none: everything is then read anew.
    """

    file: Path
    code: str


@dataclass(frozen=True, slots=True)
class PartLabel:
    """What is known of a part without its rows.

    day: ISO date on which its rows were written. name: of its file. key: hash of its content and of how it is read.
    n_rows: as read. schema: the source's columns and the class of their type. repaired, refused: rows by rule.
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
    """Rows of one day in our columns, those that were refused included: `is_refused`, so that they replace older ones.

    table: `request_id`, `arrival_s` and `departure_s` (int64, Unix), resources and numbers (float64), names (string).
    """

    label: PartLabel
    table: pa.Table


def checked_part(day: str, name: str, key: str, raw: pa.Table, declaration: Declaration) -> Part:
    """A part of these rows as the source has them.

    ValueError naming a declared column that is missing or holds no names, or the rule by which most rows are refused: a
    unit has changed then, and one newest row that is refused hides all older ones of its request.
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
    ids = ids if ids.null_count < len(ids) else pa.nulls(len(ids))  # of any type beside other parts
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
    """Which rows of a part are refused, and why; a row counts once, under its first rule."""

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
    """ValueError naming the first day on which a column went, came or has another type than before.

    labels: in the order of days. A column without any value has no type yet.
    """
    known: dict[str, str] = {}
    is_first = True
    for label in labels:
        found = {name: kind for name, kind in label.schema.items() if name not in declaration.ignored}
        for name in sorted(known.keys() | found.keys() if not is_first else set()):
            before, now = known.get(name), found.get(name)
            if now is None:
                raise _drift(label, f"the column {name!r} ({before}) of the days before is gone")
            if before is None:
                raise _drift(label, f"the new column {name!r} ({now})")
            if before != now and "empty" not in (before, now):
                raise _drift(label, f"the column {name!r} of the type {now}, which was {before}")
        known |= {name: kind for name, kind in found.items() if kind != "empty" or name not in known}
        is_first = False


def _drift(label: PartLabel, found: str) -> ValueError:
    return ValueError(f"columns must stay as they are, got {found} on {label.day} ({label.name}); a column that does "
                      "not matter can be named in `ignored`")


def load_parts(kept: KeptParts) -> tuple[list[PartLabel], pa.Table | None, dict[str, Any]]:
    """Labels of the kept parts, their rows one after the other, and what else was noted; none where nothing is kept.

    The rows are None where other code read them.
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
    """Keep the parts, whose rows one after the other are `table`, for the next read; a reader sees old or new."""
    document = {"code": kept.code, "parts": [asdict(part.label) for part in parts], "noted": noted}
    with whole_file(kept.file) as temporary:
        pq.write_table(table.replace_schema_metadata({_MANIFEST: json.dumps(document).encode()}), temporary)


def held_parts(kept: KeptParts | None) -> tuple[list[Part], list[PartLabel], dict[str, Any]]:
    """Kept parts with their rows; the labels of all of them, also where the rows cannot be used; what was noted."""
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
    """What a column's type is to us: number, text, time, truth, empty; else Arrow's own word."""
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
    """Unix seconds (int64, cut to whole ones, 0 where missing), which are there, and which are there but no time.

    Times without a zone are UTC; numbers are Unix seconds; texts are ISO 8601. is_never_known: a time from
    LAST_STAMP_S to the year 9999, such as 9999-12-31, is taken as the last before it; else it is no time. One before
    FIRST_STAMP_S, such as Go's year 1 and 1970, is none either.
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
    """Names as strings; a whole number has no decimals, whether or not others of its column are missing."""
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
