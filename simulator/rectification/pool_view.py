"""What a planner of moves sees of a pool at a moment: hosts, and the requests that run. Nothing of their ends.

What a plan is made of: requests that leave a host together, and where each goes.

Cells of time to come over which chances are told, and what an hour in each counts for.

How soon other requests take what is left or freed: what a pool has shown so far.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, slots=True)
class MigrationGroup:
    """Requests that leave a host together: moving only some of them would be of little use.

    source: the host. requests: their positions in the view, in the order in which they go. targets: host of each.
    gain_s: host-seconds that all moves together are expected to free, less what they cost; NaN where the planner does
        not weigh them. Higher is better.
    """

    source: int
    requests: tuple[int, ...]
    targets: tuple[int, ...]
    gain_s: float

    def __len__(self) -> int:
        """Moves."""
        return len(self.requests)


MIGRATION_S = 1_200
"""A migration takes so long if nothing else is said, and holds room on both hosts (LAVA, section 4.4). Cells begin
here: what is freed before counts for nothing."""
N_AT_ONCE = 3
"""Migrations at a time if nothing else is said (LAVA, section 4.4), in the order of the plan."""
HORIZON_S = 86_400
"""What is freed later than this counts for nothing: by then the pool is another, and migrations are planned anew.
Chosen on four synthetic seeds and openb (docs/simulator/rectification.md)."""
N_CELLS = 24


def edges_s() -> np.ndarray:
    """Edges of the cells, seconds from now, int64 (N_CELLS + 1,): from MIGRATION_S to the horizon, each by the same
    factor longer.

    >>> edges_s()[[0, 1, -1]].tolist()
    [1200, 1434, 86400]
    """
    return np.rint(np.geomspace(MIGRATION_S, HORIZON_S, N_CELLS + 1)).astype(np.int64)


def knots_s() -> np.ndarray:
    """Seconds after a host became empty at which it is asked whether it is empty, int64 (N_CELLS + 2,): 0 and the
    edges."""
    return np.append(0, edges_s())


def share_after(time_s: int) -> np.ndarray:
    """The share of each cell that is after a time, float64 (N_CELLS,)."""
    edges = edges_s()
    return np.asarray(np.clip((edges[1:] - time_s) / np.diff(edges), 0.0, 1.0))


N_DAYS = 14
"""Days that are remembered."""
SAMPLE_S = 6 * 3_600
"""So far apart are the moments of a day at which the hosts in use are looked at."""
_MOST = 2_000
"""Hosts that became empty in a day; of more, every second or every third and so on is asked."""
_TOGETHER = 4
"""Cells that are counted together, since single ones hold few hosts."""


@dataclass(frozen=True, slots=True)
class Spells:
    """Spells in which hosts were empty, by host and then by time; int64 (n,).

    host: of each. since_s, until_s: from when and to when; one that lasts ends now.
    """

    host: np.ndarray
    since_s: np.ndarray
    until_s: np.ndarray


@dataclass(frozen=True, slots=True)
class Refill:
    """What a pool has shown of its hosts.

    left_empty: float64 (N_CELLS + 1,), never rising: the chance that a host is empty when the last of the requests that
    run on it now has left, that being `edges_s()` from now; else others have come. still_empty: float64 (N_CELLS + 2,),
    the chance that a host that became empty is empty `knots_s()` later, whether in between it was in use or not.
    """

    left_empty: np.ndarray
    still_empty: np.ndarray


class RefillRecord:
    """Counts of a pool's last N_DAYS days, a day at a time; each is counted when the day after it is over, so that what
    became of a host within HORIZON_S is known of all."""

    def __init__(self) -> None:
        self._left: deque[np.ndarray] = deque(maxlen=N_DAYS)
        self._still: deque[np.ndarray] = deque(maxlen=N_DAYS)

    def add(self, left: np.ndarray, still: np.ndarray) -> None:
        """Count one more day. left: of `count_left`. still: of `count_still`."""
        self._left.append(left)
        self._still.append(still)

    def refill(self) -> Refill:
        """By all that was counted, and one more host for each number that was empty, so that few say little."""
        n_cells = N_CELLS // _TOGETHER
        left = np.sum([np.ones((n_cells, 2)), *self._left], axis=0)
        still = np.sum([np.ones((N_CELLS + 2, 2)), *self._still], axis=0)
        share = np.minimum.accumulate(left[:, 0] / left[:, 1])
        return Refill(np.append(share.repeat(_TOGETHER), share[-1]), still[:, 0] / still[:, 1])


def count_still(spells: Spells, from_s: int, now_s: int) -> np.ndarray:
    """Of the hosts that became empty from a time on and until HORIZON_S before now: how many were empty `knots_s()`
    later, and how many there were; int64 (N_CELLS + 2, 2).

    >>> spells = Spells(np.array([0]), np.array([0]), np.array([1_300]))
    >>> count_still(spells, 0, 86_400)[:4].tolist()
    [[1, 1], [1, 1], [0, 1], [0, 1]]
    """
    asked = np.flatnonzero((spells.since_s >= from_s) & (spells.since_s <= now_s - HORIZON_S))
    asked = asked[::max(-(-len(asked) // _MOST), 1)]
    at_s = spells.since_s[asked] + knots_s()[:, None]
    far_s = now_s + 1  # keeps hosts apart
    key = spells.host * far_s + spells.since_s
    place = np.searchsorted(key, spells.host[asked] * far_s + at_s, side="right") - 1  # the last that began by then
    n_empty = ((at_s < spells.until_s[place]) | (spells.until_s[place] == now_s)).sum(axis=1)
    return np.stack([n_empty, np.full(len(n_empty), len(asked))], axis=1)


def count_left(host: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, at_s: int) -> np.ndarray:
    """Of the hosts that were in use at a time, and that all who ran there then had left within HORIZON_S: on how many
    nobody else was when the last of them left, and how many there were, by when that was; int64
    (N_CELLS / 4, 2).

    host, from_s, to_s: int64 (n,), stays, by host; all that began within HORIZON_S of the time.
    """
    n_hosts = int(host.max(initial=-1)) + 1
    was_there = (from_s <= at_s) & (to_s > at_s)
    last_s = np.full(n_hosts, at_s)
    np.maximum.at(last_s, host[was_there], to_s[was_there])
    is_over = (last_s > at_s) & (last_s <= at_s + HORIZON_S)
    holds = (from_s > at_s) & (from_s < last_s[host]) & (to_s > last_s[host])
    is_empty = np.bincount(host[holds], minlength=n_hosts) == 0
    cell = np.clip(np.searchsorted(edges_s(), last_s - at_s, side="right") - 1, 0, N_CELLS - 1) // _TOGETHER
    n_cells = N_CELLS // _TOGETHER
    return np.stack([np.bincount(cell[is_over & is_empty], minlength=n_cells),
                     np.bincount(cell[is_over], minlength=n_cells)], axis=1)


def weights_s(refill: Refill | None) -> np.ndarray:
    """How long a host is expected to be empty for each cell in which nothing that runs there now is left, seconds,
    float64 (N_CELLS,).

    refill: None = nobody comes. If the last of them leaves in x, the host is expected to be empty for G(x) before the
    horizon: the chance that it is empty then, times how long it is from then on. By parts, the mean of G over when they
    leave is the chance that they have left, weighed in each cell by how much G falls over it.

    >>> bool((weights_s(None) == np.diff(edges_s())).all())
    True
    """
    edges, knots = edges_s(), knots_s()
    if refill is None:
        return np.diff(edges).astype(np.float64)
    still = refill.still_empty
    within_s = np.append(0.0, np.cumsum(np.diff(knots) * (still[1:] + still[:-1]) / 2))
    return np.asarray(-np.diff(refill.left_empty * np.interp(HORIZON_S - edges, knots, within_s)))


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool at a moment. Positions of requests are 0..n-1, of hosts 0..n_hosts-1; arrays are int64 unless it is said.

    capacity, free: (n_hosts, n_resources), in the same whole units. cpu: which resource is the cores.
    is_open: bool (n_hosts,), hosts that take requests. n_holding: (n_hosts,), requests that hold room there, those that
        migrate away included. host_kind: (n_hosts,).
    host: (n,), where each request runs. need: (n, n_resources). uptime_s: (n,), 0 or more. is_fixed: bool (n,), can't
        migrate, does so already or is about to. kind: (n,), of host that it needs, -1 = any. group: (n,), no two of a
        group on one host, -1 = none.
    curve_start, curve_end: (n,), each request's curve in the flat arrays breakpoint_s, total_s and overhang_s (empty
        where the predictor tells one lifetime alone); see `predictions.Curves`.
    refill: how soon others take what is left or freed, by what the pool has shown so far; None where that is not known,
        and then nobody comes.
    migration_s, n_at_once: how long a migration takes, seconds, and how many go at a time.
    """

    capacity: np.ndarray
    free: np.ndarray
    cpu: int
    is_open: np.ndarray
    n_holding: np.ndarray
    host_kind: np.ndarray
    host: np.ndarray
    need: np.ndarray
    uptime_s: np.ndarray
    is_fixed: np.ndarray
    kind: np.ndarray
    group: np.ndarray
    curve_start: np.ndarray
    curve_end: np.ndarray
    breakpoint_s: np.ndarray
    total_s: np.ndarray
    overhang_s: np.ndarray
    refill: Refill | None = None
    migration_s: int = MIGRATION_S
    n_at_once: int = N_AT_ONCE

    def done_s(self, k: int) -> int:
        """When the k-th migration of a plan is done, from 0, seconds from now; they go in the order of the plan."""
        return self.migration_s * (k // self.n_at_once + 1)

    def remaining_s(self) -> np.ndarray:
        """Predicted remaining time of each request at its uptime, seconds, int64 (n,), above 0: higher = stays longer.

        What `Curves.total_at` says less the uptime; a total that is outlived doubles.
        """
        if len(self.host) == 0:
            return np.zeros(0, np.int64)
        low, high = self.curve_start.copy(), self.curve_end.copy()
        while (high - low > 1).any():  # halves of each curve at once
            middle = (low + high) // 2
            is_reached = (self.breakpoint_s[np.minimum(middle, len(self.breakpoint_s) - 1)] <= self.uptime_s) & (
                high - low > 1)
            low = np.where(is_reached, middle, low)
            high = np.where(is_reached | (high - low <= 1), high, middle)
        total = np.maximum(self.total_s[low], 1)
        while (total <= self.uptime_s).any():
            total = np.where(total <= self.uptime_s, 2 * total, total)
        return np.asarray(total - self.uptime_s)

    def only(self, positions: np.ndarray) -> PoolView:
        """The same pool with some of its requests, in that order; hosts and what is free on them stay as they are."""
        return replace(self, **{name: getattr(self, name)[positions] for name in (
            "host", "need", "uptime_s", "is_fixed", "kind", "group", "curve_start", "curve_end")})

    def may_take(self, position: int, free: np.ndarray) -> np.ndarray:
        """Hosts that are open and in use, have room for a request and break no rule, bool (n_hosts,); its own is not
        among them.

        free: of the hosts, as it is to be counted.
        """
        may = self.is_open & (self.n_holding > 0) & (free >= self.need[position]).all(axis=1)
        if self.kind[position] >= 0:
            may &= self.host_kind == self.kind[position]
        if self.group[position] >= 0:
            may[self.host[self.group == self.group[position]]] = False
        may[self.host[position]] = False
        return may
