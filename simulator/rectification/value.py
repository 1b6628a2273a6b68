"""Migrations by what they are expected to free; ours.

A host is empty by t with the chance that all of its requests have ended by then. Requests that leave raise that chance,
and lower it where they go. What a set of migrations is worth is the host-time that the source is expected to gain, less
what the targets lose; it is told by whole curves, without a threshold of long. Moving one of two long requests frees
nothing, so requests that leave a host together are weighed together, by gain per migration.
"""

from __future__ import annotations

import heapq

import numpy as np

from sojourn.simulator.rectification._value_kernels import fill_ended, fill_values
from sojourn.simulator.rectification.migration_group import MigrationGroup
from sojourn.simulator.rectification.pool_view import PoolView

MIGRATION_S = 1_200
"""A migration takes so long, and holds room on both hosts (LAVA, section 4.4): nothing is freed before."""
HORIZON_S = 86_400
"""What is freed later than this counts for nothing: by then the pool is another, and migrations are planned anew.
Chosen with LEAST_GAIN_S on four synthetic seeds and openb (docs/simulator/rectification.md)."""
SHORTEST_S = 6 * MIGRATION_S
"""A request predicted to end within this is not moved."""
LEAST_GAIN_S = 6 * 3_600
"""Host-seconds that a migration must be expected to free."""
N_CELLS = 24
_SAME_LOSS_S = 60
"""Targets that lose the same but for this are alike; then the fuller host is taken."""
_MOST_LOOKED_AT = 2_000
"""Sets of requests that are weighed with their targets, besides as many again for each migration of the budget."""


def edges_s() -> np.ndarray:
    """Edges of the cells, seconds from now, int64 (N_CELLS + 1,): from the end of a migration to the horizon, each by
    the same factor longer.

    >>> edges_s()[[0, 1, -1]].tolist()
    [1200, 1434, 86400]
    """
    return np.rint(np.geomspace(MIGRATION_S, HORIZON_S, N_CELLS + 1)).astype(np.int64)


def chances(view: PoolView) -> np.ndarray:
    """The chance that each request has ended, as a mean over each cell, float64 (n, N_CELLS)."""
    ended = np.zeros((len(view.host), N_CELLS))
    fill_ended(ended, edges_s(), view.remaining_s(), view.uptime_s, view.curve_start, view.curve_end, view.breakpoint_s,
               view.overhang_s)
    return ended


def value(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
    """Sets of requests that leave a host together, the largest expected gain per migration first; at most `budget`.

    Of a host's requests those go that are predicted to stay longest. A request stays that can't migrate or ends within
    SHORTEST_S. Targets: the least expected loss (to the minute), then the least room left, then by index; never an
    empty host, and none that is emptied. Each set is weighed with what was planned before it. long_s is not asked.
    """
    return _Plan(view).groups(budget) if budget > 0 and len(view.host) > 0 else []


class _Plan:
    """The greedy choice: what is free and how likely each host is empty, with the migrations chosen so far."""

    def __init__(self, view: PoolView) -> None:
        n_hosts = len(view.capacity)
        self.view, self.free = view, view.free.copy()
        self.weight_s = np.diff(edges_s()).astype(np.float64)
        self.ended, self.empty = chances(view), np.ones((n_hosts, N_CELLS))
        self.is_source, self.is_target = np.zeros(n_hosts, bool), np.zeros(n_hosts, bool)
        left_s = view.remaining_s()
        self.is_staying = view.is_fixed | (left_s < SHORTEST_S) | ~view.is_open[view.host]
        self.order = np.lexsort((np.arange(len(left_s)), -left_s, self.is_staying, view.host))
        self.values = np.zeros(len(left_s))
        fill_values(self.values, self.empty, self.ended, self.order, view.host, self.weight_s)

    def groups(self, budget: int) -> list[MigrationGroup]:
        """The chosen sets. A set's gain without what its targets lose is at least its gain, so sets are weighed with
        their targets only while that promises more than the best of those weighed."""
        found: list[MigrationGroup] = []
        heap = self._promises(budget)
        heapq.heapify(heap)
        n_left = budget
        while heap and n_left > 0:
            _, first, n, n_chosen, group = heapq.heappop(heap)
            source = int(self.view.host[self.order[first]])
            if n > n_left or self.is_source[source] or self.is_target[source]:
                continue
            if group is None or n_chosen < len(found):
                group = self._weighed(first, n)
                if group is not None and group.gain_s >= n * LEAST_GAIN_S:
                    heapq.heappush(heap, (-group.gain_s / n, first, n, len(found), group))
                continue
            self._take(group)
            found.append(group)
            n_left -= n
        return found

    def _promises(self, budget: int) -> list[tuple[float, int, int, int, MigrationGroup | None]]:
        """What sets of each host's first requests would gain if their targets lost nothing: minus gain per migration,
        the first one's place in the order, and how many."""
        host = self.view.host[self.order]
        is_first = np.append(True, host[1:] != host[:-1])
        place = np.arange(len(host))
        first = np.maximum.accumulate(np.where(is_first, place, 0))
        n = place - first + 1  # a set that ends with this request
        without = np.where(np.append(is_first[1:], True), self.weight_s.sum(), np.append(self.values[1:], 0.0))
        gain = (without - self.values[first]) / n
        is_set = ~self.is_staying[self.order] & (n <= budget) & (gain >= LEAST_GAIN_S)
        places = np.flatnonzero(is_set)
        places = places[np.argsort(-gain[places], kind="stable")][:_MOST_LOOKED_AT * (1 + budget)]
        return [(-float(gain[at]), int(first[at]), int(n[at]), -1, None) for at in places]

    def _weighed(self, first: int, n: int) -> MigrationGroup | None:
        """The set of a host's first n requests with a target for each and what they gain together; None where one finds
        none."""
        view, requests = self.view, self.order[first:first + n]
        source = int(view.host[requests[0]])
        stays = self.values[first + n] if self._is_followed(first + n, source) else self.weight_s.sum()
        gain, free = float(stays - self.values[first]), self.free.copy()
        empty: dict[int, np.ndarray] = {}
        targets: list[int] = []
        for position in requests.tolist():
            may = view.may_take(position, free) & ~self.is_source
            group = int(view.group[position])
            may[[target for other, target in zip(requests.tolist(), targets, strict=False)
                 if group >= 0 and view.group[other] == group]] = False
            hosts = np.flatnonzero(may)
            if len(hosts) == 0:
                return None
            still = self.weight_s * (1.0 - self.ended[position])
            chance = self.empty[hosts]
            for target, own in empty.items():
                chance[hosts == target] = own
            loss = (chance * still).sum(axis=1)
            left = free[hosts, 0] - view.need[position, 0]
            k = int(np.lexsort((hosts, left, np.floor(loss / _SAME_LOSS_S)))[0])
            target = int(hosts[k])
            gain -= float(loss[k])
            free[target] -= view.need[position]
            empty[target] = chance[k] * self.ended[position]
            targets.append(target)
        return MigrationGroup(source, tuple(requests.tolist()), tuple(targets), gain)

    def _is_followed(self, place: int, host: int) -> bool:
        return place < len(self.order) and int(self.view.host[self.order[place]]) == host

    def _take(self, group: MigrationGroup) -> None:
        self.is_source[group.source] = True
        for position, target in zip(group.requests, group.targets, strict=True):
            self.is_target[target] = True
            self.free[target] -= self.view.need[position]
            self.empty[target] *= self.ended[position]
