"""Admission when processing times are only predicted: accepted by the prediction, run as long as they really take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.admission.jobs import MAX_TIME_S, AdmissionJobs, check_cores
from sojourn.simulator.admission.predicted_kernels import replay_predicted
from sojourn.simulator.admission.registry import ALLOCATIONS, known


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
