"""Slow twins of `simulator/rectification/_value_kernels.py`: plain Python, one request and cell at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from naive import overhang_at


def ended(view: Any, edge_s: list[int]) -> list[list[float]]:
    """The chance that each request has ended, as a mean over each cell."""
    rows = []
    for r, (uptime, left) in enumerate(zip(view.uptime_s.tolist(), view.remaining_s().tolist(), strict=True)):
        curve = slice(int(view.curve_start[r]), int(view.curve_end[r]))
        uptimes, overhang = view.breakpoint_s[curve].tolist(), view.overhang_s[curve].tolist()
        now = overhang_at(uptimes, overhang, uptime) if overhang else 0.0
        scale = left / now if now > 0.0 else 0.0
        lefts = [scale * overhang_at(uptimes, overhang, uptime + edge) if scale > 0.0 else float(max(left - edge, 0))
                 for edge in edge_s]
        row, most = [], 1.0
        for j in range(1, len(edge_s)):
            most = min(max((lefts[j - 1] - lefts[j]) / (edge_s[j] - edge_s[j - 1]), 0.0), most)
            row.append(1.0 - most)
        rows.append(row)
    return rows


def values(chances: np.ndarray, order: list[int], host: list[int], weight_s: list[float],
           n_hosts: int) -> tuple[list[float], np.ndarray]:
    """Expected empty seconds of a request's host without those before it in the order, and each host's chances now."""
    empty = np.ones((n_hosts, len(weight_s)))
    found = [0.0] * len(order)
    for place in reversed(range(len(order))):
        request = order[place]
        at = host[request]
        total = 0.0
        for j, weight in enumerate(weight_s):
            empty[at, j] *= chances[request, j]
            total += weight * empty[at, j]
        found[place] = total
    return found, empty
