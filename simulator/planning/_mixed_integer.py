"""The mixed-integer program of COSPiS, section 4.3, solved by HiGHS through OR-tools."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning.problem import Problem
from sojourn.simulator.planning.search import Searched
from sojourn.simulator.planning.windows import easiest_windows

MAX_JOBS = 100
"""The program has three variables for each pair of jobs; above this nothing is found within minutes."""


def solve_mixed_integer(problem: Problem, limits: Limits, until_s: float) -> Searched:
    """Starts of one sample by equations 10 to 15; unknown where there are more than `MAX_JOBS` jobs or no time is left.

    Usage rises only where a job starts, so that the peak is the highest usage at a start. The big number of each pair
    is the widest distance that its windows allow, and pairs that cannot overlap are left out: the paper's program with
    fewer and tighter rows. A start lies within [s_i, s_i + d_i): equation 11 is written with >= 0, so that a job that
    starts when another ends does not overlap it.
    """
    from ortools.linear_solver import pywraplp

    windows = easiest_windows(problem)
    if not windows.is_feasible:
        return Searched(None, "infeasible", np.inf)
    if len(problem) > MAX_JOBS or time.monotonic() >= until_s:
        return Searched(None, "unknown", 0.0)
    solver = pywraplp.Solver.CreateSolver("HIGHS")
    durations, usage = problem.samples.durations[0].tolist(), problem.samples.usage[0].tolist()
    low, high = windows.low.tolist(), windows.high.tolist()
    n = len(problem)
    starts = [solver.IntVar(low[j], high[j], "") for j in range(n)]
    tops = [solver.NumVar(max(row[r] for row in usage), solver.infinity(), "") for r in range(len(problem.prices))]
    for child, own in enumerate(problem.instance.parents):
        for parent in own:
            solver.Add(starts[parent] + durations[parent] <= starts[child])
    for j in range(n):
        under: list[list[Any]] = [[] for _ in tops]
        for i in range(n):
            if i == j or low[j] >= high[i] + durations[i] or high[j] < low[i]:
                continue
            after, before = solver.BoolVar(""), solver.BoolVar("")
            solver.Add((high[j] - low[i] + 1) * after >= starts[j] - starts[i] + 1)
            solver.Add((high[i] + durations[i] - low[j]) * before >= starts[i] + durations[i] - starts[j])
            both = solver.NumVar(0.0, 1.0, "")
            solver.Add(both >= after + before - 1)
            for r, own_under in enumerate(under):
                if usage[i][r]:
                    own_under.append(usage[i][r] * both)
        for r, top in enumerate(tops):
            solver.Add(solver.Sum(under[r]) + usage[j][r] <= top)
    solver.Minimize(solver.Sum([int(price) * top for price, top in zip(problem.prices, tops, strict=True)]))
    solver.SetTimeLimit(max(int(1000 * (until_s - time.monotonic())), 10))
    solver.SetNumThreads(limits.n_workers)
    status = solver.Solve()
    bound = max(float(solver.Objective().BestBound()), 0.0)
    if status == pywraplp.Solver.INFEASIBLE:
        return Searched(None, "infeasible", np.inf)
    if status not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return Searched(None, "unknown", bound if np.isfinite(bound) else 0.0)
    found = np.array([round(start.solution_value()) for start in starts], np.int64)
    return Searched(found, "optimal" if status == pywraplp.Solver.OPTIMAL else "feasible",
                    float(np.ceil(bound - 1e-6)))
