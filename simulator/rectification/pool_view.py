"""A planner's view of a pool at one time, its plan, and refills of hosts.

The view has hosts and running requests, without their ends. A plan has groups of requests that
leave a host together, each with its target. Chances are means over cells of future time. Refills
say how soon other requests come to hosts, as counted in the pool so far.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from sojourn.simulator.cluster import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class MigrationGroup:
    """Requests that leave a host together: to move only some of them is of little use.

    source: the host. requests: their positions in the view, in the order in which they go. targets:
    host of each. gain_s: host-seconds that all moves together are expected to free, less their
    cost; NaN if the planner does not compute it. Higher is better.
    """

    source: int
    requests: tuple[int, ...]
    targets: tuple[int, ...]
    gain_s: float

    def __len__(self) -> int:
        """Moves."""
        return len(self.requests)


MIGRATION_S = 1_200
"""Default length of a migration, which holds room on both hosts (LAVA, section 4.4). Cells begin
here: room freed before does not count."""
N_AT_ONCE = 3
"""Default number of migrations at a time (LAVA, section 4.4), in the order of the plan."""
HORIZON_S = 86_400
"""Room freed later does not count: by then the pool has changed, and migrations are planned again.
Chosen on four synthetic seeds and openb (docs/simulator/rectification_results.md)."""
N_CELLS = 24


def edges_s() -> np.ndarray:
    """Edges of the cells, seconds from now, int64 (N_CELLS + 1,): from MIGRATION_S to the horizon,
    in a geometric series.

    >>> edges_s()[[0, 1, -1]].tolist()
    [1200, 1434, 86400]
    """
    return np.rint(np.geomspace(MIGRATION_S, HORIZON_S, N_CELLS + 1)).astype(np.int64)


def knots_s() -> np.ndarray:
    """Seconds after a host became empty at which it is checked again, int64 (N_CELLS + 2,): 0 and
    the edges."""
    return np.append(0, edges_s())


def share_after(time_s: int) -> np.ndarray:
    """The share of each cell that is after a time, float64 (N_CELLS,)."""
    edges = edges_s()
    return np.asarray(np.clip((edges[1:] - time_s) / np.diff(edges), 0.0, 1.0))


N_DAYS = 14
"""Days of the counts."""
SAMPLE_S = 6 * 3_600
"""Time between two samples of the hosts in use."""
_MOST = 2_000
"""The most emptied hosts of a day that are checked; of more, only every second, third and so on."""
_TOGETHER = 4
"""Cells that are counted together, since single ones have few hosts."""


@dataclass(frozen=True, slots=True)
class Spells:
    """Spells in which hosts were empty, by host and then by time; int64 (n,).

    host: of each. since_s, until_s: begin and end; an open one ends now.
    """

    host: np.ndarray
    since_s: np.ndarray
    until_s: np.ndarray


@dataclass(frozen=True, slots=True)
class Refill:
    """How soon other requests come to the hosts of a pool.

    left_empty: float64 (N_CELLS + 1,), never rising: the chance that a host is empty when the last
    of its present requests leaves, `edges_s()` from now; else others have come. still_empty:
    float64 (N_CELLS + 2,), the chance that a host that became empty is empty `knots_s()` later, in
    use between or not.
    """

    left_empty: np.ndarray
    still_empty: np.ndarray


class RefillRecord:
    """Counts of a pool's last N_DAYS days; a day counts when the next is over, after HORIZON_S."""

    def __init__(self) -> None:
        self._left: deque[np.ndarray] = deque(maxlen=N_DAYS)
        self._still: deque[np.ndarray] = deque(maxlen=N_DAYS)
        self._counted_s = -HORIZON_S

    def is_due(self, now_s: int) -> bool:
        """Whether another day is over since the last one was counted."""
        return now_s - self._counted_s >= HORIZON_S

    def add(self, left: np.ndarray, still: np.ndarray, now_s: int) -> None:
        """Count one more day, at now_s. left: of `count_left`. still: of `count_still`."""
        self._left.append(left)
        self._still.append(still)
        self._counted_s = now_s

    def refill(self) -> Refill:
        """The shares of all counts, with one more empty host in each: few hosts count little."""
        n_cells = N_CELLS // _TOGETHER
        left = np.sum([np.ones((n_cells, 2)), *self._left], axis=0)
        still = np.sum([np.ones((N_CELLS + 2, 2)), *self._still], axis=0)
        share = np.minimum.accumulate(left[:, 0] / left[:, 1])
        return Refill(np.append(share.repeat(_TOGETHER), share[-1]), still[:, 0] / still[:, 1])


def count_still(spells: Spells, from_s: int, now_s: int) -> np.ndarray:
    """Of the hosts that became empty from from_s on, up to HORIZON_S before now: how many were
    empty `knots_s()` later, and how many there are; int64 (N_CELLS + 2, 2).

    >>> spells = Spells(np.array([0]), np.array([0]), np.array([1_300]))
    >>> count_still(spells, 0, 86_400)[:4].tolist()
    [[1, 1], [1, 1], [0, 1], [0, 1]]
    """
    idx_emptied = np.flatnonzero((spells.since_s >= from_s) & (spells.since_s <= now_s - HORIZON_S))
    idx_emptied = idx_emptied[::max(-(-len(idx_emptied) // _MOST), 1)]
    at_s = spells.since_s[idx_emptied] + knots_s()[:, None]
    far_s = now_s + 1  # separates hosts
    key = spells.host * far_s + spells.since_s
    place = np.searchsorted(key, spells.host[idx_emptied] * far_s + at_s, side="right") - 1  # the last begun
    n_empty = ((at_s < spells.until_s[place]) | (spells.until_s[place] == now_s)).sum(axis=1)
    return np.stack([n_empty, np.full(len(n_empty), len(idx_emptied))], axis=1)


def count_left(host: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, at_s: int) -> np.ndarray:
    """Of the hosts in use at at_s whose requests of then all left within HORIZON_S: how many were
    empty when the last of them left, and how many there are, by when that was; int64 (N_CELLS / 4,
    2).

    host, from_s, to_s: int64 (n,), stays, by host; all that began within HORIZON_S of at_s.
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


def empty_spells(host: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, now_s: int) -> Spells:
    """The spells in which hosts that had been in use were empty, up to now.

    host, from_s, to_s: int64 (n,), stays, by host and then by begin.

    >>> spells = empty_spells(np.array([0, 0]), np.array([5, 40]), np.array([10, 50]), 60)
    >>> spells.since_s.tolist(), spells.until_s.tolist()
    ([10, 50], [40, 60])
    """
    if len(host) == 0:
        return Spells(host, host, host)
    far_s = now_s + 1  # separates hosts, so that one running maximum serves all
    emptied_s = np.maximum.accumulate(host * far_s + to_s) - host * far_s
    is_last = np.append(host[1:] != host[:-1], True)
    used_s = np.where(is_last, now_s, np.append(from_s[1:], now_s))
    is_spell = used_s > emptied_s
    return Spells(host[is_spell], emptied_s[is_spell], used_s[is_spell])


def count_day(host: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, now_s: int) -> tuple[np.ndarray, np.ndarray]:
    """`count_left` and `count_still` of the day that began 2 x HORIZON_S before now; stays as in `empty_spells`."""
    begin_s = now_s - 2 * HORIZON_S
    left = [count_left(host, from_s, to_s, at_s) for at_s in range(begin_s, begin_s + HORIZON_S, SAMPLE_S)]
    return np.sum(left, axis=0), count_still(empty_spells(host, from_s, to_s, now_s), begin_s, now_s)


def weights_s(refill: Refill | None) -> np.ndarray:
    """The weight of each cell in which all present requests of a host have left: seconds that the
    host is expected to be empty, float64 (N_CELLS,).

    refill: None = no requests come. If the last request leaves in x, the host is expected to be
    empty for G(x) before the horizon: the chance that it is empty then, times how long it stays so.
    Integrated by parts, the mean of G over x is the chance that they have left, weighted in each
    cell by the fall of G over it.

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
    """A pool at one time. Positions of requests are 0..n-1, of hosts 0..n_hosts-1; arrays are int64
    unless stated.

    capacity, free: (n_hosts, n_resources), in the same whole units. cpu: index of the cores.
    is_open: bool (n_hosts,), hosts that take requests. n_holding: (n_hosts,), requests that hold
        room there, those that migrate away included. host_kind: (n_hosts,).
    host: (n,), the host of each request. need: (n, n_resources). uptime_s: (n,), 0 or more.
        is_fixed: bool (n,), it can't migrate, migrates already or is about to. kind: (n,), kind of
        host that it needs, -1 = any. group: (n,), a host never holds two of a group, -1 = none.
    curve_start, curve_end: (n,), each request's curve in the flat arrays breakpoint_s, total_s and
        overhang_s (empty if the predictor gives one lifetime only); see `predictions.Curves`.
    refill: how soon others come to hosts, as counted so far; None = no requests come.
    migration_s, n_at_once: length of a migration, seconds, and how many go at a time.
    gpu: index of the GPUs if they are counted one by one, -1 = not. gpu_free: (n_hosts, n_gpus), free
        thousandths of each.
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
    gpu: int = -1
    gpu_free: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def done_s(self, k: int) -> int:
        """When the k-th migration of a plan ends, k from 0, seconds from now; they go in the order
        of the plan."""
        return self.migration_s * (k // self.n_at_once + 1)

    def remaining_s(self) -> np.ndarray:
        """Predicted remaining time of each request at its uptime, seconds, int64 (n,), above 0: higher = stays longer.

        It is `Curves.total_at` less the uptime; a total that is outlived doubles.
        """
        if len(self.host) == 0:
            return np.zeros(0, np.int64)
        low, high = self.curve_start.copy(), self.curve_end.copy()
        while (high - low > 1).any():  # bisects all curves at once
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
        """The same pool with some of its requests, in that order; hosts and their free room do not
        change."""
        return replace(self, **{name: getattr(self, name)[positions] for name in (
            "host", "need", "uptime_s", "is_fixed", "kind", "group", "curve_start", "curve_end")})

    def may_take(self, position: int, free: np.ndarray) -> np.ndarray:
        """Hosts that are open and in use, have room for a request and break no rule, without its
        own; bool (n_hosts,).

        free: free amounts of the hosts, in place of the view's. A host whose free GPUs it changes
        takes no request with GPUs: which ones the others get is not known before they are there.
        """
        is_candidate = self.is_open & (self.n_holding > 0) & (free >= self.need[position]).all(axis=1)
        milli = int(self.need[position, self.gpu]) if self.gpu >= 0 else 0
        if milli > 0:
            n_free = (self.gpu_free >= min(milli, WHOLE_GPU)).sum(axis=1)
            is_candidate &= (n_free >= -(-milli // WHOLE_GPU)) & (free[:, self.gpu] == self.free[:, self.gpu])
        if self.kind[position] >= 0:
            is_candidate &= self.host_kind == self.kind[position]
        elif self.kind[position] < -1:  # one of several kinds, see workloads.ConstraintArrays
            is_candidate &= ((-2 - self.kind[position]) >> self.host_kind) & 1 == 1
        if self.group[position] >= 0:
            is_candidate[self.host[self.group == self.group[position]]] = False
        is_candidate[self.host[position]] = False
        return is_candidate
