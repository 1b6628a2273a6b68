"""Local time of day on a trace's clock: which day and which slot of the day a time falls in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

DAY_S = 86_400
_HOUR_S = 3600
_FIRST_S, _LAST_S = -62_135_510_400, 253_402_214_400
"""Unix times from the second day of year 1 to the last of year 9999: the calendar has no others."""


@dataclass(frozen=True, slots=True)
class DayClock:
    """Turns seconds on a trace's clock into local days and slots of the day.

    start_unix_s: unix time of the trace's second 0; where it is not known, 0 makes the trace begin at midnight.
    timezone: an IANA name; the clock on the wall there decides the slot, so on the day that daylight saving begins one
        hour of slots has no samples, and on the day that it ends one hour has twice as many.

    Refused with ValueError: a name that is not a time zone. Times beyond the years 1 to 9999 have
    the offset of that end.

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
        """Local seconds since 1970 by the clock on the wall, int64, the shape of `time_s` (whole seconds)."""
        unix_s = np.asarray(time_s, np.int64) + self.start_unix_s
        if self.timezone == "UTC" or unix_s.size == 0:
            return unix_s
        zone, quarter_s = ZoneInfo(self.timezone), _HOUR_S // 4  # offsets change on whole quarters of an hour
        quarters = unix_s // quarter_s
        first, last = int(quarters.min()), int(quarters.max())
        if last - first < quarters.size:
            asked, place = np.arange(first, last + 1), quarters - first
        else:
            asked, place = np.unique(quarters, return_inverse=True)
        offsets = np.array([_offset_s(zone, quarter * quarter_s) for quarter in asked.tolist()], np.int64)
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
        """[from_s, to_s) cut where the clock on the wall is set: begin, end, and what makes a time within local.

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
        quarter_s = _HOUR_S // 4
        low, high = ((time_s + self.start_unix_s) // quarter_s for time_s in (before_s, after_s))
        wanted = _offset_s(ZoneInfo(self.timezone), high * quarter_s)
        while high - low > 1:
            middle = (low + high) // 2
            if _offset_s(ZoneInfo(self.timezone), middle * quarter_s) == wanted:
                high = middle
            else:
                low = middle
        return high * quarter_s - self.start_unix_s


def _offset_s(zone: ZoneInfo, unix_s: int) -> int:
    since = timedelta(seconds=min(max(unix_s, _FIRST_S), _LAST_S))
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + since).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds())
