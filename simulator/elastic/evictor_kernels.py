"""Overload and the choice of what to evict, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inner, kept_kernel


@inner
def is_overloaded(used: np.ndarray, capacity: np.ndarray, weights: np.ndarray, threshold: float) -> bool:
    """Whether the weighted use is above the threshold, or one resource is used above its capacity."""
    overall = 0.0
    for d in range(len(capacity)):
        if used[d] > capacity[d]:
            return True
        if capacity[d] > 0:
            overall += weights[d] * used[d] / capacity[d]
    return overall > threshold


@kept_kernel
def evict(used: np.ndarray, rank: np.ndarray, n: int, host_used: np.ndarray, capacity: np.ndarray, weights: np.ndarray,
          threshold: float, chosen: np.ndarray) -> int:
    """How many are evicted of the batch requests used[:n], by rising `rank`, equal ones by position, until the host is
    not overloaded; `chosen` are their positions in this order. `host_used` becomes what is used then."""
    n_chosen, last = 0, -1
    while n_chosen < n and is_overloaded(host_used, capacity, weights, threshold):
        best = -1
        for k in range(n):
            if last >= 0 and (rank[k] < rank[last] or (rank[k] == rank[last] and k <= last)):
                continue  # it has left
            if best < 0 or rank[k] < rank[best]:
                best = k
        last = best
        chosen[n_chosen] = best
        n_chosen += 1
        for d in range(len(host_used)):
            host_used[d] -= used[best, d]
    return n_chosen
