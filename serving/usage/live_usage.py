"""A usage section together with what running requests were seen to use since."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sojourn.serving.checks import clock_second
from sojourn.serving.errors import shown
from sojourn.serving.usage.observed_use import N_REQUESTS_MAX, ObservedUse, Seen
from sojourn.serving.usage.slot_clock import SlotClock
from sojourn.serving.usage.usage_section import UsageSection

USED_MAX = 10.0
"""The largest share of a reservation that is a sample: one above it is a damaged value, or percent read as a share."""


class LiveUsage:
    """What `observe` fills and `usage` reads; for one thread at a time. A section may take the place of another."""

    def __init__(self, section: UsageSection, n_most: int = N_REQUESTS_MAX) -> None:
        self._observed = ObservedUse(n_most)
        self.section = section
        self._slots = SlotClock(section.clock)

    def __len__(self) -> int:
        return len(self._observed)

    @property
    def n_bytes(self) -> int:
        """Of what was observed."""
        return self._observed.n_bytes

    def serve(self, section: UsageSection) -> None:
        """Answer by this section from now on; what was observed goes on. ValueError where its clock is another."""
        if section.clock != self.section.clock:
            raise ValueError(f"the usage section's clock must be {self.section.clock}, got {section.clock}")
        self.section = section

    def observe(self, request_id: str, time_s: Any, cpu: Any, mem: Any = None) -> bool:
        """Take a sample; False where it is dropped. ValueError where it is no sample."""
        time = clock_second(time_s, "time_s")
        cpu = _share(cpu, "used")
        mem = None if mem is None else _share(mem, "mem_used")
        return self._observed.add(request_id, time, self._slots.slot(time), cpu, mem)

    def seen(self, request_id: str, resource: str) -> Seen | None:
        """A copy of what was seen of a request; None = nothing."""
        return self._observed.seen(request_id, resource)

    def ended(self, request_id: str) -> bool:
        """Forget a request; False where nothing was observed of it."""
        return self._observed.forget(request_id)


def _share(value: Any, name: str) -> float:
    if type(value) is float:
        share = value
    elif isinstance(value, int | np.integer | np.floating) and not isinstance(value, bool):
        share = float(min(value, 2 * USED_MAX))  # a Python int may be too large for a float
    else:
        share = math.nan
    if not 0.0 <= share <= USED_MAX:
        hint = " (percent are divided by 100)" if share > USED_MAX else ""
        raise ValueError(f"{name} must be a finite share of what was reserved, from 0 to {USED_MAX:g}, got "
                         f"{shown(value)}{hint}")
    return share
