"""What a growing source says of itself: a TOML file that names its clock and what each column is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from sojourn.features.trace import Roles
from sojourn.inflated import toml_of

REQUIRED = ("request_id", "arrival", "departure", "cpu_cores", "mem_gib")
OPTIONAL = ("gpu", "submit")
"""Read only where `[columns]` names them."""
_LISTS = ("owners", "categories", "numbers", "resources", "known_at_end", "ignored")
_SQL = ("url_variable", "query", "watermark", "overlap")
_SPAN = re.compile(r"([0-9]+)([dh])")
_UNITS_S = {"d": 86_400, "h": 3_600}
URL_VARIABLE = "SOJOURN_SQL_URL"


@dataclass(frozen=True, slots=True)
class SqlSource:
    """Where rows come from. url_variable: of the environment, holds the SQLAlchemy URL. query: a SELECT.

    watermark: the column that rises whenever a row is written or changed. overlap_s: so long before the last read, rows
    are read again, for those that were committed late.
    """

    url_variable: str
    query: str
    watermark: str
    overlap_s: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """The columns of a growing source and its clock.

    origin_s: Unix second that is second 0 of the trace; from then on the source holds every request. columns: our name
    -> the source's. known_at_end: columns without a role. ignored: columns whose changes do not matter.
    """

    origin_s: int
    columns: Mapping[str, str]
    roles: Roles
    known_at_end: tuple[str, ...]
    ignored: tuple[str, ...]
    sql: SqlSource | None = None

    @property
    def hash(self) -> str:
        """sha256 hex of what decides how a row is read."""
        parts = [self.origin_s, dict(self.columns), *(getattr(self.roles, name) for name in Roles.__slots__),
                 self.known_at_end]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, file: Path, *, is_sql: bool = False) -> Declaration:
        """The declaration in a TOML file; ValueError naming the key that is unknown, missing or of another type."""
        document = toml_of(file)
        known = ("origin", "columns", *_LISTS, *(("sql",) if is_sql else ()))
        _refuse_unknown(file, "", document, known)
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
        own = {*REQUIRED, *OPTIONAL, "arrival_s", "departure_s", "submit_s"}
        taken = [name for name in (*roles.columns(), *roles.resources, *lists["known_at_end"]) if name in own]
        if taken:
            raise ValueError(f"{file}: roles must not name {taken[0]!r}, which has a meaning of its own")
        return cls(_origin_s(file, document.get("origin")),
                   {name: columns.get(name, name) for name in (*REQUIRED, *OPTIONAL)
                    if name in REQUIRED or name in columns},
                   roles, lists["known_at_end"], lists["ignored"], _sql(file, document) if is_sql else None)


def span_s(text: str, name: str) -> int:
    """Seconds of `90d` or `12h`.

    >>> span_s("90d", "since"), span_s("12h", "since")
    (7776000, 43200)
    """
    found = _SPAN.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= 100_000:
        raise ValueError(f"{name} must be a number of days or hours, such as 90d or 12h, got {text!r}")
    return int(found[1]) * _UNITS_S[found[2]]


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
    given = document.get("sql")
    if not isinstance(given, dict):
        raise ValueError(f"{file} must have a table [sql] with query and watermark, got {given!r}")
    if "url" in given:  # not shown: it may hold a password
        raise ValueError(f"{file}: sql.url must not stand in a file: put it into the environment variable "
                         f"{URL_VARIABLE}, or name another one by sql.url_variable")
    _refuse_unknown(file, "sql.", given, _SQL)
    texts = {"url_variable": URL_VARIABLE, "overlap": "7d", **given}
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


def _refuse_unknown(file: Path, where: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    strangers = [name for name in given if name not in known]
    if strangers:
        raise ValueError(f"{file}: a key must be one of {', '.join(known)}, got {where}{strangers[0]}")
