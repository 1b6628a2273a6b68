"""The worth of planned migrations: the host that they free, when, and with what chance."""

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
"""Chances from curves are means over this time."""
Ended = Callable[[int, float], float]
"""The chance that the request at a position has ended after some seconds, given that it runs now."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of one group of migrations, after those before it.

    chance, chance_without: chance that all present requests of the source have left it a day from
    now, with and without the migrations, 0..1. likely_s: when all its migrations are done and that
    chance is first 1/2 or more, seconds from now; NaN if not within a day. gain_h: host-hours that
    the source is expected to gain within a day, less the loss of the targets, by the view's refill.
    """

    chance: float
    chance_without: float
    likely_s: float
    gain_h: float


def worth(view: PoolView, groups: Sequence[MigrationGroup], ended: Ended | None = None) -> list[Worth]:
    """The worth of each group, in their order, from any planner.

    ended: None = by the view's curves, to STEP_S. A request is on its target from the begin of its
    migration, and holds its source to the end.
    """
    touched = {at for group in groups for at in (group.source, *group.targets)}
    positions = np.flatnonzero(np.isin(view.host, list(touched)))
    touched_view, host = view.only(positions), view.host[positions]
    place = {position: k for k, position in enumerate(positions.tolist())}
    holds = 1.0 - chances(touched_view)  # the chance that a request holds its host, over each cell
    result, n_before = [], 0
    ended = ended or _by_curves(touched_view, place)
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
        result.append(Worth(_empty(ended, without, gone_s, DAY_S), _empty(ended, without, {}, DAY_S),
                           _likely_s(ended, without, gone_s), gain_s / 3_600))
    return result


def _by_curves(view: PoolView, place: dict[int, int]) -> Ended:
    """Chances by the curves of a view. place: index in it of each position."""
    edges = np.arange(0, DAY_S + 1, STEP_S)
    cells = np.zeros((len(view.host), len(edges) - 1))
    fill_ended(cells, edges, view.remaining_s(), view.uptime_s, view.curve_start, view.curve_end, view.breakpoint_s,
               view.overhang_s)

    def ended(position: int, after_s: float) -> float:
        return float(cells[place[position], min(int(after_s // STEP_S), cells.shape[1] - 1)])

    return ended


def _empty(ended: Ended, positions: Sequence[int], gone_s: dict[int, int], at_s: int) -> float:
    """The chance that all requests of a host have ended or left by a time."""
    return math.prod(ended(position, at_s) for position in positions if gone_s.get(position, at_s + 1) > at_s)


def _likely_s(ended: Ended, positions: Sequence[int], gone_s: dict[int, int]) -> float:
    """The first whole second from the last migration's end to a day from now at which the chance is 1/2; NaN if none.

    The chance never falls, so bisection finds it.
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
