"""Sources of run times that only a queue has: requested ones, the owner's last two, and two sources in one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.predictions import Curves, Held, LifetimeSource, one_step
from sojourn.simulator.queueing.jobs import QueueJobs

CORRECTIONS_S = np.array([60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000])
"""What is added to the uptime of a job each time that it outlives its prediction (Tsafrir et al. 2007, section 3.2)."""


class Requested:
    """The limits of the jobs: user estimates.

    >>> jobs = QueueJobs(np.array([0]), np.array([60]), np.array([900]), np.array([1]), 4)
    >>> Requested(jobs).curves(jobs.requests()).total_s.tolist()
    [900]
    """

    def __init__(self, jobs: QueueJobs) -> None:
        self._held = Held(jobs.request_ids, one_step(jobs.limit_s))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One step a job; an id that is not known is refused with KeyError."""
        return self._held.curves(requests)


class LastTwo:
    """The mean run time of the owner's last two jobs that had ended by the submission; the limit without any.

    A job with one such job before it has that one's run time. An outlived prediction rises by CORRECTIONS_S. At most
    the limit (EASY++ of Tsafrir et al. 2007). Jobs have ended when they did in the log (`recorded_end_s`), also at
    the second of the submission. To replay the later part of a log with all its history, make the source of all jobs.

    >>> jobs = QueueJobs(np.array([0, 0, 50]), np.array([10, 30, 99]), np.array([500, 500, 500]), np.array([1, 1, 1]),
    ...                  4, owner=np.array([7, 7, 7]))
    >>> curves = LastTwo(jobs).curves(jobs.requests())
    >>> [curves.total_at(2, uptime_s) for uptime_s in (0, 20, 80, 380)]
    [20, 80, 380, 500]
    """

    def __init__(self, jobs: QueueJobs) -> None:
        predicted = np.minimum(_means_of_last_two(jobs), jobs.limit_s)
        self._held = Held(jobs.request_ids, _corrected(np.maximum(predicted, 1), jobs.limit_s))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """Steps at which predictions are outlived; an id that is not known is refused with KeyError."""
        return self._held.curves(requests)


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


@dataclass(frozen=True, slots=True)
class TwoSources:
    """Run times of one source for plans and orders, and those of another to decide whether a job is backfilled.

    With a quantile p of a learnt distribution as the second one, a job is backfilled if the chance that it ends before
    the reservation is at least p.

    >>> from sojourn.simulator.predictions import Oracle
    >>> jobs = QueueJobs(np.array([0]), np.array([60]), np.array([900]), np.array([1]), 4)
    >>> TwoSources(Oracle(jobs), Requested(jobs)).fit_s(jobs.requests()).tolist()
    [900]
    """

    plan: LifetimeSource
    fit: LifetimeSource

    def curves(self, requests: pd.DataFrame) -> Curves:
        """Those of the plan's source."""
        return self.plan.curves(requests)

    def fit_s(self, requests: pd.DataFrame) -> np.ndarray:
        """First totals of the other one, int64 (n,)."""
        curves = self.fit.curves(requests)
        return np.asarray(curves.total_s[curves.offsets[curves.curve_of()]])
