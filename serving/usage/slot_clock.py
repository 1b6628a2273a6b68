"""Local time and its slot of the day of single times, fast: offsets of a time zone are kept by quarters of an hour."""

from __future__ import annotations

import numpy as np

from sojourn.serving.usage.day_clock import DAY_S, DayClock
from sojourn.serving.usage.workload_classes import N_SLOTS

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
        """Local seconds since 1970 by the clock on the wall."""
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
