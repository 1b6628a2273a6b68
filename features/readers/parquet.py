"""Reads our format, a folder of `Trace.save`.

And a folder with a new Parquet file or folder each day.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import cut_at, horizon_of, since_start
from sojourn.features.readers._parts import (
    Declaration,
    KeptParts,
    PartLabel,
    check_drift,
    checked_part,
    held_parts,
    joined_rows,
    save_parts,
    shrunk,
    trace_of_parts,
)
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Trace


def read_parquet(path: str | Path, *, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace in the folder `path`, and a report in which every request is kept.

    horizon_s: end the trace there, at most at its end: running requests are censored, later ones refused. The folder
    was checked when it was written; a request that breaks a rule now means a damaged folder.

    Raises FileNotFoundError if the folder is no trace, and ValueError if it breaks a rule of Trace.

    >>> import tempfile
    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [30],
    ...                       "cpu_cores": [2.0], "mem_gib": [8.0]})
    >>> folder = Trace(table, horizon_s=100).save(Path(tempfile.mkdtemp()) / "trace")
    >>> trace, report = read_parquet(folder)
    >>> len(trace), report.n_kept, report.n_refused
    (1, 1, 0)
    """
    try:
        trace = Trace.load(path)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} must be a trace folder, got {type(error).__name__}: {error}") from error
    ledger = ReadLedger()
    ledger.read(len(trace))
    if horizon_s is not None:
        since_s = since_start(horizon_s, trace.begin_s if trace.is_dated else None, trace.span_s)
        if since_s is None or not 0 < since_s <= trace.span_s:
            raise ValueError(f"horizon_s must be above 0 and at most the trace's own, {trace.span_s} s after its "
                             f"begin, got {horizon_s!r}")
        horizon_s = trace.begin_s + since_s
        horizon = horizon_of(trace.end_s(), horizon_s)
        requests = cut_at(trace.requests, horizon, ledger, "requests.parquet")
        usage = trace.usage
        if usage is not None:
            usage = usage[(usage["time_s"] <= horizon_s) & usage["request_id"].isin(requests["request_id"])]
        trace = replace(trace, requests=requests, horizon_s=horizon_s, usage=usage)
    return trace, ledger.report(len(trace))


PARQUET = Reader(
    read_parquet,
    path="folder written by `Trace.save`",
)

DECLARATION = "trace.toml"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_PART = re.compile(rf"(?P<file>{_DAY})\.parquet|(?:day=)?(?P<folder>{_DAY})/[^/]+\.parquet")


def read_parquet_days(path: str | Path, *, horizon_s: int | None = None, kept: KeptParts | None = None,
                      is_shrunk_allowed: bool = False) -> tuple[Trace, ReadReport]:
    """The trace of a folder of `YYYY-MM-DD.parquet` or `day=YYYY-MM-DD/*.parquet`, described by its `trace.toml`.

    A day is the one on which its rows were written, UTC: a row of a later day may end a request of an earlier one or
    correct it, and then counts. Files with `_` or `.` as first character are ignored. kept: the file of parts from
    earlier reads; unchanged files are not read again. The trace is the same. is_shrunk_allowed: accept a day that is
    missing, or has fewer rows than at the last read.

    Raises ValueError if a file is no part, or a column drifts, with the day of the drift.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "trace.toml").write_text('origin = 2026-11-01\\nowners = ["user"]\\n')
    >>> rows = {"request_id": ["a"], "arrival": ["2026-11-01 00:01"], "departure": [None], "cpu_cores": [2.0],
    ...         "mem_gib": [8.0], "user": ["ann"]}
    >>> pq.write_table(pa.table(rows), folder / "2026-11-01.parquet")
    >>> pq.write_table(pa.table({**rows, "departure": ["2026-11-02 06:00"]}), folder / "2026-11-02.parquet")
    >>> trace, report = read_parquet_days(folder)
    >>> trace.requests[["request_id", "arrival_s", "departure_s"]].values.tolist()
    [['a', 1793491260, 1793599200]]
    >>> report.notes[1]
    '1 row gave the end of a request that an earlier row began'
    """
    folder = Path(path)
    file = folder / DECLARATION
    if not file.is_file():
        raise FileNotFoundError(f"a folder of days must hold {DECLARATION}, got none in {str(folder)!r}")
    declaration = Declaration.read(file)
    kept_parts, labels, _ = held_parts(kept)
    files = _files(folder)
    if not is_shrunk_allowed:
        _check_days_are_there({label.day for label in labels}, {day for day, _ in files.values()}, folder)
    by_key = {(part.label.name, part.label.key): part for part in kept_parts}
    parts, n_read = [], 0
    for name, (day, each) in files.items():
        content = each.read_bytes()
        key = hashlib.sha256(hashlib.sha256(content).digest() + declaration.hash.encode()).hexdigest()
        part = by_key.get((name, key))
        if part is None:
            part = checked_part(day, name, key, _table(each, content), declaration)
            n_read += 1
        parts.append(part)
    if not is_shrunk_allowed:
        _check_rows_are_there(_rows_by_day(labels), _rows_by_day([part.label for part in parts]), folder)
    check_drift([part.label for part in parts], declaration)
    table = joined_rows(parts)
    notes = _missing_days([part.label.day for part in parts])
    if kept is not None:
        n_kept = len(parts) - n_read
        notes.append(f"{n_read:,} of {len(parts):,} parts read" + (f", {n_kept:,} kept from earlier reads" if n_kept
                                                                  else ""))
    result = trace_of_parts(str(folder), parts, table, declaration, horizon_s, notes)
    if kept is not None and (n_read or len(parts) != len(kept_parts)):
        save_parts(kept, parts, table, {})
    return result


def _files(folder: Path) -> dict[str, tuple[str, Path]]:
    """The parts in the order of days and names: name -> day and file."""
    files = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name == DECLARATION or any(step.startswith(("_", ".")) for step in name.split("/")):
            continue
        match = _PART.fullmatch(name)
        day = None if match is None else match["file"] or match["folder"]
        try:
            date.fromisoformat(day or "")
        except ValueError:
            raise ValueError(f"a part must be named YYYY-MM-DD.parquet or day=YYYY-MM-DD/NAME.parquet, got {name!r} in "
                             f"{str(folder)!r}") from None
        if not path.is_file():  # a pipe would block for ever
            raise ValueError(f"a part must be a file, got {name!r} in {str(folder)!r}")
        assert day is not None
        files[name] = (day, path)
    if not files:
        raise ValueError(f"a folder of days must hold a part such as 2026-11-01.parquet, got none in {str(folder)!r}")
    return dict(sorted(files.items(), key=lambda each: (each[1][0], each[0])))


def _table(file: Path, content: bytes) -> pa.Table:
    try:
        table = pq.read_table(pa.BufferReader(content))
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{file} must be a Parquet file, got {error}") from error
    return table.combine_chunks()


def _missing_days(days: Sequence[str]) -> list[str]:
    """A line on days without a part between the first and the last one.

    >>> _missing_days(["2026-01-01", "2026-01-02", "2026-01-05"])
    ['check: 2 days between 2026-01-01 and 2026-01-05 have no part, the first after 2026-01-02']
    """
    numbers = sorted({date.fromisoformat(day).toordinal() for day in days})
    n_missing = numbers[-1] - numbers[0] + 1 - len(numbers)
    if not n_missing:
        return []
    before = next(number for number, after in pairwise(numbers) if after - number > 1)
    return [f"check: {n_missing:,} day{'s' if n_missing > 1 else ''} between {date.fromordinal(numbers[0])} and "
            f"{date.fromordinal(numbers[-1])} have no part, the first after {date.fromordinal(before)}"]


def _rows_by_day(labels: Sequence[PartLabel]) -> dict[str, int]:
    days: dict[str, int] = {}
    for label in labels:
        days[label.day] = days.get(label.day, 0) + label.n_rows
    return days


def _check_days_are_there(before: set[str], now: set[str], folder: Path) -> None:
    missing = sorted(before - now)
    if missing:
        more = f" and {len(missing) - 1} more days" if len(missing) > 1 else ""
        raise shrunk(f"{missing[0]}{more} gone from {str(folder)!r}")


def _check_rows_are_there(before: dict[str, int], now: dict[str, int], folder: Path) -> None:
    for day, n_before in sorted(before.items()):
        if now.get(day, 0) < n_before:
            raise shrunk(f"{now.get(day, 0):,} rows on {day}, which had {n_before:,}, in {str(folder)!r}")


PARQUET_DAYS = Reader(
    read_parquet_days,
    path="folder of `YYYY-MM-DD.parquet` or `day=YYYY-MM-DD/*.parquet` with a `trace.toml`",
    arrival="`arrival`",
    departure="`departure`; none where missing, or after its part's day",
    owners="as declared",
    categories="as declared",
    numbers="as declared",
    no_role="`known_at_end` as declared, `submit_s`",
    is_growing=True,
)
