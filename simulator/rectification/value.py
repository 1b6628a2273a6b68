"""The planner `value`: migrations by their expected gain; ours.

A host is empty by t with the chance that all of its requests have ended by then. Requests that
leave raise that chance on the source, and lower it on the target. The gain of a set of migrations
is the host-time that the source is expected to gain, less the loss of the targets; it uses whole
curves, without a threshold of long. To move one of two long requests frees no host, so the gain is
of all requests that leave together, per migration.
"""

from __future__ import annotations

import heapq

import numpy as np

from sojourn.simulator.rectification._value_kernels import fill_ended, fill_values
from sojourn.simulator.rectification.pool_view import (
    HORIZON_S,
    MIGRATION_S,
    N_CELLS,
    MigrationGroup,
    PoolView,
    edges_s,
    share_after,
    weights_s,
)

SHORTEST_S = 6 * MIGRATION_S
"""A request predicted to end within this is not moved."""
LEAST_GAIN_S = 7 * 3_600
"""The least expected gain of a migration, host-seconds, if an emptied host stayed empty to the
horizon; lower as it is refilled. Chosen with HORIZON_S."""
_SAME_LOSS_S = 60
"""Losses of targets are compared in steps of this; the fuller of equal hosts is taken."""
_MOST_SETS = 2_000
"""The most sets whose targets are searched, and as many again for each migration of the budget."""
_MOST_LATE = 50
"""The search ends after so many sets in a row that free too little because they would begin late."""


def chances(view: PoolView) -> np.ndarray:
    """The chance that each request has ended, as a mean over each cell, float64 (n, N_CELLS)."""
    ended = np.zeros((len(view.host), N_CELLS))
    fill_ended(ended, edges_s(), view.remaining_s(), view.uptime_s, view.curve_start, view.curve_end, view.breakpoint_s,
               view.overhang_s)
    return ended


def value(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
    """Sets of requests that leave a host together, the largest expected gain per migration first;
    at most `budget`.

    From a host the requests go that are predicted to stay longest, without those that can't migrate
    or end within SHORTEST_S. Targets: the least expected loss (to the minute), then the least room
    left, then by index; never an empty host or a source. Each gain counts the migrations planned
    before. long_s is not used.
    """
    return _Plan(view).groups(budget) if budget > 0 and len(view.host) > 0 else []


class _Plan:
    """The greedy choice: free room and chances of empty hosts, with the migrations so far."""

    def __init__(self, view: PoolView) -> None:
        n_hosts = len(view.capacity)
        self.view, self.free = view, view.free.copy()
        self.weight_s = weights_s(view.refill)
        self.least_s = LEAST_GAIN_S * float(self.weight_s.sum()) / (HORIZON_S - MIGRATION_S)
        self.ended, self.empty = chances(view), np.ones((n_hosts, N_CELLS))
        self.is_source, self.is_target = np.zeros(n_hosts, bool), np.zeros(n_hosts, bool)
        left_s = view.remaining_s()
        self.is_staying = view.is_fixed | (left_s < SHORTEST_S) | ~view.is_open[view.host]
        self.order = np.lexsort((np.arange(len(left_s)), -left_s, self.is_staying, view.host))
        self.values = np.zeros(len(left_s))
        fill_values(self.values, self.empty, self.ended, self.order, view.host, self.weight_s)

    def groups(self, budget: int) -> list[MigrationGroup]:
        """The chosen sets. The gain without the targets' loss is an upper bound, so targets are
        searched only for sets whose bound exceeds the best gain so far."""
        chosen: list[MigrationGroup] = []
        heap = self._promises(budget)
        heapq.heapify(heap)
        n_left, n_late = budget, 0
        while heap and n_left > 0 and n_late < _MOST_LATE:
            _, first, n, n_chosen, group = heapq.heappop(heap)
            source = int(self.view.host[self.order[first]])
            if n > n_left or self.is_source[source] or self.is_target[source]:
                continue
            if group is None or n_chosen < len(chosen):
                group = self._with_targets(first, n, 0)  # a later begin of all changes no order
                if group is not None and group.gain_s >= n * self.least_s:
                    heapq.heappush(heap, (-group.gain_s / n, first, n, len(chosen), group))
                continue
            if budget - n_left + n > self.view.n_at_once:
                group = self._with_targets(first, n, budget - n_left)
                if group is None or group.gain_s < n * self.least_s:
                    n_late += 1
                    continue
            self._take(group)
            chosen.append(group)
            n_left, n_late = n_left - n, 0
        return chosen

    def _promises(self, budget: int) -> list[tuple[float, int, int, int, MigrationGroup | None]]:
        """The gains of sets of each host's first requests without the targets' loss: minus gain per
        migration, the first one's place in the order, and how many."""
        host = self.view.host[self.order]
        is_first = np.append(True, host[1:] != host[:-1])
        place = np.arange(len(host))
        first = np.maximum.accumulate(np.where(is_first, place, 0))
        n = place - first + 1  # a set that ends with this request
        without = np.where(np.append(is_first[1:], True), self.weight_s.sum(), np.append(self.values[1:], 0.0))
        gain = (without - self.values[first]) / n
        is_set = ~self.is_staying[self.order] & (n <= budget) & (gain >= self.least_s)
        places = np.flatnonzero(is_set)
        places = places[np.argsort(-gain[places], kind="stable")][:_MOST_SETS * (1 + budget)]
        return [(-float(gain[at]), int(first[at]), int(n[at]), -1, None) for at in places]

    def _with_targets(self, first: int, n: int, n_before: int) -> MigrationGroup | None:
        """The set of a host's first n requests with their targets and gain, after n_before other
        migrations; None if one finds no target."""
        view, requests = self.view, self.order[first:first + n]
        source, free = int(view.host[requests[0]]), self.free.copy()
        gain = self._gain(first, n, view.done_s(n_before + n - 1))
        empty: dict[int, np.ndarray] = {}
        targets: list[int] = []
        for k, position in enumerate(requests.tolist()):
            is_candidate = view.may_take(position, free) & ~self.is_source
            group = int(view.group[position])
            is_candidate[[target for other, target in zip(requests.tolist(), targets, strict=False)
                 if group >= 0 and view.group[other] == group]] = False
            hosts = np.flatnonzero(is_candidate)
            if len(hosts) == 0:
                return None
            begun_s = view.done_s(n_before + k) - view.migration_s
            still = self.weight_s * share_after(begun_s) * (1.0 - self.ended[position])
            chance = self.empty[hosts]
            for target, known in empty.items():
                chance[hosts == target] = known
            loss = (chance * still).sum(axis=1)
            left = free[hosts, 0] - view.need[position, 0]
            best = int(np.lexsort((hosts, left, np.floor(loss / _SAME_LOSS_S)))[0])
            target = int(hosts[best])
            gain -= float(loss[best])
            free[target] -= view.need[position]
            empty[target] = chance[best] * self.ended[position]
            targets.append(target)
        return MigrationGroup(source, tuple(requests.tolist()), tuple(targets), gain)

    def _gain(self, first: int, n: int, from_s: int) -> float:
        """Seconds for which a host is expected to be empty without its first n requests from from_s
        on, less those with them."""
        source = int(self.view.host[self.order[first]])
        if from_s <= MIGRATION_S:
            without = self.values[first + n] if self._is_followed(first + n, source) else self.weight_s.sum()
            return float(without - self.values[first])
        last = first + n
        while self._is_followed(last, source):
            last += 1
        more = self.ended[self.order[first + n:last]].prod(axis=0) - self.ended[self.order[first:last]].prod(axis=0)
        return float((self.weight_s * share_after(from_s) * more).sum())

    def _is_followed(self, place: int, host: int) -> bool:
        return place < len(self.order) and int(self.view.host[self.order[place]]) == host

    def _take(self, group: MigrationGroup) -> None:
        self.is_source[group.source] = True
        for position, target in zip(group.requests, group.targets, strict=True):
            self.is_target[target] = True
            self.free[target] -= self.view.need[position]
            self.empty[target] *= self.ended[position]
