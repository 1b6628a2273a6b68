"""Threshold acceptance, which the paper on admission compares with greedy: a job is accepted only if its deadline is
far enough beyond the load. For sequential jobs.

A deadline must be at least r + (load of the core) x f for each of the less loaded cores. The factors f follow from the
slack, and with them the competitive ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sojourn.flows.admission.runs import Entry, Setting
from sojourn.simulator import kernel
from sojourn.simulator.admission import ALLOCATIONS, AdmissionJobs, Decisions

THRESHOLD_REASONS = ("accepted", "its deadline is before its earliest end", "no room before its deadline",
                     "its deadline is below the threshold")
"""By the code in `Decisions.reason` of `admit_threshold`."""


@dataclass(frozen=True, slots=True)
class ThresholdEntry(Entry):
    """Threshold acceptance as a rule of a run."""

    acceptance: ClassVar[str] = "threshold"

    def decisions(self, jobs: AdmissionJobs, n_cores: int, setting: Setting) -> Decisions:
        """About all jobs, from idle cores, with the setting's slack."""
        return admit_threshold(jobs, n_cores, self.allocation, setting.slack)


def admit_threshold(jobs: AdmissionJobs, n_cores: int, allocation: str, slack: float) -> Decisions:
    """Decisions about all jobs, from idle cores. slack: above 0, at most 1.

    Refused with ValueError: a job on several cores.

    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 5]), np.array([1, 1]), np.array([10, 29]))
    >>> decisions = admit_threshold(jobs, 1, "best-fit", 0.5)  # the factor is 3
    >>> decisions.is_accepted.tolist(), decisions.offer_s.tolist()
    ([True, False], [-1, 30])
    """
    if (jobs.cores > 1).any():
        row = int(np.flatnonzero(jobs.cores > 1)[0])
        raise ValueError(f"cores must be 1 with threshold acceptance, got {int(jobs.cores[row])} "
                         f"(job {jobs.name_of(row)})")
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation must be one of {', '.join(ALLOCATIONS)}, got {allocation!r}")
    n, order = len(jobs), jobs.order()
    start, offer, core = (np.full(n, -1) for _ in range(3))
    reason = np.zeros(n, np.int8)
    _replay(jobs.submission_s[order], jobs.processing_s[order], jobs.deadline_s[order], allocation == "balanced",
            threshold_constants(n_cores, slack).factors, np.zeros(n_cores, np.int64), np.arange(n_cores), start, reason,
            offer, core)
    back = np.empty_like(order)
    back[order] = np.arange(n)
    last = np.cumsum(core >= 0)
    return Decisions(start[back], reason[back], offer[back], (last - (core >= 0))[back], last[back], core[core >= 0])


@kernel
def _replay(submission: np.ndarray, processing: np.ndarray, deadline: np.ndarray, is_balanced: bool,
            factors: np.ndarray, free: np.ndarray, number: np.ndarray, start: np.ndarray, reason: np.ndarray,
            offer: np.ndarray, core: np.ndarray) -> None:
    """Decides on jobs in order of submission. free, number (m,): when each core is free, in descending order, and which
    it is; updated. factors: of the last cores in that order. Filled for each job: start and core, -1 = rejected;
    reason; offer, the earliest deadline with which a rejected job would have been accepted."""
    m = len(free)
    for j in range(len(submission)):
        r, p, d = submission[j], processing[j], deadline[j]
        limit = np.float64(r)
        for i in range(m - len(factors), m):
            if free[i] <= r:
                break
            limit = max(limit, r + (free[i] - r) * factors[i - m + len(factors)])
        allowed, soonest = np.int64(np.ceil(limit)), max(free[m - 1], r)
        if soonest + p > d or d < allowed:
            offer[j] = max(soonest + p, allowed)
            reason[j] = 1 if r + p > d else 2 if soonest + p > d else 3
            continue
        at = m - 1
        while not is_balanced and at > 0 and free[at - 1] + p <= d:  # the most loaded that meets the deadline
            at -= 1
        start[j], core[j] = max(free[at], r), number[at]
        end = start[j] + p
        while at > 0 and free[at - 1] < end:
            free[at], number[at] = free[at - 1], number[at - 1]
            at -= 1
        free[at], number[at] = end, core[j]


@dataclass(frozen=True, slots=True)
class ThresholdConstants:
    """Of m cores and a slack.

    first: k, the place (from 1) of the first core that counts, in descending order of load. factors: f_k .. f_m,
    float64 (m - k + 1,), rising from at least 2 to (1 + slack) / slack. ratio: C, the competitive ratio of the
    algorithm on sequential jobs of at least this slack; lower = better.
    """

    first: int
    factors: np.ndarray
    ratio: float


def threshold_constants(n_cores: int, slack: float) -> ThresholdConstants:
    """The constants with the smallest k for which the equations hold with f_k >= 2 (Jamalabadi et al.; several k can
    meet them).

    C = (m f_k + 1) / k and f_q = (C (k + sum_{h=k}^{q-1} (f_h - 1)) - 1) / m for q > k give f_q - 1 = (f_k - 1)
    (1 + C / m)^(q - k). So f_m = (1 + slack) / slack is one equation in f_k, whose left side rises: it is bisected
    in logarithms until the bracket has no number inside.

    Refused with ValueError: n_cores below 1, a slack outside (0, 1].

    >>> [round(threshold_constants(m, 0.1).ratio, 6) for m in (1, 3, 10, 100)]
    [12.0, 6.658911, 4.912199, 4.362387]
    >>> threshold_constants(10, 0.1).first
    5
    """
    if not isinstance(n_cores, int | np.integer) or n_cores < 1:
        raise ValueError(f"n_cores must be a whole number of at least 1, got {n_cores!r}")
    if not 0.0 < slack <= 1.0:
        raise ValueError(f"slack must be above 0 and at most 1 with threshold acceptance, got {slack!r}")
    low, high = 1, n_cores  # the excess at f = 2 falls with k, and at k = m it is not above 0
    while low < high:
        middle = (low + high) // 2
        if _excess(2.0, middle, n_cores, slack) <= 0.0:
            high = middle
        else:
            low = middle + 1
    first = low
    factor = _root(first, n_cores, slack)
    ratio = (n_cores * factor + 1) / first
    factors = 1.0 + (factor - 1.0) * np.exp(np.arange(n_cores - first + 1) * math.log1p(ratio / n_cores))
    factors[-1] = (1.0 + slack) / slack
    return ThresholdConstants(first, factors, ratio)


def _excess(factor: float, first: int, n_cores: int, slack: float) -> float:
    """log(f_m - 1) - log(1 / slack), where f_k is `factor`; rises with it."""
    ratio = (n_cores * factor + 1) / first
    return math.log(factor - 1.0) + (n_cores - first) * math.log1p(ratio / n_cores) + math.log(slack)


def _root(first: int, n_cores: int, slack: float) -> float:
    low, high = 2.0, (1.0 + slack) / slack
    if first == n_cores or high <= 2.0:
        return high
    while low < (middle := (low + high) / 2) < high:
        if _excess(middle, first, n_cores, slack) <= 0.0:
            low = middle
        else:
            high = middle
    return low
