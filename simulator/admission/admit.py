"""One call for a day of jobs: the state that the settings need, and what it decides.

What was decided about each job.

Cores by the time from which they are free: the state of admission without backfilling and with constant power.

Cores by the intervals in which they are free: the state of admission with backfilling, or with power that varies.

How jobs are accepted and where they go, by name.

Admission when processing times are only predicted: accepted by the prediction, run as long as they really take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.simulator.admission._kernels import (
    BALANCED,
    BEST_FIT,
    CORE,
    END,
    IS_LAST,
    MIN_IDLE,
    N_ROWS,
    NEVER,
    START,
    replay_ends,
    replay_free,
    replay_predicted,
)
from sojourn.simulator.admission.jobs import MAX_TIME_S, AdmissionJobs, PowerProfile, check_cores


def cores_for(n_cores: int, allocation: str, *, is_backfilling: bool = False,
              power: PowerProfile | None = None) -> CoreEnds | FreeIntervals:
    """Idle cores with these rules; `offer` of what is returned decides on jobs.

    >>> import numpy as np
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 25]))
    >>> cores_for(1, "balanced").offer(jobs).start_s.tolist()
    [0, 10]
    """
    if not is_backfilling and power is None:
        return CoreEnds(n_cores, allocation)
    return FreeIntervals(n_cores, allocation, is_backfilling=is_backfilling, power=power)


def admit(jobs: AdmissionJobs, n_cores: int, allocation: str, *, is_backfilling: bool = False,
          power: PowerProfile | None = None, with_cores: bool = True) -> Decisions:
    """Decisions about all jobs, from idle cores; the settings are those of `cores_for`.

    >>> import numpy as np
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 15]))
    >>> admit(jobs, 1, "best-fit").n_by_reason()
    {'accepted': 1, 'no room before its deadline': 1}
    """
    cores = cores_for(n_cores, allocation, is_backfilling=is_backfilling, power=power)
    return cores.offer(jobs, with_cores=with_cores)


REASONS = ("accepted", "wider than the machine", "its deadline is before its earliest end",
           "no room before its deadline", "no room before the power ends")
"""By the code in `Decisions.reason`."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Of jobs in the order in which they were given; arrays of shape (n,).

    start_s: int64, when an accepted job begins, -1 = rejected. reason: int8, index into REASONS. offer_s: int64, the
    earliest deadline with which a rejected job would have been accepted at that moment, -1 = accepted, or there is
    none. core_first, core_last: int64, where the numbers of an accepted job's cores stand in `core_numbers`; all 0
    where the cores were not asked for.
    """

    start_s: np.ndarray
    reason: np.ndarray
    offer_s: np.ndarray
    core_first: np.ndarray
    core_last: np.ndarray
    core_numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def is_accepted(self) -> np.ndarray:
        """bool (n,)."""
        return np.asarray(self.reason == 0)

    def cores_of(self, row: int) -> np.ndarray:
        """Numbers of the cores of a job, int64; empty if it was rejected."""
        return np.asarray(self.core_numbers[self.core_first[row]:self.core_last[row]])

    def n_by_reason(self) -> dict[str, int]:
        """How many jobs have each reason, those without jobs left out."""
        counts = np.bincount(self.reason, minlength=len(REASONS)).tolist()
        return {words: count for words, count in zip(REASONS, counts, strict=True) if count}


class CoreEnds:
    """n_cores that are free from time 0. `offer` decides on further jobs; those accepted before stay as they are.

    allocation: a key of ALLOCATIONS. Acceptance is greedy: a job is rejected only if no cores can end it by its
    deadline.

    >>> ends = CoreEnds(1, "best-fit")
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 15]))
    >>> ends.offer(jobs).offer_s.tolist()
    [-1, 20]
    """

    def __init__(self, n_cores: int, allocation: str) -> None:
        check_cores(n_cores)
        self.allocation = known("allocation", allocation, ALLOCATIONS)
        self.free_s = np.zeros(n_cores, np.int64)
        self.numbers = np.arange(n_cores)

    def offer(self, jobs: AdmissionJobs, *, with_cores: bool = True) -> Decisions:
        """Decides on the jobs in order of submission. with_cores: also say which cores each one gets."""
        n, order = len(jobs), jobs.order()
        start, offer, reason = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8)
        first = np.zeros(n + 1, np.int64)
        most = int(jobs.cores[jobs.cores <= len(self.free_s)].sum()) if with_cores else 0
        numbers = np.empty(most, np.int64)
        replay_ends(jobs.submission_s[order], jobs.processing_s[order], jobs.cores[order], jobs.deadline_s[order],
                    ALLOCATIONS[self.allocation], self.free_s, self.numbers,
                    np.empty(len(self.free_s), np.int64), start, reason, offer, first, numbers)
        return in_given_order(order, start, reason, offer, first, numbers[:first[-1]])

    def state(self) -> np.ndarray:
        """All that changes, int64 (2, n_cores): when each core is free, in descending order, and its number."""
        return np.stack([self.free_s, self.numbers])

    def restore(self, state: np.ndarray) -> None:
        """Takes on a state that `state` gave; anything else is refused with ValueError."""
        if state.dtype != np.int64 or state.shape != (2, len(self.free_s)):
            raise ValueError(f"state must be int64 of shape (2, {len(self.free_s)}), got {state.dtype} {state.shape}")
        if (np.diff(state[0]) > 0).any() or (np.sort(state[1]) != np.arange(len(self.free_s))).any():
            raise ValueError("state must hold each core once, in descending order of the time when it is free, got "
                             "another order or other cores")
        self.free_s, self.numbers = state[0].copy(), state[1].copy()

    def replan(self, ends: Sequence[tuple[int, int, Sequence[int]]], now_s: int) -> None:
        """Takes on other times of the accepted jobs: start, end and cores of each that is not over."""
        free = np.minimum(self.free_s[np.argsort(self.numbers)], now_s)
        for _, end_s, cores in ends:
            free[list(cores)] = np.maximum(free[list(cores)], end_s)
        order = np.argsort(-free[self.numbers], kind="stable")
        self.numbers = self.numbers[order]
        self.free_s = free[self.numbers]


def in_given_order(order: np.ndarray, start: np.ndarray, reason: np.ndarray, offer: np.ndarray, first: np.ndarray,
                   numbers: np.ndarray) -> Decisions:
    """Decisions by index, from those by submission."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return Decisions(start[back], reason[back], offer[back], first[:-1][back], first[1:][back], numbers)


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


ALLOCATIONS: Mapping[str, int] = MappingProxyType({
    "balanced": BALANCED, "best-fit": BEST_FIT, "min-idle": MIN_IDLE})
"""By name: the least loaded cores; the most loaded that meet the deadline; those that idle least before the start, the
most loaded where that is equal. For sequential jobs `min-idle` is `best-fit`."""


def known(name: str, value: str, names: Mapping[str, object]) -> str:
    """The value, if it is one of the names; else ValueError.

    >>> known("allocation", "best-fit", ALLOCATIONS)
    'best-fit'
    """
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class PredictedRun:
    """What became of jobs in the order in which they were given; arrays of shape (n,).

    start_s, end_s: int64, as it really was, -1 = rejected. reason: int8, as in Decisions. is_late: bool, accepted and
    ended after its deadline.
    """

    start_s: np.ndarray
    end_s: np.ndarray
    reason: np.ndarray
    is_late: np.ndarray

    @property
    def is_accepted(self) -> np.ndarray:
        """bool (n,)."""
        return np.asarray(self.reason == 0)


def admit_predicted(jobs: AdmissionJobs, planned_s: np.ndarray, n_cores: int,
                    allocation: str = "best-fit") -> PredictedRun:
    """Greedy admission of jobs whose processing time is not known at submission, without backfilling.

    planned_s: int64 (n,), 1 or above, what is taken for the processing time: a quantile of a prediction, or the user's
    estimate. A job is accepted if, by all that is known at its submission, it would end by its deadline. Known are
    real starts and ends so far; of a job that runs, its planned time, which doubles where it has been outlived; of one
    that waits, its planned time. Each core runs its jobs in the order of acceptance; a job begins when its cores are
    free, before or after what was expected, and runs to its end also past its deadline. So a plan that is too short
    makes the job and those behind it late, and one that is too long rejects jobs.

    With planned_s equal to the processing times it decides as `CoreEnds`, and nothing is late. jobs.processing_s after
    a job's submission and before its end has no influence on any decision.

    >>> jobs = AdmissionJobs(np.array([0, 1]), np.array([10, 10]), np.array([1, 1]), np.array([10, 19]))
    >>> run = admit_predicted(jobs, np.array([8, 8]), 1)
    >>> run.end_s.tolist(), run.is_late.tolist()
    ([10, 20], [False, True])
    """
    planned = np.asarray(planned_s)
    if planned.shape != (len(jobs),):
        raise ValueError(f"planned_s must be one number a job, got shape {planned.shape} for {len(jobs)} jobs")
    is_bad = ~(np.isfinite(planned) & (planned >= 1) & (planned < MAX_TIME_S))
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise ValueError(f"planned_s must be at least 1 and below 2**40, got {planned[row].item()!r} "
                         f"(job {jobs.name_of(row)})")
    check_cores(n_cores)
    code = ALLOCATIONS[known("allocation", allocation, ALLOCATIONS)]
    n, order = len(jobs), jobs.order()
    start, end, reason = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8)
    room = int(jobs.cores[jobs.cores <= n_cores].sum())
    real, expected, done = np.zeros((3, n_cores), np.int64)
    replay_predicted(jobs.submission_s[order], jobs.processing_s[order], np.ceil(planned[order]).astype(np.int64),
                     jobs.cores[order], jobs.deadline_s[order], code, np.zeros(n_cores, np.int64), np.arange(n_cores),
                     real, expected, done, np.empty(n, np.int64), start, end, reason, np.zeros(n + 1, np.int64),
                     np.empty(room, np.int64))
    back = np.empty_like(order)
    back[order] = np.arange(n)
    is_late = (reason == 0) & (end > jobs.deadline_s[order])
    return PredictedRun(start[back], end[back], reason[back], is_late[back])
