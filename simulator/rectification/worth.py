"""What planned migrations are worth: which host they free, when, and with what chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.rectification._value_kernels import fill_ended
from sojourn.simulator.rectification.pool_view import MigrationGroup, PoolView, share_after, weights_s
from sojourn.simulator.rectification.value import chances

STEP_S = 600
"""Chances from curves are means over so long."""
Ended = Callable[[int, float], float]
"""The chance that the request at a position has ended so many seconds from now, given that it runs now."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Of one group of migrations, with those before it.

    chance, chance_without: that all who run on the source now have left it a day from now, with the migrations and
    without them, 0..1. likely_s: when all its migrations are done and that is first at least as likely as not, seconds
    from now; NaN where that is not within a day. gain_h: host-hours that the source is expected to gain within a day,
    less what the targets lose, by the view's refill.
    """

    chance: float
    chance_without: float
    likely_s: float
    gain_h: float


def worth(view: PoolView, groups: Sequence[MigrationGroup], ended: Ended | None = None) -> list[Worth]:
    """The worth of each group, in their order; whoever planned them.

    ended: None = as the view's curves say, to STEP_S. A request is on its target from its migration's begin on, and
    holds its source to the migration's end.
    """
    touched = {at for group in groups for at in (group.source, *group.targets)}
    positions = np.flatnonzero(np.isin(view.host, list(touched)))
    seen, host = view.only(positions), view.host[positions]
    place = {position: k for k, position in enumerate(positions.tolist())}
    holds, found, n_before = 1.0 - chances(seen), [], 0  # the chance that a request holds its host, over each cell
    ended = ended or _by_curves(seen, place)
    weight_s = weights_s(view.refill)
    for group in groups:
        hosts = dict.fromkeys([group.source, *group.targets])
        without = positions[host == group.source].tolist()
        before = {at: (1.0 - holds[host == at]).prod(axis=0) for at in hosts}
        leaving = [place[position] for position in group.requests]
        ends_s = [view.done_s(k) for k in range(n_before, n_before + len(group))]
        n_before += len(group)
        still = holds[leaving] * (1.0 - np.stack([share_after(each_s) for each_s in ends_s]))
        holds[leaving] *= np.stack([share_after(each_s - view.migration_s) for each_s in ends_s])
        host[leaving] = group.targets
        after = {at: (1.0 - holds[host == at]).prod(axis=0) for at in hosts}
        after[group.source] *= (1.0 - still).prod(axis=0)
        gain_s = sum(float((weight_s * (after[at] - before[at])).sum()) for at in hosts)
        gone_s = dict(zip(group.requests, ends_s, strict=True))
        found.append(Worth(_empty(ended, without, gone_s, DAY_S), _empty(ended, without, {}, DAY_S),
                           _likely_s(ended, without, gone_s), gain_s / 3_600))
    return found


def _by_curves(seen: PoolView, place: dict[int, int]) -> Ended:
    """Chances by the curves of a view. place: of a position in it."""
    edges = np.arange(0, DAY_S + 1, STEP_S)
    cells = np.zeros((len(seen.host), len(edges) - 1))
    fill_ended(cells, edges, seen.remaining_s(), seen.uptime_s, seen.curve_start, seen.curve_end, seen.breakpoint_s,
               seen.overhang_s)

    def ended(position: int, after_s: float) -> float:
        return float(cells[place[position], min(int(after_s // STEP_S), cells.shape[1] - 1)])

    return ended


def _empty(ended: Ended, positions: Sequence[int], gone_s: dict[int, int], at_s: int) -> float:
    """The chance that all requests of a host have ended or left by a time."""
    return math.prod(ended(position, at_s) for position in positions if gone_s.get(position, at_s + 1) > at_s)


def _likely_s(ended: Ended, positions: Sequence[int], gone_s: dict[int, int]) -> float:
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
