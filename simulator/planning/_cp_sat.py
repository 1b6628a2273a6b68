"""The problem as a constraint program, solved by CP-SAT of OR-tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sojourn.simulator.planning.problem import Problem

Goal = Literal["peak", "delay", "makespan"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a planner may search, and how.

    limit_s: seconds on the clock, in all. work_limit: the solver's deterministic time, about
        seconds of one core; a search that ends by it, or by proof, gives the same schedule on any
        machine. seed: of all random numbers.
    n_workers: threads; 1 gives the same schedule for the same seed. n_moves: most moves of single
        jobs.
    is_least_moved: then search among schedules with the same peak for the one that moves jobs
        least.
    """

    limit_s: float = 30.0
    work_limit: float | None = None
    seed: int = 0
    n_workers: int = 1
    n_moves: int = 4_000_000
    is_least_moved: bool = False

    def __post_init__(self) -> None:
        if not self.limit_s > 0:
            raise ValueError(f"limit_s must be above 0, got {self.limit_s!r}")
        if self.work_limit is not None and not self.work_limit > 0:
            raise ValueError(f"work_limit must be above 0, got {self.work_limit!r}")
        if not 0 <= self.seed < 1 << 31:
            raise ValueError(f"seed must be at least 0 and below 2**31, got {self.seed!r}")
        if self.n_workers < 1 or self.n_moves < 0:
            raise ValueError(f"n_workers must be at least 1 and n_moves at least 0, got {self.n_workers!r} and "
                             f"{self.n_moves!r}")


@dataclass(frozen=True, slots=True)
class Solution:
    """The solver's result. starts: int64 (n,), or None if it found none. bound: no schedule costs
    less. status: optimal (proved), feasible, infeasible (proved) or unknown."""

    starts: np.ndarray | None
    status: str
    bound: float


def solve(problem: Problem, limits: Limits, seconds: float, *, floor: np.ndarray, hint: np.ndarray | None = None,
          most: np.ndarray | None = None, goal: Goal = "peak") -> Solution:
    """The best schedule by CP-SAT within `seconds`.

    floor: int64 (n_resources,), lower bounds of the peaks; hint: first starts; their peaks bound
    the search. most: int64 (n_resources,): upper bounds of the peaks. goal: the minimised value,
    and that of bound: the priced `peak`; the `delay`, the sum of jobs' distances from the baseline;
    or the `makespan`, the last end in any sample.
    """
    from ortools.sat.python import cp_model

    model, starts, tops = _model(cp_model, problem, floor, hint, most)
    if goal == "peak":
        model.minimize(cp_model.LinearExpr.weighted_sum(tops, problem.prices.tolist()))
    elif goal == "delay":
        model.minimize(cp_model.LinearExpr.sum(_moved(model, problem, starts)))
    else:
        longest = problem.samples.durations.max(axis=0)
        end = model.new_int_var(0, int((problem.high + longest).max()), "")
        for start, length in zip(starts, longest.tolist(), strict=True):
            model.add(end >= start + length)
        model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, 0.01)
    if limits.work_limit is not None:
        solver.parameters.max_deterministic_time = limits.work_limit
    solver.parameters.random_seed = limits.seed
    solver.parameters.num_workers = limits.n_workers
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Solution(None, "infeasible", np.inf)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, "unknown", float(problem.prices @ floor) if goal == "peak" else 0.0)
    values = np.array([solver.value(start) for start in starts], np.int64)
    return Solution(values, "optimal" if status == cp_model.OPTIMAL else "feasible", solver.best_objective_bound)


def _model(cp_model: Any, problem: Problem, floor: np.ndarray, hint: np.ndarray | None,
           most: np.ndarray | None) -> tuple[Any, Sequence[Any], Sequence[Any]]:
    """Starts, one capacity per resource, one cumulative per sample and resource, and one boolean
    for each sample that may break deadlines and dependencies."""
    model = cp_model.CpModel()
    instance, samples = problem.instance, problem.samples
    ceiling = most if most is not None else (problem.peak_of(hint) if hint is not None
                                             else samples.usage.sum(axis=1).max(axis=0))
    starts = [model.new_int_var(low, high, "") for low, high in
              zip(problem.low.tolist(), problem.high.tolist(), strict=True)]
    tops = [model.new_int_var(min(low, high), high, "") for low, high in
            zip(floor.tolist(), ceiling.tolist(), strict=True)]
    broken = [model.new_bool_var("") for _ in range(len(samples))] if problem.n_ignored else []
    if broken:
        model.add(cp_model.LinearExpr.sum(broken) <= problem.n_ignored)
    deadlines = instance.deadlines.tolist()
    for sample in range(len(samples)):
        durations = samples.durations[sample].tolist()
        conditions = [broken[sample].negated()] if broken else []
        for row, parents in enumerate(instance.parents):
            if problem.high[row] + durations[row] > deadlines[row]:
                _add(model, starts[row] + durations[row] <= deadlines[row], conditions)
            for parent in parents:
                if problem.high[parent] + durations[parent] > problem.low[row]:
                    _add(model, starts[parent] + durations[parent] <= starts[row], conditions)
    for sample in range(len(samples)):
        durations = samples.durations[sample].tolist()
        intervals = [model.new_fixed_size_interval_var(start, length, "")
                     for start, length in zip(starts, durations, strict=True)]
        for resource, top in enumerate(tops):
            amounts = samples.usage[sample, :, resource].tolist()
            used = [row for row, amount in enumerate(amounts) if amount > 0]
            model.add_cumulative([intervals[row] for row in used], [amounts[row] for row in used], top)
    if hint is not None:
        for start, value in zip(starts, hint.tolist(), strict=True):
            model.add_hint(start, value)
        for own_broken, value in zip(broken, problem.is_broken(hint).tolist(), strict=False):
            model.add_hint(own_broken, value)
        for top, value in zip(tops, problem.peak_of(hint).tolist(), strict=True):
            model.add_hint(top, value)
    return model, starts, tops


def _moved(model: Any, problem: Problem, starts: Sequence[Any]) -> list[Any]:
    """The distance of each job from the baseline."""
    distances = []
    for start, base, low, high in zip(starts, problem.instance.baseline.tolist(), problem.low.tolist(),
                                      problem.high.tolist(), strict=True):
        if base <= low:
            distances.append(start - base)
            continue
        far = model.new_int_var(0, max(base - low, high - base), "")
        model.add(far >= start - base)
        model.add(far >= base - start)
        distances.append(far)
    return distances


def _add(model: Any, constraint: Any, conditions: list[Any]) -> None:
    enforced = model.add(constraint)
    if conditions:
        enforced.only_enforce_if(*conditions)
