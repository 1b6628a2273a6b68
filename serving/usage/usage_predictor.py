"""Answers about use over time for whoever has no lifetime bundle: observations in, expected use out.

What is expected of one request's use: at a time, over an interval, and when it is busy next.

A usage section together with what running requests were seen to use since.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.checks import LATEST_S, clock_second, folder_path
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forking import join_forks
from sojourn.serving.inputs import DAY_S
from sojourn.serving.usage.observed_use import (
    N_REQUESTS_MAX,
    N_SLOTS,
    OWN_AFTER_S,
    SLOT_S,
    ObservedUse,
    Seen,
    SlotClock,
    hours_seen,
    observed_s,
)
from sojourn.serving.usage.usage_section import UsageSection, UsageWaves, load_usage
from sojourn.serving.watch import ReloadGate

N_TEXT_MAX = 512


class UsagePredictor:
    """Expected use of requests by their ids, any text. Safe to use from several threads and across forks.

    What was observed lives in memory: after a restart a request is a newcomer again, until its observation time has
    passed. A fork copies it; the two go on apart.
    """

    def __init__(self, section: UsageSection, n_most: int = N_REQUESTS_MAX) -> None:
        self._live = LiveUsage(section, n_most)
        self._lock = threading.Lock()
        self._reloading = ReloadGate()
        self._folder: Path | None = None
        self._n_dropped = 0
        join_forks(self)

    @classmethod
    def load(cls, folder: str | Path, *, n_most: int = N_REQUESTS_MAX) -> UsagePredictor:
        """Load a usage section; BundleError where it is missing, corrupted or of another version.

        n_most: requests that are observed at once; samples of further ones are dropped and counted.
        """
        predictor = cls(load_usage(folder), n_most)
        predictor._folder = Path(folder).absolute()
        return predictor

    @property
    def version(self) -> str:
        """Of the section that is served."""
        return self._live.section.version

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve what lies in the folder now (default: the one that was loaded); returns its version.

        BundleError where that cannot be served, or has another clock: the old one serves on.
        """
        source = self._folder if folder is None else folder_path(folder, "folder")
        if source is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        with self._reloading:
            section = load_usage(source)
            with self._lock:
                serve_section(self._live, section)
        return section.version

    def observe(self, request_id: str, time_s: int, used: float, mem_used: float | None = None) -> bool:
        """Take a sample of use at a time: shares of the cores, and of the memory, that the request reserved.

        Any order; a sample before the first one lengthens the observation. True where it counts; False where it is
        dropped, since as many requests as allowed are observed already. ValueError for what is no sample.
        """
        name = _text(request_id)
        with self._lock:
            is_taken = self._live.observe(name, time_s, used, mem_used)
            self._n_dropped += not is_taken
        return is_taken

    def usage(self, request_id: str, resource: str = "cpu") -> UsageAnswer:
        """What is expected of a request; of one never heard of, that it uses its reservation."""
        name = _text(request_id)
        with self._lock:
            section, seen = self._live.section, self._live.seen(name, resource)
        return answer_of(section, name, resource, seen)

    def ended(self, request_id: str) -> bool:
        """Forget what was observed of a request; False where that is nothing."""
        with self._lock:
            return self._live.ended(_text(request_id))

    def info(self) -> dict[str, Any]:
        """What is served, how many requests are observed in how many bytes, and how many samples were dropped.

        surplus_rules: by resource, whether classes or hours give the surplus after each of SEEN_S (3, 6 and 12 hours).
        """
        with self._lock:
            section = self._live.section
            return {"version": section.version,
                    "n_classes": {name: len(each) for name, each in section.classes.items()},
                    "surplus_rules": {name: list(section.surplus_rules[name]) for name in section.classes},
                    "n_waves": len(section.rows), "observed_s": section.observed_s, "n_observed": len(self._live),
                    "n_bytes": self._live.n_bytes, "n_dropped": self._n_dropped}

    def before_fork(self) -> None:
        """Wait until no other thread is within an observation or a reload (see `forking`)."""
        self._reloading.before_fork()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent and in the child."""
        self._lock.release()
        self._reloading.after_fork(is_child=is_child)


def serve_section(live: LiveUsage, section: UsageSection) -> None:
    """Put a section in the place of another; BundleError where its clock is another."""
    try:
        live.serve(section)
    except ValueError as error:
        raise BundleError(f"usage.json: {error}") from error


def _text(request_id: Any) -> str:
    if not isinstance(request_id, str) or not request_id or len(request_id) > N_TEXT_MAX:
        raise ValueError(f"request_id must be text of 1 to {N_TEXT_MAX} characters, got {shown(request_id)}")
    return request_id


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
