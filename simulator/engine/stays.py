"""When which request held room on which host, in a replay or in its part so far; and when hosts were empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.simulator.loop import DRAIN, FAIL, FAILED, NOT_PLACED, REOPEN, REPAIR
from sojourn.simulator.rectification import Spells

NOBODY = -1
"""Whose the stays are by which a failed or drained host counts as held."""


class Stays:
    """From when to when each request held room on each host, over all migrations and restarts.

    A host that failed or is drained counts as held until it is open again: it is not empty, for nobody can use it.
    """

    def __init__(self, log: np.ndarray, requests: np.ndarray, duration_s: int, host_events: np.ndarray | None = None, *,
                 from_s: int = 0, until_s: int | None = None) -> None:
        """log: MIGRATION_LOG, all of it so far. requests: the loop's. host_events: HOST_EVENTS of the whole replay;
        those after until_s are not looked at. from_s: requests that ended by then are left out. until_s: the time that
        the replay has reached; None = its end.
        """
        ends_s = requests["ends_s"] if until_s is None else np.minimum(requests["ends_s"], until_s)
        rows = np.flatnonzero((requests["first_host"] != NOT_PLACED) & (ends_s > from_s))
        since_s = (requests["arrival_s"] + requests["wait_s"])[rows]
        begun = np.stack([rows, requests["first_host"][rows], since_s, ends_s[rows]], axis=1)
        log = log[np.isin(log["row"], rows)]
        is_moved = np.isin(rows, log["row"])
        moved = {row: [[row, host, since, to]] for row, host, since, to in begun[is_moved].tolist()}
        for row, source, target, at_s, planner, _ in log.tolist():
            _follow(moved[row], source, target, at_s, at_s if planner == FAILED else at_s + duration_s,
                    int(ends_s[row]))
        further = [stay for own in moved.values() for stay in own]
        closed = [] if host_events is None else _closed(host_events, until_s)
        whole = np.concatenate([begun[~is_moved], np.array([*further, *closed], np.int64).reshape(-1, 4)])
        whole = whole[np.lexsort((whole[:, 2], whole[:, 1]))]
        self._row, self._host, self._from_s, self._to_s = whole.T.copy()

    def of(self, host: int, but: Sequence[int] = ()) -> np.ndarray:
        """Stays on a host, int64 (n, 2), from and to, by the first; but: without those of these requests."""
        own = slice(*np.searchsorted(self._host, [host, host + 1]))
        stays = np.stack([self._from_s[own], self._to_s[own]], axis=1)
        return np.asarray(stays[~np.isin(self._row[own], list(but))])

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Host, begin and end of all stays, by host and then by begin; int64 (n,)."""
        return self._host, self._from_s, self._to_s

    def last_s(self, rows: Sequence[int]) -> int:
        """When the last of these requests ran last: it ended, or a failure broke it off for good."""
        return int(self._to_s[np.isin(self._row, list(rows))].max())

    def empty_spells(self, now_s: int) -> Spells:
        """When hosts that had been in use were empty, up to now."""
        if len(self._host) == 0:
            return Spells(self._host, self._host, self._host)
        far_s = now_s + 1  # keeps hosts apart, so that one running maximum serves all
        emptied_s = np.maximum.accumulate(self._host * far_s + self._to_s) - self._host * far_s
        is_last = np.append(self._host[1:] != self._host[:-1], True)
        used_s = np.where(is_last, now_s, np.append(self._from_s[1:], now_s))
        is_spell = used_s > emptied_s
        return Spells(self._host[is_spell], emptied_s[is_spell], used_s[is_spell])


def gaps(stays: np.ndarray, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """The spans of a time in which no stay holds; stays by their begin, int64 (n, 2)."""
    stays = stays[(stays[:, 1] > from_s) & (stays[:, 0] < to_s)]
    ends = np.maximum.accumulate(np.append(from_s, stays[:, 1]))
    begins = np.append(stays[:, 0], max(to_s, from_s))
    return [(int(end), int(begin)) for end, begin in zip(ends, begins, strict=True) if begin > end]


def _follow(own: list[list[int]], source: int, target: int, at_s: int, left_s: int, end_s: int) -> None:
    """Bring one request's stays (row, host, from, to) up to date with an entry of the log.

    left_s: when it has left the source. A request whose host fails while it migrates goes on where it holds room.
    """
    for stay in own:
        if stay[1] == source and stay[3] > at_s:
            stay[3] = min(end_s, left_s)
    going_on = [stay for stay in own if stay[1] == target and stay[3] > at_s]
    for stay in going_on:
        stay[3] = end_s
    if target != NOT_PLACED and not going_on:
        own.append([own[0][0], target, at_s, end_s])


def _closed(host_events: np.ndarray, until_s: int | None) -> list[tuple[int, int, int, int]]:
    """Failures and drains as stays of NOBODY; those that last end at until_s, or never."""
    found: list[tuple[int, int, int, int]] = []
    open_s: dict[int, int] = {}
    n_closing: dict[int, int] = {}
    for time_s, what, host in host_events.tolist():
        if until_s is not None and time_s > until_s:
            break
        if what in (FAIL, DRAIN):
            n_closing[host] = n_closing.get(host, 0) + 1
            open_s.setdefault(host, time_s)
        elif what in (REPAIR, REOPEN):
            n_closing[host] -= 1
            if n_closing[host] == 0:
                found.append((NOBODY, host, open_s.pop(host), time_s))
    end_s = np.iinfo(np.int64).max if until_s is None else until_s
    return [*found, *((NOBODY, host, from_s, end_s) for host, from_s in open_s.items())]
