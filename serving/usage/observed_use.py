"""Samples of running requests by slot of the day, workload classes, and the local time of day.

`ObservedUse` takes a fixed number of bytes for each request. `observed_s` is the time of
observation, after which a request gets a class, and later is predicted by its samples alone.
`WorkloadClasses` gives the nearest class of a request's day, and its expected need. `DayClock`
gives day and slot of times on a trace's clock, `SlotClock` those of single times, fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from sojourn.serving.inputs import DAY_S, HOUR_S, WEEK_S

N_REQUESTS_MAX = 100_000
"""The most observed requests: 1.2 kB each for CPU, and the same again if memory is observed."""
_N_FIRST = 64
_N_COUNTED = 32
"""After so many samples of a slot, a new one weighs 1/32 in the mean, since use may change over weeks."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A copy of the samples of one request and resource.

    highest, mean: float32 (96,), by slot of the day, NaN = no sample; highest of the last two weeks
    with a sample. first_s, last_s: times of its first and last sample of any resource.
    """

    highest: np.ndarray
    mean: np.ndarray
    first_s: int
    last_s: int


class _Table:
    """Highest, mean and count by slot of one resource, a row for each request; grows by doubling.

    A highest use counts in its week of the trace's clock, and in the next week with a sample.
    """

    def __init__(self, n_rows: int) -> None:
        self.highest = np.full((n_rows, N_SLOTS), np.nan, np.float32)
        self.former = np.full((n_rows, N_SLOTS), np.nan, np.float32)  # of the week before
        self.mean = np.zeros((n_rows, N_SLOTS), np.float32)
        self.count = np.zeros((n_rows, N_SLOTS), np.uint8)
        self._view()

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.highest, self.former, self.mean, self.count

    def grow(self, n_rows: int) -> None:
        fresh = _Table(n_rows)
        n_old = len(self.highest)
        for new, old in zip(fresh.arrays, self.arrays, strict=True):
            new[:n_old] = old
        self.highest, self.former, self.mean, self.count = fresh.arrays
        self._view()

    def turn(self, row: int) -> None:
        """Start another week."""
        self.former[row], self.highest[row] = self.highest[row], np.nan

    def add(self, row: int, slot: int, used: float, is_late: bool) -> None:
        """Add one sample; a late one counts in the week before."""
        at = row * N_SLOTS + slot
        n = self._count[at]
        highest = self._former if is_late else self._highest
        if not used <= highest[at]:  # NaN, too
            highest[at] = used
        self._mean[at] += (used - self._mean[at]) / (n + 1)
        if n < _N_COUNTED - 1:
            self._count[at] = n + 1

    def clear(self, row: int) -> None:
        self.highest[row] = self.former[row] = np.nan
        self.mean[row], self.count[row] = 0.0, 0

    def _view(self) -> None:
        """Memory views, whose elements are several times faster to read and write than those of an array."""
        flat: list[Any] = [array.reshape(-1) for array in self.arrays]
        views: list[Any] = [memoryview(array) for array in flat]
        self._highest, self._former, self._mean, self._count = views


class ObservedUse:
    """The samples of all observed running requests; for one thread at a time.

    n_most: the most requests; samples of further ones are dropped and counted.

    >>> observed = ObservedUse()
    >>> observed.add("a", 900, 1, 0.5), observed.seen("a", "cpu").highest[:2].tolist(), observed.seen("b", "cpu")
    (True, [nan, 0.5], None)
    """

    def __init__(self, n_most: int = N_REQUESTS_MAX) -> None:
        if isinstance(n_most, bool) or not isinstance(n_most, int) or n_most < 1:
            raise ValueError(f"n_most must be at least 1, got {n_most!r}")
        self.n_most = n_most
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._n_rows = min(_N_FIRST, n_most)
        self._cpu = _Table(self._n_rows)
        self._mem: _Table | None = None
        self._first_s: list[int] = []
        self._last_s: list[int] = []
        self._week: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n_bytes(self) -> int:
        tables = [self._cpu] if self._mem is None else [self._cpu, self._mem]
        return sum(array.nbytes for table in tables for array in table.arrays)

    def add(self, name: str, time_s: int, slot: int, cpu: float, mem: float | None = None) -> bool:
        """Add a sample, finite and at least 0; False if it is dropped, since n_most others are observed."""
        row = self._rows.get(name)
        if row is None:
            if len(self._rows) >= self.n_most:
                return False
            row = self._new(name, time_s)
        if time_s > self._last_s[row]:
            self._last_s[row] = time_s
        elif time_s < self._first_s[row]:
            self._first_s[row] = time_s
        week = time_s // WEEK_S
        if week > self._week[row]:
            self._week[row] = week
            self._cpu.turn(row)
            if self._mem is not None:
                self._mem.turn(row)
        is_late = week < self._week[row]
        self._cpu.add(row, slot, cpu, is_late)
        if mem is not None:
            if self._mem is None:
                self._mem = _Table(self._n_rows)
            self._mem.add(row, slot, mem, is_late)
        return True

    def forget(self, name: str) -> bool:
        """Free the request's row; False if it has none."""
        row = self._rows.pop(name, None)
        if row is None:
            return False
        self._cpu.clear(row)
        if self._mem is not None:
            self._mem.clear(row)
        self._free.append(row)
        return True

    def seen(self, name: str, resource: str) -> Seen | None:
        """A copy of a request's samples; None if there are none."""
        row = self._rows.get(name)
        table = self._cpu if resource == "cpu" else self._mem
        if row is None or table is None:
            return None
        highest = np.fmax(table.highest[row], table.former[row])
        mean = table.mean[row].copy()
        mean[table.count[row] == 0] = np.nan
        return Seen(highest, mean, self._first_s[row], self._last_s[row])

    def _new(self, name: str, time_s: int) -> int:
        if self._free:
            row = self._free.pop()
            self._first_s[row] = self._last_s[row] = time_s
            self._week[row] = time_s // WEEK_S
        else:
            row = len(self._first_s)
            if row == self._n_rows:
                self._n_rows = min(2 * self._n_rows, self.n_most)
                self._cpu.grow(self._n_rows)
                if self._mem is not None:
                    self._mem.grow(self._n_rows)
            self._first_s.append(time_s)
            self._last_s.append(time_s)
            self._week.append(time_s // WEEK_S)
        self._rows[name] = row
        return row


_N_HOURS_OF_DAY = 22
"""Nine tenths of the hours: a day on which daylight saving begins has 23."""


def observed_s(first_slot: Any, last_slot: Any, n_hours: Any) -> np.ndarray:
    """Seconds of observation, int64, of the arguments' common shape.

    From the start of the first slot with a sample to the end of the last one, but at most one hour
    for each hour of the day that has a sample, until 22 hours have one. So hourly samples count in
    full, two samples half a day apart count as two hours, and a wrong time stamp adds an hour.
    first_slot, last_slot: slots of 15 minutes, numbered across days. n_hours: see `hours_seen`.

    >>> observed_s(0, np.array([11, 48, 95, 95]), np.array([3, 2, 8, 24])).tolist()
    [10800, 7200, 28800, 86400]
    """
    span_s = (np.asarray(last_slot, np.int64) - first_slot + 1) * SLOT_S
    return np.where(np.asarray(n_hours) >= _N_HOURS_OF_DAY, span_s, np.minimum(span_s, np.asarray(n_hours) * HOUR_S))


def hours_seen(is_seen: np.ndarray) -> np.ndarray:
    """Number of hours of the local day with a sample, int64 (n,); is_seen: bool (n, 96), by slot of the day.

    >>> hours_seen(np.arange(96)[None, :] % 8 == 0).tolist()
    [12]
    """
    return is_seen.reshape(len(is_seen), N_HOURS, N_SLOTS // N_HOURS).any(axis=2).sum(axis=1)


_FIRST_S, _LAST_S = -62_135_510_400, 253_402_214_400
"""Unix times of the calendar: from the second day of year 1 to the last of year 9999."""


@dataclass(frozen=True, slots=True)
class DayClock:
    """Turns seconds on a trace's clock into local days and slots of the day.

    start_unix_s: unix time of the trace's second 0; if unknown, 0 puts the trace's start at midnight.
    timezone: an IANA name; its local time gives the slot, so when daylight saving begins one hour
    of slots has no samples, and when it ends one hour has twice as many. ValueError for a name that
    is not a time zone. Times outside the years 1 to 9999 have the offset of the nearest end.

    >>> clock = DayClock(start_unix_s=3600)
    >>> clock.slot(np.array([0, 82_800]), n_slots=24).tolist(), clock.day(np.array([0, 82_800])).tolist()
    ([1, 0], [0, 1])
    >>> DayClock(1_364_684_400, "Europe/Berlin").slot(np.array([0, 3600, 7200]), n_slots=24).tolist()
    [0, 1, 3]
    """

    start_unix_s: int = 0
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"timezone must be an IANA name, got {self.timezone!r}") from error

    def local_s(self, time_s: np.ndarray) -> np.ndarray:
        """Seconds since 1970 in local time, int64, the shape of `time_s` (whole seconds)."""
        unix_s = np.asarray(time_s, np.int64) + self.start_unix_s
        if self.timezone == "UTC" or unix_s.size == 0:
            return unix_s
        zone, quarter_s = ZoneInfo(self.timezone), HOUR_S // 4  # offsets change on whole quarters of an hour
        quarters = unix_s // quarter_s
        first, last = int(quarters.min()), int(quarters.max())
        if last - first < quarters.size:
            distinct, place = np.arange(first, last + 1), quarters - first
        else:
            distinct, place = np.unique(quarters, return_inverse=True)
        offsets = np.array([_offset_s(zone, quarter * quarter_s) for quarter in distinct.tolist()], np.int64)
        return unix_s + offsets[place].reshape(unix_s.shape)

    def day(self, time_s: np.ndarray) -> np.ndarray:
        """Local day of each time, int64, 0 = the day of the trace's second 0."""
        return self.local_s(time_s) // DAY_S - int(self.local_s(np.zeros(1, np.int64))[0]) // DAY_S

    def slot(self, time_s: np.ndarray, n_slots: int) -> np.ndarray:
        """Slot of the local day of each time, int64, 0 to n_slots - 1; n_slots must divide 86,400."""
        if n_slots < 1 or DAY_S % n_slots:
            raise ValueError(f"n_slots must divide {DAY_S}, got {n_slots!r}")
        return self.local_s(time_s) % DAY_S // (DAY_S // n_slots)

    def pieces(self, from_s: float, to_s: float) -> list[tuple[float, float, int]]:
        """[from_s, to_s) cut at changes of the offset: start, end, and the offset to local time.

        >>> DayClock(0, "Europe/Zurich").pieces(1_711_843_200, 1_711_850_400)
        [(1711843200, 1711846800, 3600), (1711846800, 1711850400, 7200)]
        """
        if self.timezone == "UTC":
            return [(from_s, to_s, self.start_unix_s)]
        begin, end = math.floor(from_s), math.ceil(to_s)
        days = np.append(np.arange(begin, end, DAY_S, dtype=np.int64), end)  # no zone changes twice within a day
        offsets = (self.local_s(days) - days).tolist()
        cuts = [self._change(before, after) for before, after, old, new in zip(
            days[:-1].tolist(), days[1:].tolist(), offsets[:-1], offsets[1:], strict=True) if old != new]
        edges = [from_s, *(cut for cut in cuts if from_s < cut < to_s), to_s]
        starts = np.array([math.floor(edge) for edge in edges[:-1]], np.int64)
        return list(zip(edges[:-1], edges[1:], (self.local_s(starts) - starts).tolist(), strict=True))

    def _change(self, before_s: int, after_s: int) -> int:
        """The first time of (before_s, after_s] with the offset of after_s; a whole quarter of an hour."""
        quarter_s = HOUR_S // 4
        low, high = ((time_s + self.start_unix_s) // quarter_s for time_s in (before_s, after_s))
        offset_s = _offset_s(ZoneInfo(self.timezone), high * quarter_s)
        while high - low > 1:
            middle = (low + high) // 2
            if _offset_s(ZoneInfo(self.timezone), middle * quarter_s) == offset_s:
                high = middle
            else:
                low = middle
        return high * quarter_s - self.start_unix_s


def _offset_s(zone: ZoneInfo, unix_s: int) -> int:
    since = timedelta(seconds=min(max(unix_s, _FIRST_S), _LAST_S))
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + since).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds())


N_SLOTS = 96
"""Slots of a local day, 15 minutes each (CTCL, section V-C)."""
SLOT_S = DAY_S // N_SLOTS
N_ENDS = 8
"""End times, by slot of the day, of the observation windows for which surpluses are learnt: every 3 hours."""
SEEN_S = (10_800, 21_600, 43_200)
"""Lengths of the observation windows for which surpluses are learnt, seconds; longer counts as the last."""
CLASSES, BY_HOURS = "classes", "hours"
SURPLUS_RULES = (CLASSES, BY_HOURS)
"""The requests from which a surplus is learnt: those of a class, or all with the same hours of observation."""
OWN_AFTER_S = DAY_S
"""After this time of observation every slot has a sample, and the request's maximum alone is used."""
N_HOURS = 24
_N_ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class WorkloadClasses:
    """Classes of one resource (CPU or memory), in shares of the reservation.

    ids: int64 (k,), names of the classes; a class keeps its id when classes are learnt again.
    centres: float64 (k, 96), highest use in each slot of the local day, the mean over the class's
    requests. means: float64 (k, 96), their mean use in each slot. surplus: float64 (k, 3 * 8 * 24),
    by how much a request exceeds its observed maximum, by hour of the local day, after an
    observation of SEEN_S that ends at one of N_ENDS times of the day; at least 0. n_members: int64
    (k,), requests in the training of the class. ValueError for shapes that do not agree, numbers
    that are not finite or below 0, no class, an id twice.

    >>> classes = WorkloadClasses(np.array([4, 7]), np.repeat([[0.1], [0.8]], 96, axis=1), np.full((2, 96), 0.1),
    ...                           np.full((2, 576), 0.05), np.array([3, 2]))
    >>> seen = np.full((1, 96), np.nan)
    >>> seen[0, :12] = 0.6
    >>> at = classes.nearest(seen)
    >>> needs = classes.needs(at, np.array([0.6]), np.array([10_800]), 12, np.array([12, 13]))
    >>> classes.ids[at].tolist(), needs.tolist()
    ([7], [[0.65, 0.65]])
    """

    ids: np.ndarray
    centres: np.ndarray
    means: np.ndarray
    surplus: np.ndarray
    n_members: np.ndarray

    def __post_init__(self) -> None:
        k = len(self.ids)
        if not k or len(np.unique(self.ids)) < k:
            raise ValueError(f"ids must be at least one, each once, got {k}")
        for name, width in (("centres", N_SLOTS), ("means", N_SLOTS), ("surplus", len(SEEN_S) * N_ENDS * N_HOURS)):
            array = getattr(self, name)
            if array.shape != (k, width):
                raise ValueError(f"{name} must have the shape ({k}, {width}), got {array.shape}")
            if not (np.isfinite(array) & (array >= 0.0)).all():
                raise ValueError(f"{name} must be finite and at least 0, got others")
        if self.n_members.shape != (k,) or (self.n_members < 0).any():
            raise ValueError(f"n_members must have the shape ({k},) and be at least 0, got {self.n_members!r}")

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(self, profiles: np.ndarray) -> np.ndarray:
        """Index of the nearest centre over the slots with samples, int64 (n,); O(slots x classes) a request.

        profiles: (n, 96), highest use in each slot, NaN = no sample. Without samples the index is
        0.
        """
        return nearest_centre(profiles, self.centres)

    def needs(self, at: np.ndarray, maximum: np.ndarray, seen_s: np.ndarray, now_slot: int,
              slots: np.ndarray) -> np.ndarray:
        """The highest expected use of each request in each of `slots`, float64 (n, len(slots)), shares.

        at: index of its class. maximum: its highest use so far. seen_s: its time of observation, at
        least SEEN_S[0]. now_slot: the slot of now. The result is maximum + the class's surplus, at
        most the whole reservation and at least the maximum; after OWN_AFTER_S it is the maximum.
        """
        length = np.clip(np.searchsorted(SEEN_S, seen_s, side="right") - 1, 0, len(SEEN_S) - 1)
        end = now_slot * N_ENDS // N_SLOTS
        hours = np.asarray(slots) * N_HOURS // N_SLOTS
        table = self.surplus.reshape(len(self), len(SEEN_S), N_ENDS, N_HOURS)
        surplus = table[at[:, None], length[:, None], end, hours[None, :]]
        surplus = np.where((seen_s >= OWN_AFTER_S)[:, None], 0.0, surplus)
        maxima = np.asarray(maximum, np.float64)[:, None]
        return np.maximum(np.minimum(maxima + surplus, 1.0), maxima)


def nearest_centre(profiles: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Index of the nearest centre (Euclidean) over the slots that are not NaN, int64 (n,); the first of equals.

    >>> nearest_centre(np.array([[np.nan, 1.0]]), np.array([[0.0, 0.0], [9.0, 0.9]])).tolist()
    [1]
    """
    nearest = np.empty(len(profiles), np.int64)
    n_chunk = max(1, _N_ELEMENTS // centres.size)
    for first in range(0, len(profiles), n_chunk):
        chunk = np.asarray(profiles[first:first + n_chunk], np.float64)
        is_seen = ~np.isnan(chunk)
        values = np.where(is_seen, chunk, 0.0)
        # |x - c|^2 over the slots with samples, without terms that do not depend on c
        distance = is_seen @ (centres**2).T - 2.0 * (values @ centres.T)
        nearest[first:first + n_chunk] = distance.argmin(axis=1)
    return nearest


_QUARTER_S = 900
_N_KEPT = 1_024


class SlotClock:
    """Slots of the day of whole seconds on the trace's clock.

    >>> SlotClock(DayClock(1_364_684_400, "Europe/Berlin")).slot(7200)
    12
    """

    def __init__(self, clock: DayClock) -> None:
        self.clock = clock
        self._is_utc = clock.timezone == "UTC"
        self._offsets: dict[int, int] = {}

    def slot(self, time_s: int) -> int:
        """0 to 95."""
        return self.local_s(time_s) % DAY_S * N_SLOTS // DAY_S

    def local_s(self, time_s: int) -> int:
        """Seconds since 1970 in local time."""
        unix_s = time_s + self.clock.start_unix_s
        if self._is_utc:
            return unix_s
        quarter = unix_s // _QUARTER_S
        offset = self._offsets.get(quarter)
        if offset is None:
            if len(self._offsets) >= _N_KEPT:
                self._offsets.clear()
            offset = int(self.clock.local_s(np.array([time_s], np.int64))[0]) - unix_s
            self._offsets[quarter] = offset
        return unix_s + offset
