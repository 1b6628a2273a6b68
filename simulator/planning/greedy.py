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


def descend(board: Board, bound: np.ndarray, seed: int, n_moves: int, until_s: float) -> np.ndarray:
    """The best starts found from those of the board, int64 (n,), steps from the origin.

    The line is set one unit under the peak, of one resource after the other; jobs under cells above the line move to
    where they add the least above it, until no cell is above: then the line falls again. bound: int64 (n_resources,),
    below which no line is set. seed: of the draws. n_moves: in all. until_s: of `time.monotonic`.
    """
    problem, windows = board.problem, board.windows
    n = len(problem)
    best, peak = board.starts.copy(), board.peak()
    is_open = peak > bound
    above, below = _table(problem.instance.parents), _table(board.children)
    free_at = np.zeros(n, np.int64)
    costs, sums = np.zeros((2, problem.n_times + 2), np.int64)
    cells, n_cells = np.zeros(max(10_000, board.used.size // 20), np.int64), np.zeros(1, np.int64)
    state = np.array([seed], np.uint64)
    resource, n_stuck, move = -1, 0, 0
    is_new = True
    while is_open.any() and move < n_moves and time.monotonic() < until_s:
        if is_new or (n_stuck > 20 * n and is_open.sum() > 1):
            resource, n_stuck, is_new = _next(is_open, resource), 0, False
            lines = peak.copy()
            lines[resource] -= 1
            n_cells[0] = collected(board.used, lines, cells)
        is_new = lower_excess(
            board.used, board.durations, board.usage, lines, board.starts, windows.low - problem.origin,
            windows.high - problem.origin, windows.longest, above, below, move, _CHECKED, free_at, costs, sums,
            cells, n_cells, state)
        move, n_stuck = move + _CHECKED, n_stuck + _CHECKED
        if is_new and (board.peak() <= lines).all():  # else cells are above that found no room in the list
            best, peak = board.starts.copy(), board.peak()
            is_open = peak > bound
        elif is_new:
            n_cells[0], is_new = collected(board.used, lines, cells), False
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
