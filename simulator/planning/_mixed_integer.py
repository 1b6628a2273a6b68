"""The mixed-integer program of COSPiS, section 4.3, solved by HiGHS through OR-tools."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning.problem import Problem, easiest_windows
from sojourn.simulator.planning.search import Searched

MAX_JOBS = 100
"""The program has three variables for each pair of jobs; above this nothing is found within minutes."""


def solve_mixed_integer(problem: Problem, limits: Limits, until_s: float) -> Searched:
    """Starts of one sample by equations 10 to 15; unknown where there are more than `MAX_JOBS` jobs or no time is left.

    Usage rises only where a job starts, so that the peak is the highest usage at a start. The big number of each pair
    is the widest distance that its windows allow, and pairs that cannot overlap are left out: the paper's program with
    fewer and tighter rows; days of 60 jobs are solved, while the paper's program ran out of time beyond 50. A job runs
    in [s_i, s_i + d_i): equation 11 is written so that one that starts when another ends does not overlap it. HiGHS
    takes no seed and one thread: `limits` change nothing here.
    """
    from ortools.math_opt.python import mathopt

    windows = easiest_windows(problem)
    if not windows.is_feasible:
        return Searched(None, "infeasible", np.inf)
    if len(problem) > MAX_JOBS or time.monotonic() >= until_s:
        return Searched(None, "unknown", 0.0)
    model = mathopt.Model()
    durations, usage = problem.samples.durations[0].tolist(), problem.samples.usage[0].tolist()
    low, high = windows.low.tolist(), windows.high.tolist()
    n = len(problem)
    starts = [model.add_integer_variable(lb=low[j], ub=high[j]) for j in range(n)]
    tops = [model.add_variable(lb=max(row[r] for row in usage)) for r in range(len(problem.prices))]
    for child, own in enumerate(problem.instance.parents):
        for parent in own:
            model.add_linear_constraint(starts[parent] + durations[parent] <= starts[child])
    for j in range(n):
        under: list[list[Any]] = [[] for _ in tops]
        for i in range(n):
            if i == j or low[j] >= high[i] + durations[i] or high[j] < low[i]:
                continue
            after, before = model.add_binary_variable(), model.add_binary_variable()
            model.add_linear_constraint((high[j] - low[i] + 1) * after >= starts[j] - starts[i] + 1)
            model.add_linear_constraint(
                (high[i] + durations[i] - low[j]) * before >= starts[i] + durations[i] - starts[j])
            both = model.add_variable(lb=0.0, ub=1.0)
            model.add_linear_constraint(both >= after + before - 1)
            for r, own_under in enumerate(under):
                if usage[i][r]:
                    own_under.append(usage[i][r] * both)
        for r, top in enumerate(tops):
            model.add_linear_constraint(mathopt.fast_sum(under[r]) + usage[j][r] <= top)
    model.minimize(mathopt.fast_sum([int(price) * top for price, top in zip(problem.prices, tops, strict=True)]))
    left = timedelta(seconds=max(until_s - time.monotonic(), 0.01))
    result = mathopt.solve(model, mathopt.SolverType.HIGHS,  # silent, unlike OR-tools' other door to HiGHS
                           params=mathopt.SolveParameters(time_limit=left))
    reason = result.termination.reason
    if reason == mathopt.TerminationReason.INFEASIBLE:
        return Searched(None, "infeasible", np.inf)
    bound = float(np.ceil(max(result.best_objective_bound(), 0.0) - 1e-6))
    if not result.has_primal_feasible_solution():
        return Searched(None, "unknown", bound)
    found = np.array([round(result.variable_values(start)) for start in starts], np.int64)
    return Searched(found, "optimal" if reason == mathopt.TerminationReason.OPTIMAL else "feasible", bound)
