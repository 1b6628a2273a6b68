"""The planners of moves, by name; PDRE is DVLA's planner (OSDI'26, section 4.4).

With PDRE long requests leave hosts on which they hold little. The paper gives a greedy list and no
objective; this is a reading of it. A host is stranded if requests that are predicted to stay long
hold less than half of its cores. All of them or none go to hosts on which long requests hold at
least as many cores. So long requests come together, and the host empties when the short ones have
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from sojourn.simulator.rectification.pool_view import MigrationGroup, PoolView
from sojourn.simulator.rectification.value import value


def pdre(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
    """Long requests leave stranded hosts: those with the fewest first, then by index; at most
    `budget` moves.

    A host is passed over if one of its long requests can't migrate or finds no target, or if its
    moves exceed the rest of the budget. On a host the longest predicted remaining time goes first.
    Targets: the most cores of long requests first, then the least room, then by index; none empty.
    """
    n_hosts, remaining_s = len(view.capacity), view.remaining_s()
    is_long = remaining_s > long_s
    long_cores = np.bincount(view.host[is_long], view.need[is_long, view.cpu], n_hosts).astype(np.int64)
    n_long = np.bincount(view.host[is_long], minlength=n_hosts)
    is_stuck = np.bincount(view.host[is_long & view.is_fixed], minlength=n_hosts) > 0
    is_source = (n_long > 0) & (2 * long_cores < view.capacity[:, view.cpu]) & ~is_stuck & view.is_open
    sources = np.flatnonzero(is_source)
    free, groups, n_left = view.free.copy(), [], budget
    is_target, is_done = np.zeros(n_hosts, bool), np.zeros(n_hosts, bool)
    positions = np.flatnonzero(is_long)
    positions = positions[np.argsort(view.host[positions], kind="stable")]
    hosts = view.host[positions]
    for source in sources[np.argsort(n_long[sources], kind="stable")].tolist():
        if n_long[source] > n_left:
            break
        if is_target[source]:
            continue  # it has more long requests now than were counted
        leaving = positions[np.searchsorted(hosts, source):np.searchsorted(hosts, source, side="right")]
        leaving = leaving[np.lexsort((leaving, -remaining_s[leaving]))]
        targets = _targets(view, leaving, int(long_cores[source]), long_cores, free, is_done)
        if targets is None:
            continue
        for position, target in zip(leaving.tolist(), targets, strict=True):
            free[target] -= view.need[position]
            long_cores[target] += view.need[position, view.cpu]
            is_target[target] = True
        is_done[source] = True
        n_left -= len(leaving)
        groups.append(MigrationGroup(source, tuple(leaving.tolist()), tuple(targets), float("nan")))
    return groups


def _targets(view: PoolView, leaving: np.ndarray, at_least: int, long_cores: np.ndarray, free: np.ndarray,
             is_done: np.ndarray) -> list[int] | None:
    """A target for each request, with the room that those before it leave; None if one finds none."""
    free, cores = free.copy(), long_cores.copy()
    targets: list[int] = []
    groups: set[tuple[int, int]] = set()
    for position in leaving.tolist():
        is_candidate = view.may_take(position, free) & (cores >= at_least) & ~is_done
        group = int(view.group[position])
        is_candidate[[target for of_group, target in groups if of_group == group]] = False
        hosts = np.flatnonzero(is_candidate)
        if len(hosts) == 0:
            return None
        left = free[hosts, 0] - view.need[position, 0]
        target = int(hosts[np.lexsort((hosts, left, -cores[hosts]))[0]])
        free[target] -= view.need[position]
        cores[target] += view.need[position, view.cpu]
        targets.append(target)
        if group >= 0:
            groups.add((group, target))
    return targets


Planner = Callable[[PoolView, int, int], list[MigrationGroup]]
"""From a view, a budget and the least long remaining time (s) to the day's moves in order."""
RECTIFIERS: Mapping[str, Planner] = MappingProxyType({"pdre": pdre, "value": value})
"""The planners by name."""
