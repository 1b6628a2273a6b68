"""The placement with the least aggregate violation severity, by CP-SAT.

It solves the integer program of period-aware placement, section III-B: one host for each request,
v_i(t) >= load
- capacity, v >= 0, minimise the sum of v. Its linear relaxation spreads every request evenly over
the hosts, so its bound is the shortage of the whole cluster at each slot, most often 0. A placement
without violations is then proved optimal at once, and one with violations only by search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.colocation import UNITS, Colocation, host_loads
from sojourn.simulator.colocation.colocation import checked_hosts
from sojourn.simulator.whole_numbers import check_setting


@dataclass(frozen=True, slots=True)
class Optimum:
    """The solver's result.

    hosts: int64 (n,), never worse than the first placement. status: `optimal` (proved), or
        `feasible` if the time ran out. severity_pct: excess over all use, %, at the resolution of
        the real series. bound_pct: no placement has less. gap_pct: severity less bound, in points
        of severity; 0 = proved. elapsed_s: time of the solver.
    """

    hosts: np.ndarray
    status: str
    severity_pct: float
    bound_pct: float
    gap_pct: float
    elapsed_s: float


def optimum(colocation: Colocation, first: np.ndarray, *, limit_s: float = 60.0, seed: int = 0,
            n_workers: int = 1) -> Optimum:
    """The best placement by real use that CP-SAT finds in `limit_s` seconds from `first` on.

    first: int64 (n,), for example of `squares`. With one worker the same seed gives the same
    answer, unless the time limit ends the search at another point. Slots in which every request
    uses the same are merged.

    Refused with ValueError: first of another number of requests or with an unknown host, limit_s
    not above 0, seed below 0, n_workers below 1.

    >>> day = np.array([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [0.0, 4.0]])
    >>> best = optimum(Colocation(day, 2, 4.0), np.array([0, 1, 0, 1]))
    >>> best.status, best.severity_pct, best.gap_pct
    ('optimal', 0.0, 0.0)
    """
    from ortools.sat.python import cp_model

    first = checked_hosts(first, len(colocation), colocation.n_hosts, "first")
    if not limit_s > 0:
        raise ValueError(f"limit_s must be above 0, got {limit_s!r}")
    check_setting(seed, 0, "seed", 2**31)
    check_setting(n_workers, 1, "n_workers", 2**31)
    used, n_hosts = colocation.used, colocation.n_hosts
    columns, times = np.unique(used, axis=1, return_counts=True)
    model = cp_model.CpModel()
    is_on = [[model.new_bool_var("") for _ in range(n_hosts)] for _ in range(len(used))]
    for row in is_on:
        model.add_exactly_one(row)
    excesses, weights = [], []
    for column, n_times in zip(columns.T.tolist(), times.tolist(), strict=True):
        most = max(sum(column) - UNITS, 0)
        users = [k for k, use in enumerate(column) if use > 0]
        if most == 0:
            continue
        for host in range(n_hosts):
            excess = model.new_int_var(0, most, "")
            load = cp_model.LinearExpr.weighted_sum([is_on[k][host] for k in users], [column[k] for k in users])
            model.add(load <= UNITS + excess)
            excesses.append(excess)
            weights.append(n_times)
    model.minimize(cp_model.LinearExpr.weighted_sum(excesses, weights))
    for k, host in enumerate(first.tolist()):
        for other in range(n_hosts):
            model.add_hint(is_on[k][other], other == host)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = n_workers
    solver.parameters.cp_model_presolve = False  # it would spend the time limit before it tries the first placement
    status = solver.solve(model)
    total = max(int(used.sum(dtype=np.int64)), 1)
    hosts = first
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        best = np.array([next(h for h in range(n_hosts) if solver.boolean_value(row[h])) for row in is_on], np.int64)
        hosts = best if _excess(used, best, n_hosts) <= _excess(used, first, n_hosts) else first
    excess_units = _excess(used, hosts, n_hosts)
    bound = excess_units if status == cp_model.OPTIMAL else max(solver.best_objective_bound, 0.0)
    return Optimum(hosts, "optimal" if status == cp_model.OPTIMAL else "feasible", 100 * excess_units / total,
                   100 * bound / total, 100 * (excess_units - bound) / total, solver.wall_time)


def _excess(used: np.ndarray, hosts: np.ndarray, n_hosts: int) -> int:
    return int(np.maximum(host_loads(used, hosts, n_hosts) - UNITS, 0).sum())
