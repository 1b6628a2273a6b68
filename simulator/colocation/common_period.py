"""How many slots a set of periods takes to repeat as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterable


def common_period(periods: Iterable[int], most: int) -> tuple[int, bool]:
    """Slots of the least common multiple of `periods` (whole slots), and whether it is that or the cap `most`.

    The optimum and the period-aware policy need no more time than that (period-aware placement, section III-B). Periods
    that are found in real series have almost no common multiple, so that the cap decides: then profiles are sampled
    over `most` slots from the time at which the policy decides.

    >>> common_period([12, 16, 18], 288), common_period([287, 288], 8640), common_period([], 288)
    ((144, True), (8640, False), (1, True))
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most!r}")
    multiple = 1
    for period in periods:
        if period < 1:
            raise ValueError(f"periods must be whole slots, at least 1, got {period!r}")
        multiple = math.lcm(multiple, period)
        if multiple > most:
            return most, False
    return multiple, True
