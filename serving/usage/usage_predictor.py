"""Expected use over time without a lifetime bundle, from a usage section and samples of running requests.

`UsageAnswer` gives the expected use of one request at a time or over an interval, and its next busy
interval. `LiveUsage` is a section together with samples.
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

    Samples are in memory: after a restart a request is a newcomer again, until its observation time
    has passed. A fork copies the samples; both copies are then independent.
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
        """Load a usage section; BundleError if it is missing, corrupted or of another version.

        n_most: the most observed requests; samples of further ones are dropped and counted.
        """
        predictor = cls(load_usage(folder), n_most)
        predictor._folder = Path(folder).absolute()
        return predictor

    @property
    def version(self) -> str:
        """The version of the served section."""
        return self._live.section.version

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve the section that is in the folder now (default: the loaded folder); returns its version.

        BundleError if it cannot be served, or has another clock: the old one serves on.
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
        """Record a sample of use at a time: shares of the cores, and of the memory, that the request reserved.

        Samples may come in any order; one before the first makes the observation longer. False if
        it is dropped, since the most requests are observed already. ValueError for a wrong sample.
        """
        name = _text(request_id)
        with self._lock:
            is_taken = self._live.observe(name, time_s, used, mem_used)
            self._n_dropped += not is_taken
        return is_taken

    def usage(self, request_id: str, resource: str = "cpu") -> UsageAnswer:
        """The expected use of a request; for an unknown one, its whole reservation."""
        name = _text(request_id)
        with self._lock:
            section, samples = self._live.section, self._live.seen(name, resource)
        return answer_of(section, name, resource, samples)

    def ended(self, request_id: str) -> bool:
        """Delete the samples of a request; False if there are none."""
        with self._lock:
            return self._live.ended(_text(request_id))

    def info(self) -> dict[str, Any]:
        """The served version, the number of observed requests and their bytes, and the number of dropped samples.

        surplus_rules: by resource, whether classes or hours give the surplus after each of SEEN_S
        (3, 6 and 12 hours).
        """
        with self._lock:
            section = self._live.section
            return {"version": section.version,
                    "n_classes": {name: len(each) for name, each in section.classes.items()},
                    "surplus_rules": {name: list(section.surplus_rules[name]) for name in section.classes},
                    "n_waves": len(section.rows), "observed_s": section.observed_s, "n_observed": len(self._live),
                    "n_bytes": self._live.n_bytes, "n_dropped": self._n_dropped}

    def before_fork(self) -> None:
        """Wait until no other thread observes or reloads (see `forking`)."""
        self._reloading.before_fork()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Release the locks, in the parent and in the child."""
        self._lock.release()
        self._reloading.after_fork(is_child=is_child)


def serve_section(live: LiveUsage, section: UsageSection) -> None:
    """Replace the section; BundleError if its clock differs."""
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
    """Expected use of one request and resource, shares of its reservation; it does not change later.

    basis: `observed` = its samples of a day; `wave` = before that, its pulse wave from the last
    training; `class` = its maximum and its class's surplus; `reservation` = all that it reserved.
    The upper level of a wave adds to the peak on every basis. class_id: the nearest class; None if
    there are too few samples, see `reason`. own_highest: the highest sample; NaN = no sample.
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
        """The highest expected use at any time of [from_s, to_s), at most 366 days."""
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
        """Start and end of the next busy interval; a current one starts at `from_s`.

        Busy = expected use above the middle between its minimum and maximum. If these differ by
        less than a tenth of the maximum, or nothing is known, it is busy without end.
        """
        begin = _seconds(from_s, "from_s")
        if self.basis == "wave" and self._expected_waves is not None:
            return self._next_busy(self._expected_waves, begin)
        least, most = float(self._expected.min()), float(self._expected.max())
        if most - least <= _FLAT * most:
            return begin, math.inf
        is_busy = self._expected > (least + most) / 2
        start_unix_s = self._clock.clock.start_unix_s  # slots start at quarters of an hour of real time
        first = (math.floor(begin) + start_unix_s) // SLOT_S * SLOT_S - start_unix_s
        times = first + SLOT_S * np.arange(3 * N_SLOTS)  # two days with a change of the clock, and the end
        busy = is_busy[self._clock.clock.slot(times, N_SLOTS)]
        start = int(busy.argmax())
        length = int((~busy[start:]).argmax())
        return max(begin, float(times[start])), float(times[start + length])

    def _next_busy(self, waves: UsageWaves, begin_s: float) -> tuple[float, float]:
        """The wave's next busy window in local time; it ends if a change of the clock leads into a quiet time."""
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
        """The slots of the day in an interval; of a longer one, those of its first two days.

        One day is not enough: when daylight saving begins, it lacks an hour.
        """
        end = min(math.ceil(to_s), math.floor(from_s) + 2 * DAY_S)
        times = np.append(np.arange(math.floor(from_s), end, SLOT_S), end - 1)
        return self._clock.clock.slot(times, N_SLOTS)


def answer_of(section: UsageSection, request_id: str, resource: str, samples: Seen | None) -> UsageAnswer:
    """The answer for a request from its samples and the section."""
    if resource not in ("cpu", "mem"):
        raise ValueError(f"resource must be cpu or mem, got {shown(resource)}")
    waves = section.waves_of(request_id) if resource == "cpu" else None
    mean_waves, upper_waves = waves or (None, None)
    classes = section.classes.get(resource)
    profile = np.full(N_SLOTS, np.nan) if samples is None else samples.highest.astype(np.float64)
    is_seen = ~np.isnan(profile)
    top = float(profile[is_seen].max()) if is_seen.any() else math.nan
    class_id, at, reason = None, None, ""
    clock = SlotClock(section.clock)
    seen_s = _observed_s(samples, is_seen, section)
    if classes is None:
        reason = f"the section has no classes of {resource}"
    elif seen_s < section.observed_s:
        reason = f"observed for {seen_s} s of {section.observed_s} s"
    else:
        at = classes.nearest(profile[None, :])
        class_id = int(classes.ids[at[0]])
    expected = highest = np.ones(N_SLOTS)
    basis = "reservation"
    if samples is not None and seen_s >= OWN_AFTER_S:
        basis = "observed"
        highest = np.full(N_SLOTS, top)
        mean = samples.mean.astype(np.float64)
        expected = np.where(is_seen, mean, mean[is_seen].mean())
    elif samples is not None and classes is not None and at is not None:
        basis = "class"
        highest = classes.needs(at, np.array([top]), np.array([seen_s]), clock.slot(samples.last_s),
                                np.arange(N_SLOTS))[0]
        mean, shape = samples.mean.astype(np.float64), classes.means[at[0]]
        scale = float(mean[is_seen].mean()) / max(float(shape[is_seen].mean()), _SMALLEST)
        expected = np.minimum(np.where(is_seen, mean, shape * scale), highest)
    if waves is not None and basis != "observed":  # a day of samples is better than a wave
        basis, highest = "wave", np.where(is_seen, profile, -math.inf)
    return UsageAnswer(basis, class_id, reason, top, section.version, clock, mean_waves, upper_waves, expected, highest)


def _observed_s(samples: Seen | None, is_seen: np.ndarray, section: UsageSection) -> int:
    if samples is None or not is_seen.any():
        return 0
    first, last = ((time_s + section.clock.start_unix_s) // SLOT_S for time_s in (samples.first_s, samples.last_s))
    return int(observed_s(first, last, hours_seen(is_seen[None, :])[0]))


def _seconds(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) \
            or not -LATEST_S < value < LATEST_S:
        raise ValueError(f"{name} must be seconds on the trace's clock, got {shown(value)}")
    return float(value)


USED_MAX = 10.0
"""The largest valid share: a higher one is a damaged value, or percent instead of a share."""


class LiveUsage:
    """A section and samples of running requests; for one thread at a time. The section may be replaced."""

    def __init__(self, section: UsageSection, n_most: int = N_REQUESTS_MAX) -> None:
        self._observed = ObservedUse(n_most)
        self.section = section
        self._slots = SlotClock(section.clock)

    def __len__(self) -> int:
        return len(self._observed)

    @property
    def n_bytes(self) -> int:
        return self._observed.n_bytes

    def serve(self, section: UsageSection) -> None:
        """Use this section from now on, and keep the samples. ValueError if its clock differs."""
        if section.clock != self.section.clock:
            raise ValueError(f"the usage section's clock must be {self.section.clock}, got {section.clock}")
        self.section = section

    def observe(self, request_id: str, time_s: Any, cpu: Any, mem: Any = None) -> bool:
        """Record a sample; False if it is dropped. ValueError for a wrong sample."""
        time = clock_second(time_s, "time_s")
        cpu = _share(cpu, "used")
        mem = None if mem is None else _share(mem, "mem_used")
        return self._observed.add(request_id, time, self._slots.slot(time), cpu, mem)

    def seen(self, request_id: str, resource: str) -> Seen | None:
        """A copy of a request's samples; None = no samples."""
        return self._observed.seen(request_id, resource)

    def ended(self, request_id: str) -> bool:
        """Delete a request's samples; False if there are none."""
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
