"""One owner's state in the history: arrivals, running requests, latest lifetimes.

`RunningRequests` can also count the latest batch again after an admission is undone.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from sojourn.serving.kernel import register_jitable

OWNER_FEATURES = (
    "arrived", "running", "oldest_age", "mean_age", "since_last", "batch",
    "ended", "mean", "spread", "last", "mean_2", "longest", "share_1h", "share_1d", "share_7d",
)  # fmt: skip
"""Features of an owner key, in order: counts as log1p, times as log10 seconds, shares in [0, 1].

`arrived` and `ended` stop at the definition's window. A count without bound would reveal the owner
and the time, and later rows would be outside the range of training.
"""
OWNER_FEATURES_APART = tuple("instant" if part == "mean_2" else part for part in OWNER_FEATURES)
"""The same if instant ends are set apart: `instant` is their share of the latest ends; `ended` and
all features after it are of the other ends (NaN if there are none)."""
ALL_TOGETHER = -1.0
"""Below every log10 lifetime, so no end is instant."""
_HOUR_LOG10, _DAY_LOG10, _WEEK_LOG10 = math.log10(3_600.0), math.log10(86_400.0), math.log10(604_800.0)
LONGER_LOG10 = (_HOUR_LOG10, _DAY_LOG10, _WEEK_LOG10)
"""Log10 seconds of the shares `share_1h`, `share_1d`, `share_7d`."""
_NAN = math.nan
_DOUBLE = Struct("=d")
_NOTHING_ENDED = (0.0, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN)
UNKNOWN_OWNER = (0.0, 0.0, _NAN, _NAN, _NAN, 0.0, *_NOTHING_ENDED)
"""The row of an unknown owner: its features at any time."""


@register_jitable
def fill_owner_features(row: Sequence[float], now_s: float, batch_gap_s: float, values: Any, at: int) -> None:
    """Write an owner's features at a time to values[at:], from its row.

    row: `OwnerState.head` and `OwnerState.ended_part`: the features, but with arrivals in s instead
    of ages, and the latest batch even if it is over.
    """
    values[at] = row[0]
    values[at + 1] = row[1]
    for idx in (2, 3, 4):
        arrival_s = row[idx]
        values[at + idx] = math.log10(max(now_s - arrival_s, 1.0)) if arrival_s == arrival_s else arrival_s
    values[at + 5] = row[5] if now_s - row[4] <= batch_gap_s else 0.0
    for idx in range(6, 15):
        values[at + idx] = row[idx]


class OwnerState:
    """One owner's state; small, since most owners of a full table are idle: `running` is None.

    A batch is a chain of arrivals with gaps up to `batch_gap_s`; only the latest one is kept.
    recent: log10 lifetimes of the latest ends, as bytes of doubles.
    """

    __slots__ = ("batch", "batch_start_s", "last_arrival_s", "last_ended_s", "n_ended", "recent", "running", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.n_ended = 0
        self.last_arrival_s: int | None = None
        self.last_ended_s: int | None = None  # the latest arrival of an ended request
        self.batch = 0
        self.batch_start_s = 0
        self.recent = b""
        self.running: RunningRequests | None = None

    def copy(self) -> OwnerState:
        """An independent copy in the same slot."""
        twin = OwnerState(self.slot)
        twin.n_ended = self.n_ended
        twin.last_arrival_s = self.last_arrival_s
        twin.last_ended_s = self.last_ended_s
        twin.batch = self.batch
        twin.batch_start_s = self.batch_start_s
        twin.recent = self.recent
        twin.running = None if self.running is None else self.running.copy()
        return twin

    def row(self, window: int, instant_log10: float) -> tuple[float, ...]:
        """The owner's whole row, with or without ended requests."""
        return self.head(window) + (self.ended_part(instant_log10) if self.n_ended else _NOTHING_ENDED)

    def head(self, window: int) -> tuple[float, ...]:
        """The first 6 numbers of the owner's row, which arrivals change."""
        n_running = 0
        oldest_s = mean_s = _NAN
        if self.running is not None and self.running.arrivals:
            n_running = len(self.running.arrivals)
            oldest_s = self.running.oldest_s()
            mean_s = self.running.sum_s / n_running
        last_s = _NAN if self.last_arrival_s is None else self.last_arrival_s
        return (math.log1p(min(self.n_ended + n_running, window)), math.log1p(n_running), oldest_s, mean_s, last_s,
                math.log1p(self.batch))  # fmt: skip

    def ended_part(self, instant_log10: float) -> tuple[float, ...]:
        """The other 9 numbers of the row, which only ends change; call it after the first end.

        instant_log10: log10 lifetimes up to this are instant ends; ALL_TOGETHER = none.
        """
        recent: Sequence[float] = array("d", self.recent)
        share = _NAN
        if instant_log10 >= 0.0:
            n_all = len(recent)
            recent = [value for value in recent if value > instant_log10]
            share = (n_all - len(recent)) / n_all
            if not recent:
                return (0.0, _NAN, _NAN, _NAN, share, _NAN, _NAN, _NAN, _NAN)
        n = len(recent)
        total = 0.0
        for value in recent:
            total += value
        mean = total / n
        squares = 0.0
        longest = -1.0
        n_1h = n_1d = n_7d = 0
        for value in recent:
            deviation = value - mean
            squares += deviation * deviation
            if value > longest:
                longest = value
            if value >= _HOUR_LOG10:
                n_1h += 1
                if value >= _DAY_LOG10:
                    n_1d += 1
                    if value >= _WEEK_LOG10:
                        n_7d += 1
        last = recent[-1]
        fifth = share
        if instant_log10 < 0.0:
            fifth = last if n == 1 else (last + recent[-2]) / 2.0
        return math.log1p(n), mean, math.sqrt(squares / n), last, fifth, longest, n_1h / n, n_1d / n, n_7d / n

    def batch_groups(self) -> list[Group]:
        """The ended requests of the batch in groups; for an idle owner they are the whole batch."""
        if self.running is not None:
            return self.running.ended
        return [(self.last_arrival_s, self.batch_start_s, self.batch)] if self.batch else []  # type: ignore[list-item]

    def arrive(self, number: int, now_s: int, batch_gap_s: int) -> None:
        if self.running is None:
            self.running = RunningRequests(self.batch_groups())
        running, last_s = self.running, self.last_arrival_s
        running.undo = (number, last_s, self.batch, self.batch_start_s, running.ended)
        running.add(number, now_s)
        if last_s is None or now_s - last_s > batch_gap_s:
            self.last_arrival_s = self.batch_start_s = now_s
            self.batch = 1
            running.ended = []
        elif self.batch and now_s >= self.batch_start_s:
            if now_s > last_s:
                self.last_arrival_s = now_s
            self.batch += 1
        elif self.batch_start_s - now_s <= batch_gap_s:  # it ran before, and may join the batch
            self._recount(running, batch_gap_s)

    def end(self, number: int, log_lifetime: float, window: int, batch_gap_s: int) -> bool:
        """Count the end of an admission; False if it does not run, since the owner was removed meanwhile."""
        running = self.running
        if running is None or number not in running.arrivals:
            return False
        arrival_s = running.remove(number)
        running.undo = None
        if self.last_ended_s is None or arrival_s > self.last_ended_s:
            self.last_ended_s = arrival_s
        if arrival_s >= self.batch_start_s:
            running.group_ended(arrival_s, batch_gap_s)
        self.n_ended += 1
        self.recent = (self.recent + _DOUBLE.pack(log_lifetime))[-window * _DOUBLE.size:]
        self._rest(running)
        return True

    def withdraw(self, number: int, batch_gap_s: int) -> bool:
        """Undo an admission: in constant time if it is the latest event, else count the batch
        again. False as in `end`."""
        running = self.running
        if running is None or number not in running.arrivals:
            return False
        running.remove(number)
        undo, running.undo = running.undo, None
        if undo is not None and undo[0] == number:
            _, self.last_arrival_s, self.batch, self.batch_start_s, running.ended = undo
        else:
            self._count_again(running, batch_gap_s)
        self._rest(running)
        return True

    def lose(self, numbers: Iterable[int], batch_gap_s: int) -> None:
        """Undo those admissions that still run; if one is in the batch, count the batch again, once."""
        running = self.running
        present = [] if running is None else [number for number in numbers if number in running.arrivals]
        if running is None or not present:
            return
        latest_s = max([running.remove(number) for number in present])
        running.undo = None
        if latest_s >= self.batch_start_s or not self.batch:
            self._count_again(running, batch_gap_s)
        self._rest(running)

    def _count_again(self, running: RunningRequests, batch_gap_s: int) -> None:
        start_s = self.batch_start_s
        self._recount(running, batch_gap_s)
        running.ended = [group for group in running.ended if not start_s <= group[1] < self.batch_start_s]

    def restore(self, n_ended: int, last_ended_s: int, groups: list[Group], recent: bytes, batch_gap_s: int) -> None:
        """Set the state of a snapshot; running requests are admitted again, and may join the groups to one batch."""
        self.n_ended = n_ended
        self.last_ended_s = last_ended_s
        self.recent = recent
        self.running = RunningRequests(groups)
        self._recount(self.running, batch_gap_s)
        self._rest(self.running)

    def _recount(self, running: RunningRequests, batch_gap_s: int) -> None:
        latest = running.batch(batch_gap_s)
        if latest is not None and (self.last_ended_s is None or self.last_ended_s <= latest[0]):
            self.last_arrival_s, self.batch_start_s, self.batch = latest
        else:  # the latest arrival is too old to continue its batch, so the size does not matter
            self.last_arrival_s, self.batch = self.last_ended_s, 0
            self.batch_start_s = 0 if self.last_ended_s is None else self.last_ended_s

    def _rest(self, running: RunningRequests) -> None:
        """Drop the state that an idle owner does not need: its one group is the batch (`batch_groups`)."""
        if not running.arrivals and len(running.ended) <= 1:
            self.running = None


Group = tuple[int, int, int]
"""Ended requests with gaps up to a batch's gap: latest, earliest arrival, count.

No running request is between them, so no withdrawal can split them.
"""
Undo = tuple[int, int | None, int, int, list[Group]]
"""An admission's number, and the state before it: last arrival, batch, its start, groups of ended requests."""


class RunningRequests:
    """The state of an owner with running requests; between two groups of ended ones there is always one.

    arrivals: admission's number -> arrival, in order of admission; sum_s: their sum. ended: the
    ended requests of the batch in groups, in order of arrival, with gaps above `batch_gap_s`. undo:
    undoes the latest admission; None if it is not the latest event.
    """

    __slots__ = ("_n_passed", "_order", "arrivals", "ended", "sum_s", "undo")

    def __init__(self, ended: list[Group]) -> None:
        self.arrivals: dict[int, int] = {}
        self.ended = ended
        self.sum_s = 0
        self.undo: Undo | None = None
        self._order = array("q")  # numbers in order of admission, some removed; the first _n_passed are
        self._n_passed = 0

    def copy(self) -> RunningRequests:
        """An independent copy."""
        twin = RunningRequests(self.ended.copy())
        twin.arrivals = self.arrivals.copy()
        twin.sum_s = self.sum_s
        twin._order = array("q", twin.arrivals)
        if self.undo is not None:
            groups = twin.ended if self.undo[4] is self.ended else self.undo[4].copy()
            twin.undo = (*self.undo[:4], groups)
        return twin

    def restore(self, arrivals: dict[int, int], undo: Undo | None) -> None:
        """Set the running requests, in order of admission, and the undo state of the latest."""
        self.arrivals = arrivals
        self.sum_s = sum(arrivals.values())
        self._order = array("q", arrivals)
        self.undo = undo

    def add(self, number: int, arrival_s: int) -> None:
        """Add an admission."""
        self.arrivals[number] = arrival_s
        self._order.append(number)
        self.sum_s += arrival_s

    def remove(self, number: int) -> int:
        """Remove an admission; returns its arrival."""
        arrival_s = self.arrivals.pop(number)
        self.sum_s -= arrival_s
        return arrival_s

    def oldest_s(self) -> int:
        """The arrival of the first running request. The first entry of a dict is slow after many removals."""
        order, arrivals = self._order, self.arrivals
        if len(order) > 2 * len(arrivals) + 16:
            self._order = order = array("q", arrivals)
            self._n_passed = 0
        while order[self._n_passed] not in arrivals:
            self._n_passed += 1
        return arrivals[order[self._n_passed]]

    def group_ended(self, arrival_s: int, batch_gap_s: int) -> None:
        """Count an ended request of the batch; it may join its neighbouring groups."""
        groups = self.ended
        start = stop = bisect_left(groups, (arrival_s - batch_gap_s,))
        latest_s = earliest_s = arrival_s
        n = 1
        while stop < len(groups) and groups[stop][1] <= arrival_s + batch_gap_s:
            latest_s = max(latest_s, groups[stop][0])
            earliest_s = min(earliest_s, groups[stop][1])
            n += groups[stop][2]
            stop += 1
        groups[start:stop] = [(latest_s, earliest_s, n)]

    def batch(self, batch_gap_s: int) -> Group | None:
        """The latest batch of running and ended requests; None if there is none."""
        times, groups = sorted(self.arrivals.values()), self.ended.copy()
        if not times and not groups:
            return None
        latest_s = start_s = max([*times[-1:], *(group[0] for group in groups[-1:])])
        n = 0
        while True:
            while times and start_s - times[-1] <= batch_gap_s:
                time_s = times.pop()
                if time_s < start_s:
                    start_s = time_s
                n += 1
            if not groups or start_s - groups[-1][0] > batch_gap_s:
                return latest_s, start_s, n
            _, earliest_s, n_ended = groups.pop()
            start_s = min(start_s, earliest_s)
            n += n_ended
