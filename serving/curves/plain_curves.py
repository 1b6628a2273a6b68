"""Curves in plain Python: the slow twins of the extension's, used if it was not built. See `curve`."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from math import expm1
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.curves.formulas import (
    AFTER,
    GAPS,
    LONGEST_S,
    N_HAZARD,
    hazard_at,
    hazard_time,
    mean_seconds,
    residual_quantile,
    residual_share_above,
    score_seconds,
)
from sojourn.serving.errors import shown

_INF = math.inf
_NOT_REAL = (str, bytes, complex, bool, np.complexfloating, np.bool_)  # numpy types of these have a __float__
ROUND = 1.5 * 2.0**52
"""x + ROUND - ROUND is x rounded half to even (|x| < 2^51) in a third of the time of `round`."""


def checked_seconds(value: Any, name: str) -> float:
    """The value as a float; ValueError unless it is a finite number of seconds >= 0."""
    seconds = _real(value)
    if 0.0 <= seconds < _INF:
        return seconds
    raise ValueError(f"{name} must be finite and >= 0, got {shown(value)}")


def checked_share(value: Any) -> float:
    """A quantile's share as a float; ValueError unless it is strictly between 0 and 1."""
    share = _real(value)
    if 0.0 < share < 1.0:
        return share
    raise ValueError(f"q must be between 0 and 1, got {shown(value)}")


def _real(value: Any) -> float:
    """The value as a float; NaN if it is text, complex, a boolean or no number."""
    if (isinstance(value, float | int) or hasattr(value, "__float__")) and not isinstance(value, _NOT_REAL):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    return math.nan


class Axis(NamedTuple):
    """What all curves of a model share: edges and sampling uptimes (hazards), or thresholds and residuals (points)."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    smearing: float = 1.0


class Hazard:
    """A piecewise constant hazard. numbers: float64 from `fill_hazard`, then the own edges, if any; more may follow."""

    __slots__ = ("__weakref__", "_bounds", "_steps", "axis", "edges", "numbers")

    def __init__(self, axis: Axis, numbers: np.ndarray, has_own_edges: bool = False) -> None:
        n = len(axis.first) - has_own_edges  # an axis with shares has two starts, the request's edges one
        self.axis = axis
        self.numbers = numbers
        self.edges = tuple(numbers[N_HAZARD * n:(N_HAZARD + 1) * n].tolist()) if has_own_edges else axis.first
        self._bounds: tuple[float, ...] = (*self.edges, _INF)
        self._steps: list[Any] = [None] * (n + 1)
        """For the interval from _bounds[i - 1] on: upper edge, rate, gap, after; None before its first use."""

    def remaining(self, uptime_s: float) -> float:
        # The hot call. A step that is None, such as that of an uptime below 0, cannot be unpacked; NaN and infinity
        # are beyond the last; other types are converted once, which is faster.
        try:
            if type(uptime_s) is not float:
                uptime_s = uptime_s + 0.0 if type(uptime_s) is int else checked_seconds(uptime_s, "uptime_s")
            upper_s, rate, gap_s, after_s = self._steps[bisect_right(self._bounds, uptime_s)]
            return after_s + expm1((uptime_s - upper_s) * rate) * gap_s + ROUND - ROUND
        except (AttributeError, IndexError, OverflowError, TypeError):
            return self._first_remaining(uptime_s)

    def _first_remaining(self, uptime_s: Any) -> float:
        """`remaining` at the first use of an interval; ValueError for a wrong uptime."""
        seconds = checked_seconds(uptime_s, "uptime_s")
        idx = bisect_right(self._bounds, seconds)
        upper_s, n, number = self._bounds[idx], len(self.edges), self.numbers.item
        rate, after_s, gap_s = number(idx - 1), number(AFTER * n + idx - 1), number(GAPS * n + idx - 1)
        self._steps[idx] = (upper_s, rate, gap_s, after_s)
        return after_s + expm1((seconds - upper_s) * rate) * gap_s + ROUND - ROUND

    def quantile(self, q: float, uptime_s: float) -> float:
        share = checked_share(q)
        start_s = checked_seconds(uptime_s, "uptime_s")
        target = self._cumulative_at(start_s) - math.log1p(-share)
        n = len(self.edges)
        cumulative = self.numbers[n:2 * n].tolist()
        idx = bisect_right(cumulative, target) - 1
        time_s = hazard_time(self.edges[idx], self.numbers.item(idx), cumulative[idx], target)
        return float(round(min(max(time_s - start_s, 0.0), LONGEST_S)))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        span_s = checked_seconds(horizon_s, "horizon_s")
        start_s = checked_seconds(uptime_s, "uptime_s")
        return math.exp(self._cumulative_at(start_s) - self._cumulative_at(start_s + span_s))

    def next_change(self, uptime_s: float) -> float:
        if type(uptime_s) is not float or not 0.0 <= uptime_s < _INF:
            uptime_s = checked_seconds(uptime_s, "uptime_s")
        grid = self.axis.second
        idx = bisect_right(grid, uptime_s)
        return grid[idx] if idx < len(grid) else _INF

    def _cumulative_at(self, time_s: float) -> float:
        idx = bisect_right(self.edges, time_s) - 1
        return hazard_at(self.edges[idx], self.numbers.item(idx), self.numbers.item(len(self.edges) + idx), time_s)


class Steps:
    """A step function of the uptime: a score (log10 s) for each step. numbers: float64 (K + 1,), more may follow."""

    __slots__ = ("__weakref__", "_seconds", "axis", "numbers")

    def __init__(self, axis: Axis, numbers: np.ndarray) -> None:
        self.axis = axis
        self.numbers = numbers
        self._seconds: dict[int, float] = {}  # mean remaining in whole s, by step

    def remaining(self, uptime_s: float) -> float:
        if type(uptime_s) is not float or not 0.0 <= uptime_s < _INF:
            uptime_s = checked_seconds(uptime_s, "uptime_s")
        step = bisect_left(self.axis.first, uptime_s)
        seconds = self._seconds.get(step)
        if seconds is None:
            seconds = self._seconds[step] = mean_seconds(self.numbers.item(step), self.axis.smearing) + ROUND - ROUND
        return seconds

    def quantile(self, q: float, uptime_s: float) -> float:
        residual = residual_quantile(self.axis.second, checked_share(q))
        return float(round(score_seconds(self._score(uptime_s) + residual)))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        span_s = checked_seconds(horizon_s, "horizon_s")
        score = self._score(uptime_s)
        if span_s <= 0.0:
            return 1.0
        return residual_share_above(self.axis.second, math.log10(span_s) - score)

    def next_change(self, uptime_s: float) -> float:
        thresholds = self.axis.first
        idx = bisect_left(thresholds, checked_seconds(uptime_s, "uptime_s"))
        return thresholds[idx] // 1.0 + 1.0 if idx < len(thresholds) else _INF

    def _score(self, uptime_s: float) -> float:
        return self.numbers.item(bisect_left(self.axis.first, checked_seconds(uptime_s, "uptime_s")))
