"""Lifetime curves: a request's whole future as numbers, from raw model scores to seconds.

All ways to a curve (one request, a table of requests, numba or plain Python) call the same scalar
functions, with sums from the left, so their bits are equal. Times are seconds; larger =
longer-lived.

A *hazard* curve has J intervals with edges e_0 = 0 < ... < e_J and a constant hazard rate in each,
and one more beyond e_J with the pooled rate, so every answer is in closed form. A *point* curve is
a step
function of the uptime: between two thresholds of the forest the raw score (log10 of seconds) is one number.

Recalibration multiplies hazards by factors. A model may be right on average and overconfident: of
requests that outlived much of their predicted hazard, fewer end than predicted, of the others more.
So a factor belongs to a bucket of the age and to a band of the cumulative hazard outlived in it
(the Cox-Snell residual, restarted at each bucket). Factors are not negative, so the result is a
valid curve.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1
from typing import Any, Protocol

import numpy as np

from sojourn.serving.curves.formulas import (
    AFTER,
    GAPS,
    LONG_SCORE,
    LONGEST_S,
    N_HAZARD,
    fill_recalibrated,
    hazard_at,
    hazard_numbers,
    hazard_time,
    mean_seconds,
    once_quantile,
    once_remaining,
    once_survival,
    outlived_total,
    residual_quantile,
    residual_share_above,
    score_seconds,
)
from sojourn.serving.errors import shown

try:
    from sojourn.serving.curves import _kernels as _found
except ImportError:  # numba is optional: `sojourn[fast]`
    _found = None  # type: ignore[assignment]
KERNELS: Any = _found
"""The compiled loops of serving if numba is installed, else None."""
IS_COMPILED = KERNELS is not None
"""True if numba is installed; the compiled walk then replaces ONNX Runtime."""
_INF = math.inf
N_RESIDUALS = 201
"""Size of a point model's grid of residual quantiles (log10, at 0, 1/200, ..., 1)."""
_NOT_REAL = (str, bytes, complex, bool, np.complexfloating, np.bool_)  # numpy types of these have a __float__
_ROUND = 1.5 * 2.0**52
"""x + _ROUND - _ROUND is x rounded half to even (|x| < 2^51) in a third of the time of `round`."""


class LifetimeCurve(Protocol):
    """The prediction of one request, for every family. Times are seconds; answers are whole seconds."""

    def remaining(self, uptime_s: float) -> float:
        """E[Tr | Tu]: the mean remaining time, seconds; higher = longer-lived."""
        ...

    def quantile(self, q: float, uptime_s: float) -> float:
        """The remaining time that a share `q` of such requests does not exceed, seconds."""
        ...

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        """Probability of still running `horizon_s` seconds after the uptime, in [0, 1]."""
        ...

    def next_change(self, uptime_s: float) -> float:
        """The next uptime at which a held exit should be computed again, seconds; infinity if never.

        It is never after the next change of the answer, and often before it. Point model: the whole
        second after the forest's next threshold on the uptime, even if `remaining` stays the same.
        One-shot prediction: the uptime at which its total is outlived and doubles. Hazard model,
        whose answer changes continuously: the next edge of its sampling.
        """
        ...


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


@dataclass(slots=True, eq=False, weakref_slot=True)  # a frozen one takes 0.5 us longer to create
class HazardCurve:
    """Piecewise constant hazard: exact closed-form answers at any uptime.

    edges: (J + 1,) s, from 0; bounds: the same and infinity; grid: sampling uptimes for `next_change`, s; all three
    shared by all curves of a model. numbers: float64, from `fill_hazard`, each (J + 1,), in the
    order of `formulas.RATES`: rates, cumulative hazards from 0 to each edge, means after each
    interval, gaps; more may follow.
    steps: (J + 2,), a cache: for the interval from bounds[i - 1] to bounds[i] the tuple (upper
    edge, rate, gap, after), None before its first use.

    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 100.0))
    >>> curve.remaining(0.0), curve.survival(10.0, 0.0) == math.exp(-0.5), curve.next_change(3.0)
    (266.0, True, 10.0)
    """

    edges: Sequence[float]
    bounds: Sequence[float]
    grid: Sequence[float]
    numbers: np.ndarray
    steps: list[Any]

    @classmethod
    def from_hazards(cls, edges: Sequence[float], hazards: Sequence[float], tail_s: float,
                     grid: Sequence[float]) -> HazardCurve:
        """Build from the interval hazards (J,) and the tail's mean remaining time in s."""
        return cls(edges, (*edges, _INF), grid, hazard_numbers(hazards, edges, tail_s), [None] * (len(edges) + 1))

    def remaining(self, uptime_s: float) -> float:
        # The hot call: hazard_remaining inlined. A step that is None, such as steps[0] for an
        # uptime below 0, cannot be unpacked; NaN and infinity are beyond the last; other types are
        # converted once, which is faster.
        try:
            if type(uptime_s) is not float:
                uptime_s = uptime_s + 0.0 if type(uptime_s) is int else checked_seconds(uptime_s, "uptime_s")
            upper_s, rate, gap_s, after_s = self.steps[bisect_right(self.bounds, uptime_s)]
            return after_s + expm1((uptime_s - upper_s) * rate) * gap_s + _ROUND - _ROUND
        except (AttributeError, IndexError, OverflowError, TypeError):
            return self._first_remaining(uptime_s)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HazardCurve):
            return NotImplemented
        n = N_HAZARD * len(self.edges)
        return (self.edges, self.grid) == (other.edges, other.grid) and np.array_equal(self.numbers[:n],
                                                                                       other.numbers[:n])

    def _first_remaining(self, uptime_s: Any) -> float:
        """`remaining` at the first use of an interval; ValueError for a wrong uptime."""
        seconds = checked_seconds(uptime_s, "uptime_s")
        idx = bisect_right(self.bounds, seconds)
        upper_s, n, number = self.bounds[idx], len(self.edges), self.numbers.item
        rate, after_s, gap_s = number(idx - 1), number(AFTER * n + idx - 1), number(GAPS * n + idx - 1)
        self.steps[idx] = (upper_s, rate, gap_s, after_s)
        return after_s + expm1((seconds - upper_s) * rate) * gap_s + _ROUND - _ROUND

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
        idx = bisect_right(self.grid, uptime_s)
        return self.grid[idx] if idx < len(self.grid) else _INF

    def _cumulative_at(self, time_s: float) -> float:
        idx = bisect_right(self.edges, time_s) - 1
        return hazard_at(self.edges[idx], self.numbers.item(idx), self.numbers.item(len(self.edges) + idx), time_s)


@dataclass(slots=True, eq=False)
class LimitCurve(HazardCurve):
    """A hazard curve on its request's edges: of the age, then of the share of its limit (`fill_limit_axis`).

    axis: shared by all curves of the model: the edges of the age, then the shares of the limit.
    """

    axis: Sequence[float] = ()


@dataclass(slots=True, eq=False, weakref_slot=True)
class PointCurve:
    """A forest's answer as a step function of the uptime, exact at and beside every threshold.

    thresholds: (K,) s, increasing, shared. numbers: float64, (K + 1,) raw scores (log10 s), more
    may follow; the score of uptime u is numbers[number of thresholds below u], as the forest sends
    u <= threshold to the left. seconds: a cache: mean remaining in whole s by step. smearing: turns
    10^score into a conditional mean (validation rows). residuals: quantile grid of log10 validation
    residuals.

    >>> curve = PointCurve.from_scores((60.0,), (2.0, 3.0), 1.5, (-0.1, 0.0, 0.1))
    >>> curve.remaining(60.0), curve.remaining(61.0), curve.next_change(0.0), curve.quantile(0.5, 0.0)
    (150.0, 1500.0, 61.0, 100.0)
    """

    thresholds: Sequence[float]
    numbers: np.ndarray
    seconds: dict[int, float]
    smearing: float
    residuals: Sequence[float]

    @classmethod
    def from_scores(cls, thresholds: Sequence[float], scores: Sequence[float], smearing: float,
                    residuals: Sequence[float]) -> PointCurve:
        """Build from raw scores (K + 1,); ValueError for another number."""
        if len(scores) != len(thresholds) + 1:
            raise ValueError(f"scores must be {len(thresholds) + 1}, one more than thresholds, got {len(scores)}")
        return cls(thresholds, np.array(scores, np.float64), {}, smearing, residuals)

    @property
    def scores(self) -> np.ndarray:
        """The raw score of each step, float64 (K + 1,), log10 s."""
        return self.numbers[:len(self.thresholds) + 1]

    def all_seconds(self) -> list[float]:
        """Mean remaining in whole s at each step, (K + 1,)."""
        smearing = self.smearing  # mean_seconds inlined: a third of its time
        return [(seconds if (seconds := 10.0**score * smearing) < LONGEST_S else LONGEST_S) + _ROUND - _ROUND
                if score < LONG_SCORE else mean_seconds(score, smearing) + _ROUND - _ROUND
                for score in self.scores.tolist()]

    def raw_score(self, uptime_s: float) -> float:
        """The model's raw score at an uptime, log10 s: bit-equal to LightGBM's own."""
        return self.numbers.item(bisect_left(self.thresholds, checked_seconds(uptime_s, "uptime_s")))

    def remaining(self, uptime_s: float) -> float:
        try:
            if type(uptime_s) is not float:
                uptime_s = uptime_s + 0.0 if type(uptime_s) is int else checked_seconds(uptime_s, "uptime_s")
            if 0.0 <= uptime_s < _INF:
                return self.seconds[bisect_left(self.thresholds, uptime_s)]
        except (AttributeError, KeyError, TypeError, OverflowError):
            pass
        return self.fill_step(bisect_left(self.thresholds, checked_seconds(uptime_s, "uptime_s")))

    def fill_step(self, step: int) -> float:
        """Compute `remaining` of one step and store it in `seconds`."""
        seconds = self.seconds[step] = mean_seconds(self.numbers.item(step), self.smearing) + _ROUND - _ROUND
        return seconds

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PointCurve):
            return NotImplemented
        return (self.thresholds, self.smearing, self.residuals) == (
            other.thresholds, other.smearing, other.residuals) and np.array_equal(self.scores, other.scores)

    def quantile(self, q: float, uptime_s: float) -> float:
        residual = residual_quantile(self.residuals, checked_share(q))
        return float(round(score_seconds(self.raw_score(uptime_s) + residual)))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        span_s = checked_seconds(horizon_s, "horizon_s")
        score = self.raw_score(uptime_s)
        if span_s <= 0.0:
            return 1.0
        return residual_share_above(self.residuals, math.log10(span_s) - score)

    def next_change(self, uptime_s: float) -> float:
        if type(uptime_s) is not float or not 0.0 <= uptime_s < _INF:
            uptime_s = checked_seconds(uptime_s, "uptime_s")
        idx = bisect_left(self.thresholds, uptime_s)
        return self.thresholds[idx] // 1.0 + 1.0 if idx < len(self.thresholds) else _INF


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OnceCurve:
    """A one-shot prediction: the total is held until it is outlived, then it doubles.

    total_s: mean total lifetime, s. score: raw score (log10 s). residuals: grid of log10 residuals.

    >>> curve = OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1))
    >>> curve.remaining(40.0), curve.remaining(100.0), curve.next_change(40.0)
    (60.0, 100.0, 100.0)
    """

    total_s: float
    score: float
    residuals: Sequence[float]

    @classmethod
    def from_score(cls, score: float, smearing: float, residuals: Sequence[float]) -> OnceCurve:
        """Build from one raw score; `smearing` turns 10^score into a mean (validation rows)."""
        return cls(max(1.0, float(round(mean_seconds(score, smearing)))), score, residuals)

    def remaining(self, uptime_s: float) -> float:
        return float(round(once_remaining(self.total_s, checked_seconds(uptime_s, "uptime_s"))))

    def quantile(self, q: float, uptime_s: float) -> float:
        share = checked_share(q)
        start_s = checked_seconds(uptime_s, "uptime_s")
        return float(round(once_quantile(self.score, self.residuals, self.total_s, share, start_s)))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        span_s = checked_seconds(horizon_s, "horizon_s")
        start_s = checked_seconds(uptime_s, "uptime_s")
        return once_survival(self.score, self.residuals, self.total_s, span_s, start_s)

    def next_change(self, uptime_s: float) -> float:
        return outlived_total(self.total_s, checked_seconds(uptime_s, "uptime_s"))


def recalibrated(curve: HazardCurve, factors: np.ndarray) -> HazardCurve:
    """The curve with recalibrated hazards; the tail beyond the last edge stays. factors: float64 (N_AGES, N_BANDS).

    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 700.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 700.0))
    >>> twice = recalibrated(curve, np.full((4, 7), 2.0))
    >>> curve.survival(10.0, 0.0) ** 2 == twice.survival(10.0, 0.0), curve.quantile(0.9, 800.0)
    (True, 2303.0)
    >>> twice.quantile(0.9, 800.0)
    2303.0
    """
    n = len(curve.edges)
    has_own = isinstance(curve, LimitCurve)
    edges = curve.numbers[N_HAZARD * n:(N_HAZARD + 1) * n] if has_own else _array_of(curve.edges)
    if KERNELS is not None:
        numbers = KERNELS.recalibrated_numbers(curve.numbers, edges, factors, has_own)
    else:
        hazards: list[float] = [0.0] * (n - 1)
        fill_recalibrated(curve.edges, curve.numbers[:n].tolist(), factors.tolist(), hazards)
        numbers = hazard_numbers(hazards, curve.edges, float(curve.numbers[(AFTER + 1) * n - 1]))
        numbers = np.concatenate([numbers, edges]) if has_own else numbers
    steps: list[Any] = [None] * (n + 1)
    if isinstance(curve, LimitCurve):
        return LimitCurve(curve.edges, curve.bounds, curve.grid, numbers, steps, curve.axis)
    return HazardCurve(curve.edges, curve.bounds, curve.grid, numbers, steps)


def curve_steps(curve: HazardCurve) -> np.ndarray:
    """Edges (s) and hazard rates (per s) of a curve, float64 (2, J + 1)."""
    n = len(curve.edges)
    edges = curve.numbers[N_HAZARD * n:(N_HAZARD + 1) * n] if isinstance(curve, LimitCurve) else _array_of(curve.edges)
    return np.array((edges, curve.numbers[:n]))


_last: tuple[Sequence[float], np.ndarray] = ((), np.empty(0))
"""The latest edges, which all curves of a model share, and their array. A cache by value would hash
them for every request."""


def _array_of(edges: Sequence[float]) -> np.ndarray:
    global _last
    shared, array = _last  # one read: another thread may write it
    if shared is not edges:
        array = np.array(edges)
        _last = edges, array
    return array
