"""What a planner of moves sees of a pool at a moment: hosts, and the requests that run. Nothing of their ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sojourn.simulator.rectification.cells import MIGRATION_S, N_AT_ONCE
from sojourn.simulator.rectification.refill import Refill


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
