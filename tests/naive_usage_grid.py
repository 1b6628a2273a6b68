"""Slow twins of the usage grid and of profiles: one sample after another, in plain Python."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np


def naive_grid(samples: dict[int, list[tuple[int, float]]], start_s: int, step_s: int, n_steps: int, take: str,
               bridge_steps: int) -> list[list[float]]:
    """One row per request, in the order of the dictionary; each one's samples are ordered by time."""
    grid = []
    for series in samples.values():
        row: list[float] = []
        gaps = [b[0] - a[0] for a, b in itertools.pairwise(series)]
        interval_s = statistics.median(gaps) if gaps else math.nan
        for k in range(n_steps):
            lo, hi = start_s + k * step_s, start_s + (k + 1) * step_s
            here = [value for time_s, value in series if lo <= time_s < hi]
            before = [sample for sample in series if sample[0] <= lo]
            if here:
                row.append(max(here) if take == "max" else sum(here) / len(here))
            elif interval_s > step_s and before and lo < before[-1][0] + interval_s:
                row.append(before[-1][1])
            else:
                row.append(math.nan)
        filled = list(row)
        for k, value in enumerate(row):
            if math.isnan(value):
                left = next((i for i in range(k, -1, -1) if not math.isnan(row[i])), None)
                right = next((i for i in range(k, n_steps) if not math.isnan(row[i])), None)
                if left is not None and right is not None and right - left - 1 <= bridge_steps:
                    filled[k] = row[left]
        grid.append(filled)
    return grid


def naive_profile(series: list[tuple[int, float]], n_slots: int) -> tuple[list[float], list[float], list[int]]:
    """Maximum, mean and count by slot of the UTC day."""
    slots: list[list[float]] = [[] for _ in range(n_slots)]
    for time_s, value in series:
        slots[time_s % 86_400 * n_slots // 86_400].append(value)
    return ([max(values, default=math.nan) for values in slots],
            [float(np.mean(values)) if values else math.nan for values in slots], [len(values) for values in slots])
