"""Blocks of a table as requests: the values of each mapped column, and refused rows by rule.

`doubts` are lines on ambiguous parts of a table, for a person to check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.readers._cells import (
    A_DURATION,
    NO_LIMIT,
    TIME_UNITS,
    Cells,
    cpu_cores,
    durations_s,
    has_decimal_points,
    has_two_points,
    is_comma_decimal,
    is_missing,
    may_be_dotted,
    numbers,
    sizes_gib,
)
from sojourn.features.readers._column_map import LISTED, ColumnMap, duration_named, is_name_of_one
from sojourn.features.readers._rows import MAX_TIME_S, TextRows
from sojourn.features.readers._stamps import LocalTimes, StampForm, local_times, stamp_form, stamps_s


def doubts(table: MappedTable, n_requests: int) -> list[str]:
    """Lines on ambiguous parts of a table; n_requests: number of its requests.

    >>> from pathlib import Path
    >>> from sojourn.features.readers._column_map import column_map
    >>> names = ["id", "start", "vcpus", "mem"]
    >>> doubts(MappedTable(Path("vms.csv"), column_map(names), names), 3)
    ['no column is departure or duration: all requests count as still running']
    """
    of = table.map.columns
    fields = {name.casefold() for name in table.names}
    lines = [f"no column is {name}: {words} taken for each request" for name, words in (
        ("cpu_cores", "1 core"), ("mem_gib", "0 GiB")) if name not in of]
    if fields & {"jobid", "jobidraw"} and fields & {"elapsed", "reqcpus", "alloccpus", "ncpus", "timelimit"}:
        lines.insert(0, "this looks like an export of Slurm's sacct: --reader slurm knows its steps, requeues and "
                        "limits")
    if "request_id" not in of:
        lines.append(f"no column is request_id: {n_requests:,} requests are named by their line, and duplicates are "
                     "not found")
    if not {"departure", "duration"} & {*of}:
        lines.append("no column is departure or duration: all requests count as still running")
    lines += [f"{name!r} stands {table.names.count(name)} times in the table: not read"
              for name in dict.fromkeys(table.names) if name and table.names.count(name) > 1]
    lines += [f"{count:,} row{' is' if count == 1 else 's are'} {word!r} without an end: "
              f"{'it counts' if count == 1 else 'they count'} as still running" for word, count in
              table.ended.most_common(5)]
    if table.n_with_duration:
        column = duration_named(table.names)
        ends = f" --column-map departure={of['departure']}" if "departure" in of else ""
        lines.append(f"{table.n_with_duration:,} requests without an end have a value in {column!r}:{ends} "
                     f"--column-map duration={column} takes it for them, unless it is the time so far")
    return [*lines, *table.doubts, *_zone_doubts(table)]


def _zone_doubts(table: MappedTable) -> list[str]:
    lines = []
    of = table.map.columns
    for column, times in table.local.items():
        if times.n_local and table.map.timezone is None:
            lines.append(f"{column}: {times.n_local:,} times without a zone taken as UTC (--timezone says which)")
        if times.n_repeated:
            lines.append(f"{column}: {times.n_repeated:,} times in an hour that {table.map.timezone} repeats, when "
                         "clocks go back, are taken the first time: lifetimes may be an hour off")
        if times.n_left_out:
            lines.append(f"{column}: {times.n_left_out:,} times in an hour that {table.map.timezone} leaves out are "
                         "moved on to its end: is the zone right?")
    shares = [(column, table.local[column]) for column in dict.fromkeys(
        of[name] for name in ("arrival", "departure", "submit") if name in of) if column in table.local]
    kinds = {"none" if not times.n_local else "all" if times.n_local == times.n else "some" for _, times in shares
             if times.n}
    if len(kinds) > 1 or "some" in kinds:
        words = ", ".join(f"{times.n - times.n_local:,} of {times.n:,} in {column}" for column, times in shares)
        lines.append(f"only some times have a zone ({words}): lifetimes are wrong where the others are not "
                     f"{table.map.timezone or 'UTC'}")
    return lines


NEVER_RAN = frozenset((
    "pending", "queued", "waiting", "held", "hold", "submitted", "scheduling", "configuring", "building", "build",
    "creating", "provisioning", "requested", "accepted", "unschedulable", "rejected", "revoked", "never_ran",
))  # fmt: skip
"""States, in lower case, of requests that never ran."""
FAILED = frozenset((
    "error", "failed", "cancelled", "canceled", "aborted", "deleted", "boot_fail", "launch_failed", "node_fail",
    "preempted", "evicted", "killed", "timeout",
))  # fmt: skip
"""States of requests that never ran if there is no start."""
ENDED = frozenset((
    "terminated", "error", "failed", "completed", "complete", "succeeded", "finished", "done", "deleted", "ended",
    "exited", "cancelled", "canceled", "aborted", "killed", "timeout", "node_fail", "out_of_memory", "evicted",
    "preempted",
))  # fmt: skip
"""States of ended requests."""
MAX_SIZE = 1e9
_NO_NAME = frozenset({"", "null", "(null)", "\\n", "nan", "<na>"})
_N_EXAMPLES = 3
_OWN_NAME_SHARE = 0.9
_LEAST_MILLICORES = 100
_NO_DURATION = NO_LIMIT | {"-1"}


@dataclass(slots=True)
class MappedTable:
    """Decisions from the first blocks of a table for all blocks, and counts.

    forms: column -> form of its times, after the first value. units: meaning -> unit of its plain numbers.
    commas: columns with a decimal comma. no_end: words -> rows. local: column -> zones of its
    times. ended: states of ended requests -> rows without an end. n_with_duration: rows without an
    end but with a duration in a column that is not mapped as one. doubts: ambiguous parts.
    """

    path: Path
    map: ColumnMap
    names: Sequence[str]
    forms: dict[str, StampForm] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    commas: dict[str, bool] = field(default_factory=dict)
    no_end: Counter[str] = field(default_factory=Counter)
    local: dict[str, LocalTimes] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    n_with_duration: int = 0
    is_seen: bool = False
    examples: dict[str, list[str]] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    seen: set[object] = field(default_factory=set)

    def requests(self, rows: TextRows) -> pd.DataFrame:
        """The kept rows of a block, times in Unix seconds or on the file's clock."""
        if not self.is_seen:
            self.is_seen = True
            self._drop_shared_names(rows)
        of = self.map.columns
        self._look(rows)
        columns: dict[str, Any] = {}
        if "status" in of:
            self._refuse_what_never_ran(rows)
        arrival = self._times(rows, "arrival")
        rows.refuse(f"{of['arrival']} missing", arrival.is_missing, of["arrival"])
        departure = self._ends(rows, arrival)
        if "submit" in of:
            submit = self._times(rows, "submit")
            rows.repair(f"{of['submit']} missing: start taken", submit.is_missing)
            submitted = np.where(submit.is_missing, arrival.values, submit.values)
            rows.refuse(f"{of['arrival']} before {of['submit']}", submitted > arrival.values, of["submit"])
            columns["submit_s"] = submitted
        end_of = of.get("departure", of.get("duration", ""))
        rows.refuse(f"{end_of} before {of['arrival']}", departure < arrival.values, end_of)
        for name in ("cpu_cores", "mem_gib", "gpu"):
            if name in of:
                columns[name] = self._amounts(rows, name)
            elif name != "gpu":
                columns[name] = np.full(len(rows.raw), 1.0 if name == "cpu_cores" else 0.0)
        for name in self.map.resources:
            columns[name] = self._plain(rows, name, is_size=True)
        names: dict[str, np.ndarray] = {name: self._names(rows, name) for name in (
            *self.map.owners, *self.map.categories, *self.map.known_at_end)}
        if "requested_s" in of:
            limits = durations_s(rows.text(of["requested_s"]), unit_s=self._time_unit_s("requested_s"),
                                 is_comma=self.commas[of["requested_s"]])
            rows.refuse(f"{of['requested_s']} must be {A_DURATION}", limits.is_bad, of["requested_s"])
            columns["requested_s"] = limits.values
        for name in self.map.numbers:
            columns[name] = self._plain(rows, name, is_size=False)
        if "status" in of and of["status"] not in names:
            names[of["status"]] = self._names(rows, of["status"])
        ids = self._ids(rows)
        rows.refuse_duplicates(f"{of.get('request_id', 'line')} twice", ids, self.seen)
        is_kept = rows.is_kept
        if end_of:
            words, counts = np.unique(rows.text(end_of)[is_kept & np.isnan(departure)].astype(str), return_counts=True)
            self.no_end.update(dict(zip(words.tolist(), counts.tolist(), strict=True)))
        self._count_ended(rows, is_kept & np.isnan(departure))
        return pd.DataFrame({
            "line": rows.line[is_kept],
            "request_id": pd.Series(ids[is_kept], dtype="str"),
            "arrival_s": np.floor(arrival.values[is_kept]),
            "departure_s": np.floor(departure[is_kept]),
            **{name: values[is_kept] for name, values in columns.items()},
            **{name: pd.Series(values[is_kept], dtype="str") for name, values in names.items()},
        })  # fmt: skip

    def resolved(self) -> ColumnMap:
        """The map with the units of the file."""
        of = self.map.columns
        units = {of[meaning]: unit for meaning, unit in self.units.items()}
        units |= {of[meaning]: self.map.unit_of(meaning) or "s" for meaning in ("duration", "requested_s")
                  if meaning in of}
        return replace(self.map, units={**units, **self.map.units})

    def _look(self, rows: TextRows) -> None:
        """Make the decisions that need the cells of this block."""
        of = self.map.columns
        for meaning in ("arrival", "departure", "submit"):
            column = of.get(meaning)
            if column is not None and column not in self.forms:
                form = self._form(rows, meaning, column)
                if form is not None:
                    self.forms[column] = form
        for column in self.map.read():
            if len(self.examples.get(column, ())) < _N_EXAMPLES:
                cells = rows.text(column)
                shown = list(dict.fromkeys(cells[~is_missing(cells)].tolist()))
                self.examples[column] = [*self.examples.get(column, ()), *shown][:_N_EXAMPLES]
        self._find_commas(rows)
        if "mem_gib" in of and "mem_gib" not in self.units:
            self._find_unit(rows.text(of["mem_gib"]))
        if "cpu_cores" in of:
            self._find_cpu_unit(rows.text(of["cpu_cores"]))

    def _drop_shared_names(self, rows: TextRows) -> None:
        """A column of names is guessed as the id only if nearly all rows have distinct names."""
        column = self.map.columns.get("request_id")
        if column is None or "request_id" not in self.map.guessed or not is_name_of_one(column):
            return
        cells = rows.text(column)
        cells = cells[~is_missing(cells)]
        n_names = len(set(cells.tolist()))
        if n_names < _OWN_NAME_SHARE * len(cells):
            self.map = replace(self.map, columns={ours: theirs for ours, theirs in self.map.columns.items()
                                                  if ours != "request_id"},
                               guessed=tuple(each for each in self.map.guessed if each != "request_id"))
            self.doubts.append(f"{column!r} is not taken as request_id: {n_names:,} names in {len(cells):,} rows "
                               f"(--column-map request_id={column} takes it and refuses a name's second row)")

    def _find_commas(self, rows: TextRows) -> None:
        """Find columns with a decimal comma, by their cells or by those of other columns."""
        of = self.map.columns
        cells_of = {column: rows.text(column) for column in (*self.map.numbers, *self.map.resources, *(
            of[name] for name in ("cpu_cores", "mem_gib", "gpu", "duration", "requested_s") if name in of))
            if column not in self.commas}
        is_decimal = {column: is_comma_decimal(cells) for column, cells in cells_of.items()}
        self.commas |= is_decimal
        is_comma_file = any(self.commas.values())
        is_likely = is_comma_file or (rows.separator == ";" and not any(map(has_decimal_points, cells_of.values())))
        why = "other columns have decimal commas" if is_comma_file else "semicolons part the columns"
        large = {of[ours] for ours, unit in (("cpu_cores", "cores"), ("mem_gib", "GiB"), ("mem_gib", "TiB"))
                 if ours in of and (self.map.unit_of(ours) or ("cores" if ours == "cpu_cores" else "")) == unit}
        for column, cells in cells_of.items():
            if is_decimal[column] or not may_be_dotted(cells):
                continue
            dotted = next(str(cell) for cell in cells if "." in str(cell))
            self.commas[column] = has_two_points(cells) or (is_likely and column not in large)
            plain = dotted.replace(".", "")
            if not self.commas[column]:
                self.doubts.append(f"{column}: points taken as decimal points, {dotted!r} is a little more than "
                                   f"{dotted.partition('.')[0]}; if it is {plain}, write it so")
            else:
                reason = "a number has two" if has_two_points(cells) else why
                self.doubts.append(f"{column}: points taken as those of thousands, {dotted!r} is {plain} ({reason}); "
                                   "if they are decimal points, write another number of digits after them")

    def _count_ended(self, rows: TextRows, is_running: np.ndarray) -> None:
        """Count evidence that these rows (bool, shape (n,)) do not run any more."""
        of = self.map.columns
        if "status" in of:
            cells = rows.text(of["status"])[is_running]
            self.ended.update(str(cell) for cell in cells if str(cell).casefold().partition(" ")[0] in ENDED)
        column = duration_named(rows.names)
        if "duration" not in of and column is not None:
            durations = durations_s(rows.text(column)[is_running], words=_NO_DURATION)
            self.n_with_duration += int((durations.values > 0).sum())

    def _form(self, rows: TextRows, meaning: str, column: str) -> StampForm | None:
        try:
            return stamp_form(column, rows.text(column), self.map.units.get(column))
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error

    def _find_unit(self, cells: np.ndarray) -> None:
        """Set the unit of plain numbers of memory: from the name, else by their size."""
        unit = self.map.unit_of("mem_gib")
        if unit is None:
            values = numbers(cells, is_comma=self.commas[self.map.columns["mem_gib"]]).values
            values = values[values > 0]
            if not len(values):
                return
            middle = float(np.median(values))
            unit = "B" if middle >= 1e7 else "KiB" if middle >= 1e6 else "MiB" if middle >= 100 else "GiB"
            self.doubts.append(f"{self.map.columns['mem_gib']}: plain numbers taken as {unit}, by their size (set it "
                               "under [units])")
        self.units["mem_gib"] = unit

    def _find_cpu_unit(self, cells: np.ndarray) -> None:
        if "cpu_cores" in self.units:
            return
        unit = self.map.unit_of("cpu_cores")
        self.units["cpu_cores"] = unit or "cores"
        column = self.map.columns["cpu_cores"]
        values = numbers(cells, is_comma=self.commas[column]).values
        values = values[values > 0]
        if unit is None and len(values) and values.min() >= _LEAST_MILLICORES:
            self.doubts.append(f"{column}: plain numbers from {values.min():,.0f} to {values.max():,.0f} taken as "
                               "cores look like millicores (set it under [units])")

    def _times(self, rows: TextRows, meaning: str) -> Cells:
        column = self.map.columns[meaning]
        form = self.forms.get(column)
        cells = rows.text(column)
        if form is None:
            nothing = np.full(len(cells), np.nan)
            return Cells(nothing, np.ones(len(cells), bool), np.zeros(len(cells), bool))
        start = self.map.columns["arrival"]
        of_start = self.forms.get(start)  # None before the first arrival: all rows are refused
        if of_start is not None and form.is_dated != of_start.is_dated:
            raise ValueError(f"{self.path}: {column} must be on the same clock as {start}, got {form} and {of_start}")
        stamps = stamps_s(cells, form, self.map.timezone)
        if form.kind == "iso":
            self.local[column] = self.local.get(column, LocalTimes()) + local_times(cells, self.map.timezone)
        is_bad = stamps.is_bad
        if not form.is_dated:
            is_bad = is_bad | (np.abs(stamps.values) > MAX_TIME_S)
        rows.refuse(f"{column} must be a time ({form})", is_bad, column)
        return stamps

    def _ends(self, rows: TextRows, arrival: Cells) -> np.ndarray:
        of = self.map.columns
        ends = np.full(len(rows.raw), np.nan)
        if "departure" in of:
            stamps = self._times(rows, "departure")
            ends = np.where((stamps.values == 0) & (arrival.values > 0), np.nan, stamps.values)
        if "duration" in of:
            column = of["duration"]
            spans = durations_s(rows.text(column), unit_s=self._time_unit_s("duration"), is_comma=self.commas[column],
                                words=_NO_DURATION)
            is_open = np.isnan(ends)
            is_bad = spans.is_bad | (spans.values > MAX_TIME_S)
            rows.refuse(f"{column} must be {A_DURATION}", is_bad & is_open, column)
            if "departure" in of:
                rows.repair(f"{of['departure']} missing: {of['arrival']} + {column} taken",
                            is_open & ~np.isnan(spans.values))
            ends = np.where(is_open, arrival.values + spans.values, ends)
        return ends

    def _time_unit_s(self, meaning: str) -> float:
        return TIME_UNITS[self.map.unit_of(meaning) or "s"]

    def _amounts(self, rows: TextRows, meaning: str) -> np.ndarray:
        column = self.map.columns[meaning]
        cells, is_comma = rows.text(column), self.commas[column]
        if meaning == "cpu_cores":
            sizes = cpu_cores(cells, unit=self.units["cpu_cores"], is_comma=is_comma)
            words = "a number of cores from 0 to 1e9"
        elif meaning == "mem_gib":
            sizes = sizes_gib(cells, unit=self.units.get("mem_gib", "GiB"), is_comma=is_comma)
            words = "a size of memory from 0 to 1e9 GiB"
        else:
            sizes, words = numbers(cells, is_comma=is_comma), "a number from 0 to 1e9"
        rows.refuse(f"{column} must be {words}", sizes.is_bad | (sizes.values > MAX_SIZE) | (sizes.values < 0), column)
        rows.repair(f"{column} missing: 0 taken", sizes.is_missing)
        return np.where(sizes.is_missing, 0.0, sizes.values)

    def _plain(self, rows: TextRows, column: str, *, is_size: bool) -> np.ndarray:
        amounts = numbers(rows.text(column), is_comma=self.commas[column])
        is_bad = amounts.is_bad
        if is_size:
            is_bad = is_bad | (amounts.values < 0) | (amounts.values > MAX_SIZE)
            rows.repair(f"{column} missing: 0 taken", amounts.is_missing)
        rows.refuse(f"{column} must be a number{' from 0 to 1e9' if is_size else ''}", is_bad, column)
        return np.where(amounts.is_missing, 0.0, amounts.values) if is_size else amounts.values

    def _names(self, rows: TextRows, column: str) -> np.ndarray:
        cells = rows.text(column)
        return np.where(is_missing(cells, _NO_NAME), "missing", cells)

    def _ids(self, rows: TextRows) -> np.ndarray:
        column = self.map.columns.get("request_id")
        lines = np.array([f"line-{line}" for line in rows.line.tolist()], object)
        if column is None:
            return lines
        cells = rows.text(column)
        is_none = is_missing(cells)
        rows.repair(f"{column} missing: named by its line", is_none)
        return np.where(is_none, lines, cells)

    def _refuse_what_never_ran(self, rows: TextRows) -> None:
        of = self.map.columns
        cells = rows.text(of["status"])
        words = np.array([" ".join(str(cell).casefold().split()[:1]) for cell in cells], object)
        never = NEVER_RAN | {word.casefold() for word in self.map.never_ran}
        is_never = np.isin(words.astype(str), sorted(never)) | np.isin(
            np.array([str(cell).casefold() for cell in cells]), sorted(never))
        is_failed = np.isin(words.astype(str), sorted(FAILED)) & is_missing(rows.text(of["arrival"]))
        rows.refuse(f"never ran, by {of['status']}", is_never | is_failed, of["status"])

    def unread(self) -> list[str]:
        read = self.map.read()
        return [name for name in self.names if name and name not in read]

    def understood(self) -> list[dict[str, Any]]:
        """For each column: its meaning, the interpretation of its cells, and examples."""
        of = self.map.columns
        roles = {column: ours for ours, column in of.items()}
        for option, key in LISTED.items():
            roles |= dict.fromkeys(getattr(self.map, key), option.replace("_", " "))
        rows = []
        for column in self.map.read():
            kind = "name"
            if column in self.forms:
                kind = str(self.forms[column])
            elif roles[column] in ("cpu_cores", "mem_gib"):
                kind = self.units.get(roles[column], "sizes with units")
            elif roles[column] in ("duration", "requested_s"):
                kind = f"duration, plain numbers in {self.map.unit_of(roles[column]) or 's'}"
            elif roles[column] in ("number", "resource", "gpu"):
                kind = "number"
            if column in self.local and self.local[column].n_local:
                kind += f", {self.local[column].n_local:,} without a zone: {self.map.timezone or 'UTC'}"
            rows.append({"column": column, "role": roles[column], "kind": kind,
                         "examples": self.examples.get(column, [])})
        return rows
