"""How much of the best plan's worth `value` brings: its greedy choice against a mixed-integer program.

    python -m studies greedy-share [--n-pools 100] [--budget 3]

Drawn pools of 8 hosts and 20 requests with whole curves, of which 40 % can't be migrated; all migrations begin at once.
Prints the share of the best worth, over the pools in which some plan frees at least LEAST_GAIN_S with each migration
and over all in which some plan gains.

A plan's worth is no sum over single migrations, for chances on a host multiply. But it is a sum over hosts of what
leaves or comes to each: the program has a variable for each set of requests that may leave a host, and for each that
may come to one. So its optimum is the exact worth of all migrations together.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from typing import Any

import numpy as np
from benchmarks.rectification import made_curves

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.rectification import RECTIFIERS, MigrationGroup, PoolView
from sojourn.simulator.rectification.pool_view import weights_s
from sojourn.simulator.rectification.value import LEAST_GAIN_S, SHORTEST_S, chances

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


N_HOSTS, N_REQUESTS, CORES = 8, 20, 16


def drawn_pool(seed: int) -> PoolView:
    """Hosts of 16 cores and 64 GiB; requests of 1 to 4 cores, means of 1 h to 30 d."""
    rng = np.random.default_rng(seed)
    need = np.stack([rng.integers(1, 5, N_REQUESTS), rng.integers(1, 9, N_REQUESTS)], axis=1)
    capacity = np.tile(np.array([CORES, 64]), (N_HOSTS, 1))
    free, host = capacity.copy(), np.zeros(N_REQUESTS, np.int64)
    for request in range(N_REQUESTS):
        host[request] = rng.choice(np.flatnonzero((free >= need[request]).all(axis=1)))
        free[host[request]] -= need[request]
    curves = made_curves(rng.integers(0, 64, N_REQUESTS))
    none = np.full(N_REQUESTS, -1)
    return PoolView(capacity, free, 0, np.ones(N_HOSTS, bool), np.bincount(host, minlength=N_HOSTS),
                    np.zeros(N_HOSTS, np.int64), host, need, rng.integers(0, DAY_S, N_REQUESTS),
                    rng.random(N_REQUESTS) < 0.4, none, none, *curves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-pools", type=int, default=100)
    parser.add_argument("--budget", type=int, default=3, choices=(1, 2, 3))
    given = parser.parse_args()
    rows = []
    for seed in range(given.n_pools):
        view = drawn_pool(seed)
        best = exact_plan(view, given.budget)
        found = RECTIFIERS["value"](view, given.budget, DAY_S)
        worths = [sum(each.gain_s for each in groups) for groups in (found, best)]
        rows.append((*worths, worths[1] >= LEAST_GAIN_S * sum(map(len, best)), worths[1] > 60.0))
    table = np.array(rows)
    for name, is_told in (("where each migration of the best plan frees enough", table[:, 2] > 0),
                          ("where some plan gains", table[:, 3] > 0)):
        told = table[is_told]
        shares = told[:, 0] / told[:, 1]
        print(f"{name}: {len(told)} pools, mean share {shares.mean():.3f}, of the sum "
              f"{told[:, 0].sum() / told[:, 1].sum():.3f}, at the best {np.mean(shares > 1 - 1e-6):.2f} of them, "
              f"worst {shares.min():.2f}")


if __name__ == "__main__":
    main()
