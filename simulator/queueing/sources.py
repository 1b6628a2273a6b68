"""Sources of run times that only a queue has: requested ones, and the owner's last two."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.predictions import Curves, Held, one_step
from sojourn.simulator.queueing.jobs import QueueJobs

CORRECTIONS_S = np.array([60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000])
"""What is added to the uptime of a job each time that it outlives its prediction (Tsafrir et al. 2007, section 3.2)."""


def requested(jobs: QueueJobs) -> Held:
    """A LifetimeSource of the limits of the jobs: user estimates.

    >>> jobs = QueueJobs(np.array([0]), np.array([60]), np.array([900]), np.array([1]), 4)
    >>> requested(jobs).curves(jobs.requests()).total_s.tolist()
    [900]
    """
    return Held(jobs.request_ids, one_step(jobs.limit_s))


def last_two(jobs: QueueJobs) -> Held:
    """A LifetimeSource: the mean run time of the owner's last two jobs that had ended by the submission.

    With one such job, its run time; without any, the limit, which no prediction exceeds. An outlived prediction rises
    by CORRECTIONS_S (EASY++ of Tsafrir et al. 2007). Jobs have ended when they did in the log (`recorded_end_s`), also
    at the second of the submission. To replay the later part of a log with all its history, give all jobs here.

    >>> jobs = QueueJobs(np.array([0, 0, 50]), np.array([10, 30, 99]), np.array([500, 500, 500]), np.array([1, 1, 1]),
    ...                  4, owner=np.array([7, 7, 7]))
    >>> curves = last_two(jobs).curves(jobs.requests())
    >>> [curves.total_at(2, uptime_s) for uptime_s in (0, 20, 80, 380)]
    [20, 80, 380, 500]
    """
    predicted_s = np.clip(_means_of_last_two(jobs), 1, jobs.limit_s)
    return Held(jobs.request_ids, _corrected(predicted_s, jobs.limit_s))


def _means_of_last_two(jobs: QueueJobs) -> np.ndarray:
    """int64 (n,): the limit for jobs without an owner, or whose owner has no ended job."""
    predicted, owner, ended_s = jobs.limit_s.copy(), np.asarray(jobs.owner), np.asarray(jobs.recorded_end_s)
    order = np.lexsort((np.arange(len(jobs)), ended_s))
    latest: dict[int, tuple[int, int]] = {}
    at, owners, runs, ends = 0, owner.tolist(), jobs.run_s.tolist(), ended_s.tolist()
    for row, now in enumerate(jobs.submission_s.tolist()):
        while at < len(order) and ends[order[at]] <= now:
            ended = int(order[at])
            latest[owners[ended]] = (runs[ended], latest.get(owners[ended], (runs[ended], 0))[0])
            at += 1
        if owners[row] >= 0 and owners[row] in latest:
            predicted[row] = sum(latest[owners[row]]) // 2
    return predicted


def _corrected(predicted_s: np.ndarray, limit_s: np.ndarray) -> Curves:
    """Curves that rise by each of CORRECTIONS_S in turn when they are outlived, up to the limit."""
    uptimes, totals = [np.zeros_like(predicted_s)], [predicted_s]
    for step_s in CORRECTIONS_S.tolist():
        uptimes.append(totals[-1])
        totals.append(np.minimum(totals[-1] + step_s, limit_s))
    uptimes.append(totals[-1])
    totals.append(limit_s)
    uptime, total = np.stack(uptimes, axis=1), np.stack(totals, axis=1)
    is_kept = np.concatenate([np.ones((len(predicted_s), 1), bool), np.diff(total, axis=1) > 0], axis=1)
    return Curves(np.append(0, np.cumsum(is_kept.sum(axis=1))), uptime[is_kept], total[is_kept])
