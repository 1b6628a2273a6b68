"""Rigid parallel jobs of a queue, as arrays; how a trace's requests become them; and the sources of run times that only
a queue has: requested ones, and the owner's last two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.simulator.predictions import Curves, Held, one_step
from sojourn.simulator.whole_numbers import check_setting

MAX_TIME_S = 2**40
"""Times stay below this, so that their sums, and products with a number of processors, are exact in 64 bits."""
GRACE_S = 60
"""A run that is this much longer than its limit raises the limit: logs are that inexact. A longer one is cut."""
LEFT_OUT = ("start or end not known", "ran for 0 s", "wider than the machine", "wider than its queue")
"""Why `queue_jobs` leaves out a job, as in `QueueJobs.counts`."""
CORRECTIONS_S = (60, 300, 900, 1_800, 3_600, 7_200, 18_000, 36_000, 72_000, 180_000, 360_000)
"""What is added to the uptime of a job each time that it outlives its prediction (Tsafrir et al. 2007, section 3.2)."""


@dataclass(frozen=True, slots=True)
class QueueJobs:
    """Jobs in order of submission; int64 arrays, shape (n,). With equal submissions the lower index is first.

    submission_s: seconds on one clock, never falling. run_s: how long a job runs, at least 1, known at its end.
    limit_s: requested time, at least run_s: a job that would run longer is cut before. size: processors, at least 1.
    owner: numbers from 0; -1 = none. recorded_end_s: when each job ended in the log, at least run_s after its
    submission; default: as if none had waited. priority: larger is served first, 0 or more; default: 0. queue: numbers
    from 0, places in queue_processors: the most that the jobs of each queue may use at once; default: one queue, the
    whole machine. host_processors: of each host, n_processors is a multiple of it; a job fills as many hosts as it can,
    and what is left of it needs one host; default: one pool, of which a job takes any processors.
    request_ids: unique, for sources and errors; default: the indices. n_processors: of the machine; no job is wider.
    counts: how many jobs were left out or changed, by rule.

    Refused with ValueError, which names the first bad job and the rule: all else.

    >>> QueueJobs(np.array([0]), np.array([60]), np.array([60]), np.array([5]), 4)
    Traceback (most recent call last):
    ValueError: size must be at most the machine's 4 processors, got 5 (job 0)
    """

    submission_s: np.ndarray
    run_s: np.ndarray
    limit_s: np.ndarray
    size: np.ndarray
    n_processors: int
    owner: np.ndarray | None = None
    recorded_end_s: np.ndarray | None = None
    priority: np.ndarray | None = None
    queue: np.ndarray | None = None
    queue_processors: tuple[int, ...] = ()
    host_processors: int | None = None
    request_ids: pd.Index = field(default_factory=lambda: pd.Index([]))
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_setting(self.n_processors, 1, "n_processors", 2**31)
        if self.host_processors is not None:
            check_setting(self.host_processors, 1, "host_processors", 2**31)
            if self.n_processors % self.host_processors:
                raise ValueError(f"n_processors must be a multiple of host_processors ({self.host_processors}), got "
                                 f"{self.n_processors}")
        n = len(np.atleast_1d(np.asarray(self.submission_s)))
        ids = pd.Index(self.request_ids) if len(self.request_ids) else pd.RangeIndex(n)
        if len(ids) != n or ids.has_duplicates:
            raise ValueError(f"request_ids must be {n} unique ones, got {len(ids)}, {ids.nunique()} of them different")
        object.__setattr__(self, "request_ids", ids)
        for name, least in (("submission_s", 0), ("run_s", 1), ("limit_s", 1), ("size", 1), ("owner", -1),
                            ("recorded_end_s", 0), ("priority", 0), ("queue", 0)):
            if getattr(self, name) is None:
                unknown = (self.submission_s + self.run_s if name == "recorded_end_s"
                           else np.full(n, -1 if name == "owner" else 0))
                object.__setattr__(self, name, unknown)
            object.__setattr__(self, name, self._whole(name, least, n))
        is_early = self.recorded_end_s < self.submission_s + self.run_s
        self._refuse(is_early, "recorded_end_s", "at least submission_s + run_s")
        is_early = np.append(False, np.diff(self.submission_s) < 0)[:n]
        self._refuse(is_early, "submission_s", "at least that of the job before")
        self._refuse(self.limit_s < self.run_s, "limit_s", "at least run_s")
        self._refuse(self.size > self.n_processors, "size", f"at most the machine's {self.n_processors} processors")
        for most in self.queue_processors:
            check_setting(most, 1, "queue_processors", 2**31)
        queue, of_queues = np.asarray(self.queue), np.array(self.queue_processors or (self.n_processors,))
        self._refuse(queue >= len(of_queues), "queue", "a place in queue_processors")
        self._refuse(self.size > of_queues[queue], "size", "at most the processors of its queue")

    def __len__(self) -> int:
        return len(self.submission_s)

    def take(self, rows: np.ndarray) -> QueueJobs:
        """The jobs of a mask, or of rising indices."""
        return replace(self, request_ids=self.request_ids[rows], **{
            name: np.asarray(getattr(self, name))[rows] for name in (
                "submission_s", "run_s", "limit_s", "size", "owner", "recorded_end_s", "priority", "queue")})

    @property
    def total_s(self) -> np.ndarray:
        """The run times, as `Oracle` and `NoisyOracle` read them."""
        return self.run_s

    def requests(self) -> pd.DataFrame:
        """What a LifetimeSource reads: `request_id`, `arrival_s` (the submission) and `cpu_cores`."""
        return pd.DataFrame({"request_id": self.request_ids, "arrival_s": self.submission_s,
                             "cpu_cores": self.size.astype(np.float64)})

    def _whole(self, name: str, least: int, n: int) -> np.ndarray:
        values = np.asarray(getattr(self, name))
        if values.shape != (n,) or values.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be one number a job ({n}), got {values.dtype} of shape {values.shape}")
        with np.errstate(invalid="ignore"):
            is_good = (values >= least) & (values < MAX_TIME_S) & (np.floor(values) == values)
        self._refuse(~is_good, name, f"a whole number of at least {least} and below 2**40", values)
        return np.ascontiguousarray(values, np.int64)

    def _refuse(self, is_bad: np.ndarray, name: str, rule: str, values: np.ndarray | None = None) -> None:
        if is_bad.any():
            row = int(np.argmax(is_bad))
            value = (getattr(self, name) if values is None else values)[row].item()
            raise ValueError(f"{name} must be {rule}, got {value!r} (job {self.request_ids[row]})")


class QueueSetting(NamedTuple):
    """Of a named queue or partition. priority: larger is served first, 0 or more. processors: the most that its jobs
    may use at once; None = the machine's."""

    priority: int = 0
    processors: int | None = None


def parse_queue(text: str) -> tuple[str, QueueSetting]:
    """A queue's name and setting, from NAME:PRIORITY or NAME:PRIORITY:PROCESSORS.

    >>> parse_queue("debug:2:64")
    ('debug', QueueSetting(priority=2, processors=64))
    """
    found = re.fullmatch(r"([^:]+):([0-9]{1,9})(?::([1-9][0-9]{0,8}))?", text)
    if found is None:
        raise ValueError(f"queue must be NAME:PRIORITY or NAME:PRIORITY:PROCESSORS, got {text!r}")
    return found[1], QueueSetting(int(found[2]), None if found[3] is None else int(found[3]))


def queue_jobs(trace: Trace, *, n_processors: int | None = None, owner: str | None = None, limits: str = "kept",
               queues: Mapping[str, QueueSetting] | None = None, host_processors: int | None = None) -> QueueJobs:
    """The jobs of a trace that has submissions (`submit_s`, or `meta["submit_column"]`), such as an SWF log's.

    A job's size is `cpu_cores` (of SWF logs as allocated, else requested), its limit `requested_s`.
    Left out, and counted: jobs that ran for 0 s, whose end or start is not known, that are wider than the machine or
    than their queue may be.
    Changed, and counted: a job without a limit has the longest limit of the log, or the longest run without a limit if
    that is longer; a run of up to GRACE_S more than its limit raises the limit; a longer one is cut at it.

    n_processors: of the machine; default: the log's MaxProcs. owner: column of owners; default: `user`, else the
    finest owner of the trace; without any no job has one. limits: "raised" cuts no job: a limit that is missing or
    below the run time is the run time. queues: settings by the values of the column `queue`, or without
    one of `partition`; jobs of other queues have priority 0 and no limit of processors.
    host_processors: as in `QueueJobs`.

    >>> table = pd.DataFrame({"request_id": [7, 8], "submit_s": [0, 2], "arrival_s": [3, 9], "departure_s": [63, 49],
    ...                       "cpu_cores": [4.0, 2.0], "mem_gib": [0.0, 0.0], "requested_s": [90.0, 30.0]})
    >>> jobs = queue_jobs(Trace(table, 100, meta={"submit_column": "submit_s"}), n_processors=4)
    >>> jobs.run_s.tolist(), jobs.limit_s.tolist(), dict(jobs.counts)["limit raised to the run"]
    ([60, 40], [90, 40], 1)
    """
    if limits not in ("kept", "raised"):
        raise ValueError(f"limits must be one of kept, raised, got {limits!r}")
    submit = trace.meta.get("submit_column", "submit_s" if "submit_s" in trace.requests else None)
    if submit is None:
        raise ValueError("trace must have a column of submissions (submit_s, or meta's submit_column), got none")
    if n_processors is None and not says_processors(trace):
        raise ValueError("n_processors must be given if the log has no MaxProcs, got "
                         f"{_max_procs(trace)!r} in its header")
    processors = int(_max_procs(trace)) if n_processors is None else n_processors
    requests = trace.requests
    size = requests["cpu_cores"].to_numpy(np.float64)
    run_s = (requests["departure_s"] - requests["arrival_s"]).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    counts: dict[str, int] = {}
    is_left = np.zeros(len(requests), bool)
    for rule, is_out in zip(LEFT_OUT[:3], (np.isnan(run_s), run_s <= 0, size > processors), strict=True):
        counts[rule] = int((is_out & ~is_left).sum())
        is_left |= is_out
    queue, priority, queue_processors = _queues_of(requests, queues or {}, processors)
    is_wide = ~is_left & (size > np.array(queue_processors or [processors])[queue])
    counts[LEFT_OUT[-1]] = int(is_wide.sum())
    kept = np.flatnonzero(~is_left & ~is_wide)
    submission_s = requests[submit].to_numpy(np.int64)
    ids = requests["request_id"]
    kept = kept[np.lexsort((ids.to_numpy()[kept], submission_s[kept]))]
    run_s = run_s[kept]
    limit_s = (requests["requested_s"].to_numpy(np.float64)[kept] if "requested_s" in requests
               else np.full(len(kept), np.nan))
    is_missing = ~(limit_s > 0)
    longest_s = max(limit_s[~is_missing].max(initial=1.0), run_s[is_missing].max(initial=1.0))
    limit_s = np.where(is_missing, run_s if limits == "raised" else longest_s, limit_s)
    is_raised = (run_s > limit_s) & ((run_s <= limit_s + GRACE_S) | (limits == "raised"))
    limit_s = np.where(is_raised, run_s, limit_s)
    is_cut = run_s > limit_s
    counts |= {"limit missing": int(is_missing.sum()), "limit raised to the run": int(is_raised.sum()),
               "cut at the limit": int(is_cut.sum())}
    column = owner or ("user" if "user" in requests else next(reversed(trace.roles.owners), None))
    codes = None if column is None else pd.factorize(requests[column].iloc[kept])[0]
    return QueueJobs(submission_s[kept], np.minimum(run_s, limit_s), limit_s, np.maximum(np.ceil(size[kept]), 1),
                     processors, codes, requests["departure_s"].iloc[kept].to_numpy(np.int64), priority[kept],
                     queue[kept], queue_processors, host_processors, pd.Index(ids.iloc[kept]), counts)


def queue_names(requests: pd.DataFrame) -> pd.Series:
    """Of each request, the value of the column `queue`, or without one of `partition`, as text."""
    column = "queue" if "queue" in requests else "partition"
    if column not in requests:
        raise ValueError(f"queues must be given for a trace with a column queue or partition, got {list(requests)}")
    return requests[column].astype(str)


def _queues_of(requests: pd.DataFrame, settings: Mapping[str, QueueSetting],
               n_processors: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """The queue and the priority of each request, int64 (n,), and the processors of each queue; () = no limits."""
    if not settings:
        return np.zeros(len(requests), np.int64), np.zeros(len(requests), np.int64), ()
    names = queue_names(requests)
    unknown = sorted(set(settings) - set(names))
    if unknown:
        raise ValueError(f"queues must be of the trace ({', '.join(sorted(set(names))[:9])}), got {unknown[0]!r}")
    place = names.map({name: 1 + k for k, name in enumerate(settings)}).fillna(0).to_numpy(np.int64)
    all_settings = [QueueSetting(), *settings.values()]
    most = tuple(n_processors if each.processors is None else min(each.processors, n_processors)
                 for each in all_settings)
    priority = np.array([each.priority for each in all_settings])[place]
    return (place, priority, most) if min(most) < n_processors else (np.zeros_like(place), priority, ())


def _max_procs(trace: Trace) -> str:
    return str(trace.meta.get("header", {}).get("MaxProcs", "")).split(" ")[0]


def says_processors(trace: Trace) -> bool:
    """Whether the log says how many processors its machine has; 0 says nothing."""
    return _max_procs(trace).isdecimal() and int(_max_procs(trace)) > 0


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
    learner, ended_s, at = LastTwoLearner(jobs), np.asarray(jobs.recorded_end_s), 0
    order = np.lexsort((np.arange(len(jobs)), ended_s))
    ends, rows, offsets = [*ended_s[order].tolist(), MAX_TIME_S], order.tolist(), [0]
    uptimes: list[int] = []
    totals: list[int] = []
    for row, now_s in enumerate(jobs.submission_s.tolist()):
        while ends[at] <= now_s:
            learner.ended(rows[at], ends[at])
            at += 1
        own_uptimes, own_totals = learner.submitted(row, now_s)
        uptimes += own_uptimes
        totals += own_totals
        offsets.append(len(uptimes))
    return Held(jobs.request_ids, Curves(np.array(offsets), np.array(uptimes, np.int64), np.array(totals, np.int64)))


class LastTwo:
    """The same in the loop, a LearningSource: jobs end when the replay ends them.

    before: jobs whose history is known when the replay begins, if they had ended in the log by its first submission.
    owner: of both, the same numbers.

    >>> from sojourn.simulator.queueing import QueueRules, replay_queue
    >>> jobs = QueueJobs(np.array([0, 0, 50]), np.array([10, 30, 99]), np.array([500, 500, 500]), np.array([1, 1, 1]),
    ...                  1, owner=np.array([7, 7, 7]))
    >>> replay_queue(jobs, QueueRules(), LastTwo()).start_s.tolist()
    [0, 10, 50]
    """

    def __init__(self, before: QueueJobs | None = None) -> None:
        self._before = before

    def begin(self, jobs: QueueJobs) -> LastTwoLearner:
        """One replay's own history."""
        learner = LastTwoLearner(jobs)
        if self._before is not None and len(jobs):
            ended_s, runs = np.asarray(self._before.recorded_end_s), self._before.run_s.tolist()
            owners = np.asarray(self._before.owner).tolist()
            for row in np.lexsort((np.arange(len(ended_s)), ended_s)).tolist():
                if ended_s[row] <= jobs.submission_s[0]:
                    learner.learn(owners[row], runs[row])
        return learner


class LastTwoLearner:
    """What `LastTwo` knows in one replay: the last two run times of each owner."""

    def __init__(self, jobs: QueueJobs) -> None:
        self._owners, self._runs = np.asarray(jobs.owner).tolist(), jobs.run_s.tolist()
        self._limits = jobs.limit_s.tolist()
        self._latest: dict[int, tuple[int, int]] = {}

    def learn(self, owner: int, run_s: int) -> None:
        """A job of the owner ended."""
        self._latest[owner] = (run_s, self._latest.get(owner, (run_s, 0))[0])

    def submitted(self, row: int, now_s: int) -> tuple[list[int], list[int]]:
        limit_s, latest = self._limits[row], self._latest.get(self._owners[row])
        mean_s = limit_s if latest is None or self._owners[row] < 0 else sum(latest) // 2
        uptimes, totals = [0], [min(max(mean_s, 1), limit_s)]
        for step_s in (*CORRECTIONS_S, limit_s):
            if totals[-1] < limit_s:
                uptimes.append(totals[-1])
                totals.append(min(totals[-1] + step_s, limit_s))
        return uptimes, totals

    def started(self, row: int, now_s: int) -> None:
        pass

    def ended(self, row: int, now_s: int) -> None:
        self.learn(self._owners[row], self._runs[row])
