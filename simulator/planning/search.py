"""The search of all planners with a solver: greedy, single moves, lower bounds, then CP-SAT."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits, solve
from sojourn.simulator.planning._placing_kernels import added_excess, collected, lower_excess, put, resulting_peaks
from sojourn.simulator.planning.problem import Problem, Windows, easiest_windows, windows_of

_FIRST_MOVES = 20
"""Moves per job before the solver begins: they take less time than it needs to read the model."""
_MENDING_MOVES = 100
"""Moves per job that adapt an earlier plan: some milliseconds a job of a large day."""
_FIRST_SHARE, _DENSE_SHARE = 0.8, 0.15
"""Share of the time for the solver's first try: it proves sparse days, but hardly ever dense ones.
Moves follow, for most of the rest, then the solver again."""
_DENSE = 2
"""A day is dense if the energetic bound is above so many times the widest job."""


@dataclass(frozen=True, slots=True)
class Searched:
    """starts: int64 (n,), or None. status: optimal, feasible, infeasible or unknown."""

    starts: np.ndarray | None
    status: str
    bound: float


def search(problem: Problem, limits: Limits, until_s: float) -> Searched:
    """The best schedule until `until_s` of `time.monotonic`, never worse than the greedy one."""
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
        solved = solve(problem, limits, share * (until_s - time.monotonic()), floor=floor, hint=starts)
        if solved.status == "infeasible":
            return Searched(None, "infeasible", np.inf)
        bound = max(bound, solved.bound)
        if solved.starts is not None and (starts is None or problem.cost_of(solved.starts) <= problem.cost_of(starts)):
            starts = solved.starts
        if solved.status == "optimal" or (starts is not None and problem.cost_of(starts) <= bound):
            return _finished(problem, limits, Searched(starts, "optimal", bound), floor, until_s)
        if time.monotonic() >= until_s:
            break
    return _finished(problem, limits, Searched(starts, "unknown" if starts is None else "feasible", bound), floor,
                     until_s)


def windows_hold(problem: Problem, low: np.ndarray, high: np.ndarray, starts: np.ndarray) -> bool:
    """Whether starts lie in the windows; the solver may have broken other samples."""
    return bool(((low <= starts) & (starts <= high)).all())


def _finished(problem: Problem, limits: Limits, result: Searched, floor: np.ndarray, until_s: float) -> Searched:
    """The result; with is_least_moved the schedule of that peak that moves jobs least."""
    if not limits.is_least_moved or result.starts is None:
        return result
    most = problem.peak_of(result.starts)
    moved = solve(problem, limits, max(until_s - time.monotonic(), 1.0), floor=np.minimum(floor, most),
                  hint=result.starts, most=most, goal="delay")
    if moved.starts is None or _distance(problem, moved.starts) > _distance(problem, result.starts):
        return result
    return Searched(moved.starts, result.status, result.bound)


def held(problem: Problem, starts: np.ndarray, seed: int) -> np.ndarray:
    """Starts as good as these with fewer changes to an earlier plan: no job moves without a gain.

    The earlier plan is adapted by moves of single jobs until its peaks are those of `starts`. Of
    both, the one with fewer changes is taken, and changes without a gain are undone.
    """
    if not problem.instance.is_planned:
        return starts
    planned, n_broken = problem.instance.baseline, max(problem.n_ignored, int(problem.is_broken(starts).sum()))
    candidates, windows = [starts], easiest_windows(problem)
    if windows_hold(problem, windows.low, windows.high, planned):
        board = Board(problem, windows)
        for job, start in enumerate((planned - problem.origin).tolist()):
            board.put(job, start)
        n_moves = _MENDING_MOVES * len(problem)
        candidates.append(descend(board, problem.peak_of(starts), seed, n_moves, np.inf) + problem.origin)
    undone = [_undone(problem, each, n_broken) for each in (planned, *candidates)
              if is_as_good(problem, each, starts, n_broken)]
    return min(undone, key=lambda each: (problem.cost_of(each), int((each != planned).sum()), _distance(problem, each)))


def _undone(problem: Problem, starts: np.ndarray, n_broken: int) -> np.ndarray:
    """The starts with single jobs back at the earlier plan's starts while that costs nothing."""
    planned, best, is_new = problem.instance.baseline, starts, True
    while is_new:
        is_new = False
        for row in np.flatnonzero(best != planned).tolist():
            tried = best.copy()
            tried[row] = planned[row]
            if is_as_good(problem, tried, best, n_broken):
                best, is_new = tried, True
    return best


def is_as_good(problem: Problem, starts: np.ndarray, others: np.ndarray, n_broken: int) -> bool:
    """Whether starts cost no more than the others, and break at most n_broken samples."""
    return problem.cost_of(starts) <= problem.cost_of(others) and int(problem.is_broken(starts).sum()) <= n_broken


def is_kept(problem: Problem, starts: np.ndarray) -> bool:
    """Whether starts break at most `n_ignored` samples."""
    return int(problem.is_broken(starts).sum()) <= problem.n_ignored


def _distance(problem: Problem, starts: np.ndarray) -> int:
    return int(np.abs(starts - problem.instance.baseline).sum())


_CHECKED = 256
"""Moves between two checks of the clock."""


class Board:
    """The usage of placed jobs; starts are steps from the problem's origin."""

    def __init__(self, problem: Problem, windows: Windows) -> None:
        self.problem, self.windows = problem, windows
        self.durations, self.usage = problem.samples.durations, problem.samples.usage
        n_samples, _, n_resources = self.usage.shape
        self.used = np.zeros((n_samples, n_resources, problem.n_times), np.int64)
        self.starts = np.full(len(problem), -1, np.int64)
        self.children: list[list[int]] = [[] for _ in range(len(problem))]
        for child, parents in enumerate(problem.instance.parents):
            for parent in parents:
                self.children[parent].append(child)
        self._low, self._high = windows.low - problem.origin, windows.high - problem.origin
        self._buffer = np.zeros(problem.n_times + 2, np.int64)

    def window(self, job: int) -> tuple[int, int]:
        """The starts that the placed jobs allow."""
        low, high = int(self._low[job]), int(self._high[job])
        for parent in self.problem.instance.parents[job]:
            low = max(low, int(self.starts[parent] + self.windows.longest[parent]))
        for child in self.children[job]:
            if self.starts[child] >= 0:
                high = min(high, int(self.starts[child] - self.windows.longest[job]))
        return low, high

    def put(self, job: int, start: int) -> None:
        """Start a job."""
        self.starts[job] = start
        put(self.used, self.durations, self.usage, job, start, 1)

    def take(self, job: int) -> None:
        """Remove a job."""
        put(self.used, self.durations, self.usage, job, int(self.starts[job]), -1)
        self.starts[job] = -1

    def peak(self) -> np.ndarray:
        """The highest usage of each resource, int64 (n_resources,)."""
        return np.asarray(self.used.max(axis=(0, 2)))

    def excess(self, job: int, low: int, high: int, lines: np.ndarray) -> np.ndarray:
        """The usage above the lines that each start from low to high adds, int64 (high - low +
        1,)."""
        costs = np.zeros(high - low + 1, np.int64)
        added_excess(self.used, self.durations, self.usage, lines, job, low, costs, self._buffer)
        return costs

    def peaks_under(self, job: int, low: int, high: int) -> np.ndarray:
        """The highest usage under the job for each start from low to high, int64 (n_resources, high - low + 1)."""
        peaks = np.zeros((self.used.shape[1], high - low + 1), np.int64)
        for resource in range(len(peaks)):
            resulting_peaks(self.used, self.durations, self.usage, job, low, resource, peaks[resource], self._buffer)
        return peaks


def one_pass(problem: Problem, windows: Windows) -> Board:
    """Place each job at the start that raises the priced peaks least, the earliest of equals;
    parents first, else in the order of requested starts."""
    board = Board(problem, windows)
    peak = np.zeros(len(problem.prices), np.int64)
    for job in problem.instance.order.tolist():
        low, high = board.window(job)
        under = np.maximum(board.peaks_under(job, low, high), peak[:, None])
        best = int((problem.prices @ under).argmin())
        peak = under[:, best]
        board.put(job, low + best)
    return board


class _Mover:
    """Moves of single jobs on a board, until usage is below given lines."""

    def __init__(self, board: Board, seed: int) -> None:
        n, n_times = len(board.problem), board.problem.n_times
        self._board, windows, origin = board, board.windows, board.problem.origin
        self._low, self._high, self._longest = windows.low - origin, windows.high - origin, windows.longest
        self._above, self._below = _table(board.problem.instance.parents), _table(board.children)
        self._free_at, self._state = np.zeros(n, np.int64), np.array([seed], np.uint64)
        self._costs, self._sums = np.zeros((2, n_times + 2), np.int64)
        self._cells, self._n_cells = np.zeros(max(10_000, board.used.size // 20), np.int64), np.zeros(1, np.int64)
        self._lines = np.zeros(0, np.int64)
        self.n_moves = 0

    def aim(self, lines: np.ndarray) -> None:
        """Set the lines, int64 (n_samples, n_resources)."""
        self._lines = lines
        self._n_cells[0] = collected(self._board.used, lines, self._cells)

    def move(self) -> bool:
        """Do some moves; True if no cell is above its line now."""
        board = self._board
        is_done = lower_excess(
            board.used, board.durations, board.usage, self._lines, board.starts, self._low, self._high, self._longest,
            self._above, self._below, self.n_moves, _CHECKED, self._free_at, self._costs, self._sums, self._cells,
            self._n_cells, self._state)
        self.n_moves += _CHECKED
        if is_done and (board.used.max(axis=2) > self._lines).any():  # the list was full
            self.aim(self._lines)
            return False
        return is_done


def descend(board: Board, bound: np.ndarray, seed: int, n_moves: int, until_s: float) -> np.ndarray:
    """The best starts of a search from those of the board, int64 (n,), steps from the origin.

    The line is one unit below the peak, of one resource after the other. Jobs in cells above the
    line move to starts that add the least above it, until no cell is above; then the line falls
    again. bound: int64 (n_resources,), the lowest lines. seed: of the draws. n_moves: in all.
    until_s: of `time.monotonic`.
    """
    mover = _Mover(board, seed)
    n_samples = len(board.used)
    best, peak = board.starts.copy(), board.peak()
    is_open = peak > bound
    resource, n_first, is_new = -1, 0, True
    while is_open.any() and mover.n_moves < n_moves and time.monotonic() < until_s:
        if is_new or (mover.n_moves - n_first > 20 * len(best) and is_open.sum() > 1):
            resource, n_first = _next(is_open, resource), mover.n_moves
            lines = peak.copy()
            lines[resource] -= 1
            mover.aim(np.tile(lines, (n_samples, 1)))
        is_new = mover.move()
        if is_new:
            best, peak = board.starts.copy(), board.peak()
            is_open = peak > bound
    return best


def even_out(board: Board, seed: int, n_moves: int, until_s: float) -> np.ndarray:
    """Starts with lower peaks in single samples than those of the board, and in no sample a higher
    one; int64 (n,).

    The line of one sample after the other is one unit below its peak; all others keep their peaks.
    This lowers the mean of the samples' peaks: the highest sample decides the plan, but the real
    day may be like any of them.
    """
    mover = _Mover(board, seed)
    best, lines = board.starts.copy(), board.used.max(axis=2)
    order = np.argsort(-lines[:, 0], kind="stable").tolist()
    idx, n_failed, budget = 0, 0, max(len(best), _CHECKED)
    while n_failed < 2 * len(order) and mover.n_moves < n_moves and time.monotonic() < until_s:
        tried = lines.copy()
        tried[order[idx]] = np.maximum(tried[order[idx]] - 1, 0)
        mover.aim(tried)
        n_last = mover.n_moves + budget
        is_done = mover.move()
        while not is_done and mover.n_moves < n_last:
            is_done = mover.move()
        if is_done:
            best, lines, n_failed = board.starts.copy(), board.used.max(axis=2), 0
        else:
            for job in np.flatnonzero(board.starts != best).tolist():
                board.take(job)
                board.put(job, int(best[job]))
            n_failed += 1
            idx = (idx + 1) % len(order)
    return best


def _next(is_open: np.ndarray, resource: int) -> int:
    """The next resource that may still fall."""
    order = np.roll(np.arange(len(is_open)), -resource - 1)
    return int(order[is_open[order].argmax()])


def _table(relatives: Sequence[Sequence[int]]) -> np.ndarray:
    """The number of relatives of each, and which: int64 (n, most + 1)."""
    table = np.zeros((len(relatives), 1 + max(map(len, relatives))), np.int64)
    for row, each in enumerate(relatives):
        table[row, :1 + len(each)] = (len(each), *each)
    return table


_POINTS = 128
"""The most begins and the most ends of windows; 128 x 128 windows take some milliseconds a sample."""


def energetic_bound(problem: Problem) -> np.ndarray:
    """A lower bound of each resource's peak, int64 (n_resources,): the work that must lie in a
    window over its length.

    A job that may start from low to high and runs for d lies within [a, b) for at least max(0,
    min(d, b - a, low + d - a, b - high)) steps, at any start. Windows begin at earliest or latest
    starts and end at earliest or latest ends. The usage of each single job is a bound as well.

    Deadlines and dependencies narrow the starts, but at most `n_ignored` samples may break them.
    Each sample has a bound under its constraints; all but the `n_ignored` highest of these hold at
    once.

    >>> from sojourn.simulator.planning.job import Instance, RecurringJob
    >>> from sojourn.simulator.planning.problem import ESTIMATORS, estimated
    >>> three = Instance(tuple(RecurringJob(f"{k}", 0, 2, 9, np.array([4]), np.array([2.0])) for k in range(3)))
    >>> energetic_bound(Problem(three, estimated(three, ESTIMATORS["p50"]))).tolist()
    [6]
    """
    samples = problem.samples
    least = samples.usage.max(axis=(0, 1))
    respected = np.empty((len(samples), len(least)), np.int64)
    for k, (durations, usage) in enumerate(zip(samples.durations, samples.usage, strict=True)):
        if problem.n_ignored:
            least = np.maximum(least, _window_bound(problem.low, problem.high, durations, usage))
        one = windows_of(problem, np.array([k]))
        respected[k] = _window_bound(one.low, one.high, durations, usage) if one.is_feasible else np.iinfo(np.int64).max
    if problem.n_ignored < len(samples):
        fallen = np.sort(respected, axis=0)[len(samples) - 1 - problem.n_ignored]
        least = np.where(fallen < np.iinfo(np.int64).max, np.maximum(least, fallen), least)
    return np.asarray(least)


def _window_bound(low: np.ndarray, high: np.ndarray, durations: np.ndarray, usage: np.ndarray) -> np.ndarray:
    """The bound of one sample with these windows of starts, int64 (n_resources,)."""
    bound = np.zeros(usage.shape[1], np.int64)
    begins = _spread(np.concatenate((low, high)))
    ends = _spread(np.concatenate((low + durations, high + durations)))
    for begin in begins.tolist():
        later = ends[ends > begin]
        if len(later):
            inside = np.minimum(np.minimum(durations, low + durations - begin)[:, None],
                                np.minimum((later - begin)[None, :], later[None, :] - high[:, None]))
            work = np.maximum(inside, 0).T @ usage
            bound = np.maximum(bound, (-(-work // (later - begin)[:, None])).max(axis=0))
    return bound


def _spread(times: np.ndarray) -> np.ndarray:
    distinct = np.unique(times)
    if len(distinct) <= _POINTS:
        return distinct
    return distinct[np.linspace(0, len(distinct) - 1, _POINTS).astype(np.int64)]
