"""Cores by the intervals in which they are free: the state of admission with backfilling, or with power that varies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.simulator.admission.core_ends import in_given_order
from sojourn.simulator.admission.core_ends_kernels import NEVER
from sojourn.simulator.admission.decisions import Decisions
from sojourn.simulator.admission.free_interval_kernels import CORE, END, IS_LAST, N_ROWS, START, replay_free
from sojourn.simulator.admission.jobs import AdmissionJobs, check_cores
from sojourn.simulator.admission.power_profile import PowerProfile
from sojourn.simulator.admission.registry import ALLOCATIONS, known


class FreeIntervals:
    """Cores that are free from time 0, or while the power profile has them on. Acceptance is greedy: a job is rejected
    only if no start on any set of cores meets its deadline and leaves all accepted jobs where they are.

    A job goes into enclosed holes where those take it whole, at the earliest start; else to the ends of cores that are
    on now, by the allocation; else to the earliest start on any free intervals. Holes first and anywhere would lose
    best-fit's gain: only jobs that holes take whole are taken from the allocation. Of several cores with room at a
    start, those that are idle for the shortest time before it are taken. is_backfilling=False: there are no holes.

    >>> free = FreeIntervals(2, "best-fit", is_backfilling=True)
    >>> jobs = AdmissionJobs(np.array([0, 0, 0]), np.array([10, 5, 9]), np.array([1, 2, 1]), np.array([10, 15, 9]))
    >>> decisions = free.offer(jobs)  # the last one goes before the second one, beside the first one
    >>> decisions.start_s.tolist(), decisions.cores_of(2).tolist()
    ([0, 10, 0], [1])
    """

    def __init__(self, n_cores: int, allocation: str, *, is_backfilling: bool = True,
                 power: PowerProfile | None = None) -> None:
        check_cores(n_cores)
        self.n_cores, self.is_backfilling = n_cores, is_backfilling
        self.allocation = known("allocation", allocation, ALLOCATIONS)
        self.table = _always_on(n_cores) if power is None else power.intervals(n_cores)
        self.n_free = np.array([self.table.shape[1]])

    def offer(self, jobs: AdmissionJobs, *, with_cores: bool = True) -> Decisions:
        """Decides on the jobs in order of submission. with_cores: also say which cores each one gets."""
        n, order = len(jobs), jobs.order()
        start, offer, reason = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8)
        first = np.zeros(n + 1, np.int64)
        most = int(jobs.cores[jobs.cores <= self.n_cores].sum()) if with_cores else 0
        numbers, left = np.empty(most, np.int64), np.empty((N_ROWS, self.n_cores), np.int64)
        chosen = np.empty(self.n_cores, np.int64)
        submission, processing, cores, deadline = (values[order] for values in (
            jobs.submission_s, jobs.processing_s, jobs.cores, jobs.deadline_s))
        done = 0
        while done < n:
            room = 2 * int(self.n_free[0]) + 2 * self.n_cores
            if self.table.shape[1] < room:
                self.table = np.hstack([self.table, np.zeros((N_ROWS, room - self.table.shape[1]), np.int64)])
            heap = np.empty(self.table.shape[1], np.int64)
            done = replay_free(submission, processing, cores, deadline, done, ALLOCATIONS[self.allocation],
                               self.is_backfilling, self.n_cores, self.table, self.n_free, chosen, heap, left, start,
                               reason, offer, first, numbers)
        return in_given_order(order, start, reason, offer, first, numbers[:first[-1]])

    def state(self) -> np.ndarray:
        """All that changes, int64 (5, n): the free intervals in order of their start."""
        return self.table[:, :int(self.n_free[0])].copy()

    def restore(self, state: np.ndarray) -> None:
        """Takes on a state that `state` gave; anything else is refused with ValueError."""
        if state.dtype != np.int64 or state.ndim != 2 or len(state) != N_ROWS:
            raise ValueError(f"state must be int64 of shape ({N_ROWS}, n), got {state.dtype} {state.shape}")
        is_good = ((np.diff(state[START]) >= 0).all() and (state[END] > state[START]).all()
                   and ((state[CORE] >= 0) & (state[CORE] < self.n_cores)).all() and (state[START] >= 0).all()
                   and np.isin(state[IS_LAST], (0, 1)).all() and (state[END] <= NEVER).all())
        if not is_good:
            raise ValueError("state must hold intervals of the cores in order of their start, got others")
        self.table, self.n_free = state.copy(), np.array([state.shape[1]])

    def replan(self, ends: Sequence[tuple[int, int, Sequence[int]]], now_s: int) -> None:
        """Takes on other times of the accepted jobs: start, end and cores of each that is not over. Power is constant
        and holes are filled."""
        free_from = np.full(self.n_cores, now_s)
        rows: list[tuple[int, int, int, int]] = []
        for start_s, end_s, cores in sorted(ends, key=lambda each: each[0]):
            for core in cores:
                if start_s > free_from[core]:
                    rows.append((int(free_from[core]), start_s, core, 0))
                free_from[core] = end_s
        rows += [(int(free_from[core]), NEVER, core, 1) for core in range(self.n_cores)]
        rows.sort(key=lambda row: (row[0], -row[2]))
        self.table = np.vstack([np.array(rows, np.int64).T, np.zeros(len(rows), np.int64)])
        self.n_free = np.array([len(rows)])


def _always_on(n_cores: int) -> np.ndarray:
    """The table of cores that are free from 0 on; core 0 is taken first."""
    table = np.zeros((N_ROWS, n_cores), np.int64)
    table[1:4] = np.full(n_cores, NEVER), np.arange(n_cores)[::-1], np.ones(n_cores)
    return table
