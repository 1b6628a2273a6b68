"""Starts of single jobs against the usage of all others, compiled. Slow twin:
tests/naive_planning.py.

`used` is int64 (n_samples, n_resources, n_times): the usage of all placed jobs at each step of each
sample.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inner, kept_kernel


@inner
def _put(used: np.ndarray, durations: np.ndarray, usage: np.ndarray, job: int, start: int, sign: int) -> None:
    """Adds (sign 1) or removes (sign -1) a job that starts at `start`. durations (n_samples, n), usage (.., n, ..)."""
    for sample in range(used.shape[0]):
        stop = start + durations[sample, job]
        for resource in range(used.shape[1]):
            amount = sign * usage[sample, job, resource]
            for time in range(start, stop):
                used[sample, resource, time] += amount


@inner
def _added_excess(used: np.ndarray, durations: np.ndarray, usage: np.ndarray, lines: np.ndarray, job: int, low: int,
                 costs: np.ndarray, sums: np.ndarray) -> None:
    """Fills costs, int64 (n_starts,): the usage above `lines` that the job adds if it starts at low
    + i, over time.

    lines: int64 (n_samples, n_resources). sums: a buffer of at least n_starts + the longest
    duration + 1.
    """
    n_starts = len(costs)
    costs[:] = 0
    for sample in range(used.shape[0]):
        length = durations[sample, job]
        for resource in range(used.shape[1]):
            amount = usage[sample, job, resource]
            if amount == 0:
                continue
            room = lines[sample, resource] - amount
            sums[0] = 0
            for time in range(n_starts - 1 + length):
                over = used[sample, resource, low + time] - room
                sums[time + 1] = sums[time] + min(max(over, 0), amount)
            for idx in range(n_starts):
                costs[idx] += sums[idx + length] - sums[idx]


@kept_kernel
def put(used: np.ndarray, durations: np.ndarray, usage: np.ndarray, job: int, start: int, sign: int) -> None:
    """As `_put`, for Python."""
    _put(used, durations, usage, job, start, sign)


@kept_kernel
def added_excess(used: np.ndarray, durations: np.ndarray, usage: np.ndarray, lines: np.ndarray, job: int, low: int,
                 costs: np.ndarray, sums: np.ndarray) -> None:
    """As `_added_excess`, for Python."""
    _added_excess(used, durations, usage, lines, job, low, costs, sums)


@kept_kernel
def resulting_peaks(used: np.ndarray, durations: np.ndarray, usage: np.ndarray, job: int, low: int, resource: int,
                    found: np.ndarray, queue: np.ndarray) -> None:
    """Raises found, int64 (n_starts,), to the highest usage under the job, started at low + i, in any sample.

    queue: a buffer of at least n_starts + the longest duration: the times of a sliding maximum, falling.
    """
    n_starts = len(found)
    for sample in range(used.shape[0]):
        length = durations[sample, job]
        amount = usage[sample, job, resource]
        head, tail = 0, 0
        for time in range(n_starts - 1 + length):
            value = used[sample, resource, low + time]
            while tail > head and used[sample, resource, low + queue[tail - 1]] <= value:
                tail -= 1
            queue[tail] = time
            tail += 1
            idx = time - length + 1
            if idx >= 0:
                if queue[head] < idx:
                    head += 1
                found[idx] = max(found[idx], used[sample, resource, low + queue[head]] + amount)


@inner
def _drawn(state: np.ndarray, below: int) -> int:
    """A whole number from 0 to below - 1. state: uint64 (1,), of the generator splitmix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = state[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return np.int64(mixed >> np.uint64(1)) % below  # type: ignore[return-value]


@kept_kernel
def lower_excess(used: np.ndarray, durations: np.ndarray, usage: np.ndarray, lines: np.ndarray, starts: np.ndarray,
                 low: np.ndarray, high: np.ndarray, longest: np.ndarray, above: np.ndarray, below: np.ndarray,
                 first_move: int, n_moves: int, free_at: np.ndarray, costs: np.ndarray, sums: np.ndarray,
                 cells: np.ndarray, n_cells: np.ndarray, state: np.ndarray) -> bool:
    """Moves jobs until no cell of `used` is above its line: True; False after n_moves.

    It draws a cell above the line, and of the jobs that use it one that did not move lately. The
    job goes to the start that adds least above the lines, a random one of equals. starts: int64
    (n,), changed. low, high, longest: of `Windows`. above, below: int64 (n, most + 1), the number
    of parents or children of each job, and which. free_at: int64 (n,), the move before which a job
    stays. costs, sums: buffers. cells: int64, flat indices that may be above the line, n_cells[0]
    of them; all that are above are among them. state: uint64 (1,), of the random numbers.
    """
    n_jobs = len(starts)
    n_resources, n_times = used.shape[1], used.shape[2]
    move = first_move
    while move < first_move + n_moves:
        if n_cells[0] == 0:
            return True
        idx = _drawn(state, n_cells[0])
        cell = cells[idx]
        time = cell % n_times
        resource = (cell // n_times) % n_resources
        sample = cell // n_times // n_resources
        if used[sample, resource, time] <= lines[sample, resource]:
            n_cells[0] -= 1
            cells[idx] = cells[n_cells[0]]
            continue
        move += 1
        job, n_free, n_under = -1, 0, 0
        any_job = -1
        for each in range(n_jobs):
            if (starts[each] <= time and starts[each] + durations[sample, each] > time
                    and usage[sample, each, resource] > 0):
                n_under += 1
                if _drawn(state, n_under) == 0:
                    any_job = each
                if free_at[each] <= move:
                    n_free += 1
                    if _drawn(state, n_free) == 0:
                        job = each
        if job < 0:
            job = any_job
        first, last = low[job], high[job]
        for k in range(1, above[job, 0] + 1):
            parent = above[job, k]
            first = max(first, starts[parent] + longest[parent])
        for k in range(1, below[job, 0] + 1):
            last = min(last, starts[below[job, k]] - longest[job])
        if last <= first:
            continue
        _put(used, durations, usage, job, starts[job], -1)
        costs_here = costs[:last - first + 1]
        _added_excess(used, durations, usage, lines, job, first, costs_here, sums)
        least, n_least, target = 0, 0, -1
        for offset in range(last - first + 1):
            if first + offset == starts[job]:
                continue
            if n_least == 0 or costs_here[offset] < least:
                least, n_least = costs_here[offset], 0
            if costs_here[offset] == least:
                n_least += 1
                if _drawn(state, n_least) == 0:
                    target = first + offset
        starts[job] = target
        _put(used, durations, usage, job, target, 1)
        free_at[job] = move + 1 + _drawn(state, 10)
        for sample in range(used.shape[0]):
            for resource in range(n_resources):
                if usage[sample, job, resource] == 0:
                    continue
                for time in range(target, target + durations[sample, job]):
                    if used[sample, resource, time] > lines[sample, resource]:
                        if n_cells[0] == len(cells):
                            n_cells[0] = _collected(used, lines, cells)
                        if n_cells[0] < len(cells):
                            cells[n_cells[0]] = (sample * n_resources + resource) * n_times + time
                            n_cells[0] += 1
    return False


@inner
def _collected(used: np.ndarray, lines: np.ndarray, cells: np.ndarray) -> int:
    """Fills cells with the flat indices of those above the line; how many. If the list is full, the
    others follow when it is collected again."""
    n_found = 0
    for sample in range(used.shape[0]):
        for resource in range(used.shape[1]):
            for time in range(used.shape[2]):
                if used[sample, resource, time] > lines[sample, resource]:
                    if n_found == len(cells):
                        return n_found
                    cells[n_found] = (sample * used.shape[1] + resource) * used.shape[2] + time
                    n_found += 1
    return n_found


@kept_kernel
def collected(used: np.ndarray, lines: np.ndarray, cells: np.ndarray) -> int:
    """As `_collected`, for Python."""
    return _collected(used, lines, cells)
