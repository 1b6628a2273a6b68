"""Placement by usage, slow and plain: one request, one host and one slot at a time, in Python's whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sojourn.simulator.colocation import UNITS


def naive_place(series: np.ndarray, n_hosts: int, order: Sequence[int],
                score: Callable[[Sequence[int], Sequence[int], Sequence[int], int], int],
                is_fullest: bool = False) -> list[int]:
    """Host of each request; `score` of a host's load, the request's use, the sum of all use, and the requests so far.

    series: int (n, n_slots). Ties go to the host with the least sum of load (is_fullest: the greatest), then to the
    lowest index.
    """
    sign = -1 if is_fullest else 1
    rows = [[int(value) for value in row] for row in series]
    loads = [[0] * series.shape[1] for _ in range(n_hosts)]
    total = [0] * series.shape[1]
    hosts = [-1] * len(rows)
    for n_sofar, request in enumerate(order, start=1):
        use = rows[request]
        total = [a + b for a, b in zip(total, use, strict=True)]
        best = min(range(n_hosts), key=lambda host: (score(loads[host], use, total, n_sofar), sign * sum(loads[host]),
                                                   host))
        loads[best] = [a + b for a, b in zip(loads[best], use, strict=True)]
        hosts[request] = best
    return hosts


def added_violation(load: Sequence[int], use: Sequence[int], line: Sequence[int]) -> int:
    """What a request adds above a line, summed over slots."""
    return sum(max(a + b - c, 0) - max(a - c, 0) for a, b, c in zip(load, use, line, strict=True))


def period_aware_score(n_hosts: int) -> Callable[[Sequence[int], Sequence[int], Sequence[int], int], int]:
    """Above the mean load of a host."""
    return lambda load, use, total, _: added_violation(load, use, [value // n_hosts for value in total])


def per_request_score(load: Sequence[int], use: Sequence[int], total: Sequence[int], n_sofar: int) -> int:
    """Above the mean use of a request."""
    return added_violation(load, use, [value // n_sofar for value in total])


def capacity_score(load: Sequence[int], use: Sequence[int], total: Sequence[int], n_sofar: int) -> int:
    """Above the capacity."""
    return added_violation(load, use, [UNITS] * len(load))


def squares_score(load: Sequence[int], use: Sequence[int], total: Sequence[int], n_sofar: int) -> int:
    """What a request adds to the sum of squared load."""
    return sum((a + b) ** 2 - a**2 for a, b in zip(load, use, strict=True))


def naive_borg(peaks: np.ndarray, n_hosts: int, order: Sequence[int]) -> list[int]:
    """By the least sum of peaks, (n, n_resources), then the lowest index."""
    loads, hosts = [0] * n_hosts, [-1] * len(peaks)
    for request in order:
        best = min(range(n_hosts), key=lambda host: (loads[host], host))
        loads[best] += int(peaks[request].sum())
        hosts[request] = best
    return hosts


def naive_best_fit(peaks: np.ndarray, n_hosts: int, order: Sequence[int], capacity: int) -> list[int]:
    """By the greatest sum of peaks among hosts where all resources fit; else by the least."""
    loads, hosts = [[0] * peaks.shape[1] for _ in range(n_hosts)], [-1] * len(peaks)
    for request in order:
        need = [int(value) for value in peaks[request]]
        fitting = [host for host in range(n_hosts)
                   if all(a + b <= capacity for a, b in zip(loads[host], need, strict=True))]
        best = (min(fitting, key=lambda host: (-sum(loads[host]), host)) if fitting
                else min(range(n_hosts), key=lambda host: (sum(loads[host]), host)))
        loads[best] = [a + b for a, b in zip(loads[best], need, strict=True)]
        hosts[request] = best
    return hosts
