"""Answers asked at set uptimes and held from each to the next, as curves of total lifetimes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sojourn.simulator import Curves

Answers = Callable[[float], np.ndarray]
"""Of n requests at an uptime in seconds, float64 (n,)."""


def held_answers(n: int, uptimes_s: np.ndarray, remaining_s: Answers, survival: Answers | None) -> Curves:
    """One curve for each of n requests: predicted totals in whole seconds, int64 at uptimes_s, (m,) rising from 0.

    remaining_s: E[T - u | T > u]. survival: P(T > u), for expected overhangs E[max(T - u, 0)]; None = without them. A
    held total is raised to the next uptime where it would be outlived.

    >>> curves = held_answers(1, np.array([0, 60]), lambda uptime_s: np.array([30.7]), lambda uptime_s: np.array([0.5]))
    >>> curves.total_s.tolist(), curves.overhang_s.tolist()
    ([60, 90], [15, 15])
    """
    m = len(uptimes_s)
    totals, overhangs = np.empty((n, m), np.int64), np.empty((n, m), np.int64)
    for column, uptime_s in enumerate(uptimes_s.tolist()):
        left_s = np.maximum(remaining_s(float(uptime_s)), 1.0)
        totals[:, column] = uptime_s + left_s.astype(np.int64)
        if survival is not None:
            overhangs[:, column] = np.rint(survival(float(uptime_s)) * left_s)
    totals[:, :-1] = np.maximum(totals[:, :-1], uptimes_s[1:])
    overhangs = np.minimum.accumulate(overhangs, axis=1)  # answers of whole seconds may rise by one
    return Curves(np.arange(n + 1) * m, np.tile(uptimes_s, n), totals.reshape(-1),
                  overhang_s=None if survival is None else overhangs.reshape(-1))
