"""Slow twins of the kernels: plain Python, one idea per function, meant to be read and believed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

HOUR = 3600
NILAS_BUCKETS = [0, 1800, 3600, 5400, 7200, 3 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 168 * HOUR]


def total_at(breakpoints: list[tuple[int, int]], uptime: int) -> int:
    """Predicted total at an uptime, from (uptime, total) pairs."""
    total = [t for u, t in breakpoints if u <= uptime][-1]
    total = max(total, 1)
    while total <= uptime:
        total = 2 * total
    return total


def overhang_at(uptimes: list[int], overhang: list[int], uptime: int) -> float:
    """Linear between the points, geometric beyond the last two."""
    for k in range(len(uptimes) - 1):
        if uptimes[k] <= uptime < uptimes[k + 1]:
            share = (uptime - uptimes[k]) / (uptimes[k + 1] - uptimes[k])
            return overhang[k] - (overhang[k] - overhang[k + 1]) * share
    beyond = uptime - uptimes[-1]
    if len(uptimes) == 1:
        return max(overhang[0] - beyond, 0)
    if overhang[-1] in (0, overhang[-2]):
        return overhang[-1]
    return overhang[-1] * math.exp(math.log(overhang[-1] / overhang[-2]) * (beyond / (uptimes[-1] - uptimes[-2])))


def mixed(i: int, host: int) -> int:
    """Two rounds of SplitMix64's finaliser, the first with the request's row and the host; its 53 highest bits."""
    word = i * 0x9E3779B97F4A7C15
    for addend in (host, 0):
        word = (word + addend) % 2**64
        word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) % 2**64
        word = ((word ^ word >> 27) * 0x94D049BB133111EB) % 2**64
        word ^= word >> 31
    return word >> 11


def kaplan_meier(total: list[int], is_event: list[bool], entry: list[int]) -> dict[int, Fraction]:
    """Survival just after each event time, by counting who is at risk."""
    survival, out = Fraction(1), {}
    for time in sorted({t for t, event in zip(total, is_event, strict=True) if event}):
        rows = list(zip(total, is_event, entry, strict=True))
        at_risk = sum(e < time <= t for t, _, e in rows)
        died = sum(t == time and event for t, event, _ in rows)
        survival *= 1 - Fraction(died, at_risk)
        out[time] = survival
    return out


def fewest_hosts(demand: list[int], capacity: list[list[int]]) -> int:
    """Take the largest hosts one by one until each resource suffices; the resource that needs most counts."""
    most = 0
    for d, wanted in enumerate(demand):
        sizes, n = sorted((host[d] for host in capacity), reverse=True), 0
        while sum(sizes[:n]) < wanted and n < len(sizes):
            n += 1
        most = max(most, n)
    return most


def inflated(free: list[list[int]], capacity: list[list[int]], n_running: list[int], shapes: list[list[int]],
             drawn: list[int]) -> list[list[int]]:
    """Free amounts over all hosts at the first misfit and once nothing fits, by best fit with all hosts looked at."""
    free, n_running, at_misfit = [list(own) for own in free], list(n_running), None
    wanted = set(drawn)
    for shape in itertools.cycle(drawn):
        if not wanted:
            break
        if shape not in wanted:
            continue
        need = shapes[shape]
        fitting = [h for h, own in enumerate(free) if all(a <= b for a, b in zip(need, own, strict=True))]
        if not fitting:
            at_misfit = at_misfit or [sum(amounts) for amounts in zip(*free, strict=True)]
            wanted.remove(shape)
            continue
        scores = [(n_running[h] == 0, *(Fraction(own - asked, room) if room else 0 for own, asked, room in
                                        zip(free[h], need, capacity[h], strict=True)), h) for h in fitting]
        best = int(min(scores)[-1])
        free[best] = [own - asked for own, asked in zip(free[best], need, strict=True)]
        n_running[best] += 1
    left = [sum(amounts) for amounts in zip(*free, strict=True)]
    return [at_misfit or left, left]


def trace_of(rows: list[tuple[Any, Any, float, float]], horizon: int) -> Any:
    """A Trace from (arrival, departure, cores, GiB) rows."""
    from sojourn.features import Trace

    table = pd.DataFrame({
        "request_id": np.arange(len(rows)),
        "arrival_s": pd.array([row[0] for row in rows], "Int64"),
        "departure_s": pd.array([row[1] for row in rows], "Int64"),
        "cpu_cores": [row[2] for row in rows],
        "mem_gib": [row[3] for row in rows],
    })
    return Trace(table, horizon)
