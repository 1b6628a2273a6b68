"""When each waiting job will start: the queue of one moment served forward many times, each with other run times."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.queueing import _kernels as kernels
from sojourn.simulator.queueing.jobs import QueueJobs, requested
from sojourn.simulator.queueing.replay import QueueRules, Schedule, blank_state, compiled_jobs, compiled_rules
from sojourn.simulator.whole_numbers import check_setting

QUANTILES = (0.1, 0.5, 0.9)
"""Of a start: the ends of an 80 % interval, and the median."""


@dataclass(frozen=True, slots=True)
class QueueNow:
    """A queue at one moment; int64 arrays, shape (n,). ValueError names the first bad job and the rule.

    now_s: seconds on the clock of the other times. submission_s: at most now_s; running jobs need none. begun_s: when a
    job started, at most now_s; -1 = it waits. size: processors, at least 1; the running ones fit on the machine
    together. limit_s: of the run, at least 1; a job that is past its limit ends in a second. n_processors: of the
    machine. request_ids: unique; default: the indices.
    """

    now_s: int
    submission_s: np.ndarray
    begun_s: np.ndarray
    size: np.ndarray
    limit_s: np.ndarray
    n_processors: int
    request_ids: pd.Index = field(default_factory=lambda: pd.Index([]))

    def __post_init__(self) -> None:
        check_setting(self.now_s, 0, "now_s")
        begun_s, limit_s = np.asarray(self.begun_s, np.int64), np.asarray(self.limit_s, np.int64)
        is_running = begun_s >= 0
        since_s = np.where(is_running, begun_s, np.asarray(self.submission_s, np.int64))
        limit_s = np.maximum(limit_s, np.where(is_running, self.now_s - begun_s + 1, 1))
        jobs = QueueJobs(np.zeros(len(since_s), np.int64), np.ones(len(since_s), np.int64), limit_s, self.size,
                         self.n_processors, request_ids=self.request_ids)
        if (since_s > self.now_s).any():
            row = int(np.argmax(since_s > self.now_s))
            raise ValueError(f"submission_s and begun_s must be at most now_s ({self.now_s}), got {since_s[row]} "
                             f"(job {jobs.request_ids[row]})")
        n_busy = int(jobs.size[is_running].sum())
        if n_busy > self.n_processors:
            raise ValueError(f"running jobs must fit on the machine's {self.n_processors} processors, got {n_busy}")
        for name, value in (("begun_s", begun_s), ("limit_s", limit_s), ("size", jobs.size),
                            ("submission_s", since_s), ("request_ids", jobs.request_ids)):
            object.__setattr__(self, name, value)

    @property
    def waits(self) -> np.ndarray:
        """Which jobs wait, bool (n,)."""
        return np.asarray(self.begun_s < 0)

    @property
    def uptime_s(self) -> np.ndarray:
        """How long each job has run, 0 for one that waits."""
        return np.where(self.waits, 0, self.now_s - self.begun_s)

    @property
    def left_by_limit_s(self) -> np.ndarray:
        """The longest that each job can still run, at least 1."""
        return np.asarray(self.limit_s - self.uptime_s)


def queue_at(schedule: Schedule, now_s: int) -> tuple[QueueNow, np.ndarray]:
    """The queue of a replay just after its events at now_s, and the rows of its jobs.

    >>> from sojourn.simulator.queueing import replay_queue, requested
    >>> jobs = QueueJobs(np.array([0, 1, 2]), np.array([10, 10, 5]), np.array([10, 10, 8]), np.array([3, 4, 1]), 4)
    >>> now, rows = queue_at(replay_queue(jobs, QueueRules(), requested(jobs)), 1)
    >>> now.begun_s.tolist(), rows.tolist()
    ([0, -1], [0, 1])
    """
    jobs = schedule.jobs
    rows = np.flatnonzero((jobs.submission_s <= now_s) & (schedule.end_s > now_s))
    begun_s = np.where(schedule.start_s[rows] <= now_s, schedule.start_s[rows], -1)
    return QueueNow(now_s, jobs.submission_s[rows], begun_s, jobs.size[rows], jobs.limit_s[rows], jobs.n_processors,
                    jobs.request_ids[rows]), rows


def start_times(now: QueueNow, rules: QueueRules, left_s: np.ndarray, plan: LifetimeSource | None = None) -> np.ndarray:
    """Seconds from now until each waiting job starts, int64 (n_draws, n_waiting), in the order of `now`; 0 = at once.

    The queue is served with each draw as if no more jobs came. So under an order that lets later jobs pass, starts are
    later than this. With conservative backfilling reservations are made anew. Draws are served on as many threads as
    there are cores, each by itself: the number of threads changes no start.

    left_s: int64 (n_draws, n), how long each job still runs, from now or from its start; at most its limit counts.
    plan: what the scheduler plans with, which is not what a job really takes; None = the limits. Order f1 and
    overtaken_s are refused: they count from before now.

    >>> size, limit_s = np.array([3, 4, 1]), np.array([60, 30, 60])
    >>> now = QueueNow(100, np.array([0, 50, 60]), np.array([90, -1, -1]), size, limit_s, 4)
    >>> start_times(now, QueueRules(), np.array([[50, 30, 60], [20, 30, 60]])).tolist()
    [[50, 80], [20, 50]]
    """
    if rules.order == "f1" or rules.backfill_order == "f1":
        raise ValueError("order must not be f1, which counts from the log's first submission, got f1")
    if rules.overtaken_s is not None:
        raise ValueError(f"overtaken_s must be None, it counts from each submission on, got {rules.overtaken_s!r}")
    left_s = np.asarray(left_s, np.int64)
    if left_s.ndim != 2 or left_s.shape[1] != len(now.size) or (left_s < 1).any():
        raise ValueError(f"left_s must be at least 1, of shape (n_draws, {len(now.size)}), got {left_s.shape} with "
                         f"{left_s.min(initial=1)}")
    # running ones first, by their start; then those that wait, by submission
    order = np.lexsort((now.submission_s, now.waits))
    n = len(order)
    jobs = QueueJobs(np.zeros(n, np.int64), np.ones(n, np.int64), now.limit_s[order], now.size[order], now.n_processors,
                     request_ids=now.request_ids[order])
    ready = compiled_jobs(jobs, plan or requested(jobs))._replace(submission_s=now.submission_s[order])
    run_s = np.minimum(left_s[:, order], now.left_by_limit_s[order]) + now.uptime_s[order]
    starts, begun_s = np.empty_like(run_s), now.begun_s[order]

    def serve(block: slice) -> None:
        kernels.replay_draws(ready, blank_state(jobs, rules), compiled_rules(rules), begun_s, np.int64(now.now_s),
                             np.ascontiguousarray(run_s[block]), starts[block])

    n_threads = max(min(os.cpu_count() or 1, len(run_s)), 1)
    bounds = [len(run_s) * idx // n_threads for idx in range(n_threads + 1)]
    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(serve, map(slice, bounds[:-1], bounds[1:])))  # so that an error is raised
    found = np.empty_like(starts)
    found[:, order] = starts
    return np.asarray(found[:, now.waits] - now.now_s)
