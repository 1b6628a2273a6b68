"""When a cron expression fires; what is none, or never fires, is refused."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from zoneinfo import available_timezones

_FIELDS = re.compile(r"[0-9A-Za-z*/,#-]+( [0-9A-Za-z*/,#-]+){4}", re.ASCII)
_N_SIGNS_MAX = 1_000
"""Of an expression: each minute of an hour by name has 170."""


def next_times(cron: str, timezone: str, n: int = 3) -> list[datetime]:
    """The next times at which a cron expression fires.

    ValueError: it is none, it never fires (31 February), or the time zone is not known.
    """
    from prefect.server.schemas.schedules import CronSchedule

    if timezone not in available_timezones():
        raise ValueError(f"timezone must be an IANA name, got {repr(timezone)[:80]}")
    fields, shown = " ".join(cron.split()), repr(cron)[:80]
    if fields.count(" ") != 4:
        raise ValueError(f"cron must have five fields (minute hour day month weekday), got {shown}")
    rule = "cron must have five fields (minute hour day month weekday) in their ranges"
    if len(fields) > _N_SIGNS_MAX or not _FIELDS.fullmatch(fields):
        raise ValueError(f"{rule}, of at most {_N_SIGNS_MAX:,} signs, got {shown}")
    try:
        found = asyncio.run(CronSchedule(cron=fields, timezone=timezone).get_dates(n))
    except ValueError as error:  # croniter's own errors are ValueErrors, too
        if "find next date" in str(error):
            raise ValueError(f"cron must fire at some time, got {shown}") from error
        raise ValueError(f"{rule}, got {shown}") from error
    return [datetime.fromisoformat(str(time)) for time in found]
