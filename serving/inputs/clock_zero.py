"""When a bundle's clock began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.serving.inputs.encoder import FIRST_MONDAY_S, UNIX_PHASE_S, WEEK_S


def clock_zero_s(phase_s: int) -> int:
    """Unix time of the bundle clock's 0: 0 if the clock counts Unix seconds.

    For a clock without dates it is the least time >= 0 at which hours and weekdays are right; all of the history then
    looks long past. phase_s: see `Encoder`.

    >>> clock_zero_s(UNIX_PHASE_S), clock_zero_s(0) == FIRST_MONDAY_S
    (0, True)
    """
    return (FIRST_MONDAY_S + phase_s) % WEEK_S


def counts_unix_s(phase_s: int, training: Mapping[str, Any]) -> bool:
    """Whether a bundle's times are Unix seconds, since its training trace has dates; else its clock is its own.

    training: what the bundle says of it. phase_s: see `Encoder`.

    >>> counts_unix_s(UNIX_PHASE_S, {"start_unix_s": 1_704_067_200}), counts_unix_s(UNIX_PHASE_S, {})
    (True, False)
    """
    return type(training.get("start_unix_s")) is int and phase_s % WEEK_S == UNIX_PHASE_S
