"""Least Requested Priority, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.jit import inner, kept_kernel


@inner
def requested_share(available: np.ndarray, capacity: np.ndarray, weights: np.ndarray) -> float:
    """The weighted share of the host that is not available."""
    share = 0.0
    for d in range(len(capacity)):
        if capacity[d] > 0:
            share += weights[d] * (capacity[d] - available[d]) / capacity[d]
    return share


@inner
def fits(available: np.ndarray, need: np.ndarray) -> bool:
    for d in range(len(need)):
        if need[d] > available[d]:
            return False
    return True


@kept_kernel
def least_requested(available: np.ndarray, capacity: np.ndarray, is_open: np.ndarray, need: np.ndarray,
                    weights: np.ndarray) -> int:
    """The open host with the least requested share among those that fit, the first of equal ones; -1 = none."""
    best, least = -1, 0.0
    for host in range(len(capacity)):
        if not is_open[host] or not fits(available[host], need):
            continue
        share = requested_share(available[host], capacity[host], weights)
        if best < 0 or share < least:
            best, least = host, share
    return best
