"""When a bundle's clock began."""

from __future__ import annotations

from sojourn.serving.inputs.encoder import FIRST_MONDAY_S, WEEK_S


def clock_zero_s(phase_s: int) -> int:
    """Unix time of the bundle clock's 0: 0 if the clock counts Unix seconds.

    For a clock without dates it is the least time >= 0 at which hours and weekdays are right; all of the history then
    looks long past. phase_s: see `Encoder`.

    >>> from sojourn.serving.inputs.encoder import UNIX_PHASE_S
    >>> clock_zero_s(UNIX_PHASE_S), clock_zero_s(0) == FIRST_MONDAY_S
    (0, True)
    """
    return (FIRST_MONDAY_S + phase_s) % WEEK_S
