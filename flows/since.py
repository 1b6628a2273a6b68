"""Where the training window begins: so long before the trace's end, or at a date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.features.trace import Trace

_FORMS = "a number of days or hours before the trace's end (90d, 12h) or an ISO date (2026-09-01)"


@dataclass(frozen=True, slots=True)
class Since:
    """A setting as it was given. back_s: before the trace's end; unix_s: a date, UTC. One of them is None.

    >>> Since.parse("12h").back_s, Since.parse("2026-09-01").unix_s
    (43200, 1788220800)
    """

    text: str
    back_s: int | None
    unix_s: int | None

    @classmethod
    def parse(cls, text: str) -> Since:
        """ValueError where the text is neither."""
        from sojourn.features.readers import span_s

        try:
            return cls(text, span_s(text, "since"), None)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"since must be {_FORMS}, got {text!r}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return cls(text, None, int(moment.timestamp()))


def since_s(text: str | None, trace: Trace) -> int:
    """The second of the trace's clock at which the training window begins, at or after the trace's begin.

    None: 0, which is before all of it.

    Of a trace of two files, its end is the first one's.

    ValueError where a date is given for a trace without a calendar, or the window would begin at or after its end.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [9], "cpu_cores": [2.0],
    ...                       "mem_gib": [8.0]})
    >>> from sojourn.features.trace import Trace
    >>> since_s("1d", Trace(table, 10 * 86_400))
    777600
    """
    if text is None:
        return 0
    from sojourn.features.later_file import TEST_FROM

    since, end_s = Since.parse(text), int(trace.meta.get(TEST_FROM, trace.horizon_s))
    if since.back_s is not None:
        return max(end_s - since.back_s, trace.begin_s)
    if not trace.is_dated or since.unix_s is None:
        raise ValueError(f"since must be a number of days or hours (90d, 12h), for the trace has no calendar, got "
                         f"{text!r}")
    if since.unix_s >= end_s:
        end = datetime.fromtimestamp(end_s, UTC)
        raise ValueError(f"since must lie before the trace's end, {end:%Y-%m-%d %H:%M} UTC, got {text!r}")
    return max(since.unix_s, trace.begin_s)
