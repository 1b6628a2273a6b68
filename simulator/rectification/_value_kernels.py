"""Compiled: chances that requests have ended and that hosts are empty, over cells of future time.

Cells are the spans between edges. Every function has a slow twin in `tests/naive_rectification.py`,
with equal bits.
"""

from __future__ import annotations

import math

import numpy as np

from sojourn.simulator.jit import inner, kept_kernel


@inner
def _overhang(breakpoint_s: np.ndarray, overhang_s: np.ndarray, start: int, end: int, uptime_s: int) -> float:
    """E[max(T - u, 0)] of a curve, seconds: linear between breakpoints, geometric beyond the last two."""
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if breakpoint_s[middle] <= uptime_s:
            low = middle
        else:
            high = middle
    value, beyond_s = float(overhang_s[low]), uptime_s - breakpoint_s[low]
    if low < end - 1:
        return value - (value - overhang_s[low + 1]) * (beyond_s / (breakpoint_s[low + 1] - breakpoint_s[low]))
    if end - start == 1:
        return max(value - beyond_s, 0.0)
    before = float(overhang_s[low - 1])
    if value == 0.0 or before == value:
        return value
    return value * math.exp(math.log(value / before) * (beyond_s / (breakpoint_s[low] - breakpoint_s[low - 1])))


@kept_kernel
def fill_ended(ended: np.ndarray, edge_s: np.ndarray, left_s: np.ndarray, uptime_s: np.ndarray, curve_start: np.ndarray,
               curve_end: np.ndarray, breakpoint_s: np.ndarray, overhang_s: np.ndarray) -> None:
    """Fill in the chance that each request has ended, as a mean over each cell, given that it runs
    now.

    ended: float64 (n, n_cells). edge_s: int64 (n_cells + 1,), from now. left_s: int64 (n,),
    predicted remaining time. If overhang_s is empty, each request ends at its prediction. Else the
    chance that it still runs is the fall of its overhang over the cell, scaled so that the overhang
    now is left_s; it never rises.
    """
    for r in range(len(ended)):
        scale = 0.0
        if len(overhang_s) > 0:
            now_s = _overhang(breakpoint_s, overhang_s, curve_start[r], curve_end[r], uptime_s[r])
            if now_s > 0.0:
                scale = left_s[r] / now_s
        before, most = 0.0, 1.0
        for j in range(len(edge_s)):
            if scale > 0.0:
                left = scale * _overhang(breakpoint_s, overhang_s, curve_start[r], curve_end[r],
                                         uptime_s[r] + edge_s[j])
            else:
                left = float(max(left_s[r] - edge_s[j], 0))
            if j > 0:
                most = min(max((before - left) / (edge_s[j] - edge_s[j - 1]), 0.0), most)
                ended[r, j - 1] = 1.0 - most
            before = left


@kept_kernel
def fill_values(values: np.ndarray, empty: np.ndarray, ended: np.ndarray, order: np.ndarray, host: np.ndarray,
                weight_s: np.ndarray) -> None:
    """Fill in how long each host is expected to be empty without the first k of its requests, for
    each k.

    order: int64 (n,), requests host by host, in the order in which they would go. values: float64
    (n,), at a request's place in it the expected empty seconds without those before it on its host.
    empty: float64 (n_hosts, n_cells), ones; becomes the chance that the host is empty with all its
    requests. weight_s: float64 (n_cells,), seconds of the cells.
    """
    for place in range(len(order) - 1, -1, -1):
        request = order[place]
        at, total = host[request], 0.0
        for j in range(len(weight_s)):
            empty[at, j] *= ended[request, j]
            total += weight_s[j] * empty[at, j]
        values[place] = total
