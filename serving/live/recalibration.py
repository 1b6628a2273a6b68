"""Online recalibration: factors on a model's hazards, learnt from ended and running requests.

A cell is a bucket of the age and a band of the hazard outlived since the bucket began (see
`recalibrated_hazards`). Each cell counts the ends, and the ends that the model expected: the sum of
the hazards of all requests at risk there, on the model's curves before recalibration. Their ratio,
shrunk, is the cell's factor. Old counts lose weight, so factors follow a drift. Running requests
count up to now, since ended ones alone would be short. Each second at risk counts once. The same
calls in the same order give the same factors.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from sojourn.serving.answers import Current, Served
from sojourn.serving.curves import AGE_STARTS_S, BAND_STARTS, N_AGES, N_BANDS, HazardCurve, curve_steps
from sojourn.serving.inputs import checked_array
from sojourn.serving.live.admitted import Admitted, LiveRequests

WINDOW = 4_000.0
"""After so many ends, a count weighs 1/e. 4,000 to 64,000 were about equal on seven validation windows."""
PRIOR = 20.0
"""Weight, in expected ends, by which a cell's factor shrinks to the product of its age and band factors."""
FACTOR_MAX = 8.0
"""Factors are at most this and at least its inverse."""
N_ENDS_COUNTED = 64
"""After so many ends, counts and factors are updated."""
N_RUNNING_COUNTED = 512
"""Each update counts so many running requests up to now, in turn. With fewer, large clusters lag:
with 128 the PIT deviation at 10 min was .036 instead of .015 on the test window of
azure-2017-v1-flavors."""
N_PASSED_MAX = 1_000
"""Stale turns are removed when there are so many more than running requests."""
CLOCK_BACK_S = 30 * 86_400
"""A step back in time by so much means that the clock was set back. Running requests were counted
up to a wrong time, perhaps by years, so all counts start anew. Late reports of ends differ by less."""
OFF, ON, NO_HAZARDS = "off", "on", "off: the version's curves are not of hazards"
WAITS = "off: requests wait after their admission; report each start with Predictor.started, to say what runs"
CurveNumbers = np.ndarray
"""Edges (s) and rates (per s) of a model's own curve, float64 (2, J + 1)."""


class _Exposure(NamedTuple):
    """A request at risk from one uptime to another, s, and whether it ended there."""

    numbers: CurveNumbers
    from_s: float
    to_s: float
    is_end: bool


class _Followed(NamedTuple):
    """A running request: its start, and the uptime up to which it is counted, s."""

    start_s: int
    counted_s: float


class Recalibration:
    """Ends and expected ends by cell, and the factors of them; for one thread at a time.

    >>> recalibration = Recalibration()
    >>> bool((recalibration.factors == 1.0).all())
    True
    """

    def __init__(self) -> None:
        self.ends = np.zeros((N_AGES, N_BANDS))
        self.expected = np.zeros((N_AGES, N_BANDS))
        self.factors = factors_of(self.ends, self.expected)
        """float64 (N_AGES, N_BANDS), never changed in place."""
        self._running: dict[int, _Followed] = {}
        self._turns: deque[int] = deque()  # requests in the order in which they are counted; ended ones are skipped
        self._pending: list[_Exposure] = []
        self._n_ends = 0
        self._counted_to_s: int | None = None  # time of the latest update
        self.is_learnt = False
        """Whether ends were counted; until then all factors are 1."""

    def __len__(self) -> int:
        return len(self._running)

    def follow(self, number: int, start_s: int, entry_s: float = 0.0) -> None:
        """Start to count a request. number: its identity. entry_s: its uptime now."""
        self._running[number] = _Followed(start_s, entry_s)
        self._turns.append(number)

    def forget(self, number: int) -> None:
        """Stop counting a request that was withdrawn or whose curve is not available."""
        self._running.pop(number, None)
        if len(self._turns) > 2 * len(self._running) + N_PASSED_MAX:  # else only `count` removes them
            self._turns = deque(number for number in self._turns if number in self._running)

    def ended(self, number: int, end_s: int, numbers: CurveNumbers, *, is_end: bool = True) -> None:
        """Record an end; is_end False: the end of observation. numbers: of its curve. Ignored if not followed."""
        one = self._running.pop(number, None)
        if one is None:
            return
        self._pending.append(_Exposure(numbers, one.counted_s, float(max(end_s - one.start_s, 1)), is_end))
        self._n_ends += is_end

    @property
    def is_due(self) -> bool:
        """Whether enough requests ended for an update."""
        return self._n_ends >= N_ENDS_COUNTED

    def count(self, now_s: int, numbers_of: Callable[[int], CurveNumbers | None]) -> None:
        """Count ended requests, and some running ones up to now; update the factors.

        numbers_of: the curve of a running request by its number; None = not available, stop
        counting it. If the clock was set back by more than CLOCK_BACK_S since the last update, all
        counts start anew.
        """
        if self._counted_to_s is not None and now_s < self._counted_to_s - CLOCK_BACK_S:
            self._begin_anew(now_s)
            return
        exposures = [*self._pending, *self._lived(now_s, numbers_of)]
        fade = math.exp(-self._n_ends / WINDOW)
        ends, expected = counted(exposures)
        self.ends = fade * self.ends + ends
        self.expected = fade * self.expected + expected
        self.factors = factors_of(self.ends, self.expected)
        self._pending, self._n_ends, self.is_learnt, self._counted_to_s = [], 0, True, now_s

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The whole state for a snapshot, as copies that no later call changes."""
        turns = [(number, one) for number in self._turns if (one := self._running.get(number)) is not None]
        return {
            "counts": np.concatenate([self.ends, self.expected]),
            "turns": np.array([(number, one.start_s) for number, one in turns], np.int64).reshape(-1, 2),
            "turns:counted": np.array([one.counted_s for _, one in turns], np.float64),
            "pending": np.array([(one.from_s, one.to_s, one.is_end) for one in self._pending]).reshape(-1, 3),
            "pending:numbers": np.concatenate([np.empty(0), *(one.numbers.ravel() for one in self._pending)]),
            "is_learnt": np.array([self.is_learnt], np.uint8),
            "counted_to": np.array([] if self._counted_to_s is None else [self._counted_to_s], np.int64),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Recalibration:
        """From arrays of `to_arrays`; older ones lack `counted_to`. ValueError for other arrays."""
        counts = checked_array(arrays, "counts", np.float64)
        turns, counted_s = checked_array(arrays, "turns", np.int64), checked_array(arrays, "turns:counted", np.float64)
        pending = checked_array(arrays, "pending", np.float64)
        numbers = checked_array(arrays, "pending:numbers", np.float64)
        if counts.shape != (2 * N_AGES, N_BANDS) or not ((counts >= 0.0) & np.isfinite(counts)).all():
            raise ValueError(f"counts must be finite, >= 0 and of shape ({2 * N_AGES}, {N_BANDS}), got {counts.shape}")
        if turns.ndim != 2 or turns.shape[1] != 2 or counted_s.shape != turns.shape[:1] or not _is_uptime(counted_s):
            raise ValueError(f"turns must be rows of two with a time each, got {turns.shape} and {counted_s.shape}")
        curves = _pending_curves(pending, numbers)
        recalibration = cls()
        recalibration.ends, recalibration.expected = counts[:N_AGES].copy(), counts[N_AGES:].copy()
        recalibration.factors = factors_of(recalibration.ends, recalibration.expected)
        recalibration.is_learnt = bool(checked_array(arrays, "is_learnt", np.uint8).all())
        if "counted_to" in arrays:
            counted_to = checked_array(arrays, "counted_to", np.int64).tolist()
            if len(counted_to) > 1:
                raise ValueError(f"counted_to must be one time or none, got {len(counted_to)}")
            recalibration._counted_to_s = counted_to[0] if counted_to else None
        for (number, start_s), one_s in zip(turns.tolist(), counted_s.tolist(), strict=True):
            recalibration.follow(number, start_s, one_s)
        for (from_s, to_s, is_end), curve in zip(pending.tolist(), curves, strict=True):
            recalibration._pending.append(_Exposure(curve, from_s, to_s, bool(is_end)))
            recalibration._n_ends += bool(is_end)
        return recalibration

    def _begin_anew(self, now_s: int) -> None:
        """Reset all counts, and drop requests that were counted up to a later time."""
        self.ends, self.expected = np.zeros((N_AGES, N_BANDS)), np.zeros((N_AGES, N_BANDS))
        self.factors = factors_of(self.ends, self.expected)
        self._pending, self._n_ends, self.is_learnt, self._counted_to_s = [], 0, False, now_s
        self._running = {number: one for number, one in self._running.items()
                         if one.start_s + one.counted_s <= now_s}
        self._turns = deque(number for number in self._turns if number in self._running)

    def _lived(self, now_s: int, numbers_of: Callable[[int], CurveNumbers | None]) -> list[_Exposure]:
        """Exposures of the next running requests since they were last counted; they move to the end of the turns."""
        exposures: list[_Exposure] = []
        for _ in range(len(self._turns)):
            if len(exposures) == N_RUNNING_COUNTED:
                break
            number = self._turns.popleft()
            one = self._running.get(number)
            if one is None:
                continue
            uptime_s = float(now_s - one.start_s)
            if uptime_s > one.counted_s:
                numbers = numbers_of(number)
                if numbers is None:
                    del self._running[number]
                    continue
                exposures.append(_Exposure(numbers, one.counted_s, uptime_s, False))
                self._running[number] = _Followed(one.start_s, uptime_s)
            self._turns.append(number)
        return exposures


class OnlineRecalibration:
    """The recalibration of a predictor, on or off; the caller holds the predictor's lock.

    state: on, or off and why. learnt: None while it is off. is_by_starts: starts are reported, so
    that a request counts from its start on, not from its admission. blended: the curve of a request
    with what the habits gave it, by its number; None = they no longer know it. is_wanted: None = as
    the served version was judged.
    """

    def __init__(self, current: Current, running: LiveRequests, is_by_starts: bool,
                 blended: Callable[[int, HazardCurve], HazardCurve | None], is_wanted: bool | None) -> None:
        self.state = OFF
        self.learnt: Recalibration | None = None
        self.is_by_starts = is_by_starts
        self._current, self._running, self._blended, self._is_wanted = current, running, blended, is_wanted

    def begin(self, clock_s: int | None, former: tuple[str, Recalibration] | None = None) -> None:
        """Start with factors of 1, or continue from the snapshot `former` if it is of the served version.

        clock_s: the latest recorded time; running requests count from then on.
        """
        self.state, self.learnt = OFF, None
        served = self._current.served
        if not (served.recalibrates if self._is_wanted is None else self._is_wanted):
            return
        if not served.schema.curves.has_hazards:
            self.state = NO_HAZARDS
            return
        self.state = ON
        if former is not None and former[0] == served.version:
            self.learnt = former[1]
            return
        self.learnt = Recalibration()
        for one in self._running.all():
            self.follow(one, one.began_s if clock_s is None else max(clock_s, one.began_s))

    def factors_of(self, served: Served) -> np.ndarray | None:
        """The factors for a curve of this version now; None if there are none."""
        learner = self.learnt
        if learner is None or not learner.is_learnt or served.version != self._current.served.version:
            return None
        return learner.factors

    def follow(self, one: Admitted, recorded_s: int) -> None:
        """Start to count a request. recorded_s: its admission or start; it may have begun to run before."""
        learner = self.learnt
        if learner is None or one.version != self._current.served.version:
            return
        if one.started_s is not None or not self.is_by_starts:
            learner.follow(one.admission.number, one.began_s, float(recorded_s - one.began_s))

    def started(self, one: Admitted) -> None:
        """Count a request from its start; at the first reported start begin anew, since waiting ones were counted."""
        if self.is_by_starts:
            self.follow(one, one.began_s)
        else:
            self.is_by_starts = True
            self.begin(one.began_s)

    def forget(self, number: int) -> None:
        """Stop counting a request that is no longer open, without an end."""
        if self.learnt is not None:
            self.learnt.forget(number)

    def learn(self, one: Admitted, end_s: int, began_s: int) -> None:
        """Record the end of a request that is still among the running ones."""
        learner = self.learnt
        if learner is None:
            return
        number = one.admission.number
        if began_s != one.began_s and not self.is_by_starts:
            self.learnt, self.state = None, WAITS
            return
        numbers = None if began_s != one.began_s else self._curve_numbers(number)
        if numbers is None:
            learner.forget(number)
            return
        learner.ended(number, end_s, numbers)
        if learner.is_due:
            learner.count(end_s, self._curve_numbers)

    def _curve_numbers(self, number: int) -> CurveNumbers | None:
        """The curve of a running request before recalibration; None if it is not of the served version."""
        one, served = self._running.numbered(number), self._current.served
        if one is None or one.version != served.version:
            return None
        if one.n_before:
            curve = served.builder.curve_of(one.encoded)
        else:  # computed once
            curve = served.builder.curve(one.features.tolist())
            n = served.builder.n_numbers
            numbers = curve.numbers[:n]  # type: ignore[union-attr]
            self._running.enter(one._replace(encoded=np.concatenate([numbers, one.features]), n_before=n))
        blended = self._blended(number, curve)  # type: ignore[arg-type]
        return None if blended is None else curve_steps(blended)


def _is_uptime(values_s: np.ndarray) -> bool:
    return bool((np.isfinite(values_s) & (values_s >= 0.0)).all())


def _pending_curves(pending: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Curves of a snapshot's pending rows, float64 (n, 2, J + 1); ValueError if they are malformed."""
    n = len(pending)
    if pending.ndim != 2 or pending.shape[1] != 3 or len(numbers) % max(2 * n, 1) > 0 or len(numbers) < 4 * n:
        raise ValueError(f"pending must be rows of three with a curve each, got {pending.shape} and {numbers.shape}")
    if not _is_uptime(pending) or (pending[:, 2] > 1.0).any():
        raise ValueError("pending must be two uptimes and 0 or 1, got other values")
    curves: np.ndarray = numbers.reshape(n, 2, -1) if n else np.empty((0, 2, 2))
    if not _is_uptime(curves) or (np.diff(curves[:, 0]) < 0.0).any():
        raise ValueError("pending:numbers must be rising edges and rates >= 0, got other values")
    return curves


def factors_of(ends: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Factors, float64 (N_AGES, N_BANDS), from ends and expected ends by cell; 1 where nothing was expected.

    (ends + PRIOR x factors of age and band) / (expected + PRIOR). The factors of age and band are
    shrunk likewise to the overall factor, and that to 1.
    """
    whole = (ends.sum() + PRIOR) / (expected.sum() + PRIOR)
    by_age = (ends.sum(axis=1) + PRIOR * whole) / (expected.sum(axis=1) + PRIOR)
    by_band = (ends.sum(axis=0) + PRIOR * whole) / (expected.sum(axis=0) + PRIOR)
    factors = (ends + PRIOR * (by_age[:, None] * by_band / whole)) / (expected + PRIOR)
    bounded: np.ndarray = np.clip(factors, 1.0 / FACTOR_MAX, FACTOR_MAX)
    bounded.flags.writeable = False
    return bounded


def counted(exposures: list[_Exposure]) -> tuple[np.ndarray, np.ndarray]:
    """Ends and expected ends of exposures by cell, float64 (N_AGES, N_BANDS) each.

    Times beyond a curve's last edge are in no cell.
    """
    if not exposures:
        return np.zeros((N_AGES, N_BANDS)), np.zeros((N_AGES, N_BANDS))
    widths = {one.numbers.shape for one in exposures}
    if len(widths) > 1:  # only in a snapshot that was edited
        parts = [counted([one for one in exposures if one.numbers.shape == width]) for width in sorted(widths)]
        return np.sum([ends for ends, _ in parts], axis=0), np.sum([expected for _, expected in parts], axis=0)
    numbers = np.array([one.numbers for one in exposures])
    from_s, to_s = (np.array([getattr(one, name) for one in exposures])[:, None] for name in ("from_s", "to_s"))
    is_end = np.array([one.is_end for one in exposures])
    lower_s, upper_s, rates = numbers[:, 0, :-1], numbers[:, 0, 1:], numbers[:, 1, :-1]
    hazards = rates * (upper_s - lower_s)
    age = np.searchsorted(AGE_STARTS_S, lower_s, side="right") - 1
    total = np.cumsum(hazards, axis=1) - hazards
    is_first = np.diff(age, axis=1, prepend=-1) > 0
    outlived = total - np.maximum.accumulate(np.where(is_first, total, 0.0), axis=1)
    low = outlived + rates * (np.clip(from_s, lower_s, upper_s) - lower_s)
    high = outlived + rates * (np.clip(to_s, lower_s, upper_s) - lower_s)
    bounds = (*BAND_STARTS, math.inf)
    expected = np.empty((N_AGES, N_BANDS))
    for band in range(N_BANDS):
        within = np.maximum(np.minimum(high, bounds[band + 1]) - np.maximum(low, bounds[band]), 0.0)
        expected[:, band] = np.bincount(age.ravel(), within.ravel(), N_AGES)
    row = np.flatnonzero(is_end & (to_s[:, 0] <= upper_s[:, -1]))
    interval = (upper_s[row] < to_s[row]).sum(axis=1)
    band = np.searchsorted(BAND_STARTS, high[row, interval], side="left") - 1
    ends = np.zeros((N_AGES, N_BANDS))
    np.add.at(ends, (age[row, interval], np.maximum(band, 0)), 1.0)
    return ends, expected
