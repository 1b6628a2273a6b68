"""The planners of moves, by name.

PDRE, DVLA's own list of moves: long requests leave hosts on which they hold little (OSDI'26, section 4.4).

The paper gives a greedy list and no objective; what follows is a reading of it. A host is stranded where requests
predicted to stay long hold less than half of its cores. They go, all of a host or none, to hosts where long requests
hold at least as many cores, so that long requests come together and the host empties when the short ones have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from sojourn.simulator.rectification.pool_view import MigrationGroup, PoolView
from sojourn.simulator.rectification.value import value


def pdre(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
    """Hosts to be rid of their long requests: those with the fewest first, then by index; at most `budget` moves.

    Left alone are hosts with a long request that can't migrate, hosts whose moves exceed what is left of the budget,
    and those for one of whose requests there is no target. On a host the longest predicted remaining time goes first.
    Targets: the most cores of long requests first, then the least room left, then by index; never an empty host.
    """
    n_hosts, remaining_s = len(view.capacity), view.remaining_s()
    is_long = remaining_s > long_s
    long_cores = np.bincount(view.host[is_long], view.need[is_long, view.cpu], n_hosts).astype(np.int64)
    n_long = np.bincount(view.host[is_long], minlength=n_hosts)
    is_stuck = np.bincount(view.host[is_long & view.is_fixed], minlength=n_hosts) > 0
    is_source = (n_long > 0) & (2 * long_cores < view.capacity[:, view.cpu]) & ~is_stuck & view.is_open
    sources = np.flatnonzero(is_source)
    free, found, n_left = view.free.copy(), [], budget
    is_target, is_done = np.zeros(n_hosts, bool), np.zeros(n_hosts, bool)
    positions = np.flatnonzero(is_long)
    positions = positions[np.argsort(view.host[positions], kind="stable")]
    hosts = view.host[positions]
    for source in sources[np.argsort(n_long[sources], kind="stable")].tolist():
        if n_long[source] > n_left:
            break
        if is_target[source]:
            continue  # it holds more now than when it was looked at
        own = positions[np.searchsorted(hosts, source):np.searchsorted(hosts, source, side="right")]
        own = own[np.lexsort((own, -remaining_s[own]))]
        targets = _targets(view, own, int(long_cores[source]), long_cores, free, is_done)
        if targets is None:
            continue
        for position, target in zip(own.tolist(), targets, strict=True):
            free[target] -= view.need[position]
            long_cores[target] += view.need[position, view.cpu]
            is_target[target] = True
        is_done[source] = True
        n_left -= len(own)
        found.append(MigrationGroup(source, tuple(own.tolist()), tuple(targets), float("nan")))
    return found


def _targets(view: PoolView, own: np.ndarray, at_least: int, long_cores: np.ndarray, free: np.ndarray,
             is_done: np.ndarray) -> list[int] | None:
    """A host for each request, each seeing what those before it take; None where one finds none."""
    free, cores = free.copy(), long_cores.copy()
    targets: list[int] = []
    groups: set[tuple[int, int]] = set()
    for position in own.tolist():
        may = view.may_take(position, free) & (cores >= at_least) & ~is_done
        group = int(view.group[position])
        may[[target for of_group, target in groups if of_group == group]] = False
        hosts = np.flatnonzero(may)
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
"""The day's moves of a pool, the first to go first: of a view, with at most so many moves, and the seconds from which
on a remaining time is long."""
RECTIFIERS: Mapping[str, Planner] = MappingProxyType({"pdre": pdre, "value": value})
"""By name."""
