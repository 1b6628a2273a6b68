"""Admission by predicted processing times, compiled: what is known at each submission is planned anew. Slow twin:
tests/naive_admission.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.admission.core_ends_kernels import (
    ACCEPTED,
    BALANCED,
    FULL,
    MIN_IDLE,
    TOO_TIGHT,
    TOO_WIDE,
    first_at_most,
    least_idle,
)
from sojourn.simulator.jit import inner, kept_kernel


@inner
def expected_end(start: np.int64, planned: np.int64, now: np.int64) -> np.int64:
    """When a job that runs is expected to end, after now: the planned time doubles where it has been outlived."""
    while start + planned <= now:
        planned *= 2
    return start + planned


@inner
def sort_falling(free: np.ndarray, core: np.ndarray) -> None:
    """Sorts by falling `free`, stable; nearly sorted already."""
    for i in range(1, len(free)):
        value, number, at = free[i], core[i], i
        while at > 0 and free[at - 1] < value:
            free[at], core[at] = free[at - 1], core[at - 1]
            at -= 1
        free[at], core[at] = value, number


@kept_kernel
def replay_predicted(submission: np.ndarray, processing: np.ndarray, planned: np.ndarray, cores: np.ndarray,
                     deadline: np.ndarray, allocation: int, free: np.ndarray, core: np.ndarray, real: np.ndarray,
                     expected: np.ndarray, done: np.ndarray, pending: np.ndarray, start: np.ndarray, end: np.ndarray,
                     reason: np.ndarray, first_core: np.ndarray, cores_out: np.ndarray) -> None:
    """Decides on jobs in order of submission, greedily by `planned`; they run for `processing`.

    free, core (m,): cores in falling order of the expected end of their last job. real, expected (m,): real and
    expected end of each core's last job; done (m,): end of its last job that has ended. pending (n,): room for jobs
    that have not ended. Filled: start, end (n,), -1 = rejected; reason (n,) int8; first_core (n + 1,), cores_out: as in
    `replay_ends`.
    """
    m = len(free)
    n_out, n_pending = np.int64(0), 0
    for j in range(len(submission)):
        r, c = submission[j], cores[j]
        start[j], end[j] = -1, -1
        first_core[j] = n_out
        kept = 0
        for i in range(m):
            expected[i] = done[i]
        for k in range(n_pending):
            job = pending[k]
            soonest = r
            if end[job] <= r:
                expects = end[job]
            elif start[job] <= r:
                expects = expected_end(start[job], planned[job], r)
            else:
                for i in range(first_core[job], first_core[job] + cores[job]):
                    soonest = max(soonest, expected[cores_out[i]])
                expects = soonest + planned[job]
            for i in range(first_core[job], first_core[job] + cores[job]):
                expected[cores_out[i]] = expects
                if end[job] <= r:
                    done[cores_out[i]] = expects
            if end[job] > r:
                pending[kept] = job
                kept += 1
        n_pending = kept
        if c > m:
            reason[j] = TOO_WIDE
            continue
        for i in range(m):
            free[i] = expected[core[i]]
        sort_falling(free, core)
        latest = deadline[j] - planned[j]
        if max(free[m - c], r) > latest:
            reason[j] = TOO_TIGHT if latest < r else FULL
            continue
        reason[j] = ACCEPTED
        first = m - c
        if allocation != BALANCED:
            first = first_at_most(free, latest, m - c)
            if allocation == MIN_IDLE and c > 1:
                first = least_idle(free, first, c, r)
        begin = r
        for i in range(c):
            begin = max(begin, real[core[first + i]])
        start[j], end[j] = begin, begin + processing[j]
        for i in range(c):
            number = core[first + i]
            real[number] = end[j]
            cores_out[n_out + i] = number
        n_out += c
        pending[n_pending] = j
        n_pending += 1
    first_core[len(submission)] = n_out
