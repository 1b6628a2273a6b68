"""The requests of a trace from a DataFrame with a row for each request: checked times, sizes and names.

Also the normal form of column names, and names that are known only at a request's end.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

FIRST_STAMP_S, LAST_STAMP_S = 5e8, 4.2e9
"""Plausible Unix seconds (1985 to 2103), for all readers: a date outside means a missing time;
smaller numbers are on another clock. Pods have a later first second."""
MAX_SPAN_S = 3.2e9
"""About 100 years."""
_MOST_GIB = 1_024.0
"""A larger median of memory suggests another unit."""


def frame_requests(frame: pd.DataFrame, *, arrival: str, departure: str | None, duration: str | None,
                   request_id: str | None, amounts: dict[str, str | float], kept: Sequence[str],
                   horizon: Any, roles: Sequence[str] = ()) -> tuple[pd.DataFrame, int, int | None]:
    """The requests' table, the horizon in seconds, and the Unix second of second 0 if the columns have dates.

    amounts: resource -> column or one number for all. kept: columns that are copied with their names; roles: those of
    them that a model may see. Times are datetimes (UTC without a zone), Unix stamps or seconds on the frame's clock;
    second 0 is the first datetime or stamp. Errors have the column, the rule, the value and the row; a UserWarning
    names a column with a role whose name suggests that it is known only at a request's end.

    >>> frame = pd.DataFrame({"start": pd.to_datetime(["2026-11-01 00:00", "2026-11-01 01:00"]), "end": pd.NaT})
    >>> requests, horizon_s, start_unix_s = frame_requests(
    ...     frame, arrival="start", departure="end", duration=None, request_id=None, amounts={"cpu_cores": 2.0},
    ...     kept=(), horizon=pd.Timestamp("2026-11-02"))
    >>> requests["arrival_s"].tolist(), horizon_s, start_unix_s
    ([0, 3600], 86400, 1793491200)
    """
    if departure is not None and duration is not None:
        raise ValueError(f"departure and duration must not both be given, got {departure!r} and {duration!r}")
    end_role = next((name for name in (departure, duration) if name is not None and name in roles), None)
    if end_role is not None:
        raise ValueError(f"owners, categories and numbers must be known when a request begins, got {end_role!r}, which "
                         "says when it ends")
    _check_meanings(roles, kept)
    if frame.empty:
        raise ValueError("the frame must hold at least one row, got none")
    start, is_dated = _times(frame, "arrival", arrival)
    if np.isnan(start).all():
        raise ValueError(f"{arrival} must hold a time in one row at least, got none")
    end = np.full(len(frame), np.nan)
    if departure is not None:
        end, is_end_dated = _times(frame, "departure", departure)
        if is_end_dated != is_dated and not np.isnan(end).all():
            raise ValueError(f"{departure} must be on the same clock as {arrival}: datetimes (or Unix stamps) or "
                             "seconds from a start of their own both, got "
                             f"{frame[departure].dtype} and {frame[arrival].dtype}")
        zones = {_zone_kind(frame[name]) for name in (arrival, departure)} - {None}
        if len(zones) > 1:
            raise ValueError(f"{departure} must have time zones where {arrival} has them, and none where it has none "
                             f"(use tz_localize), got {frame[departure].dtype} and {frame[arrival].dtype}")
    elif duration is not None:
        end = start + _spans(frame, duration)
    until = departure or duration or ""
    _refuse_row(frame, until, end < start, f"at or after {arrival}" if departure else "at least 0")
    origin = float(np.floor(np.nanmin(start))) if is_dated else 0.0
    last = float(np.nanmax(np.concatenate([start, end])))
    horizon_at = last if horizon is None else _moment(horizon, is_dated, _zone_kind(frame[arrival]) is True)
    for name, at in ((until, end), (arrival, start)):
        is_late = np.floor(at) > np.floor(horizon_at)
        if is_late.any():
            row = int(np.flatnonzero(is_late)[0])
            raise ValueError(f"horizon must be the end of observation, at or after every {arrival} and "
                             f"{until or 'end'}, got {horizon!r}; {name} is {frame[name].iloc[row]!s} in row "
                             f"{frame.index[row]!r}")
    if np.floor(horizon_at) <= origin:
        shown = frame[arrival].iloc[int(np.nanargmax(start))] if horizon is None else horizon
        raise ValueError(f"horizon must lie after the first {arrival}, got {shown!r}")
    ids = frame[_column_in(frame, "request_id", request_id)] if request_id is not None else pd.Series(frame.index)
    if ids.isna().any() or ids.duplicated().any():
        bad = ids[ids.isna() | ids.duplicated()].iloc[0]
        raise ValueError(f"{request_id or 'the index'} must be present and unique in each row, got {bad!r}")
    for name in filter(is_end_name, roles):
        warnings.warn(f"the column {name!r} sounds like what is known only at a request's end: a model that sees it "
                      "knows the answer; name it in known_at_end to keep it from models", stacklevel=3)
    columns: dict[str, Any] = {"request_id": ids.to_numpy()}
    for name, at in (("arrival_s", start), ("departure_s", end)):
        columns[name] = pd.Series(np.floor(at) - origin, dtype="Float64").mask(np.isnan(at)).astype("Int64").array
    for name, source in amounts.items():
        columns[name] = _amounts(frame, name, source) if isinstance(source, str) else float(source)
    for name in kept:
        columns[name] = frame[_column_in(frame, "a role", name)].array
    return pd.DataFrame(columns), int(np.floor(horizon_at) - origin), int(origin) if is_dated else None


def _check_meanings(roles: Sequence[str], kept: Sequence[str]) -> None:
    """ValueError for a column with two roles, or with a role and without."""
    twice = [name for name in dict.fromkeys(kept) if kept.count(name) > 1]
    if twice:
        what = "one role" if roles.count(twice[0]) > 1 else "a role or be known only at the end"
        raise ValueError(f"a column must have {what}, got {twice[0]!r} twice")


def _column_in(frame: pd.DataFrame, what: str, column: str) -> str:
    if column not in frame.columns:
        raise ValueError(f"{what} must be a column of the frame, one of {', '.join(map(str, frame.columns))}; got "
                         f"{column!r}")
    if list(frame.columns).count(column) > 1:
        raise ValueError(f"{what} must be a column that stands once in the frame, got {column!r} twice")
    return column


def _times(frame: pd.DataFrame, what: str, column: str) -> tuple[np.ndarray, bool]:
    """Seconds as float64, NaN where missing, and whether they are Unix seconds."""
    values = frame[_column_in(frame, what, column)]
    if values.dtype == object:
        there = values.dropna()
        if len(there) and all(isinstance(value, datetime) for value in there):
            if len({value.tzinfo is None for value in there}) > 1:
                raise ValueError(f"{column} must hold datetimes with a time zone or without one, got both")
            values = pd.to_datetime(values, utc=True)
    if pd.api.types.is_datetime64_any_dtype(values):
        zoned = values if values.dt.tz is not None else values.dt.tz_localize("UTC")
        micros = zoned.dt.tz_convert("UTC").dt.tz_localize(None).dt.as_unit("us")
        return np.where(values.isna(), np.nan, micros.astype("int64").to_numpy() / 1e6), True
    if values.isna().all():
        return np.full(len(frame), np.nan), False
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        first = values.dropna().iloc[0]
        raise ValueError(f"{column} must hold datetimes or seconds, got {first!r} (texts: use pandas.to_datetime)")
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    unit = _unit(numbers)
    if unit:
        return numbers / unit, True
    if unit is None:
        first = f"{np.nanmin(numbers):.17g} to {np.nanmax(numbers):.17g}"
        raise ValueError(f"{column} must hold Unix stamps in one unit (s, ms, us or ns, of 1985 to 2103) or seconds "
                         f"below {FIRST_STAMP_S:.0e} from a start of their own, got {first} (use pandas.to_datetime)")
    return numbers, False


def _unit(values: np.ndarray) -> float | None:
    """Units per second, if all numbers are Unix stamps in one unit; 0 if none is one; None otherwise."""
    there = values[np.isfinite(values) & (values != 0)]
    if (np.abs(there) < FIRST_STAMP_S).all() and np.isfinite(values[~np.isnan(values)]).all():
        return 0.0
    return next((unit for unit in (1.0, 1e3, 1e6, 1e9)
                 if ((values >= FIRST_STAMP_S * unit) & (values < LAST_STAMP_S * unit) | np.isnan(values)).all()), None)


def _zone_kind(values: pd.Series) -> bool | None:
    """Whether datetimes have a zone; None for other types."""
    if pd.api.types.is_datetime64_any_dtype(values):
        return values.dt.tz is not None if values.notna().any() else None
    first = next((value for value in values if isinstance(value, datetime) and not pd.isna(value)), None)
    return None if first is None else first.tzinfo is not None


def _spans(frame: pd.DataFrame, column: str) -> np.ndarray:
    values = frame[_column_in(frame, "duration", column)]
    if pd.api.types.is_timedelta64_dtype(values):
        return values.dt.total_seconds().to_numpy(np.float64)
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        raise ValueError(f"{column} must hold timedeltas or seconds, got {values.dropna().iloc[0]!r}")
    return _finite(frame, column, values)


def _finite(frame: pd.DataFrame, column: str, values: pd.Series) -> np.ndarray:
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    _refuse_row(frame, column, np.abs(numbers) > MAX_SPAN_S, f"a number of seconds up to {MAX_SPAN_S:.1e}, 100 years")
    return numbers


def _amounts(frame: pd.DataFrame, what: str, column: str) -> np.ndarray:
    values = frame[_column_in(frame, what, column)]
    if values.dtype == object:
        values = _plain_numbers(values)
    if not pd.api.types.is_numeric_dtype(values):
        first = next(value for value in values if not _is_number(value))
        raise ValueError(f"{column} must hold numbers of {what}, got {first!r} of type {type(first).__name__} "
                         "(texts: use pandas.to_numeric)")
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    _refuse_row(frame, column, ~(np.isfinite(numbers) & (numbers >= 0)), "finite and at least 0")
    if what == "mem_gib" and np.median(numbers) > _MOST_GIB:
        warnings.warn(f"the median of {column!r} is {np.median(numbers):,.0f} GiB: is it in MiB? Divide it by 1024",
                      stacklevel=4)
    return numbers


def _plain_numbers(values: pd.Series) -> pd.Series:
    """Numbers as objects, from a database driver, as floats; other columns unchanged."""
    is_number = [value is None or _is_number(value) for value in values]
    return values.astype("float64") if all(is_number) else values


def _is_number(value: Any) -> bool:
    return isinstance(value, Number | Decimal) and not isinstance(value, bool)


def _refuse_row(frame: pd.DataFrame, column: str, is_bad: np.ndarray, rule: str) -> None:
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise ValueError(f"{column} must be {rule}, got {frame[column].iloc[row]!s} in row {frame.index[row]!r}")


def _moment(horizon: Any, is_dated: bool, is_zoned: bool) -> float:
    is_text = isinstance(horizon, str | datetime | np.datetime64)
    unit = None if is_text else _unit(np.array([horizon], float))
    if not (is_text or unit) if is_dated else is_text:
        words = "a datetime or a Unix stamp" if is_dated else "a number of seconds"
        raise ValueError(f"horizon must be {words}, as the arrivals are, got {horizon!r}")
    if not is_text:
        if not is_dated and unit != 0:
            raise ValueError(f"horizon must be a number of seconds below {FIRST_STAMP_S:.0e}, on the arrivals' clock, "
                             f"got {horizon!r}")
        return float(horizon) / (unit or 1.0)
    try:
        stamp = pd.Timestamp(horizon)
    except ValueError:
        raise ValueError(f"horizon must be a datetime, got {horizon!r}") from None
    if pd.isna(stamp):
        raise ValueError(f"horizon must be a datetime, got {horizon!r}")
    if is_zoned and stamp.tzinfo is None:
        raise ValueError(f"horizon must have a time zone, as the arrivals have, got {horizon!r}")
    return (stamp if stamp.tzinfo is not None else stamp.tz_localize("UTC")).timestamp()


_AT_END = re.compile(
    r"(^|_)(end|ended|finish(ed)?|deleted|deletion|terminat(ed|ion)|stop(ped)?|complet(ed|ion)|departure|exit|exitcode|"
    r"return_?code|rc|signal|result|outcome|reason|status|state|phase|error|fail(ed|ure)?|used|usage|utilization|"
    r"utilisation|elapsed|duration|lifetime|runtime|run_time|walltime|cputime|cpu_time|user_?cpu|system_?cpu|total_?cpu|"
    r"max_?rss|ave_?rss|max_?vm_?size|ave_?cpu|max_cpu|mean_cpu|avg_cpu|p95\w*|energy|consumed\w*|disk_?read|"
    r"disk_?write|restarts?|preempted|evicted|cost)(_|$)")


def plain_name(column: str) -> str:
    """A column's name in lower case, words separated by underscores.

    >>> plain_name("VM Id"), plain_name("startTime"), plain_name("CPU-Request (m)"), plain_name("memMiB")
    ('vm_id', 'start_time', 'cpu_request_m', 'mem_mib')
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", re.sub("([KMGT])iB", r"_\1ib", column))
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def is_end_name(column: str) -> bool:
    """Whether a column's name suggests that it is known only at a request's end.

    >>> is_end_name("exit_code"), is_end_name("MaxRSS"), is_end_name("zone"), is_end_name("used_cpu_s")
    (True, True, False, True)
    """
    return _AT_END.search(plain_name(column)) is not None
