"""Cells of text as moments: ISO 8601 with and without zones, Unix stamps of any unit, or another clock.

`chosen_times` resolves local times of a repeated hour by the duration and the submission of a run.
"""
# pyarrow.compute makes its functions when it is imported
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.features.frame_requests import FIRST_STAMP_S, LAST_STAMP_S
from sojourn.features.readers._cells import NO_VALUE, TIME_UNITS, Cells, is_missing, numbers, texts

CLOCK, ISO = "clock", "iso"
_YEAR_10000_S = 253_402_300_800
_LARGEST = 1e19
_UNITS = MappingProxyType({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
_WORDS = MappingProxyType({
    ISO: "ISO 8601", "s": "Unix seconds", "ms": "Unix milliseconds", "us": "Unix microseconds",
    "ns": "Unix nanoseconds", CLOCK: "seconds on its own clock"})  # fmt: skip
_KNOWN_SHARE, _MAIN_SHARE = 0.5, 0.8
_NO_TIME = NO_VALUE | {"never", "-1", "not_set", "0000-00-00 00:00:00", "0000-00-00"}
_MOMENT = (r"^(?P<y>[0-9]{4})[-/](?P<mo>[0-9]{2})[-/](?P<d>[0-9]{2})"
           r"(?:[t ] *(?P<h>[0-9]{1,2}):(?P<mi>[0-9]{2})(?::(?P<s>[0-9]{2}(?:[.,][0-9]+)?))?"
           r" ?(?P<z>z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?(?: ?(?:utc|gmt))?)?)?$")
_BASIC = r"^([0-9]{4})([0-9]{2})([0-9]{2})t([0-9]{2})([0-9]{2})([0-9]{2}(?:[.,][0-9]+)?)(z|[+-][0-9:]+)?$"
_DAYS_OF = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True, slots=True)
class StampForm:
    """The form of a column's times.

    kind: `iso`, `clock` (another clock), or the unit of Unix stamps. unit_s: of numbers, seconds.
    """

    kind: str
    unit_s: float = 1.0

    @property
    def is_dated(self) -> bool:
        """Whether the column has dates."""
        return self.kind != CLOCK

    def __str__(self) -> str:
        if self.kind == CLOCK and self.unit_s != 1.0:
            unit = next(name for name, unit_s in TIME_UNITS.items() if unit_s == self.unit_s)
            return f"numbers in {unit} on its own clock"
        return _WORDS[self.kind]


def stamp_form(name: str, text: Sequence[str] | np.ndarray, unit: str | None = None) -> StampForm | None:
    """The form of the times in column `name`, from all cells of its first block; None without values.

    unit: a key of TIME_UNITS: numbers too small for Unix stamps in it are on another clock, in that
    unit. `stamps_s` refuses a few cells in another form. ValueError if more than a fifth are (two
    units, or texts and numbers), if a number is ambiguous, or if most cells are no time.

    >>> str(stamp_form("start", ["2026-01-31 12:00", "", "2026-02-01T00:00:00Z"]))
    'ISO 8601'
    >>> str(stamp_form("start", ["1767225600000"])), str(stamp_form("start", ["0", "600"]))
    ('Unix milliseconds', 'seconds on its own clock')
    >>> stamp_form("start", ["1767225600", "1767225600000"])
    Traceback (most recent call last):
    ValueError: start must be times in one form, got Unix seconds ('1767225600') and Unix milliseconds ('1767225600000')
    """
    plain = np.asarray(text, object)
    there = plain[~is_missing(plain, _NO_TIME)]
    is_zero = numbers(there, largest=_LARGEST).values == 0
    if is_zero.all():
        return StampForm(CLOCK, TIME_UNITS[unit or "s"]) if len(there) else None
    there = there[~is_zero]
    values = numbers(there, largest=_LARGEST).values
    of = np.full(len(there), "", object)
    of[~np.isnan(_moments(there, None)[0])] = ISO
    units = [name for name in _UNITS if unit in (None, name)]
    of[(np.abs(values) < FIRST_STAMP_S) if unit is None else ~np.isnan(values)] = CLOCK
    for unit_name in units:
        of[(values * _UNITS[unit_name] >= FIRST_STAMP_S) & (values * _UNITS[unit_name] < LAST_STAMP_S)] = unit_name
    counts = {kind: int((of == kind).sum()) for kind in _WORDS if (of == kind).any()}
    n_known = sum(counts.values())
    if n_known < _KNOWN_SHARE * len(there):
        raise ValueError(f"{name} must be times (ISO 8601, year first, or numbers of Unix time or seconds), got "
                         f"{str(there[of == ''][0])[:60]!r} (a date with the day or month first is not read: write it "
                         "as 2026-01-31 12:00:00)")
    main = max(counts, key=lambda kind: counts[kind])
    if counts[main] < _MAIN_SHARE * n_known:
        shown = [f"{_WORDS[kind]} ({str(there[of == kind][0])[:40]!r})" for kind in counts]
        raise ValueError(f"{name} must be times in one form, got {' and '.join(shown)}")
    if main == CLOCK:
        _refuse_other_numbers(name, there[of == CLOCK], values[of == CLOCK], unit)
    return StampForm(main, TIME_UNITS[unit or "s"] if main == CLOCK else _UNITS.get(main, 1.0))


def stamps_s(text: Sequence[str] | np.ndarray, form: StampForm, timezone: str | None = None) -> Cells:
    """Times as seconds: Unix time, or on the column's clock.

    timezone: IANA name for cells without a zone; None = UTC. In a repeated hour it is the first time; a skipped hour
    moves forward. Missing: words for `no value`, -1, and a date before FIRST_STAMP_S or from LAST_STAMP_S on, which
    means "none" in databases and programs: Go's year 1, 1970 in any zone, 9999. Bad: another form than `form`, an
    impossible date, a Unix stamp of another unit.

    >>> iso = StampForm("iso")
    >>> stamps_s(["1990-01-02 00:00", "1990-01-02T00:00:00+02:00", "9999-12-31", "31.12.2026"], iso).values.tolist()
    [631238400.0, 631231200.0, nan, nan]
    >>> stamps_s(["0001-01-01T00:00:00Z", "1970-01-01 08:00"], iso).is_missing.tolist()
    [True, True]
    >>> stamps_s(["2026-01-01 00:00:00"], iso, "Europe/Berlin").values.tolist()
    [1767222000.0]
    >>> cells = stamps_s(["1767225600500", "0", "1767225600"], StampForm("ms", 1e-3))
    >>> cells.values.tolist(), cells.is_missing.tolist(), cells.is_bad.tolist()
    ([1767225600.5, nan, nan], [False, True, False], [False, False, True])
    """
    plain = np.asarray(text, object)
    missing = is_missing(plain, _NO_TIME)
    if form.kind == ISO:
        values, _ = _moments(plain, timezone)
    else:
        values = numbers(plain, largest=_LARGEST).values * form.unit_s
    if form.is_dated:
        is_none = (values < FIRST_STAMP_S) | (values >= LAST_STAMP_S)
        if form.kind != ISO:
            is_in = ~is_none
            is_none = (values <= 0) | ((values >= LAST_STAMP_S) & (values < _YEAR_10000_S))
            values = np.where(is_in | is_none, values, np.nan)
        missing = missing | is_none
    values = np.where(missing, np.nan, values)
    return Cells(values, missing, np.isnan(values) & ~missing)


def later_times_s(text: Sequence[str] | np.ndarray, first_s: np.ndarray, form: StampForm,
                  timezone: str | None = None) -> np.ndarray:
    """The second time of a cell in a repeated hour, Unix seconds; NaN for all others.

    Shape (n,). first_s: the cells' `stamps_s`, which are the first time.

    >>> cells, form = ["2026-10-25T02:30:00", "2026-10-25T03:30:00"], StampForm("iso")
    >>> later_times_s(cells, stamps_s(cells, form, "Europe/Berlin").values, form, "Europe/Berlin")
    array([1.7928918e+09,           nan])
    """
    later_s = np.full(len(first_s), np.nan)
    idx = np.flatnonzero(~np.isnan(first_s))
    if form.kind != ISO or timezone in (None, "UTC") or not len(idx):
        return later_s
    zone = ZoneInfo(str(timezone))
    whole = np.floor(first_s[idx])
    there = pd.DatetimeIndex(whole.astype("datetime64[s]"), tz="UTC").tz_convert(zone).tz_localize(None)
    again = there.tz_localize(zone, ambiguous=np.zeros(len(there), bool), nonexistent="shift_forward")
    again_s = np.asarray(again.as_unit("s").asi8, float)
    is_twice = again_s > whole
    is_twice[is_twice] = ~_moments(np.asarray(text, object)[idx[is_twice]], None)[1]  # with a zone it is unique
    later_s[idx[is_twice]] = (again_s + first_s[idx] - whole)[is_twice]
    return later_s


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """Number of ISO cells of a column, and of those without a zone, in a repeated hour, and in a skipped hour."""

    n: int = 0
    n_local: int = 0
    n_repeated: int = 0
    n_left_out: int = 0

    def __add__(self, addend: LocalTimes) -> LocalTimes:
        return LocalTimes(self.n + addend.n, self.n_local + addend.n_local, self.n_repeated + addend.n_repeated,
                          self.n_left_out + addend.n_left_out)


def local_times(text: Sequence[str] | np.ndarray, timezone: str | None = None) -> LocalTimes:
    """Counts of cells without a zone, and of the choices of `stamps_s` for them.

    >>> local_times(["2026-01-01 00:00", "2026-01-01T00:00Z", "x"])
    LocalTimes(n=2, n_local=1, n_repeated=0, n_left_out=0)
    >>> local_times(["2026-10-25 02:30", "2026-03-29 02:30"], "Europe/Berlin")
    LocalTimes(n=2, n_local=2, n_repeated=1, n_left_out=1)
    """
    values, has_zone = _moments(np.asarray(text, object), None)
    is_in = (values >= FIRST_STAMP_S) & (values < LAST_STAMP_S)
    local_s = values[is_in & ~has_zone]
    if timezone in (None, "UTC") or not len(local_s):
        return LocalTimes(int(is_in.sum()), len(local_s))
    index = pd.DatetimeIndex(np.floor(local_s).astype("datetime64[s]"))
    first = np.ones(len(index), bool)
    zone = ZoneInfo(str(timezone))
    there = index.tz_localize(zone, ambiguous=first, nonexistent="NaT")
    once = index.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward")
    n_repeated, n_left_out = (int(np.count_nonzero(np.asarray(each.isna(), bool))) for each in (once, there))
    return LocalTimes(int(is_in.sum()), len(local_s), n_repeated, n_left_out)


def checked_timezone(name: str) -> str:
    """The name; ValueError if it is no IANA time zone.

    >>> checked_timezone("CEST")
    Traceback (most recent call last):
    ValueError: timezone must be an IANA name such as UTC or Europe/Berlin, got 'CEST'
    """
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError, TypeError):  # of a name, a folder and no name
        raise ValueError(f"timezone must be an IANA name such as UTC or Europe/Berlin, got {name!r}") from None
    return name


def _refuse_other_numbers(name: str, cells: np.ndarray, values: np.ndarray, unit: str | None) -> None:
    """Refuse small numbers that look like a date, or like a spreadsheet's count of days."""
    whole = values[values == np.floor(values)]
    year, month, day = whole // 10_000, whole // 100 % 100, whole % 100
    is_date = (year >= 1985) & (year <= 2103) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    if unit is None and int(is_date.sum()) >= _MAIN_SHARE * len(values):
        raise ValueError(f"{name} must be times that mean one thing, got {cells[0]!r}, which may be a date: write "
                         f"YYYY-MM-DD, or give units.{name} (s, ms, ...)")
    is_day = (values > 30_000) & (values < 75_000) & (values != np.floor(values))
    if unit is None and int(is_day.sum()) >= _KNOWN_SHARE * len(values):
        raise ValueError(f"{name} must be times that mean one thing, got {cells[0]!r}, which may be a spreadsheet's "
                         f"count of days: write ISO 8601, or give units.{name} (s, h, d, ...)")


def moment(unix_s: float) -> str:
    """A time for a report.

    >>> moment(1_767_225_600)
    '2026-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _moments(text: np.ndarray, timezone: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Unix seconds of ISO cells, NaN where a cell is none; and whether it has a zone. Shapes (n,)."""
    cells = pc.utf8_lower(pc.utf8_trim_whitespace(texts(text)))
    match = pc.extract_regex(cells, _MOMENT)
    if match.null_count:
        basic = pc.replace_substring_regex(cells, _BASIC, r"\1-\2-\3t\4:\5:\6\7")
        match = pc.extract_regex(basic, _MOMENT)
    parts = {name: pc.fill_null(pc.struct_field(match, name), "") for name in ("y", "mo", "d", "h", "mi", "s", "z")}
    year, month, day = (_whole(parts[name]) for name in ("y", "mo", "d"))
    hour, minute = (_whole(parts[name]) for name in ("h", "mi"))
    second = pc.cast(pc.replace_substring(_zero(parts["s"]), ",", "."), pa.float64()).to_numpy(zero_copy_only=False)
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    in_month = _DAYS_OF[np.clip(month, 1, 12) - 1] + (is_leap & (month == 2))
    is_good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= in_month) & (year >= 1)
    is_good &= (hour < 24) & (minute < 60) & (second < 61) & np.asarray(match.is_valid(), bool)
    march_year = year - (month <= 2)  # days since 1970-01-01 of the proleptic Gregorian calendar, counted from March
    of_era = march_year % 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    days = march_year // 400 * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    values = days * 86_400.0 + hour * 3_600 + minute * 60 + second
    has_zone, offset = _offsets_s(parts["z"])
    is_good &= ~np.isnan(offset)
    values = np.where(has_zone, values - np.nan_to_num(offset), values)
    is_local = is_good & ~has_zone & (values > 0) & (values < LAST_STAMP_S)
    if timezone not in (None, "UTC") and is_local.any():
        values[is_local] = _unix_s(values[is_local], str(timezone))
    return np.where(is_good, values, np.nan), has_zone


def _offsets_s(zones: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Whether there is a zone, and its offset from UTC, seconds; NaN above 18 hours. Shapes (n,)."""
    kinds = zones.dictionary_encode()
    offsets = []
    for zone in kinds.dictionary.to_pylist():
        digits = "".join(sign for sign in zone if sign.isdigit()).ljust(4, "0")
        seconds = int(digits[:2]) * 3_600 + int(digits[2:4]) * 60
        is_possible = seconds <= 18 * 3_600 and int(digits[2:4]) < 60
        offsets.append((-seconds if zone.startswith("-") else seconds) if is_possible else np.nan)
    idx = kinds.indices.to_numpy(zero_copy_only=False)
    has_zone = np.array([bool(zone) for zone in kinds.dictionary.to_pylist()], bool)
    return has_zone[idx] if len(idx) else np.zeros(0, bool), np.array(offsets, float)[idx]


def _unix_s(local_s: np.ndarray, timezone: str) -> np.ndarray:
    """Unix seconds from local seconds since 1970 in a zone."""
    whole = np.floor(local_s)
    index = pd.DatetimeIndex(whole.astype("datetime64[s]"))
    there = index.tz_localize(ZoneInfo(timezone), ambiguous=np.ones(len(index), bool), nonexistent="shift_forward")
    return np.asarray(there.as_unit("s").asi8, float) + (local_s - whole)


def _zero(cells: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(cells, ""), "0", cells)


def _whole(cells: pa.Array) -> np.ndarray:
    return np.asarray(pc.cast(_zero(cells), pa.int64()).to_numpy(zero_copy_only=False), np.int64)


_SLACK_S = 1.0
"""Elapsed and suspended time are both truncated to whole seconds."""


@dataclass(frozen=True, slots=True)
class ChosenTimes:
    """Starts and ends, float64 (n,), Unix seconds; bool masks (n,) of the rows with a choice, by its reason.

    is_left: without a reason, the first of the two times.
    """

    start_s: np.ndarray
    end_s: np.ndarray
    is_by_spent: np.ndarray
    is_by_submit: np.ndarray
    is_left: np.ndarray


def chosen_times(start_s: np.ndarray, end_s: np.ndarray, later_start_s: np.ndarray, later_end_s: np.ndarray,
                 spent_s: np.ndarray, submit_s: np.ndarray) -> ChosenTimes:
    """The start and the end of each run that agree with the rest of its row; all arguments float64 (n,), seconds.

    start_s, end_s: the first possible time of a cell; later_...: the second, NaN if there is only
    one. The pair with the difference spent_s is chosen. If two pairs fit, or none, the start must
    be at least submit_s (its first time); then the earlier one is chosen. NaN = not known.

    >>> nan, hour = np.array([np.nan]), 3600.0
    >>> at = chosen_times(np.array([0.0]), np.array([2 * hour]), np.array([hour]), nan, np.array([hour]), nan)
    >>> at.start_s.tolist(), at.is_by_spent.tolist()
    ([3600.0], [True])
    """
    start, end = start_s.copy(), end_s.copy()
    by_spent, by_submit, is_left = (np.zeros(len(start), bool) for _ in range(3))
    for row in np.flatnonzero(~np.isnan(later_start_s) | ~np.isnan(later_end_s)):
        starts = [each for each in (start_s[row], later_start_s[row]) if not math.isnan(each)]
        ends = [each for each in (end_s[row], later_end_s[row]) if not math.isnan(each)] or [math.nan]
        pairs = [(begin, stop) for begin in starts for stop in ends if not stop < begin]
        fitting = [pair for pair in pairs if abs(pair[1] - pair[0] - spent_s[row]) <= _SLACK_S]
        possible = fitting or pairs
        in_order = [pair for pair in possible if not pair[0] < submit_s[row]] or possible
        if not in_order:  # an end before all starts is refused later
            continue
        start[row], end[row] = in_order[0]
        by_spent[row] = len(fitting) == 1
        by_submit[row] = len(fitting) != 1 and len({pair[0] for pair in in_order}) < len({pair[0] for pair in possible})
        is_left[row] = not (by_spent[row] or by_submit[row])
    return ChosenTimes(start, end, by_spent, by_submit, is_left)
