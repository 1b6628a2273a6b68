"""A pool at a moment, from two tables: its hosts, and the requests that run on them; predicted by a served bundle.

Nothing is guessed: in CSV each cell is text, so that an id `007` stays one, and only columns that are asked for as
numbers are converted. An error names the row."""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from sojourn.inflated import text_of
from sojourn.serving import Predictor
from sojourn.serving.answers import Lifetime
from sojourn.serving.checks import clock_second
from sojourn.simulator.rectification import (
    BUDGET_MAX,
    HORIZON_S,
    N_DAYS,
    PoolView,
    Refill,
    RefillRecord,
    count_day,
    edges_s,
)
from sojourn.simulator.workloads import whole_amounts

HOST_COLUMNS, REQUEST_COLUMNS = ("host_id", "cpu_cores", "mem_gib"), (
    "request_id", "host_id", "uptime_s", "cpu_cores", "mem_gib")
RESOURCES = ("cpu_cores", "mem_gib", "gpu")
MOST = 1_000_000_000
"""Cores, GiB or GPU of one host or request."""
MAX_UPTIME_S = 3_155_760_000
"""100 years."""
_NOT_BELOW_0 = ("_cores", "_gib", "gpu", "requested_s")
"""How columns end that are amounts, or a limit."""
SUFFIXES = (".parquet", ".csv")
N_BYTES_MAX = 256 << 20
"""Of a table, inflated: some millions of rows."""
N_CELLS_MAX = 20_000_000
"""Of the columns that are read: about 2 GB."""
_BATCH_ROWS = 1_024
_N_STAYS_MAX = 5_000_000
_KEPT_S = 3 * HORIZON_S
"""How long a stay that is over is kept: refills are counted up to two days later."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FLAGS = {"true": True, "yes": True, "1": True, "1.0": True, "false": False, "no": False, "0": False, "0.0": False}
_INDEX = re.compile(r"|__index_level_\d+__")
"""How pandas names an index that has no name, in CSV and in Parquet."""
_BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """view: what a planner sees. host_ids, request_ids: of its positions. ended: the chance that a position's request
    has ended so many seconds from now. warnings: of columns that nobody reads, and of what the model does not know."""

    view: PoolView
    host_ids: list[str]
    request_ids: list[str]
    ended: Callable[[int, float], float]
    warnings: tuple[str, ...] = ()


def read_snapshot(folder: Path, predictor: Predictor, now_s: int) -> Snapshot:
    """The snapshot of a folder with the tables `hosts` and `requests`, CSV or Parquet.

    hosts: host_id, cpu_cores, mem_gib, optional gpu. requests: request_id, host_id, uptime_s, cpu_cores, mem_gib,
    optional gpu and migratable (yes where it is missing); further columns are the attributes that the model reads, as
    `sojourn model predict` takes them. now_s: the snapshot's time on the clock of the training trace. Each request is
    predicted as at its admission, from the bundle's history; the snapshot's requests are not counted in it.

    ValueError, naming file, row, column and value: a table, column or value that is not there, one that is not what its
    column must hold, an id twice, a host that is not known, more requests on a host than it has room for, a request
    that the model refuses. Also a now_s that is not on the bundle's clock.
    """
    predictor.predict({}, clock_second(now_s, "now_s"))
    of_model = predictor.encoder.columns()
    hosts = snapshot_table(folder, "hosts", HOST_COLUMNS, ("gpu",))
    requests = snapshot_table(folder, "requests", REQUEST_COLUMNS, ("gpu", "migratable", *of_model))
    if len(hosts) == 0:
        raise ValueError(f"hosts must be at least one, got none in {hosts.file}")
    host_ids, request_ids = hosts.unique_ids("host_id"), requests.unique_ids("request_id")
    host = _host_of(requests, hosts.file, host_ids)
    names = tuple(name for name in RESOURCES if name in hosts.cells or name in requests.cells)
    amounts = [pd.DataFrame({name: table.numbers(name, MOST) if name in table.cells else np.zeros(len(table))
                             for name in names}) for table in (hosts, requests)]
    capacity, need = (whole_amounts(table, names) for table in amounts)
    used = np.stack([np.bincount(host, need[:, d], len(hosts)) for d in range(len(names))], axis=1).astype(np.int64)
    for d, name in enumerate(names):
        is_over = used[:, d] > capacity[:, d]
        if is_over.any():
            at = int(np.argmax(is_over))
            raise ValueError(f"requests on a host must fit on it, got {amounts[1][name][host == at].sum():g} {name} on "
                             f"host {host_ids[at]!r}, which has {amounts[0][name][at]:g} ({hosts.at(at)})")
    uptime_s = requests.numbers("uptime_s", MAX_UPTIME_S)
    n = len(requests)
    is_fixed = ~requests.flags("migratable") if "migratable" in requests.cells else np.zeros(n, bool)
    lives = lives_of(requests, uptime_s, predictor, now_s)
    breakpoints = np.concatenate([[0], edges_s()])
    total, overhang = _curves(lives, uptime_s, breakpoints)
    starts = np.arange(n) * len(breakpoints)
    view = PoolView(
        capacity, capacity - used, 0, np.ones(len(hosts), bool), np.bincount(host, minlength=len(hosts)),
        np.zeros(len(hosts), np.int64), host, need, np.zeros(n, np.int64), is_fixed,
        np.full(n, -1), np.full(n, -1), starts, starts + len(breakpoints), np.tile(breakpoints, n), total, overhang)

    def ended(position: int, after_s: float) -> float:
        return 1.0 - lives[position].survival(float(after_s), float(uptime_s[position]))

    told = (unread_words(hosts, (*HOST_COLUMNS, "gpu")),
            unread_words(requests, (*REQUEST_COLUMNS, "gpu", "migratable", *of_model)), unknown_words(lives))
    return Snapshot(view, host_ids, request_ids, ended, tuple(filter(None, told)))


class PoolRecord(BaseModel):
    """What earlier snapshots of a pool tell the next one. Times are seconds on the training trace's clock.

    seen_s: of the last snapshot. stays: request, host, begin, and end (None = it runs there), by request, as far back
    as refills are counted. planned: request, its host, target and when, of the migrations of the last day that were
    begun, or may be. days: end and counts of each day of refills, the oldest first.

    What came and went between two snapshots is not known, and a stay ends, or begins on another host, when a snapshot
    shows it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    seen_s: int
    stays: list[tuple[str, str, int, int | None]] = Field(default=[], max_length=_N_STAYS_MAX)
    planned: list[tuple[str, str, str, int]] = Field(default=[], max_length=BUDGET_MAX)
    days: list[tuple[int, list[list[int]], list[list[int]]]] = Field(default=[], max_length=N_DAYS)

    @classmethod
    def read(cls, file: Path, now_s: int) -> PoolRecord:
        """The record of a file, or an empty one if there is none; ValueError for what is no record, or a later one."""
        if not file.exists():
            return cls(seen_s=now_s)
        try:
            found = cls.model_validate_json(text_of(file, N_BYTES_MAX))
            _ = found.refill()
        except (ValueError, TypeError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"record must be a file that rectify wrote, got {str(file)!r}: {reason}") from None
        if now_s < found.seen_s:
            raise ValueError(f"now_s must not be before the record's last snapshot, second {found.seen_s}, got {now_s}")
        return found

    def after(self, pool: Snapshot, now_s: int) -> PoolRecord:
        """The record with one more snapshot. The same snapshot again changes nothing but its own plan, which goes."""
        view = pool.view
        known = {name: host for name, host, _, end_s in self.stays if end_s is None}
        running = {name: pool.host_ids[host] for name, host in zip(pool.request_ids, view.host.tolist(), strict=True)}
        stays: list[tuple[str, str, int, int | None]] = []
        for name, host, begin_s, end_s in self.stays:
            closed_s = end_s if end_s is not None or running.get(name) == host else now_s
            if closed_s is None or closed_s > now_s - _KEPT_S:
                stays.append((name, host, begin_s, closed_s))
        for name, uptime_s in zip(pool.request_ids, view.uptime_s.tolist(), strict=True):
            if known.get(name) != running[name]:
                since_s = self.seen_s if self.stays else now_s - uptime_s
                begin_s = now_s if name in known else max(now_s - uptime_s, since_s)
                stays.append((name, running[name], begin_s, None))
        hosts = set(pool.host_ids)
        stays = sorted((stay for stay in stays if stay[1] in hosts), key=lambda stay: (stay[0], stay[2], stay[1]))
        planned = [one for one in self.planned if one[3] != now_s and one[3] > now_s - HORIZON_S
                   and (running.get(one[0]) != one[1] or one[3] > now_s - self._lasts_s(one[3], view))]
        found = PoolRecord(seen_s=now_s, stays=stays, planned=planned, days=self.days)
        first_s = min((begin_s for _, _, begin_s, _ in stays), default=now_s)
        last_s = self.days[-1][0] if self.days else first_s + HORIZON_S
        if now_s - last_s < HORIZON_S:
            return found
        place = {name: at for at, name in enumerate(pool.host_ids)}
        table = np.array([(place[host], begin_s, now_s if end_s is None else end_s)
                          for _, host, begin_s, end_s in stays], np.int64).reshape(-1, 3)
        host_at, begins_s, ends_s = table[np.lexsort((table[:, 1], table[:, 0]))].T.copy()
        left, still = count_day(host_at, begins_s, ends_s, now_s)
        return found.model_copy(update={"days": [*self.days, (now_s, left.tolist(), still.tolist())][-N_DAYS:]})

    def _lasts_s(self, at_s: int, view: PoolView) -> int:
        """How long the migrations that were planned at a time last."""
        return view.done_s(sum(one[3] == at_s for one in self.planned) - 1)

    def refill(self) -> Refill:
        """How soon others come to hosts, as counted so far."""
        counts = RefillRecord()
        for at_s, left, still in self.days:
            counts.add(np.array(left, np.int64), np.array(still, np.int64), at_s)
        return counts.refill()

    def seen_by(self, pool: Snapshot) -> Snapshot:
        """The pool with refills, and with what may migrate just now kept from being planned."""
        under_way = {name for name, *_ in self.planned}
        is_fixed = pool.view.is_fixed | np.array([name in under_way for name in pool.request_ids], bool)
        return replace(pool, view=replace(pool.view, refill=self.refill(), is_fixed=is_fixed))

    def with_plan(self, table: pd.DataFrame) -> PoolRecord:
        """The record with a plan of its last snapshot. table: with request_id, from_host, to_host."""
        rows = table[["request_id", "from_host", "to_host"]].itertuples(index=False, name=None)
        return self.model_copy(update={"planned": [*self.planned, *((*row, self.seen_s) for row in rows)]})


def _host_of(requests: SnapshotTable, hosts_file: str, host_ids: list[str]) -> np.ndarray:
    """Position of each request's host, int64 (n,)."""
    asked = requests.ids("host_id")
    place = {name: at for at, name in enumerate(host_ids)}
    for row, name in enumerate(asked):
        if name not in place:
            raise ValueError(f"{requests.at(row)}: host_id must be in {hosts_file}, got {name!r}")
    return np.array([place[name] for name in asked], np.int64)


def lives_of(requests: SnapshotTable, uptime_s: np.ndarray, predictor: Predictor, now_s: int) -> list[Lifetime]:
    """Each request as the model predicts it at its admission."""
    columns: dict[str, list[Any]] = {}
    for name in predictor.encoder.numbers:
        if name in requests.cells:
            columns[name] = requests.optional_numbers(name, 0.0 if name.endswith(_NOT_BELOW_0) else -np.inf)
    for name in predictor.encoder.names:
        if name in requests.cells:
            columns[name] = requests.texts(name)
    lives = []
    for row, uptime in enumerate(uptime_s.tolist()):
        document = {name: values[row] for name, values in columns.items() if values[row] is not None}
        try:
            lives.append(predictor.predict(document, round(now_s - uptime)))
        except ValueError as error:
            raise ValueError(f"{requests.at(row)}: {error}") from error
    return lives


def _curves(lives: list[Lifetime], uptime_s: np.ndarray, breakpoints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predicted totals and overhangs counted from now, flat."""
    totals, overhangs = [], []
    for life, uptime in zip(lives, uptime_s.tolist(), strict=True):
        left = [max(life.remaining(uptime + float(after)), 1.0) for after in breakpoints]
        totals += [int(after + own) for after, own in zip(breakpoints.tolist(), left, strict=True)]
        overhangs += [round(own * life.survival(float(after), uptime))
                      for after, own in zip(breakpoints.tolist(), left, strict=True)]
    flat = np.array(overhangs, np.int64).reshape(-1, len(breakpoints))
    return np.array(totals, np.int64), np.minimum.accumulate(flat, axis=1).reshape(-1)


def unknown_words(lives: list[Lifetime]) -> str:
    """What of the requests the model does not know, each name with the number of requests; empty where it knows all."""
    n_unknown = sum(bool(life.unknown) for life in lives)
    if n_unknown == 0:
        return ""
    lacks = [f"{words}: {_counted(names)}" for words, names in (
        ("not given", Counter(name for life in lives for name in life.not_given)),
        ("not seen in training", Counter(name for life in lives for name in life.not_seen))) if names]
    return f"of {n_unknown} of {len(lives)} requests the model does not know all that it reads; {'; '.join(lacks)}"


def _counted(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(names.items()))


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

    def optional_numbers(self, column: str, least: float, most: float = math.inf) -> list[float | None]:
        """Finite numbers in least..most; None where missing."""
        rule = "a finite number" if least < 0 else f"a finite number from {least:g} on"
        if most < math.inf:
            rule += f", at most {most:.0f}"
        return self._all(column, f"{rule}, or missing",
                         lambda value: None if is_missing(value) else self._number(value, least, most))

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
