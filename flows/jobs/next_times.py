"""When a cron expression fires; what is none, or never fires, is refused."""

from __future__ import annotations

import asyncio
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def next_times(cron: str, timezone: str, n: int = 3) -> list[datetime]:
    """The next times at which a cron expression fires.

    ValueError: it is none, it never fires (31 February), or the time zone is not known.
    """
    from prefect.server.schemas.schedules import CronSchedule

    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"timezone must be an IANA name, got {timezone!r}") from error
    if len(cron.split()) != 5:
        raise ValueError(f"cron must have five fields (minute hour day month weekday), got {cron!r}")
    try:
        found = asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(n))
    except ValueError as error:  # croniter's own errors are ValueErrors, too
        if "find next date" in str(error):
            raise ValueError(f"cron must fire at some time, got {cron!r}") from error
        raise ValueError(f"cron must have five fields (minute hour day month weekday) in their ranges, got {cron!r}") \
            from error
    return [datetime.fromisoformat(str(time)) for time in found]
