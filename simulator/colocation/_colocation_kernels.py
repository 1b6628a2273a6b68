"""Greedy placement by usage, compiled. Slow twin: tests/naive_colocation.py.

Requests come in blocks. The cost of each request on each host is computed for a whole block at
once, tile by tile of time, so a tile of a host's load is read once for all requests of the block.
The virtual capacity at each request is known beforehand, as it does not depend on placements. Then
requests are placed one by one; only hosts that took a request of the same block are scored again.
Numbers are whole, so every sum is exact in any order.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inlined, kernel

TILE = 1024
"""Slots per tile: 4 KB of a host's load; sums over it fit into 32 bits."""


@inlined
def _added(load: np.ndarray, use: np.ndarray, room: np.ndarray) -> np.int64:
    """Sum over a tile of the part of `use` above the line: min(use, max(0, load - room)), room =
    line - use."""
    total = np.int32(0)
    for slot in range(len(load)):
        over = np.int32(load[slot] - room[slot])
        if over < np.int32(0):
            over = np.int32(0)
        if over > use[slot]:
            over = use[slot]
        total = np.int32(total + over)
    return np.int64(total)


@inlined
def _product(load: np.ndarray, use: np.ndarray) -> np.int64:
    """Sum over a tile of load x use."""
    total = np.int64(0)
    for slot in range(len(load)):
        total += np.int64(load[slot]) * np.int64(use[slot])
    return total


@kernel
def score_violations(loads: np.ndarray, use: np.ndarray, room: np.ndarray, scores: np.ndarray) -> None:
    """Adds to scores, int64 (n_block, n_hosts), the use above the line that each request would add
    on each host.

    loads: int32 (n_hosts, n_columns). use, room: int32 (n_block, n_columns); room is the line less
    the use.
    """
    for start in range(0, loads.shape[1], TILE):
        stop = min(start + TILE, loads.shape[1])
        for host in range(len(loads)):
            for k in range(len(use)):
                scores[k, host] += _added(loads[host, start:stop], use[k, start:stop], room[k, start:stop])


@kernel
def score_products(loads: np.ndarray, use: np.ndarray, scores: np.ndarray) -> None:
    """Adds to scores, int64 (n_block, n_hosts), the sum over time of each host's load x each request's use."""
    for start in range(0, loads.shape[1], TILE):
        stop = min(start + TILE, loads.shape[1])
        for host in range(len(loads)):
            for k in range(len(use)):
                scores[k, host] += _product(loads[host, start:stop], use[k, start:stop])


@kernel
def place_block(loads: np.ndarray, sums: np.ndarray, use: np.ndarray, room: np.ndarray, scores: np.ndarray,
                is_changed: np.ndarray, changed: np.ndarray, is_fullest: bool, chosen: np.ndarray) -> None:
    """Places the requests of a block in order: least score, then least (is_fullest: greatest) sum
    of load, then lowest host.

    sums: int64 (n_hosts,), of each host's load. room: no rows if the score is a product. scores: by
    the loads before the block. is_changed: bool (n_hosts,), all False. changed: int64 (n_block,), a
    buffer. Loads and sums are updated, chosen, int64 (n_block,), is filled.
    """
    n_columns, n_changed = loads.shape[1], 0
    for k in range(len(use)):
        scores_here = scores[k]
        for i in range(n_changed):
            host, score = changed[i], np.int64(0)
            for start in range(0, n_columns, TILE):
                stop = min(start + TILE, n_columns)
                if len(room) > 0:
                    score += _added(loads[host, start:stop], use[k, start:stop], room[k, start:stop])
                else:
                    score += _product(loads[host, start:stop], use[k, start:stop])
            scores_here[host] = score
        best, sign = 0, -1 if is_fullest else 1
        for host in range(1, len(loads)):
            is_tied = scores_here[host] == scores_here[best] and sign * sums[host] < sign * sums[best]
            if scores_here[host] < scores_here[best] or is_tied:
                best = host
        for slot in range(n_columns):
            loads[best, slot] += use[k, slot]
            sums[best] += use[k, slot]
        chosen[k] = best
        if not is_changed[best]:
            is_changed[best] = True
            changed[n_changed] = best
            n_changed += 1
    for i in range(n_changed):
        is_changed[changed[i]] = False


@kernel
def place_by_peaks(peaks: np.ndarray, n_units: int, is_packing: bool, loads: np.ndarray, chosen: np.ndarray) -> None:
    """Fills chosen, int64 (n,), with the least loaded host for each request in turn, or the fullest
    on which it fits.

    peaks: int64 (n, n_resources). n_units: a host's capacity. loads: int64 (n_hosts, n_resources),
    zeros.
    """
    n_hosts, n_resources = loads.shape
    for k in range(len(peaks)):
        best, best_sum, is_packed = -1, np.int64(0), False  # is_packed: whether it fits on the best so far
        for host in range(n_hosts):
            total, n_fitting = np.int64(0), 0
            for resource in range(n_resources):
                total += loads[host, resource]
                n_fitting += int(loads[host, resource] + peaks[k, resource] <= n_units)
            if is_packing and n_fitting == n_resources:
                if not is_packed or total > best_sum:
                    best, best_sum, is_packed = host, total, True
            elif not is_packed and (best < 0 or total < best_sum):
                best, best_sum = host, total
        for resource in range(n_resources):
            loads[best, resource] += peaks[k, resource]
        chosen[k] = best
