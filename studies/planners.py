"""Planners of the paper that no user runs, its synthetic days, and project scheduling by the same core.

The planners are the mixed-integer program, SORU's version, and the most frequent value as an estimate.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from sojourn.simulator.planning import PLANNERS, Instance, Limits, Planner, PlanSettings, RecurringJob
from sojourn.simulator.planning._cp_sat import solve
from sojourn.simulator.planning.planners import one_sample, sampled_pairs
from sojourn.simulator.planning.problem import ESTIMATORS, Problem, Samples, easiest_windows, estimated
from sojourn.simulator.planning.search import Searched, search

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


def most_frequent(values: np.ndarray) -> np.ndarray:
    """Over the runs, the value that stands most often, the lowest of equals."""
    columns = values.reshape(len(values), -1).T
    found = []
    for column in columns:
        distinct, counts = np.unique(column, return_counts=True)
        found.append(distinct[counts.argmax()])
    return np.array(found).reshape(values.shape[1:])


def _sampled_durations(instance: Instance, settings: PlanSettings) -> Samples:
    """Durations drawn, usage by its median, as the paper's version of SORU (section 5.2)."""
    drawn, usage = sampled_pairs(instance, settings), estimated(instance, ESTIMATORS["p50"]).usage
    return Samples(drawn.durations, np.ascontiguousarray(np.broadcast_to(usage, drawn.usage.shape)))


_OF_PAPER = {each.name: each for each in (
    one_sample("det-mode", "CP-SAT on one sample: the most frequent duration and usage", "mode", most_frequent, search),
    one_sample("milp", "mixed-integer program on one sample, by HiGHS; for some 30 jobs", "p50", ESTIMATORS["p50"],
               solve_mixed_integer),
    Planner("soru-peak", "as cospis with usage by an estimator", _sampled_durations, search))}
STUDIED: Mapping[str, Planner] = MappingProxyType({name: ({**PLANNERS, **_OF_PAPER})[name] for name in (
    "none", "greedy", "descent", "det-p50", "det-p75", "det-p100", "det-mode", "cospis", "cospis-even", "milp",
    "soru-peak")})
"""Those of `sojourn lab plan` and of the paper, in the order of tables."""


@dataclass(frozen=True, slots=True)
class Project:
    """starts: int64 (n,). makespan: the last end. status: optimal (proved), feasible, infeasible or unknown (no
    starts). bound: no schedule is shorter."""

    starts: np.ndarray | None
    makespan: int
    status: str
    bound: float


def least_makespan(instance: Instance, limits: Limits) -> Project:
    """The shortest schedule within the instance's capacity; durations and usage are the longest runs of each job.

    >>> run = np.array([2]), np.array([3.0])
    >>> day = Instance((RecurringJob("a", 0, 9, 20, *run), RecurringJob("b", 0, 9, 20, *run)), capacity=np.array([5.0]))
    >>> least_makespan(day, Limits()).makespan
    4
    """
    if instance.capacity is None:
        raise ValueError("capacity must be given for a least makespan, got None")
    samples = estimated(instance, ESTIMATORS["p100"])
    problem = Problem(instance, samples)
    room = np.floor(instance.capacity / instance.unit + 1e-9).astype(np.int64)
    found = solve(problem, limits, limits.limit_s, floor=np.zeros(len(room), np.int64), most=room, goal="makespan")
    makespan = -1 if found.starts is None else int((found.starts + samples.durations[0]).max())
    return Project(found.starts, makespan, found.status, found.bound)


def read_project(text: str) -> Instance:
    """A single-mode file of the PSPLIB (.sm): jobs, their successors, durations, requests and availabilities.

    Jobs without a duration (source, sink) are left out, and what they connect is connected directly. Windows of starts
    reach to the file's horizon. Refused with ValueError: a text without the sections of such a file.
    """
    sections = {title: [line.split() for line in body.splitlines()]
                for title, body in re.findall(r"^([A-Z/ ]+):\n(.*?)(?=^\*{20})", text, flags=re.M | re.S)}
    horizon_line = re.search(r"horizon +: +(\d+)", text)
    wanted = ("PRECEDENCE RELATIONS", "REQUESTS/DURATIONS", "RESOURCEAVAILABILITIES")
    missing = [title for title in wanted if title not in sections]
    if missing or horizon_line is None:
        raise ValueError(f"text must be a single-mode file of the PSPLIB, got none with {(*missing, 'horizon')[0]!r}")
    horizon = int(horizon_line[1])
    children = {row[0]: row[3:] for row in sections[wanted[0]] if row and row[0].isdigit()}
    numbers = {row[0]: [int(each) for each in row[2:]] for row in sections[wanted[1]] if row and row[0].isdigit()}
    capacity = np.array([float(each) for each in sections[wanted[2]][-1]])
    parents: dict[str, set[str]] = {name: set() for name in numbers}
    for name, own in children.items():
        for child in own:
            # jobs are numbered in an order of their dependencies, so that parents of a source are known
            parents[child] |= {name} if numbers[name][0] else parents[name]
    jobs = tuple(RecurringJob(name, 0, horizon - duration, horizon, np.array([duration]), np.array([usage], np.float64),
                     tuple(sorted(parents[name], key=int)))
                 for name, (duration, *usage) in numbers.items() if duration)
    return Instance(jobs, resources=tuple(f"R{k + 1}" for k in range(len(capacity))), capacity=capacity)


Reading = Literal["one-for-all", "per-job"]
FLEXIBILITIES = (20, 30, 80, 120)
N_RUNS = 50


def synthetic_day(n: int, rng: np.random.Generator, *, reading: Reading = "one-for-all", makespan: int | None = None,
                  tightness: float | None = None) -> tuple[Instance, tuple[RecurringJob, ...]]:
    """A day with the runs that a planner sees, and its jobs with as many that are held out, 50 of each job.

    Durations are uniform in [10, 30] s and usage in [5, 10] cores, whole numbers: `one-for-all` draws all runs of all
    jobs so, `per-job` draws each job's own range within these first. Requested starts are uniform in a makespan of 50 s
    a job, flexibilities of 20, 30, 80 or 120 s, up to three parents so that the longest runs stay feasible. The
    deadline is q + f + max D, which never binds; tightness, 0 to 1, takes that share of f away again, but leaves every
    job feasible with its longest runs.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n!r}")
    if reading not in get_args(Reading):
        raise ValueError(f"reading must be one of {', '.join(get_args(Reading))}, got {reading!r}")
    if tightness is not None and not 0 <= tightness <= 1:
        raise ValueError(f"tightness must be from 0 to 1, got {tightness!r}")
    span = 50 * n if makespan is None else makespan
    jobs: list[RecurringJob] = []
    held_out: list[RecurringJob] = []
    requested = np.sort(rng.integers(0, span, n))
    earliest = np.zeros(n, np.int64)
    longest = np.zeros(n, np.int64)
    for row in range(n):
        low_d, high_d, low_r, high_r = 10, 30, 5, 10
        if reading == "per-job":
            low_d, high_d = np.sort(rng.integers(10, 31, 2)).tolist()
            low_r, high_r = np.sort(rng.integers(5, 11, 2)).tolist()
        durations = rng.integers(low_d, high_d + 1, 2 * N_RUNS)
        usage = rng.integers(low_r, high_r + 1, 2 * N_RUNS).astype(np.float64)
        flexibility = int(rng.choice(FLEXIBILITIES))
        latest = int(requested[row]) + flexibility
        able = np.flatnonzero(earliest[:row] + longest[:row] <= latest)
        parents = rng.choice(able, min(int(rng.integers(0, 4)), len(able)), replace=False)
        longest[row] = durations[:N_RUNS].max()
        earliest[row] = max([int(requested[row]), *(earliest[parents] + longest[parents]).tolist()])
        slack = flexibility if tightness is None else latest - int(earliest[row])
        deadline = latest + int(longest[row]) - (0 if tightness is None else int(tightness * slack))
        job = RecurringJob(f"job {row}", int(requested[row]), flexibility, deadline, durations[:N_RUNS], usage[:N_RUNS],
                  tuple(f"job {parent}" for parent in sorted(parents.tolist())))
        jobs.append(job)
        held_out.append(replace(job, durations=durations[N_RUNS:], usage=usage[N_RUNS:]))
    return Instance(tuple(jobs)), tuple(held_out)
