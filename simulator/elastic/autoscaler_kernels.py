"""Scale-out, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.elastic.least_requested_kernels import fits, requested_share
from sojourn.simulator.jit import inner, kept_kernel


@inner
def filled(demand: np.ndarray, order: np.ndarray, n: int, machine: np.ndarray, capacity: np.ndarray, left: np.ndarray,
           mark: int) -> int:
    """How many of the unbound fit on one machine in this order; `left` is what stays free. mark: written into `machine`
    for those that fit, nothing if below 0."""
    for d in range(len(left)):
        left[d] = capacity[d]
    n_taken = 0
    for k in range(n):
        row = order[k]
        if machine[k] >= 0:
            continue
        if fits(left, demand[row]):
            n_taken += 1
            for d in range(len(left)):
                left[d] -= demand[row, d]
            if mark >= 0:
                machine[k] = mark
    return n_taken


@kept_kernel
def scale_out(demand: np.ndarray, order: np.ndarray, n: int, capacities: np.ndarray, prices: np.ndarray,
              weights: np.ndarray, most: int, machine: np.ndarray, type_of: np.ndarray, left: np.ndarray) -> int:
    """How many machines are ordered for demand[order[:n]]; `machine` (n,) is the machine of each, -1 = none, `type_of`
    the type of each machine. most: machines at once. left: scratch, (n_resources,)."""
    for k in range(n):
        machine[k] = -1
    n_new = 0
    while n_new < most:
        best, best_score = -1, -1.0
        for kind in range(len(capacities)):
            if filled(demand, order, n, machine, capacities[kind], left, -1) == 0:
                continue
            score = requested_share(left, capacities[kind], weights)  # equation 6
            if score > best_score or (score == best_score and prices[kind] < prices[best]):
                best, best_score = kind, score
        if best < 0:
            break
        filled(demand, order, n, machine, capacities[best], left, n_new)
        type_of[n_new] = best
        n_new += 1
    return n_new
