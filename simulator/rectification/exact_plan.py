"""The best plan of few migrations on a small pool, by a mixed-integer program: a bound for the planners.

A plan's worth is no sum over single migrations, for chances on a host multiply. But it is a sum over hosts of what
leaves or comes to each: the program has a variable for each set of requests that may leave a host, and for each that
may come to one. So its optimum is the exact worth of all migrations together.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from sojourn.simulator.rectification.pool_view import MigrationGroup, PoolView, weights_s
from sojourn.simulator.rectification.value import SHORTEST_S, chances

MAX_HOSTS, MAX_REQUESTS, MAX_BUDGET = 8, 24, 4
"""More would be too many sets."""


def exact_plan(view: PoolView, budget: int) -> list[MigrationGroup]:
    """The plan of at most `budget` migrations that gains most, as `value` weighs it, if all begin at once and
    last MIGRATION_S; by host.

    By the same rules as `value`: what can't migrate or ends soon stays, never to an empty host, and no host both gives
    and takes. But a migration may gain as little as it does. gain_s: of a group, what its host gains less an equal
    share for each migration of what all targets lose.

    ValueError where the pool or the budget is larger than MAX_HOSTS, MAX_REQUESTS or MAX_BUDGET.
    """
    for name, n, most in (("hosts", len(view.capacity), MAX_HOSTS), ("requests", len(view.host), MAX_REQUESTS),
                          ("budget", budget, MAX_BUDGET)):
        if n > most:
            raise ValueError(f"{name} must be at most {most}, got {n}")
    from ortools.math_opt.python import mathopt

    weight_s, ended = weights_s(view.refill), chances(view)
    empty = [ended[view.host == host].prod(axis=0) for host in range(len(view.capacity))]
    able = np.flatnonzero(~view.is_fixed & (view.remaining_s() >= SHORTEST_S) & view.is_open[view.host])
    may = {int(request): view.may_take(int(request), view.free) for request in able}
    model = mathopt.Model()
    gains: list[Any] = []
    leaving: dict[int, list[Any]] = {request: [] for request in may}
    coming: dict[int, list[Any]] = {request: [] for request in may}
    chosen: list[tuple[int, tuple[int, ...], bool, float, Any]] = []
    for host in range(len(view.capacity)):
        sets = [(own, True) for own in _subsets([r for r in may if view.host[r] == host], budget)]
        sets += [(own, False) for own in _subsets([r for r in may if may[r][host]], budget) if _fit(view, own, host)]
        of_host = []
        for own, is_leaving in sets:
            if is_leaving:
                stays = (view.host == host) & ~np.isin(np.arange(len(view.host)), own)
                after = ended[stays].prod(axis=0)
            else:
                after = empty[host] * ended[list(own)].prod(axis=0)
            gain_s = float((weight_s * (after - empty[host])).sum())
            variable = model.add_binary_variable()
            of_host.append(variable)
            gains.append(gain_s * variable)
            chosen.append((host, own, is_leaving, gain_s, variable))
            for request in own:
                (leaving if is_leaving else coming)[request].append(variable)
        if of_host:
            model.add_linear_constraint(mathopt.fast_sum(of_host) <= 1)
    for request in may:
        model.add_linear_constraint(mathopt.fast_sum(leaving[request]) == mathopt.fast_sum(coming[request]))
    model.add_linear_constraint(mathopt.fast_sum([each for own in leaving.values() for each in own]) <= budget)
    model.maximize(mathopt.fast_sum(gains))
    result = mathopt.solve(model, mathopt.SolverType.HIGHS, params=mathopt.SolveParameters(relative_gap_tolerance=0.0))
    taken = [each[:4] for each in chosen if result.variable_values(each[4]) > 0.5]
    target = {request: host for host, own, is_leaving, _ in taken if not is_leaving for request in own}
    lost_s = sum(gain_s for _, _, is_leaving, gain_s in taken if not is_leaving) / max(len(target), 1)
    return [MigrationGroup(host, own, tuple(target[request] for request in own), gain_s + len(own) * lost_s)
            for host, own, is_leaving, gain_s in taken if is_leaving]


def _subsets(requests: list[int], most: int) -> list[tuple[int, ...]]:
    return [own for n in range(1, most + 1) for own in combinations(requests, n)]


def _fit(view: PoolView, requests: tuple[int, ...], host: int) -> bool:
    """Whether a host has room for all of them, and no two of a group are among them."""
    groups = [group for group in view.group[list(requests)].tolist() if group >= 0]
    return bool((view.need[list(requests)].sum(axis=0) <= view.free[host]).all()) and len(groups) == len(set(groups))
