"""One owner's state in the history: what has arrived, what runs, how long the last ones stayed."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

from sojourn.serving._jitable import register_jitable

OWNER_FEATURES = (
    "arrived", "running", "oldest_age", "mean_age", "since_last", "batch",
    "ended", "mean", "spread", "last", "mean_2", "longest", "share_1h", "share_1d", "share_7d",
)  # fmt: skip
"""Features of an owner key, in order: counts as log1p, times as log10 seconds, shares in [0, 1].

`arrived` and `ended` count up to the definition's window: a count that grows for ever tells a model which owner it
is and how late it is, and no later row lies where it learnt.
"""
_SHARES_LOG10 = tuple(math.log10(seconds) for seconds in (3_600.0, 86_400.0, 604_800.0))
_NAN = math.nan
_NOTHING_ENDED = (0.0, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN)
UNKNOWN_OWNER = (0.0, 0.0, _NAN, _NAN, _NAN, 0.0, *_NOTHING_ENDED)
"""The row of an owner that has not been seen, or was forgotten: its features whatever the time."""


@register_jitable
def fill_owner_features(row: Sequence[float], now_s: float, batch_gap_s: float, values: Any, at: int) -> None:
    """Write an owner's features at a time into values[at:], from its row.

    row: what `OwnerState.row` gives: the features, but arrivals in s in place of ages, and the latest batch whatever
    the time since.
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
    """One owner's state. `running` maps an admission's number to its arrival, in order of admission.

    A batch is a chain of arrivals no further apart than the gap; only the latest one is kept. `batch_ended` holds
    the arrivals of its ended requests, so that it can be counted again when an admission is withdrawn.
    """

    __slots__ = ("batch", "batch_ended", "batch_start_s", "ended_part", "last_arrival_s", "last_ended_s", "n_ended",
                 "n_passed", "order", "recent", "running", "running_sum_s", "slot", "window")  # fmt: skip

    def __init__(self, window: int, slot: int) -> None:
        self.window = window
        self.slot = slot
        self.n_ended = 0
        self.last_arrival_s: int | None = None
        self.last_ended_s: int | None = None  # the latest arrival among those that have ended
        self.batch = 0
        self.batch_start_s = 0
        self.batch_ended = array("q")
        self.running: dict[int, int] = {}
        self.order = array("q")  # numbers as admitted, some of them gone; n_passed of them at the front are
        self.n_passed = 0
        self.running_sum_s = 0
        self.recent = array("d")
        self.ended_part: tuple[float, ...] = _NOTHING_ENDED

    def row(self) -> tuple[float, ...]:
        """What `fill_owner_features` reads, as it is now."""
        n_running = len(self.running)
        oldest_s = mean_s = _NAN
        if n_running:
            oldest_s = self._oldest_s()
            mean_s = self.running_sum_s / n_running
        last_s = _NAN if self.last_arrival_s is None else self.last_arrival_s
        return (math.log1p(min(self.n_ended + n_running, self.window)), math.log1p(n_running), oldest_s, mean_s, last_s,
                math.log1p(self.batch), *self.ended_part)  # fmt: skip

    def _oldest_s(self) -> int:
        """The arrival of the first of those running. A dict's own first entry is found by passing all that are gone."""
        order, running = self.order, self.running
        if len(order) > 2 * len(running) + 16:
            self.order = order = array("q", running)
            self.n_passed = 0
        while order[self.n_passed] not in running:
            self.n_passed += 1
        return running[order[self.n_passed]]

    def arrive(self, number: int, now_s: int, batch_gap_s: int) -> None:
        last_s = self.last_arrival_s
        self.running[number] = now_s
        self.order.append(number)
        self.running_sum_s += now_s
        if last_s is None or now_s - last_s > batch_gap_s:
            self.last_arrival_s = self.batch_start_s = now_s
            self.batch = 1
            self.batch_ended = array("q")
        elif now_s >= last_s:
            self.last_arrival_s = now_s
            self.batch += 1
        else:  # it was running already
            self.recount(batch_gap_s)

    def end(self, number: int, log_lifetime: float) -> None:
        arrival_s = self.running.pop(number)
        self.running_sum_s -= arrival_s
        if self.last_ended_s is None or arrival_s > self.last_ended_s:
            self.last_ended_s = arrival_s
        if arrival_s >= self.batch_start_s:
            self.batch_ended.append(arrival_s)
        self.n_ended += 1
        self.recent.append(log_lifetime)
        if len(self.recent) > self.window:
            del self.recent[0]
        self.refresh_ended()

    def recount(self, batch_gap_s: int) -> None:
        """Find the latest arrival and its batch again, from those running and those ended."""
        times = sorted([*self.running.values(), *self.batch_ended])
        if not times or (self.last_ended_s is not None and self.last_ended_s > times[-1]):
            # Of an earlier batch: too long ago to be continued, so its size does not matter.
            self.last_arrival_s, self.batch = self.last_ended_s, 0
            self.batch_start_s = 0 if self.last_ended_s is None else self.last_ended_s
            return
        self.last_arrival_s = self.batch_start_s = times[-1]
        self.batch = 1
        for time_s in reversed(times[:-1]):
            if self.batch_start_s - time_s > batch_gap_s:
                break
            self.batch_start_s = time_s
            self.batch += 1

    def refresh_ended(self) -> None:
        recent = self.recent
        n = len(recent)
        total = 0.0
        for value in recent:
            total += value
        mean = total / n
        squares = 0.0
        longest = -1.0
        above = [0, 0, 0]
        for value in recent:
            squares += (value - mean) * (value - mean)
            if value > longest:
                longest = value
            for idx, bound in enumerate(_SHARES_LOG10):
                if value >= bound:
                    above[idx] += 1
        last = recent[-1]
        mean_2 = last if n == 1 else (last + recent[-2]) / 2.0
        self.ended_part = (math.log1p(n), mean, math.sqrt(squares / n), last, mean_2, longest,
                           above[0] / n, above[1] / n, above[2] / n)  # fmt: skip
