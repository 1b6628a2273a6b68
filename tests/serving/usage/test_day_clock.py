"""Local days and slots: the two days of daylight saving, far stamps, and names that are no zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sojourn.serving.usage import DayClock
from sojourn.serving.usage import observed_use as day_clock

BERLIN = "Europe/Berlin"


def midnight(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=ZoneInfo(BERLIN)).timestamp())


def counts(start_unix_s: int, hours: int) -> list[int]:
    """Quarters of an hour in each local hour of the day that begins at `start_unix_s`."""
    clock = DayClock(start_unix_s, BERLIN)
    return np.bincount(clock.slot(np.arange(0, hours * 3600, 900), 24), minlength=24).tolist()


def test_the_short_day_has_no_samples_in_one_hour() -> None:
    assert counts(midnight(2013, 3, 31), 23) == [4, 4, 0, *[4] * 21]


def test_the_long_day_has_twice_as_many_in_one_hour() -> None:
    assert counts(midnight(2013, 10, 27), 25) == [4, 4, 8, *[4] * 21]


def test_days_are_local() -> None:
    clock = DayClock(midnight(2013, 3, 31), BERLIN)
    assert clock.day(np.array([-1, 0, 23 * 3600 - 1, 23 * 3600])).tolist() == [-1, 0, 0, 1]


def test_far_stamps_ask_the_zone_only_about_times_that_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    own = day_clock._offset_s

    def counted(zone: ZoneInfo, unix_s: int) -> int:
        asked.append(unix_s)
        return own(zone, unix_s)

    monkeypatch.setattr(day_clock, "_offset_s", counted)
    times = np.array([[0, 100 * 365 * 86_400], [86_400, 1]])
    local = DayClock(0, BERLIN).local_s(times)
    zone = ZoneInfo(BERLIN)
    expected = [[time + int(datetime.fromtimestamp(time, UTC).astimezone(zone).utcoffset().total_seconds())  # type: ignore[union-attr]
                 for time in row] for row in times.tolist()]
    assert local.tolist() == expected
    assert len(asked) == 3


def test_a_name_that_is_no_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="timezone must be an IANA name, got 'Mars/Base'"):
        DayClock(0, "Mars/Base")
