"""The planners by name, planning of the rest of a day, and schedules on real days.

In the rest of a day ended jobs are left out, running jobs stay, and waiting jobs get a new start.
Real days are runs that were held out from planning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning.job import MAX_TIME, Instance, RecurringJob
from sojourn.simulator.planning.problem import (
    ESTIMATORS,
    MAX_CELLS,
    Estimator,
    Problem,
    Samples,
    Schedule,
    drawn_pairs,
    easiest_windows,
    estimated,
    peaks,
    windows_of,
)
from sojourn.simulator.planning.search import (
    Board,
    Searched,
    descend,
    energetic_bound,
    even_out,
    held,
    one_pass,
    search,
)

ALPHA_STEP = 0.1
"""The step by which alpha is raised if no schedule exists."""

_FRESH = 1
"""Samples that `cospis-even` draws for each of the solver's: single moves are cheap, and more
samples generalise better."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """n_samples: K. alpha: share of samples that may break deadlines and dependencies, 0 to 1.
    limits: of the search. Defaults are the paper's (section 5.2)."""

    n_samples: int = 25
    alpha: float = 0.4
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {self.n_samples!r}")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be from 0 to 1, got {self.alpha!r}")


_Draw = Callable[[Instance, PlanSettings], Samples]
_Search = Callable[[Problem, Limits, float], Searched]


@dataclass(frozen=True, slots=True)
class Planner:
    """A way to plan a day. samples: its samples of durations and usage. search: its search for
    starts, or None for the requested ones. is_sampled: whether it has K samples and alpha.
    estimator: of one sample, or None."""

    name: str
    about: str
    samples: _Draw
    search: _Search | None
    is_sampled: bool = True
    estimator: str | None = None

    def plan(self, instance: Instance, settings: PlanSettings | None = None) -> Schedule:
        """The schedule of a day; there is always one, see `Schedule.reason`."""
        return _planned(self, instance, settings or PlanSettings())


def sampled_pairs(instance: Instance, settings: PlanSettings) -> Samples:
    """K pairs of duration and usage of each job."""
    return drawn_pairs(instance, settings.n_samples, np.random.default_rng(settings.limits.seed))


def _one_pass(problem: Problem, limits: Limits, until_s: float) -> Searched:
    return _moved(problem, replace(limits, n_moves=0), until_s)


def _moved(problem: Problem, limits: Limits, until_s: float) -> Searched:
    windows = easiest_windows(problem)
    if not windows.is_feasible:
        return Searched(None, "infeasible", np.inf)
    floor = energetic_bound(problem)
    board = one_pass(problem, windows)
    starts = descend(board, floor, limits.seed, _moves(limits, problem), until_s) + problem.origin
    bound = float(problem.prices @ floor)
    return Searched(starts, "optimal" if problem.cost_of(starts) <= bound else "heuristic", bound)


def _evened(problem: Problem, limits: Limits, until_s: float) -> Searched:
    began_s = time.monotonic()
    result = search(problem, limits, began_s + 0.7 * (until_s - began_s))
    if result.starts is None:
        return result
    few = problem.samples
    n_fresh = max(min(_FRESH, MAX_CELLS // problem.n_cells - 1), 0) * len(few)  # 0 if memory is short
    fresh = drawn_pairs(problem.instance, max(n_fresh, 1), np.random.default_rng([limits.seed, 1]))
    fresh = Samples(fresh.durations[:n_fresh], fresh.usage[:n_fresh])
    samples = Samples(np.concatenate((few.durations, fresh.durations)), np.concatenate((few.usage, fresh.usage)))
    wide = Problem(problem.instance, samples)
    kept = np.flatnonzero(~wide.is_broken(result.starts))
    board = Board(wide, windows_of(wide, kept if len(kept) else np.arange(len(few))))
    for job, start in enumerate((result.starts - wide.origin).tolist()):
        board.put(job, start)
    starts = even_out(board, limits.seed, _moves(limits, problem), until_s) + wide.origin
    return Searched(starts, result.status, result.bound)


def _moves(limits: Limits, problem: Problem) -> int:
    """So many that more hardly help, on the days of section 5.4 and on logs."""
    return min(limits.n_moves, max(20_000, 400 * len(problem)))


def one_sample(name: str, about: str, estimator: str, of: Estimator, search: _Search) -> Planner:
    """A planner on one sample: durations and usage by the estimator `of`, named `estimator`."""

    def samples(instance: Instance, settings: PlanSettings) -> Samples:
        return estimated(instance, of)

    return Planner(name, about, samples, search, is_sampled=False, estimator=estimator)


PLANNERS: Mapping[str, Planner] = MappingProxyType({planner.name: planner for planner in (
    Planner("none", "the requested starts", sampled_pairs, None),
    Planner("greedy", "one pass over the jobs, each where it raises the peak least", sampled_pairs, _one_pass),
    Planner("descent", "greedy, then single jobs are moved while the peak falls; no solver; ours", sampled_pairs,
            _moved),
    *(one_sample(f"det-{name}", f"CP-SAT on one sample: {name.upper()} of durations and usage", name, of, search)
      for name, of in ESTIMATORS.items()),
    Planner("cospis", "CP-SAT on K samples of pairs, of which a share alpha may break deadlines", sampled_pairs,
            search),
    Planner("cospis-even", "as cospis, then jobs move while the peak of some sample falls and none rises; ours",
            sampled_pairs, _evened),
)})
"""In the order of tables. `none` is the baseline of peak reduction."""


def planner(name: str) -> Planner:
    """The planner of that name."""
    if name not in PLANNERS:
        raise ValueError(f"planner must be one of {', '.join(PLANNERS)}, got {name!r}")
    return PLANNERS[name]


def _planned(self: Planner, instance: Instance, settings: PlanSettings) -> Schedule:
    began_s = time.monotonic()
    limits = settings.limits
    samples = self.samples(instance, settings)
    wanted = settings.alpha if self.is_sampled else 0.0
    alpha, reason = wanted, ""
    if self.search is None:
        result = Searched(None, "unknown", 0.0)
    else:
        alphas = [wanted, *np.arange(wanted + ALPHA_STEP, 0.95, ALPHA_STEP).round(6)] if self.is_sampled else [wanted]
        for alpha in alphas:
            problem = Problem(instance, samples, _floor(len(samples), alpha))
            result = self.search(problem, limits, began_s + limits.limit_s)
            if result.status != "infeasible":
                break
        if alpha > wanted and result.starts is not None:
            reason = f"no schedule keeps {_kept(len(samples), wanted)} samples: alpha was raised to {alpha:g}"
        elif result.starts is None:
            what = "no schedule keeps deadlines and dependencies" if result.status == "infeasible" else \
                f"no schedule was found in {limits.limit_s:g} s"
            most = f" with alpha up to {alpha:g}" if self.is_sampled else f" of {str(self.estimator).upper()}"
            reason = f"{what}{most}: requested starts were kept"
    problem = Problem(instance, samples, _floor(len(samples), alpha))
    is_requested = result.starts is None
    starts = instance.baseline if result.starts is None else held(problem, result.starts, limits.seed)
    objective = problem.cost_of(starts)
    bound = min(result.bound if np.isfinite(result.bound) else 0.0, objective)
    return Schedule(
        self.name, starts, problem.peak_of(starts) * instance.unit, "requested" if is_requested else result.status,
        objective, bound, 100.0 * (objective - bound) / max(objective, 1), float(alpha) if self.is_sampled else None,
        100.0 * float(problem.is_broken(starts).mean()), int(np.abs(starts - instance.baseline).sum()),
        time.monotonic() - began_s, reason)


def _floor(n_samples: int, alpha: float) -> int:
    """floor(K x alpha), as if alpha were exact."""
    return int(np.floor(n_samples * alpha + 1e-9))


def _kept(n_samples: int, alpha: float) -> str:
    return f"{n_samples - _floor(n_samples, alpha)} of {n_samples}"


@dataclass(frozen=True, slots=True)
class DayState:
    """now: a step. started, ended: float64 (n,), whole steps, below 0 before the day's begin, NaN
    if a job has not started or ended yet."""

    now: int
    started: np.ndarray
    ended: np.ndarray


@dataclass(frozen=True, slots=True)
class RestOfDay:
    """instance: the jobs that have not ended. rows: int64, their rows in the whole day. is_running:
    bool, of them. requested: int64, their requested starts in the whole day, steps; in `instance`
    waiting jobs start from now on. n_before: int64, steps that each ran before the day's begin; in
    `instance` it starts at 0, shorter by these. notes: a sentence each about deadlines that can no
    longer be met, outlived histories, and jobs that did not wait for a parent."""

    instance: Instance
    rows: np.ndarray
    is_running: np.ndarray
    requested: np.ndarray
    n_before: np.ndarray
    notes: tuple[str, ...]


def rest_of_day(instance: Instance, state: DayState) -> RestOfDay:
    """The rest of the day from `now` on, for any planner.

    A running job keeps its start; its history becomes the pairs that are longer than it has run. If
    none is longer, it has outlived its history: it is expected to run as long again, with the usage
    of its longest run. A waiting job starts at `now` or later, within its flexibility; at once if
    that has passed. A planned start that has passed becomes now. Ended parents are dropped. A
    deadline that the shortest runs break is moved to the earliest end, with a note.

    Refused with ValueError: times after `now`, an end without a start or not after it, a day in
    which all have ended.

    >>> day = Instance((RecurringJob("a", 0, 5, 60, np.array([10, 30]), np.array([2.0, 3.0])),
    ...                 RecurringJob("b", 0, 50, 99, np.array([5]), np.array([1.0]), ("a",))))
    >>> rest = rest_of_day(day, DayState(20, np.array([0, np.nan]), np.full(2, np.nan)))
    >>> [(job.requested_start, job.flexibility, job.durations.tolist()) for job in rest.instance.jobs]
    [(0, 0, [30]), (20, 30, [5])]
    """
    _check(instance, state)
    notes = [f"job {instance.jobs[row].name!r} started before its parent {instance.jobs[parent].name!r} ended"
             for row in np.flatnonzero(~np.isnan(state.started)).tolist() for parent in instance.parents[row]
             if not state.ended[parent] <= state.started[row]]
    rows = np.flatnonzero(np.isnan(state.ended))
    if not len(rows):
        raise ValueError(f"jobs must not all have ended at {state.now}, got {len(instance)} that have")
    left: dict[int, RecurringJob] = {}
    earliest_end: dict[int, int] = {}
    for row in (row for row in instance.order.tolist() if np.isnan(state.ended[row])):
        job = instance.jobs[row]
        if not np.isnan(state.started[row]):
            job = _running(job, int(state.started[row]), state.now, notes)
            start = job.requested_start
        else:
            waits_for = [parent for parent in instance.parents[row] if np.isnan(state.ended[parent])]
            begin = max(job.requested_start, state.now)
            start = max([begin, *(earliest_end[parent] for parent in waits_for)])
            latest = job.requested_start + job.flexibility
            if start > latest:
                notes.append(f"job {job.name!r} can no longer start by {latest}: it may start until {start}")
            planned = None if job.planned_start is None else max(job.planned_start, begin)
            job = replace(job, requested_start=begin, flexibility=max(latest, start) - begin, planned_start=planned,
                          parents=tuple(instance.jobs[parent].name for parent in waits_for))
        earliest_end[row] = start + int(job.durations.min())
        if earliest_end[row] > job.deadline:
            notes.append(f"job {job.name!r} can no longer end by {job.deadline}: its deadline is now "
                         f"{earliest_end[row]}")
            job = replace(job, deadline=earliest_end[row])
        left[row] = job
    rest = replace(instance, jobs=tuple(left[row] for row in rows.tolist()))
    begun = np.nan_to_num(np.minimum(state.started[rows], 0)).astype(np.int64)
    return RestOfDay(rest, rows, ~np.isnan(state.started[rows]), np.minimum(instance.requested[rows], np.where(
        begun < 0, begun, MAX_TIME)), -begun, tuple(notes))


def _running(job: RecurringJob, started: int, now: int, notes: list[str]) -> RecurringJob:
    is_longer = job.durations > now - started
    durations, usage = job.durations[is_longer], job.usage[is_longer]
    if not is_longer.any():
        longest = int(job.durations.argmax())
        durations, usage = np.array([max(2 * (now - started), 1)]), job.usage[longest:longest + 1]
        notes.append(f"job {job.name!r} has run for {now - started}, longer than all of its past runs: it is taken to "
                     "run as long again")
    begin = max(started, 0)  # a plan can't change usage before the day's begin
    return RecurringJob(job.name, begin, 0, job.deadline, durations - (begin - started), usage)


def _check(instance: Instance, state: DayState) -> None:
    if state.now < 0:
        raise ValueError(f"now must be at least 0, got {state.now!r}")
    for name, times in (("started", state.started), ("ended", state.ended)):
        if times.shape != (len(instance),):
            raise ValueError(f"{name} must have a time for each of the {len(instance)} jobs, got {times.shape}")
        late = np.flatnonzero(times > state.now)
        if len(late):
            raise ValueError(f"{name} of job {instance.jobs[late[0]].name!r} must not lie after {state.now}, got "
                             f"{times[late[0]]:g}")
    odd = np.flatnonzero(~np.isnan(state.ended) & ~(state.ended > state.started))
    if len(odd):
        raise ValueError(f"ended of job {instance.jobs[odd[0]].name!r} must lie after its start "
                         f"{state.started[odd[0]]:g}, got {state.ended[odd[0]]:g}")


N_RUNS = 50


@dataclass(frozen=True, slots=True)
class Runs:
    """durations: int64 (n_runs, n), steps. usage: float64 (n_runs, n, n_resources)."""

    durations: np.ndarray
    usage: np.ndarray

    def __len__(self) -> int:
        return len(self.durations)


def drawn_runs(held_out: Sequence[RecurringJob], rng: np.random.Generator, n_runs: int = N_RUNS) -> Runs:
    """Days with one pair of duration and usage per job, from `held_out`, which no plan used.

    >>> runs = drawn_runs([RecurringJob("a", 0, 0, 9, np.array([3]), np.array([2.0]))], np.random.default_rng(0), 2)
    >>> runs.durations.tolist(), runs.usage.tolist()
    ([[3], [3]], [[[2.0]], [[2.0]]])
    """
    if n_runs < 1:
        raise ValueError(f"n_runs must be at least 1, got {n_runs!r}")
    if not len(held_out):
        raise ValueError("held_out must hold at least one job, got none")
    durations = np.empty((n_runs, len(held_out)), np.int64)
    usage = np.empty((n_runs, len(held_out), held_out[0].usage.shape[1]))
    for row, job in enumerate(held_out):
        drawn = rng.integers(len(job.durations), size=n_runs)
        durations[:, row], usage[:, row] = job.durations[drawn], job.usage[drawn]
    return Runs(durations, usage)


def executed(instance: Instance, starts: np.ndarray, runs: Runs) -> np.ndarray:
    """Real starts, int64 (n_runs, n): as scheduled, or when the last parent ends if that is later
    (section 4.2).

    >>> from sojourn.simulator.planning.job import RecurringJob
    >>> one = np.array([10]), np.array([2.0])
    >>> day = Instance((RecurringJob("a", 0, 5, 20, *one), RecurringJob("b", 0, 30, 60, *one, ("a",))))
    >>> executed(day, np.array([0, 10]), Runs(np.array([[8, 9], [14, 9]]), np.ones((2, 2, 1)))).tolist()
    [[0, 10], [0, 14]]
    """
    real = np.broadcast_to(starts, runs.durations.shape).copy()
    for row in instance.order.tolist():
        for parent in instance.parents[row]:
            real[:, row] = np.maximum(real[:, row], real[:, parent] + runs.durations[:, parent])
    return real


@dataclass(frozen=True, slots=True)
class Executed:
    """Observed figures, one row a run (COSPiS, section 5.1).

    peak: (n_runs, n_resources). reduction_pct: fall below the peak of the baseline's starts in the
    same run, %; higher = better. under_pct: the observed peak above the planned one, % of the
    planned, at least 0; over_pct: the reverse; lower = better. late_s: sum over jobs of the time
    after their deadlines, seconds; late_pct: share of late jobs; lower = better. Reductions and
    errors are of the first resource.
    """

    peak: np.ndarray
    reduction_pct: np.ndarray
    under_pct: np.ndarray
    over_pct: np.ndarray
    late_s: np.ndarray
    late_pct: np.ndarray


def execute(instance: Instance, schedule: Schedule, runs: Runs) -> Executed:
    """Run the schedule, and the baseline's starts, on the same days."""
    real = executed(instance, schedule.starts, runs)
    peak = peaks(real, runs.durations, runs.usage)
    manual = peaks(executed(instance, instance.baseline, runs), runs.durations, runs.usage)
    planned = max(float(schedule.peak[0]), 1e-12)
    late = np.maximum(real + runs.durations - instance.deadlines, 0)
    error = 100.0 * (peak[:, 0] - planned) / planned
    return Executed(
        peak, 100.0 * (1.0 - peak[:, 0] / np.maximum(manual[:, 0], 1e-12)), np.maximum(error, 0.0),
        np.maximum(-error, 0.0), late.sum(axis=1) * instance.step_s, 100.0 * (late > 0).mean(axis=1))
