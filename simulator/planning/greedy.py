"""Schedules without a solver: one pass over the jobs, and a search that moves single jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from sojourn.simulator.planning._placing_kernels import added_excess, collected, lower_excess, put, resulting_peaks
from sojourn.simulator.planning.problem import Problem
from sojourn.simulator.planning.windows import Windows

_CHECKED = 256
"""Moves between two looks at the clock."""


class Board:
    """The usage of jobs that have a start; starts are steps from the problem's origin."""

    def __init__(self, problem: Problem, windows: Windows) -> None:
        self.problem, self.windows = problem, windows
        self.durations, self.usage = problem.samples.durations, problem.samples.usage
        n_samples, _, n_resources = self.usage.shape
        self.used = np.zeros((n_samples, n_resources, problem.n_times), np.int64)
        self.starts = np.full(len(problem), -1, np.int64)
        self.children: list[list[int]] = [[] for _ in range(len(problem))]
        for child, own in enumerate(problem.instance.parents):
            for parent in own:
                self.children[parent].append(child)
        self._low, self._high = windows.low - problem.origin, windows.high - problem.origin
        self._buffer = np.zeros(problem.n_times + 2, np.int64)

    def window(self, job: int) -> tuple[int, int]:
        """The starts that the jobs which stand allow."""
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
        """What each start from low to high would add above the lines, int64 (high - low + 1,)."""
        costs = np.zeros(high - low + 1, np.int64)
        added_excess(self.used, self.durations, self.usage, lines, job, low, costs, self._buffer)
        return costs

    def peaks_under(self, job: int, low: int, high: int) -> np.ndarray:
        """The highest usage under the job for each start from low to high, int64 (n_resources, high - low + 1)."""
        found = np.zeros((self.used.shape[1], high - low + 1), np.int64)
        for resource in range(len(found)):
            resulting_peaks(self.used, self.durations, self.usage, job, low, resource, found[resource], self._buffer)
        return found


def one_pass(problem: Problem, windows: Windows) -> Board:
    """Each job at the start that raises the priced peaks least, the earliest of equals; parents first, else in the
    order of requested starts."""
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
    """Moves of single jobs on a board, towards lines that are asked for."""

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
        """Some moves; whether no cell is above its line now."""
        board = self._board
        is_done = lower_excess(
            board.used, board.durations, board.usage, self._lines, board.starts, self._low, self._high, self._longest,
            self._above, self._below, self.n_moves, _CHECKED, self._free_at, self._costs, self._sums, self._cells,
            self._n_cells, self._state)
        self.n_moves += _CHECKED
        if is_done and (board.used.max(axis=2) > self._lines).any():  # cells that found no room in the list
            self.aim(self._lines)
            return False
        return is_done


def descend(board: Board, bound: np.ndarray, seed: int, n_moves: int, until_s: float) -> np.ndarray:
    """The best starts found from those of the board, int64 (n,), steps from the origin.

    The line is set one unit under the peak, of one resource after the other; jobs under cells above the line move to
    where they add the least above it, until no cell is above: then the line falls again. bound: int64 (n_resources,),
    below which no line is set. seed: of the draws. n_moves: in all. until_s: of `time.monotonic`.
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
    """Starts with lower peaks in single samples, from those of the board, and in no sample a higher one; int64 (n,).

    One sample after the other has its line set one unit under its own peak; all others keep theirs. What remains is a
    lower mean of the samples' peaks: the highest sample decides the plan, but the day that comes is like any of them.
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
    """How many, and which: int64 (n, most + 1)."""
    found = np.zeros((len(relatives), 1 + max(map(len, relatives))), np.int64)
    for row, own in enumerate(relatives):
        found[row, :1 + len(own)] = (len(own), *own)
    return found
