"""Admission on the ends of cores, compiled: no job goes before another one of its core. Slow twin:
tests/naive_admission.py.

Cores stand in descending order of the time from which they are free. A job takes neighbours in that order; all of
them then end at the same time, so that one shift of what lies between keeps the order. A core that ends anew stands
after those with the same end. A position is found by bisection.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inlined, inner, kept_kernel

BALANCED, BEST_FIT, MIN_IDLE = 0, 1, 2
ACCEPTED, TOO_WIDE, TOO_TIGHT, FULL, BELOW_THRESHOLD, BEYOND_POWER = 0, 1, 2, 3, 4, 5
"""Why a job was rejected."""
NEVER = 2**62
"""A time that does not come."""


@inlined
def first_at_most(free: np.ndarray, time: np.int64, high: int) -> int:
    """The first of the descending `free[:high]` that is at most `time`; high if none is."""
    low = 0
    while low < high:
        middle = (low + high) >> 1
        if free[middle] <= time:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def least_idle(free: np.ndarray, first: int, n_cores: int, submission: np.int64) -> int:
    """The first of the `n_cores` neighbours whose wait for each other is shortest, `first` or later; the more loaded
    ones where it is equal."""
    m = len(free)
    total = np.int64(0)
    for i in range(first, first + n_cores):
        total += max(free[i], submission)
    best, least = first, n_cores * max(free[first], submission) - total
    for i in range(first + 1, m - n_cores + 1):
        total += max(free[i + n_cores - 1], submission) - max(free[i - 1], submission)
        idle = n_cores * max(free[i], submission) - total
        if idle < least:
            best, least = i, idle
    return best


@inner
def earliest_allowed(free: np.ndarray, submission: np.int64, factors: np.ndarray) -> np.int64:
    """The earliest deadline that the thresholds allow, a whole second. factors: of the least loaded cores, empty:
    greedy."""
    limit = np.float64(submission)
    start = len(free) - len(factors)
    for i in range(len(factors)):
        wait = free[start + i] - submission
        if wait <= 0:
            break
        limit = max(limit, submission + wait * factors[i])
    return np.int64(np.ceil(limit))


@inner
def take(free: np.ndarray, core: np.ndarray, first: int, n_cores: int, end: np.int64, kept: np.ndarray) -> None:
    """The neighbours from `first` on end at `end`; `kept` (m,) is room for their numbers."""
    to = first_at_most(free, end - 1, first)
    for i in range(n_cores):
        kept[i] = core[first + i]
    for i in range(first - 1, to - 1, -1):
        free[i + n_cores] = free[i]
        core[i + n_cores] = core[i]
    for i in range(n_cores):
        free[to + i] = end
        core[to + i] = kept[i]


@kept_kernel
def replay_ends(submission: np.ndarray, processing: np.ndarray, cores: np.ndarray, deadline: np.ndarray,
                allocation: int, factors: np.ndarray, free: np.ndarray, core: np.ndarray, kept: np.ndarray,
                start: np.ndarray, reason: np.ndarray, offer: np.ndarray, first_core: np.ndarray,
                cores_out: np.ndarray) -> None:
    """Decides on jobs in order of submission, with Python's view of `free` and `core` (m,) updated.

    Filled: start (n,), -1 = rejected; reason (n,), int8; offer (n,): the earliest deadline with which a rejected
    job would have been accepted, -1 = none. first_core (n + 1,): where a job's cores begin in cores_out, which
    may be empty. factors: of the threshold, for the last cores in order; empty = greedy.
    """
    m = len(free)
    n_out = first_core[0]
    is_noted = len(cores_out) > 0
    for j in range(len(submission)):
        r, p, c = submission[j], processing[j], cores[j]
        latest = deadline[j] - p
        start[j], offer[j], reason[j] = -1, -1, ACCEPTED
        first_core[j + 1] = n_out
        if c > m:
            reason[j] = TOO_WIDE
            continue
        soonest = max(free[m - c], r)
        allowed = earliest_allowed(free, r, factors)
        if soonest > latest or deadline[j] < allowed:
            offer[j] = max(soonest + p, allowed)
            reason[j] = TOO_TIGHT if latest < r else FULL if soonest > latest else BELOW_THRESHOLD
            continue
        if allocation == BALANCED:
            first = m - c
        else:
            first = first_at_most(free, latest, m - c)
            if allocation == MIN_IDLE and c > 1:
                first = least_idle(free, first, c, r)
        begin = max(free[first], r)
        take(free, core, first, c, begin + p, kept)
        start[j] = begin
        if is_noted:
            for i in range(c):
                cores_out[n_out + i] = kept[i]
            n_out += c
            first_core[j + 1] = n_out
