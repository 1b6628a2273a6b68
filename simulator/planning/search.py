"""The search that all planners with a solver share: greedy, moves of single jobs, bounds and CP-SAT in turn."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits, solve
from sojourn.simulator.planning.bounds import energetic_bound
from sojourn.simulator.planning.greedy import Board, descend, one_pass
from sojourn.simulator.planning.problem import Problem
from sojourn.simulator.planning.windows import easiest_windows

_FIRST_MOVES = 20
"""Moves a job before the solver begins: they take less than it does to read the model."""
_MENDING_MOVES = 100
"""Moves a job that mend an earlier plan: some milliseconds a job of a large day."""
_FIRST_SHARE, _DENSE_SHARE = 0.8, 0.15
"""Of the time, for the solver's first try: sparse days are proved in it, dense ones hardly ever. Moves come next, for
most of what is left, then the solver again."""
_DENSE = 2
"""A day is dense where the energetic bound exceeds the widest job so many times."""


@dataclass(frozen=True, slots=True)
class Searched:
    """starts: int64 (n,), or None where none was found. status: optimal, feasible, infeasible or unknown."""

    starts: np.ndarray | None
    status: str
    bound: float


def search(problem: Problem, limits: Limits, until_s: float) -> Searched:
    """The best schedule found until `until_s` of `time.monotonic`, never worse than the greedy one."""
    windows = easiest_windows(problem)
    if problem.n_ignored == 0 and not windows.is_feasible:
        return Searched(None, "infeasible", np.inf)
    floor = energetic_bound(problem)
    starts, bound = None, float(problem.prices @ floor)
    board = one_pass(problem, windows) if windows.is_feasible else None
    if board is not None:
        n_moves = min(limits.n_moves, _FIRST_MOVES * len(problem))
        starts = descend(board, floor, limits.seed, n_moves, until_s) + problem.origin
    planned = problem.instance.baseline
    if problem.instance.is_planned and is_kept(problem, planned) and (
            starts is None or problem.cost_of(planned) <= problem.cost_of(starts)):
        starts = planned
    if starts is not None:
        if problem.cost_of(starts) <= bound:
            return _finished(problem, limits, Searched(starts, "optimal", bound), floor, until_s)
    is_dense = bool((floor > _DENSE * problem.samples.usage.max(axis=(0, 1))).any())
    for share in (_DENSE_SHARE if is_dense else _FIRST_SHARE, 1.0):
        if share == 1.0 and board is not None and starts is not None:
            for job, start in enumerate((starts - problem.origin).tolist()):
                board.take(job)
                board.put(job, start)
            if windows_hold(problem, windows.low, windows.high, starts):
                half_s = time.monotonic() + 0.8 * (until_s - time.monotonic())
                moved = descend(board, floor, limits.seed + 1, limits.n_moves, half_s) + problem.origin
                if problem.cost_of(moved) < problem.cost_of(starts):
                    starts = moved
        found = solve(problem, limits, share * (until_s - time.monotonic()), floor=floor, hint=starts)
        if found.status == "infeasible":
            return Searched(None, "infeasible", np.inf)
        bound = max(bound, found.bound)
        if found.starts is not None and (starts is None or problem.cost_of(found.starts) <= problem.cost_of(starts)):
            starts = found.starts
        if found.status == "optimal" or (starts is not None and problem.cost_of(starts) <= bound):
            return _finished(problem, limits, Searched(starts, "optimal", bound), floor, until_s)
        if time.monotonic() >= until_s:
            break
    return _finished(problem, limits, Searched(starts, "unknown" if starts is None else "feasible", bound), floor,
                     until_s)


def windows_hold(problem: Problem, low: np.ndarray, high: np.ndarray, starts: np.ndarray) -> bool:
    """Whether starts stand in the windows; the solver may have chosen other samples to break."""
    return bool(((low <= starts) & (starts <= high)).all())


def _finished(problem: Problem, limits: Limits, found: Searched, floor: np.ndarray, until_s: float) -> Searched:
    """The same, with jobs moved least among schedules of that peak, where that is asked for."""
    if not limits.is_least_moved or found.starts is None:
        return found
    most = problem.peak_of(found.starts)
    moved = solve(problem, limits, max(until_s - time.monotonic(), 1.0), floor=np.minimum(floor, most),
                  hint=found.starts, most=most, goal="delay")
    if moved.starts is None or _distance(problem, moved.starts) > _distance(problem, found.starts):
        return found
    return Searched(moved.starts, found.status, found.bound)


def held(problem: Problem, starts: np.ndarray, seed: int) -> np.ndarray:
    """The same, or another as good, with fewer jobs away from the starts of an earlier plan: none moves for no gain.

    The earlier plan is mended by moves of single jobs until its peaks are those of `starts`; of both, the one with
    fewer changes is taken, and each change that the cost does not need is undone.
    """
    if not problem.instance.is_planned:
        return starts
    planned, n_broken = problem.instance.baseline, max(problem.n_ignored, int(problem.is_broken(starts).sum()))
    found, windows = [starts], easiest_windows(problem)
    if windows_hold(problem, windows.low, windows.high, planned):
        board = Board(problem, windows)
        for job, start in enumerate((planned - problem.origin).tolist()):
            board.put(job, start)
        n_moves = _MENDING_MOVES * len(problem)
        found.append(descend(board, problem.peak_of(starts), seed, n_moves, np.inf) + problem.origin)
    undone = [_undone(problem, own, n_broken) for own in (planned, *found)
              if is_as_good(problem, own, starts, n_broken)]
    return min(undone, key=lambda own: (problem.cost_of(own), int((own != planned).sum()), _distance(problem, own)))


def _undone(problem: Problem, starts: np.ndarray, n_broken: int) -> np.ndarray:
    """With single jobs back at the earlier plan's starts while that costs nothing."""
    planned, kept, is_new = problem.instance.baseline, starts, True
    while is_new:
        is_new = False
        for row in np.flatnonzero(kept != planned).tolist():
            tried = kept.copy()
            tried[row] = planned[row]
            if is_as_good(problem, tried, kept, n_broken):
                kept, is_new = tried, True
    return kept


def is_as_good(problem: Problem, starts: np.ndarray, others: np.ndarray, n_broken: int) -> bool:
    """Whether starts cost no more than the others, and break at most so many samples."""
    return problem.cost_of(starts) <= problem.cost_of(others) and int(problem.is_broken(starts).sum()) <= n_broken


def is_kept(problem: Problem, starts: np.ndarray) -> bool:
    """Whether starts break no more samples than may be broken."""
    return int(problem.is_broken(starts).sum()) <= problem.n_ignored


def _distance(problem: Problem, starts: np.ndarray) -> int:
    return int(np.abs(starts - problem.instance.baseline).sum())
