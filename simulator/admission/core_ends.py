"""Cores by the time from which they are free: the state of admission without backfilling and with constant power."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.simulator.admission.core_ends_kernels import replay_ends
from sojourn.simulator.admission.decisions import Decisions
from sojourn.simulator.admission.jobs import AdmissionJobs, check_cores
from sojourn.simulator.admission.registry import ACCEPTANCES, ALLOCATIONS, known
from sojourn.simulator.admission.threshold_constants import threshold_constants


class CoreEnds:
    """n_cores that are free from time 0. `offer` decides on further jobs; those accepted before stay as they are.

    allocation: a key of ALLOCATIONS. acceptance: a key of ACCEPTANCES; `threshold` reads the slack (0 < slack <= 1).

    >>> ends = CoreEnds(1, "best-fit")
    >>> jobs = AdmissionJobs(np.array([0, 0]), np.array([10, 10]), np.array([1, 1]), np.array([15, 15]))
    >>> ends.offer(jobs).offer_s.tolist()
    [-1, 20]
    """

    def __init__(self, n_cores: int, allocation: str, acceptance: str = "greedy", slack: float | None = None) -> None:
        check_cores(n_cores)
        self.allocation = known("allocation", allocation, ALLOCATIONS)
        self.acceptance = known("policy", acceptance, ACCEPTANCES)
        self.factors = np.empty(0)
        if acceptance == "threshold":
            if slack is None:
                raise ValueError("slack must be given with threshold acceptance, got None")
            self.factors = threshold_constants(n_cores, slack).factors
        self.free_s = np.zeros(n_cores, np.int64)
        self.numbers = np.arange(n_cores)

    def offer(self, jobs: AdmissionJobs, *, with_cores: bool = True) -> Decisions:
        """Decides on the jobs in order of submission. with_cores: also say which cores each one gets.

        Refused with ValueError: a job on several cores where the acceptance is `threshold`.
        """
        if self.acceptance == "threshold" and (jobs.cores > 1).any():
            row = int(np.flatnonzero(jobs.cores > 1)[0])
            raise ValueError(f"cores must be 1 with threshold acceptance, got {int(jobs.cores[row])} "
                             f"(job {jobs.name_of(row)})")
        n, order = len(jobs), jobs.order()
        start, offer, reason = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8)
        first = np.zeros(n + 1, np.int64)
        most = int(jobs.cores[jobs.cores <= len(self.free_s)].sum()) if with_cores else 0
        numbers = np.empty(most, np.int64)
        replay_ends(jobs.submission_s[order], jobs.processing_s[order], jobs.cores[order], jobs.deadline_s[order],
                    ALLOCATIONS[self.allocation], self.factors, self.free_s, self.numbers,
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
