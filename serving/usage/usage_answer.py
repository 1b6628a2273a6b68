"""What is expected of one request's use: at a time, over an interval, and when it is busy next."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sojourn.serving.checks import LATEST_S
from sojourn.serving.errors import shown
from sojourn.serving.usage.day_clock import DAY_S
from sojourn.serving.usage.observed_time import hours_seen, observed_s
from sojourn.serving.usage.observed_use import Seen
from sojourn.serving.usage.slot_clock import SlotClock
from sojourn.serving.usage.usage_section import UsageSection
from sojourn.serving.usage.usage_waves import UsageWaves
from sojourn.serving.usage.workload_classes import N_SLOTS, OWN_AFTER_S, SLOT_S

INTERVAL_MAX_S = 366 * DAY_S
_FLAT = 0.1
_SMALLEST = 1e-3


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    """Expected use of one request and resource, shares of what it reserved; it stays what it was when it was asked.

    basis: of the expected use: `observed` = its own use, seen for a day; `wave` = before that, its own pulse wave,
        learnt at the last training; `class` = its own maximum and its class's surplus; `reservation` = nothing but what
        it reserved. The upper level of a wave adds to the peak on every basis.
    class_id: the nearest class of what was seen of it; None where that is too little, and `reason` says why.
    own_highest: the highest use seen since observation began; NaN = nothing seen.
    version: of the usage section.
    """

    basis: str
    class_id: int | None
    reason: str
    own_highest: float
    version: str
    _clock: SlotClock
    _expected_waves: UsageWaves | None
    _upper_waves: UsageWaves | None
    _expected: np.ndarray
    _highest: np.ndarray

    def at(self, time_s: float) -> float:
        """Expected use at a time, seconds on the trace's clock."""
        time = _seconds(time_s, "time_s")
        if self.basis == "wave" and self._expected_waves is not None:
            whole = math.floor(time)
            return float(self._expected_waves.at(np.array([self._clock.local_s(whole) + (time - whole)]))[0])
        return float(self._expected[self._clock.slot(math.floor(time))])

    def peak(self, from_s: float, to_s: float) -> float:
        """The most that it is expected to use at any time of [from_s, to_s), at most 366 days."""
        begin, end = _seconds(from_s, "from_s"), _seconds(to_s, "to_s")
        if not begin < end <= begin + INTERVAL_MAX_S:
            raise ValueError(f"to_s must be after from_s and at most {INTERVAL_MAX_S} s later, got {end - begin} s")
        slots = self._slots(begin, end)
        highest = float(self._highest[slots].max())
        if self._upper_waves is not None:
            return max(highest, *(self._upper_waves.largest(first + local, last + local)
                                  for first, last, local in self._clock.clock.pieces(begin, end)))
        return highest

    def next_busy(self, from_s: float) -> tuple[float, float]:
        """Begin and end of the next busy interval; one that is under way begins at `from_s`.

        Busy = expected use above the middle between its least and its greatest. Where these differ by less than a tenth
        of the greatest, or nothing is known, it is busy without end.
        """
        begin = _seconds(from_s, "from_s")
        if self.basis == "wave" and self._expected_waves is not None:
            return self._next_busy(self._expected_waves, begin)
        least, most = float(self._expected.min()), float(self._expected.max())
        if most - least <= _FLAT * most:
            return begin, math.inf
        is_busy = self._expected > (least + most) / 2
        start_unix_s = self._clock.clock.start_unix_s  # slots begin at whole quarters of an hour of the real clock
        first = (math.floor(begin) + start_unix_s) // SLOT_S * SLOT_S - start_unix_s
        times = first + SLOT_S * np.arange(3 * N_SLOTS)  # two days with a change of the clock, and the end
        busy = is_busy[self._clock.clock.slot(times, N_SLOTS)]
        start = int(busy.argmax())
        length = int((~busy[start:]).argmax())
        return max(begin, float(times[start])), float(times[start + length])

    def _next_busy(self, waves: UsageWaves, begin_s: float) -> tuple[float, float]:
        """The wave's next busy window, by the local clock; it ends where that is set into a quiet time."""
        local_s = self._clock.local_s(math.floor(begin_s))
        ahead_s = min(waves.next_busy(local_s)[1] - local_s + DAY_S, INTERVAL_MAX_S)
        pieces = self._clock.clock.pieces(begin_s, begin_s + ahead_s)
        start_s = None
        for first, last, local in pieces:
            until_s = last if last < begin_s + ahead_s else math.inf
            busy_s, quiet_s = (edge - local for edge in waves.next_busy(first + local))
            if start_s is None:
                if busy_s >= until_s:
                    continue
                start_s = busy_s
            elif busy_s > first:
                return start_s, first
            if quiet_s < until_s:
                return start_s, quiet_s
        return begin_s if start_s is None else start_s, math.inf

    def _slots(self, from_s: float, to_s: float) -> np.ndarray:
        """The slots of the day that an interval touches; two days have all that any longer time has.

        One day is not enough: where daylight saving begins, it lacks an hour.
        """
        end = min(math.ceil(to_s), math.floor(from_s) + 2 * DAY_S)
        times = np.append(np.arange(math.floor(from_s), end, SLOT_S), end - 1)
        return self._clock.clock.slot(times, N_SLOTS)


def answer_of(section: UsageSection, request_id: str, resource: str, seen: Seen | None) -> UsageAnswer:
    """The answer about a request from what was seen of it and what the section knows of it."""
    if resource not in ("cpu", "mem"):
        raise ValueError(f"resource must be cpu or mem, got {shown(resource)}")
    waves = section.waves_of(request_id) if resource == "cpu" else None
    mean_waves, upper_waves = waves or (None, None)
    classes = section.classes.get(resource)
    profile = np.full(N_SLOTS, np.nan) if seen is None else seen.highest.astype(np.float64)
    is_seen = ~np.isnan(profile)
    own = float(profile[is_seen].max()) if is_seen.any() else math.nan
    class_id, at, reason = None, None, ""
    clock = SlotClock(section.clock)
    seen_s = _observed_s(seen, is_seen, section)
    if classes is None:
        reason = f"the section has no classes of {resource}"
    elif seen_s < section.observed_s:
        reason = f"observed for {seen_s} s of {section.observed_s} s"
    else:
        at = classes.nearest(profile[None, :])
        class_id = int(classes.ids[at[0]])
    expected = highest = np.ones(N_SLOTS)
    basis = "reservation"
    if seen is not None and seen_s >= OWN_AFTER_S:
        basis = "observed"
        highest = np.full(N_SLOTS, own)
        mean = seen.mean.astype(np.float64)
        expected = np.where(is_seen, mean, mean[is_seen].mean())
    elif seen is not None and classes is not None and at is not None:
        basis = "class"
        highest = classes.needs(at, np.array([own]), np.array([seen_s]), clock.slot(seen.last_s),
                                np.arange(N_SLOTS))[0]
        mean, shape = seen.mean.astype(np.float64), classes.means[at[0]]
        scale = float(mean[is_seen].mean()) / max(float(shape[is_seen].mean()), _SMALLEST)
        expected = np.minimum(np.where(is_seen, mean, shape * scale), highest)
    if waves is not None and basis != "observed":  # a day of its own is nearer to the next one than any wave
        basis, highest = "wave", np.where(is_seen, profile, -math.inf)
    return UsageAnswer(basis, class_id, reason, own, section.version, clock, mean_waves, upper_waves, expected, highest)


def _observed_s(seen: Seen | None, is_seen: np.ndarray, section: UsageSection) -> int:
    if seen is None or not is_seen.any():
        return 0
    first, last = ((time_s + section.clock.start_unix_s) // SLOT_S for time_s in (seen.first_s, seen.last_s))
    return int(observed_s(first, last, hours_seen(is_seen[None, :])[0]))


def _seconds(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) \
            or not -LATEST_S < value < LATEST_S:
        raise ValueError(f"{name} must be seconds on the trace's clock, got {shown(value)}")
    return float(value)
