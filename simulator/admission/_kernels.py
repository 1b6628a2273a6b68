"""Admission on the ends of cores, compiled: no job goes before another one of its core. Slow twin:
tests/naive_admission.py.

Cores stand in descending order of the time from which they are free. A job takes neighbours in that order; all of
them then end at the same time, so that one shift of what lies between keeps the order. A core that ends anew stands
after those with the same end. A position is found by bisection.

Admission into free intervals of cores, compiled: conservative backfilling, and cores that are not always on. Slow
twin: tests/naive_admission.py.

The intervals of all cores stand in one table, in ascending order of their start; those with the same start in the
order in which the slow twin's `turn` falls. An interval is an enclosed hole, with an accepted job after it, or the
last one of a time in which its core is on. All intervals that a job leaves behind itself start at the same time, so
that they go into the table as one block.

Admission by predicted processing times, compiled: what is known at each submission is planned anew. Slow twin:
tests/naive_admission.py.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inlined, inner, kept_kernel

BALANCED, BEST_FIT, MIN_IDLE = 0, 1, 2
ACCEPTED, TOO_WIDE, TOO_TIGHT, FULL, BEYOND_POWER = 0, 1, 2, 3, 4
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
                allocation: int, free: np.ndarray, core: np.ndarray, kept: np.ndarray, start: np.ndarray,
                reason: np.ndarray, offer: np.ndarray, first_core: np.ndarray, cores_out: np.ndarray) -> None:
    """Decides on jobs in order of submission, with Python's view of `free` and `core` (m,) updated.

    Filled: start (n,), -1 = rejected; reason (n,), int8; offer (n,): the earliest deadline with which a rejected
    job would have been accepted, -1 = none. first_core (n + 1,): where a job's cores begin in cores_out, which
    may be empty.
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
        if soonest > latest:
            offer[j] = soonest + p
            reason[j] = TOO_TIGHT if latest < r else FULL
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


START, END, CORE, IS_LAST, SINCE = 0, 1, 2, 3, 4
"""Rows of the table. SINCE: since when the core is on."""
N_ROWS = 5
HOLES, OPEN, LAST, ALL = 0, 1, 2, 3
"""Which intervals may be taken: enclosed holes; the last of cores that are on now; the last of all; all."""
_GONE = -1


@inlined
def is_of(free: np.ndarray, at: int, kind: int, now: np.int64) -> bool:
    """Whether an interval is of a kind."""
    if kind == ALL:
        return True
    if kind == HOLES:
        return free[IS_LAST, at] == 0
    return free[IS_LAST, at] == 1 and (kind == LAST or free[SINCE, at] <= now)


@inner
def first_after(free: np.ndarray, n: int, time: np.int64) -> int:
    """The first interval that starts after `time`; n if none does."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if free[START, middle] > time:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def without_past(free: np.ndarray, n: int, now: np.int64) -> int:
    """How many intervals are left without those that end by now."""
    to = 0
    while to < n and free[END, to] > now:
        to += 1
    for i in range(to + 1, n):
        if free[END, i] > now:
            for row in range(N_ROWS):
                free[row, to] = free[row, i]
            to += 1
    return to


@inner
def n_holes(free: np.ndarray, n: int) -> np.int64:
    """How many of the intervals are enclosed holes."""
    total = np.int64(n)
    for at in range(n):
        total -= free[IS_LAST, at]
    return total


@inner
def push(heap: np.ndarray, n: int, value: np.int64) -> None:
    at = n
    while at > 0 and heap[(at - 1) >> 1] > value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value


@inner
def pop(heap: np.ndarray, n: int) -> None:
    value, at = heap[n - 1], 0
    while True:
        child = 2 * at + 1
        if child >= n - 1:
            break
        if child + 1 < n - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@inner
def earliest_start(free: np.ndarray, n: int, now: np.int64, processing: np.int64, n_cores: int, latest: np.int64,
                   kind: int, heap: np.ndarray) -> np.int64:
    """The earliest start, from now to `latest`, at which n_cores intervals of a kind hold the whole run; -1 if none.

    Only starts of intervals, and now, can be the earliest. heap: of the latest starts of those passed so far.
    """
    size, at = 0, 0
    while at < n:
        start = max(free[START, at], now)
        if start > latest:
            break
        while at < n and max(free[START, at], now) == start:
            last = free[END, at] - processing
            if last >= start and is_of(free, at, kind, now):
                push(heap, size, last)
                size += 1
            at += 1
        while size > 0 and heap[0] < start:
            pop(heap, size)
            size -= 1
        if size >= n_cores:
            return start
    return np.int64(-1)


@inner
def collected_down(free: np.ndarray, at: int, now: np.int64, start: np.int64, processing: np.int64, n_cores: int,
                   kind: int, chosen: np.ndarray) -> int:
    """How many of n_cores are found from `at` on downwards, the most loaded first, for a run that begins at `start`.
    Fills chosen."""
    found = 0
    while at >= 0 and found < n_cores:
        if free[END, at] >= start + processing and is_of(free, at, kind, now):
            chosen[found] = at
            found += 1
        at -= 1
    return found


@inner
def collected_up(free: np.ndarray, n: int, now: np.int64, start: np.int64, processing: np.int64, n_cores: int,
                 kind: int, chosen: np.ndarray) -> None:
    """The n_cores least loaded ones, which there are, into chosen; the most loaded of them first."""
    found, at = n_cores, 0
    while found > 0 and at < n:
        if free[END, at] >= start + processing and is_of(free, at, kind, now):
            found -= 1
            chosen[found] = at
        at += 1


@inner
def idle_of(free: np.ndarray, chosen: np.ndarray, n_cores: int, now: np.int64, start: np.int64) -> np.int64:
    idle = np.int64(0)
    for i in range(n_cores):
        idle += start - max(free[START, chosen[i]], now)
    return idle


@inner
def least_idle_end(free: np.ndarray, n: int, now: np.int64, processing: np.int64, n_cores: int, latest: np.int64,
                   chosen: np.ndarray, listed: np.ndarray) -> np.int64:
    """The start at which the last intervals of n_cores that are on wait least for each other, the more loaded ones
    where it is equal; -1 if none holds the run. Fills chosen."""
    n_listed, least_end = 0, np.int64(NEVER)
    for at in range(first_after(free, n, latest) - 1, -1, -1):
        if is_of(free, at, OPEN, now) and free[END, at] - processing >= max(free[START, at], now):
            listed[n_listed] = at
            n_listed += 1
            least_end = min(least_end, free[END, at])
    if n_listed < n_cores:
        return np.int64(-1)
    best, least, best_start = -1, np.int64(NEVER), np.int64(-1)
    if least_end - processing >= max(free[START, listed[0]], now):  # each run fits on each: a window slides
        total = np.int64(0)
        for i in range(n_cores - 1):
            total += max(free[START, listed[i]], now)
        for i in range(n_listed - n_cores + 1):
            start = max(free[START, listed[i]], now)
            total += max(free[START, listed[i + n_cores - 1]], now)
            if n_cores * start - total < least:
                best, least, best_start = i, n_cores * start - total, start
            total -= start
        for i in range(n_cores):
            chosen[i] = listed[best + i]
        return best_start
    for i in range(n_listed - n_cores + 1):
        start = max(free[START, listed[i]], now)
        if collected_down(free, listed[i], now, start, processing, n_cores, OPEN, chosen) == n_cores:
            idle = idle_of(free, chosen, n_cores, now, start)
            if idle < least:
                best, least, best_start = listed[i], idle, start
    if best >= 0:
        collected_down(free, best, now, best_start, processing, n_cores, OPEN, chosen)
    return best_start


@inner
def at_ends(free: np.ndarray, n: int, now: np.int64, processing: np.int64, n_cores: int, latest: np.int64,
            allocation: int, chosen: np.ndarray, heap: np.ndarray) -> np.int64:
    """Start on the last intervals of cores that are on now, by the allocation; -1 if it cannot be. Fills chosen."""
    if allocation == BALANCED:
        start = earliest_start(free, n, now, processing, n_cores, latest, OPEN, heap)
        if start >= 0:
            collected_up(free, n, now, start, processing, n_cores, OPEN, chosen)
        return start
    if allocation == MIN_IDLE and n_cores > 1:
        return least_idle_end(free, n, now, processing, n_cores, latest, chosen, heap)
    for at in range(first_after(free, n, latest) - 1, -1, -1):
        start = max(free[START, at], now)
        if not is_of(free, at, OPEN, now) or free[END, at] < start + processing:
            continue
        if collected_down(free, at, now, start, processing, n_cores, OPEN, chosen) == n_cores:
            return start
        if free[START, at] <= now:  # further down there are fewer, and none starts earlier
            break
    return np.int64(-1)


@inner
def occupy(free: np.ndarray, n: int, chosen: np.ndarray, n_cores: int, now: np.int64, start: np.int64, end: np.int64,
           is_backfilling: bool, left: np.ndarray) -> int:
    """How many intervals there are once a job runs in the chosen ones. What is free before it stays where it is; what
    is free after it goes before the others that start then. left: room for the latter."""
    n_left, lowest = 0, n
    for i in range(n_cores):
        at = chosen[i]
        lowest = min(lowest, at)
        if free[END, at] > end:
            for row in range(1, N_ROWS):
                left[row, n_left] = free[row, at]
            n_left += 1
        if is_backfilling and max(free[START, at], now) < start:
            free[END, at], free[IS_LAST, at] = start, 0
        else:
            free[END, at] = _GONE
    to = lowest
    for i in range(lowest, n):
        if free[END, i] != _GONE:
            if to != i:
                for row in range(N_ROWS):
                    free[row, to] = free[row, i]
            to += 1
    place = first_after(free, to, end - 1)
    for row in range(N_ROWS):
        for i in range(to - 1, place - 1, -1):
            free[row, i + n_left] = free[row, i]
    for i in range(n_left):
        free[START, place + i] = end
        for row in range(1, N_ROWS):
            free[row, place + i] = left[row, n_left - 1 - i]
    return to + n_left


@kept_kernel
def replay_free(submission: np.ndarray, processing: np.ndarray, cores: np.ndarray, deadline: np.ndarray, first: int,
                allocation: int, is_backfilling: bool, n_cores: int, free: np.ndarray, n_free: np.ndarray,
                chosen: np.ndarray, heap: np.ndarray, left: np.ndarray, start: np.ndarray, reason: np.ndarray,
                offer: np.ndarray, first_core: np.ndarray, cores_out: np.ndarray) -> int:
    """How many jobs are decided, from `first` on, in order of submission; fewer than all where the table is full.

    free: int64 (5, room), of which the first n_free[0] are used. chosen: (n_cores,). heap: (room,). left: (5, n_cores).
    The rest as in `replay_ends`.
    """
    n = n_free[0]
    n_out = first_core[first]
    is_noted = len(cores_out) > 0
    for j in range(first, len(submission)):
        r, p, c = submission[j], processing[j], cores[j]
        if c <= n_cores and n + c > free.shape[1]:
            n_free[0] = n
            return j
        latest = deadline[j] - p
        start[j], offer[j], reason[j] = -1, -1, ACCEPTED
        first_core[j + 1] = n_out
        if c > n_cores:
            reason[j] = TOO_WIDE
            continue
        n = without_past(free, n, r)
        begin = np.int64(-1)
        if is_backfilling and n_holes(free, n) >= c:
            begin = earliest_start(free, n, r, p, c, latest, HOLES, heap)
            if begin >= 0:
                collected_down(free, first_after(free, n, begin) - 1, r, begin, p, c, HOLES, chosen)
        if begin < 0 and latest >= r:
            begin = at_ends(free, n, r, p, c, latest, allocation, chosen, heap)
        if begin < 0:
            kind = ALL if is_backfilling else LAST
            begin = earliest_start(free, n, r, p, c, np.int64(NEVER), kind, heap)
            if begin < 0 or begin > latest:
                offer[j] = begin + p if begin >= 0 else begin
                reason[j] = BEYOND_POWER if begin < 0 else TOO_TIGHT if latest < r else FULL
                continue
            collected_down(free, first_after(free, n, begin) - 1, r, begin, p, c, kind, chosen)
        start[j] = begin
        if is_noted:
            for i in range(c):
                cores_out[n_out + i] = free[CORE, chosen[i]]
            n_out += c
            first_core[j + 1] = n_out
        n = occupy(free, n, chosen, c, r, begin, begin + p, is_backfilling, left)
    n_free[0] = n
    return len(submission)


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
