"""What planned migrations are worth: which host they free, when, and with what chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.rectification.migration_group import MigrationGroup
from sojourn.simulator.rectification.pool_view import PoolView
from sojourn.simulator.rectification.settings import DAY_S
from sojourn.simulator.rectification.value import MIGRATION_S, chances, edges_s

N_AT_ONCE = 3
"""Migrations at a time (LAVA, section 4.4), in the order of the list."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Of one group of migrations, with those before it.

    chance, chance_without: that the source is empty a day from now, with the migrations and without them, 0..1.
    likely_s: when all its migrations are done and it is first at least as likely empty as not, seconds from now; NaN
    where that is not within a day. gain_h: host-hours that the source is expected to gain within a day, less what the
    targets lose.
    """

    chance: float
    chance_without: float
    likely_s: float
    gain_h: float


def worth(view: PoolView, groups: Sequence[MigrationGroup], ended: Callable[[int, float], float]) -> list[Worth]:
    """The worth of each group, in their order; whoever planned them.

    ended: the chance that the request at a position has ended so many seconds from now, given that it runs now. A
    migration takes MIGRATION_S, N_AT_ONCE go at a time; until then the request holds its host.
    """
    cells, weight_s = chances(view), np.diff(edges_s())
    host, found, n_before = view.host.copy(), [], 0
    for group in groups:
        touched = dict.fromkeys([group.source, *group.targets])
        without = np.flatnonzero(host == group.source).tolist()
        before = {at: cells[host == at].prod(axis=0) for at in touched}
        host[list(group.requests)] = group.targets
        after = {at: cells[host == at].prod(axis=0) for at in touched}
        gain_s = sum(float((weight_s * (after[at] - before[at])).sum()) for at in touched)
        gone_s = {position: MIGRATION_S * (k // N_AT_ONCE + 1) for k, position in enumerate(group.requests, n_before)}
        n_before += len(group)
        found.append(Worth(_empty(ended, without, gone_s, DAY_S), _empty(ended, without, {}, DAY_S),
                           _likely_s(ended, without, gone_s), gain_s / 3_600))
    return found


def _empty(ended: Callable[[int, float], float], positions: Sequence[int], gone_s: dict[int, int], at_s: int) -> float:
    """The chance that all requests of a host have ended or left by a time."""
    return math.prod(ended(position, at_s) for position in positions if gone_s.get(position, at_s + 1) > at_s)


def _likely_s(ended: Callable[[int, float], float], positions: Sequence[int], gone_s: dict[int, int]) -> float:
    """The first whole second from the last migration's end to a day from now at which the chance is 1/2; NaN if none.

    The chance never falls, so halves of the time find it.
    """
    low, high = max(gone_s.values()) - 1, DAY_S
    if low >= high or _empty(ended, positions, gone_s, high) < 0.5:
        return math.nan
    while high - low > 1:
        middle = (low + high) // 2
        if _empty(ended, positions, gone_s, middle) >= 0.5:
            high = middle
        else:
            low = middle
    return float(high)
