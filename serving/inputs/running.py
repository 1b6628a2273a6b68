"""An owner's running requests, and what it takes to count its latest batch again when one of them never was."""

from __future__ import annotations

from array import array
from bisect import bisect_left

Group = tuple[int, int, int]
"""Ended requests no two neighbours of which arrived further apart than a batch's gap: latest, earliest arrival, count.

Nothing that runs holds them together, so no withdrawal can part them: they are one link of a batch's chain.
"""
Undo = tuple[int, int | None, int, int, list[Group]]
"""An admission's number, and the owner's last arrival, batch, batch's start and groups of ended ones before it."""


class RunningRequests:
    """What an owner holds only while requests of it run: between two groups of ended ones always one of these runs.

    arrivals: from an admission's number to its arrival, in order of admission; sum_s: of them all.
    ended: the ended requests of the batch in groups, in order of arrival, further apart than the gap.
    undo: what undoes the latest admission; None where anything has happened since.
    """

    __slots__ = ("_n_passed", "_order", "arrivals", "ended", "sum_s", "undo")

    def __init__(self, ended: list[Group]) -> None:
        self.arrivals: dict[int, int] = {}
        self.ended = ended
        self.sum_s = 0
        self.undo: Undo | None = None
        self._order = array("q")  # numbers as admitted, some of them gone; _n_passed of them at the front are
        self._n_passed = 0

    def copy(self) -> RunningRequests:
        """The same state, of which nothing changes with this one."""
        other = RunningRequests(self.ended.copy())
        other.arrivals = self.arrivals.copy()
        other.sum_s = self.sum_s
        other._order = array("q", other.arrivals)
        if self.undo is not None:
            groups = other.ended if self.undo[4] is self.ended else self.undo[4].copy()
            other.undo = (*self.undo[:4], groups)
        return other

    def restore(self, arrivals: dict[int, int], undo: Undo | None) -> None:
        """Set what runs, in order of admission, and how the latest of it is undone."""
        self.arrivals = arrivals
        self.sum_s = sum(arrivals.values())
        self._order = array("q", arrivals)
        self.undo = undo

    def add(self, number: int, arrival_s: int) -> None:
        """Take an admission in."""
        self.arrivals[number] = arrival_s
        self._order.append(number)
        self.sum_s += arrival_s

    def remove(self, number: int) -> int:
        """Forget an admission; its arrival."""
        arrival_s = self.arrivals.pop(number)
        self.sum_s -= arrival_s
        return arrival_s

    def oldest_s(self) -> int:
        """The arrival of the first of those running. A dict's own first entry is found by passing all that are gone."""
        order, arrivals = self._order, self.arrivals
        if len(order) > 2 * len(arrivals) + 16:
            self._order = order = array("q", arrivals)
            self._n_passed = 0
        while order[self._n_passed] not in arrivals:
            self._n_passed += 1
        return arrivals[order[self._n_passed]]

    def group_ended(self, arrival_s: int, batch_gap_s: int) -> None:
        """Count an ended request of the batch into its group; it may join the two beside it."""
        ended = self.ended
        start = stop = bisect_left(ended, (arrival_s - batch_gap_s,))
        latest_s = earliest_s = arrival_s
        n = 1
        while stop < len(ended) and ended[stop][1] <= arrival_s + batch_gap_s:
            latest_s = max(latest_s, ended[stop][0])
            earliest_s = min(earliest_s, ended[stop][1])
            n += ended[stop][2]
            stop += 1
        ended[start:stop] = [(latest_s, earliest_s, n)]

    def batch(self, batch_gap_s: int) -> Group | None:
        """The latest batch, of those running and those ended; None where there is none."""
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
