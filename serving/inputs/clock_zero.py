"""When a bundle's clock began."""

from __future__ import annotations

from typing import Any

from sojourn.serving.inputs.encoder import FIRST_MONDAY_S, WEEK_S


def clock_zero_s(phase_s: int, start_unix_s: Any = None) -> int:
    """Unix time of the bundle clock's 0: the training trace's `start_unix_s`, so that the owner history goes on.

    Where the bundle does not say it, or says one at which hours and weekdays are wrong: the least >= 0 at which they
    are right. All of the history then looks long past. phase_s: see `Encoder`.

    >>> thursday = 3 * 86_400  # unix time itself
    >>> clock_zero_s(thursday), clock_zero_s(thursday, 52 * 604_800), clock_zero_s(thursday, 7)
    (0, 31449600, 0)
    """
    least_s = (FIRST_MONDAY_S + phase_s) % WEEK_S
    is_known = isinstance(start_unix_s, int) and start_unix_s >= 0 and (start_unix_s - least_s) % WEEK_S == 0
    return start_unix_s if is_known else least_s
