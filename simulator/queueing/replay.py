"""The replay of a queue: its rules, what predicts run times, and the schedule that comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from sojourn.simulator.predictions import TOTAL_MAX_S, Curves, LifetimeSource
from sojourn.simulator.queueing import _kernels as kernels
from sojourn.simulator.queueing.jobs import QueueJobs
from sojourn.simulator.whole_numbers import check_setting

ORDERS: Mapping[str, int] = MappingProxyType({
    "fcfs": kernels.FCFS, "sjf": kernels.SJF, "saf": kernels.SAF, "wfp3": kernels.WFP3, "unicef": kernels.UNICEF,
    "f1": kernels.F1,
})
"""Orders of waiting jobs, smaller first, ties by submission; p = predicted run time, w = waited so far, n = size.
fcfs: submission. sjf: p. saf: p n. wfp3: -(w / p)^3 n. unicef: -w / (log2(n) p), with n at least 2. f1: log10(p) n +
870 log10(submission), in seconds after the first one, at least 1 (Lelong et al. 2017, Carastan-Santos and de Camargo
2017)."""
BACKFILLING: Mapping[str, int] = MappingProxyType({
    "none": kernels.NONE, "easy": kernels.EASY, "conservative": kernels.CONSERVATIVE, "depth": kernels.DEPTH,
    "any": kernels.ANY,
})
WITHOUT_PROFILE = ("none", "any", "easy")
"""Those that need no plan of free processors over time; a machine of hosts has none."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How a queue is served.

    order: the primary one, of ORDERS. backfill_order: that in which jobs are backfilled, with easy and depth:K.
    backfilling: `none`: nothing passes the first job that does not fit; `any`: whatever fits starts, in primary order,
    and nothing is reserved, so a wide job may wait for as long as narrow ones come; `easy`: the first job that does not
    fit has a reservation; `conservative`: every waiting job has one, made at its submission, which only moves earlier
    while predictions hold; `depth:K`: the first K that do not fit have one, made anew at each pass, as Slurm's backfill
    plugin does.
    guard_s: a job that has waited longer comes first, in order of submission, and with EASY run times are the limits
    while it is at the head; None = no guard. overtaken_s: so does a job once those submitted after it have had so many
    seconds of the whole machine since its submission: a long queue is not served by submission alone, and no job waits
    much longer than if it were.
    chance: above 0, at most 1; with EASY and a source that draws run times, a job is backfilled if in so many of the
    draws it does not delay the head: the head's start is another one in each draw. None, or a source without draws: by
    one predicted run time.

    >>> QueueRules("wfp3", "saf", "depth:10").backfilling
    'depth:10'
    """

    order: str = "fcfs"
    backfill_order: str = "fcfs"
    backfilling: str = "easy"
    guard_s: int | None = None
    overtaken_s: int | None = None
    chance: float | None = None

    def __post_init__(self) -> None:
        for name in ("order", "backfill_order"):
            if getattr(self, name) not in ORDERS:
                raise ValueError(f"{name} must be one of {', '.join(ORDERS)}, got {getattr(self, name)!r}")
        if not re.fullmatch("none|any|easy|conservative|depth:[1-9][0-9]{0,8}", self.backfilling):
            raise ValueError("backfilling must be one of none, any, easy, conservative, depth:K with K at least 1, got "
                             f"{self.backfilling!r}")
        for name in ("guard_s", "overtaken_s"):
            if getattr(self, name) is not None:
                check_setting(getattr(self, name), 0, name)
        if self.chance is not None and not (self.backfilling == "easy" and 0.0 < self.chance <= 1.0):
            raise ValueError("chance must be above 0 and at most 1, with backfilling easy, got "
                             f"{self.chance!r} with {self.backfilling}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each job started. Arrays of int64, shape (n,), in the order of the jobs.

    reservation_s: the first time at which the job was promised to start while it waited; -1 = never.
    """

    jobs: QueueJobs
    rules: QueueRules
    start_s: np.ndarray
    reservation_s: np.ndarray

    @property
    def wait_s(self) -> np.ndarray:
        """From submission to start."""
        return np.asarray(self.start_s - self.jobs.submission_s)

    @property
    def end_s(self) -> np.ndarray:
        """When each job ended."""
        return np.asarray(self.start_s + self.jobs.run_s)


class Learner(Protocol):
    """Predicts the run times of one replay, and learns of its starts and ends. Rows: of the jobs."""

    def submitted(self, row: int, now_s: int) -> tuple[Sequence[int], Sequence[int]]:
        """Uptimes, rising from 0, and the predicted total run time from each of them on; seconds, as in `Curves`."""
        ...

    def started(self, row: int, now_s: int) -> None:
        """The job begins to run. Calls come in order of time; at one second ends first, then submissions, then starts.
        """
        ...

    def ended(self, row: int, now_s: int) -> None:
        """The job has run to its end."""
        ...


@runtime_checkable
class DrawingLearner(Learner, Protocol):
    """A learner that also draws run times, if the rules have a chance. n_draws: of each job."""

    n_draws: int

    def drawn(self, row: int) -> Sequence[tuple[Sequence[int], Sequence[int]]]:
        """For each draw the uptimes and totals, as `submitted`, which has just been called."""
        ...


@dataclass(frozen=True, slots=True)
class DrawnRunTimes:
    """A LifetimeSource of plan's curves, and draws: other sources of the same requests, each a draw of all run times,
    which rules with a chance ask. Draws of one job should be spread over its distribution."""

    plan: LifetimeSource
    draws: tuple[LifetimeSource, ...]

    def curves(self, requests: pd.DataFrame) -> Curves:
        """Those of plan."""
        return self.plan.curves(requests)


@runtime_checkable
class LearningSource(Protocol):
    """A predictor in the loop: it learns of an end when the replay ends the job, and not when the log did."""

    def begin(self, jobs: QueueJobs) -> Learner:
        """What predicts one replay of the jobs, with the history of before it."""
        ...


RunTimes = LifetimeSource | tuple[LifetimeSource, LifetimeSource] | LearningSource
"""What predicts run times. Of a pair, the first is for orders, plans and reservations; a job is backfilled if it would
end by the reservation were its run time the second one's first prediction. If that is the quantile p of a learnt
distribution, the chance that it ends by then is at least p."""


def replay_queue(jobs: QueueJobs, rules: QueueRules, source: RunTimes) -> Schedule:
    """The schedule of jobs under rules, by a source's predicted run times.

    At one second jobs end first, then others are submitted, then one pass of the scheduler starts jobs: see
    docs/simulator/queueing.md. A prediction is at least 1 s and at most the job's limit. A running job's is the
    source's curve at its uptime, so it is never outlived. No prediction ends a job.

    source: a LifetimeSource is asked once for all of `jobs.requests()`: history as it was recorded. A LearningSource is
    asked for each job at its submission, and learns from the replay: simulated history.

    >>> from sojourn.simulator.queueing import requested
    >>> jobs = QueueJobs(np.array([0, 1, 2]), np.array([10, 10, 5]), np.array([10, 10, 8]), np.array([3, 4, 1]), 4)
    >>> replay_queue(jobs, QueueRules(), requested(jobs)).start_s.tolist()
    [0, 10, 2]
    """
    if jobs.queue_processors and rules.backfilling == "conservative":
        raise ValueError("backfilling must not be conservative if queues have limits of processors, got "
                         f"{jobs.queue_processors}")
    if jobs.host_processors is not None and rules.backfilling not in WITHOUT_PROFILE:
        raise ValueError(f"backfilling must be none, any or easy on a machine of hosts, got {rules.backfilling!r}")
    if jobs.host_processors is not None and rules.chance is not None:
        raise ValueError(f"chance must be None on a machine of hosts, got {rules.chance!r}")
    if isinstance(source, LearningSource):
        learner = source.begin(jobs)
        n_draws = learner.n_draws if rules.chance is not None and isinstance(learner, DrawingLearner) else 0
        state = blank_state(jobs, rules, n_draws)
        _replay_learning(jobs, compiled_rules(rules), state, learner)
    else:
        draws = source.draws if rules.chance is not None and isinstance(source, DrawnRunTimes) else ()
        state = blank_state(jobs, rules, len(draws))
        kernels.replay_queue(compiled_jobs(jobs, source, draws), state, compiled_rules(rules), 0, kernels.NEVER)
    return Schedule(jobs, rules, state.start_s, state.reservation_s)


def _replay_learning(jobs: QueueJobs, rules: kernels.Rules, state: kernels.State, learner: Learner) -> None:
    """The loop stops before each second of submissions, when the learner hears what happened since."""
    n = len(jobs)
    planned_s, first, last = np.ones(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    uptime_s, total_s = np.zeros((2, 4 * n + 16), np.int64)
    drawn = np.zeros((2, *state.drawn_step.shape), np.int64)
    times_s, firsts = np.unique(jobs.submission_s, return_index=True)
    stops = [*firsts[1:].tolist(), n] if n else []
    ends: list[tuple[int, int]] = []
    at = n_heard = n_points = 0
    ready = _joined(jobs, planned_s, planned_s, first, last, uptime_s, total_s, drawn)
    for now, begin, end in zip(times_s.tolist(), firsts.tolist(), stops, strict=True):
        at = kernels.replay_queue(ready, state, rules, at, now)
        for row in state.started[n_heard:int(state.numbers[kernels.N_STARTED])].tolist():
            start_s = int(state.start_s[row])
            _tell_ends(learner, ends, start_s)
            learner.started(row, start_s)
            heappush(ends, (start_s + int(jobs.run_s[row]), row))
            n_heard += 1
        _tell_ends(learner, ends, now)
        for row in range(begin, end):
            answers = [learner.submitted(row, now)]
            if isinstance(learner, DrawingLearner) and drawn.size:
                answers += learner.drawn(row)
            for draw, (uptimes, totals) in enumerate(answers, -1):
                _check_curve(uptimes, totals, jobs.request_ids[row])
                end_point = n_points + len(uptimes)
                while end_point > len(uptime_s):
                    uptime_s, total_s = (np.concatenate([part, np.zeros_like(part)]) for part in (uptime_s, total_s))
                    ready = ready._replace(uptime_s=uptime_s, total_s=total_s)
                uptime_s[n_points:end_point], total_s[n_points:end_point] = uptimes, totals
                if draw < 0:
                    first[row], last[row] = n_points, end_point - 1
                    planned_s[row] = min(max(totals[0], 1), jobs.limit_s[row])
                else:
                    drawn[:, row, draw] = n_points, end_point - 1
                n_points = end_point
    kernels.replay_queue(ready, state, rules, at, kernels.NEVER)


def _check_curve(uptimes: Sequence[int], totals: Sequence[int], name: object) -> None:
    """ValueError that names the job unless the numbers keep the rules of `Curves`."""
    n = len(uptimes)
    is_good = n > 0 and n == len(totals) and uptimes[0] == 0 and all(
        type(uptime) is int and type(total) is int and 0 <= total <= TOTAL_MAX_S
        for uptime, total in zip(uptimes, totals, strict=True)) and all(
        uptimes[k] < uptimes[k + 1] <= totals[k] for k in range(n - 1))
    if not is_good:
        try:
            Curves(np.array([0, n]), np.array(uptimes), np.array(totals))
        except ValueError as error:
            raise ValueError(f"a curve must keep the rules of Curves, that of job {name} does not: {error}") from None


def _tell_ends(learner: Learner, ends: list[tuple[int, int]], until_s: int) -> None:
    while ends and ends[0][0] <= until_s:
        end_s, row = heappop(ends)
        learner.ended(row, end_s)


def compiled_rules(rules: QueueRules) -> kernels.Rules:
    """The rules as the loop reads them."""
    kind, _, depth = rules.backfilling.partition(":")
    guard_s, overtaken_s = (kernels.NEVER if each is None else int(each) for each in (rules.guard_s, rules.overtaken_s))
    return kernels.Rules(ORDERS[rules.order], ORDERS[rules.backfill_order], BACKFILLING[kind], int(depth or 0),
                         guard_s, overtaken_s, rules.chance or 0.0)


def blank_state(jobs: QueueJobs, rules: QueueRules, n_draws: int = 0) -> kernels.State:
    """The state of an empty machine before the jobs."""
    n, n_processors = len(jobs), jobs.n_processors
    n_most = min(n, n_processors)
    numbers = np.zeros(kernels.N_NUMBERS, np.int64)
    numbers[[kernels.FREE, kernels.NEXT_END, kernels.DUE]] = n_processors, kernels.NEVER, kernels.NEVER
    numbers[kernels.PROCESSORS], numbers[kernels.IS_COUNTED] = n_processors, rules.overtaken_s is not None
    numbers[kernels.IS_GUARDED] = rules.guard_s is not None or rules.overtaken_s is not None
    has_profile = rules.backfilling not in WITHOUT_PROFILE
    t, profile = np.full((10, n), -1), np.empty((2, n_most + 4 * n + 8 if has_profile else 0), np.int64)
    listed, running, keys = np.empty((2, n), np.int64), np.empty((4, n_most + 1), np.int64), np.empty((2, n))
    whole = jobs.host_processors
    hosts = np.full((4, n_processors // whole + 1 if whole else 0), whole or 0)
    levels = np.zeros((2, (whole or 0) + 1), np.int64)
    levels[:, -1] = hosts.shape[1] - 1
    chains = np.full((2, n if whole else 0), -1)
    return kernels.State(t[0], t[1], t[2], t[3], t[4], t[5], np.arange(n), t[6], t[7], running[2],
                         running[3], t[8], running[0], running[1], listed[0], listed[1], keys[0], keys[1], profile[0],
                         profile[1], t[9], _queue_processors(jobs), hosts[0, :-1], levels[0], hosts[1, :-1], levels[1],
                         chains[0], hosts[2, :-1], chains[1], hosts[3], np.zeros((n, n_draws), np.int64),
                         np.zeros((n, n_draws), np.int64), np.zeros((n_draws, n_most), np.int64),
                         np.zeros(n_draws, np.int64), np.zeros(n_draws, np.int64), numbers)


def compiled_jobs(jobs: QueueJobs, source: LifetimeSource | tuple[LifetimeSource, LifetimeSource],
                  draws: Sequence[LifetimeSource] = ()) -> kernels.Jobs:
    """The jobs, with the source's predictions, as the loop reads them."""
    plan, fit = source if isinstance(source, tuple) else (source, None)
    curves, planned_s = _asked(jobs, plan)
    fit_s = planned_s if fit is None else _asked(jobs, fit)[1]
    all_curves = [curves, *(_asked(jobs, draw)[0] for draw in draws)]
    begins = np.cumsum([0, *(len(each.uptime_s) for each in all_curves)])
    firsts, lasts = (np.stack([begin + each.offsets[each.curve_of() + k] - k for begin, each in zip(
        begins[:-1].tolist(), all_curves, strict=True)], axis=1) for k in (0, 1))
    uptime_s, total_s = (np.concatenate([getattr(each, name) for each in all_curves]) for name in (
        "uptime_s", "total_s"))
    return _joined(jobs, planned_s, fit_s, firsts[:, 0].copy(), lasts[:, 0].copy(), uptime_s, total_s,
                   np.stack([firsts[:, 1:], lasts[:, 1:]]))


def _joined(jobs: QueueJobs, planned_s: np.ndarray, fit_s: np.ndarray, first: np.ndarray, last: np.ndarray,
            uptime_s: np.ndarray, total_s: np.ndarray, drawn: np.ndarray) -> kernels.Jobs:
    rank = np.unique(-np.asarray(jobs.priority), return_inverse=True)[1].reshape(-1)
    return kernels.Jobs(jobs.submission_s, jobs.run_s, jobs.limit_s, jobs.size, planned_s, fit_s, first, last, uptime_s,
                        total_s, rank, np.asarray(jobs.queue), _queue_processors(jobs), drawn[0], drawn[1])


def _queue_processors(jobs: QueueJobs) -> np.ndarray:
    most = np.array(jobs.queue_processors or [jobs.n_processors], np.int64)
    return np.where(most < jobs.n_processors, most, kernels.NEVER)


def _asked(jobs: QueueJobs, source: LifetimeSource) -> tuple[Curves, np.ndarray]:
    """The source's curves, and its predictions at uptime 0."""
    curves = source.curves(jobs.requests())
    if not isinstance(curves, Curves) or len(curves) != len(jobs):
        got = f"{len(curves)} of them" if isinstance(curves, Curves) else type(curves).__name__
        raise ValueError(f"source must give Curves, one a job ({len(jobs)}), got {got}")
    return curves, np.clip(curves.total_s[curves.offsets[curves.curve_of()]], 1, jobs.limit_s)
