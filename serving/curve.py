"""Lifetime curves: a request's whole future as numbers, from raw model scores to seconds.

Every path (one request, a table of requests, numba or plain Python) calls the scalar functions here, so
that they agree to the bit: libm calls one at a time, sums from the left. Times are seconds, and larger
values mean longer-lived.

Two shapes. A *hazard* curve has J intervals with edges e_0 = 0 < ... < e_J and a constant hazard rate in each,
and one more beyond e_J with the pooled rate, so every answer is in closed form. A *point* curve is a step
function of the uptime: between two thresholds of the forest the raw score (log10 of seconds) is one number.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1
from typing import Any, Protocol

import numpy as np

from sojourn.serving._jitable import register_jitable
from sojourn.serving.errors import shown

LONGEST_S = 3.0 * 365.0 * 86_400.0
"""Three years, in seconds: no quantile of what remains, no tail and no point prediction is longer. Survival has no
such bound: where a quantile is three years, more than its share may live on."""
LEAST_HAZARD = 1e-12
"""An interval's cumulative hazard is taken to be at least this, so that every rate has an inverse."""
CLASS_BOUNDS_S = (3_600.0, 36_000.0, 360_000.0)
"""Upper bounds of the lifetime classes 1-3; longer is class 4 (LAVA, section 4.3)."""
N_RESIDUALS = 201
"""Size of the grid of residual quantiles that a point model carries (log10, at 0, 1/200, ..., 1)."""
_LONG_SCORE = 7.976
"""About log10(LONGEST_S)."""
_LARGEST_SCORE = 300.0
"""10 to its power is still a float."""
_INF = math.inf
_NOT_REAL = (str, bytes, complex, bool, np.complexfloating, np.bool_)  # these have a __float__, some of numpy's too
_ROUND = 1.5 * 2.0**52
"""x + _ROUND - _ROUND is x rounded half to even (|x| < 2^51) in a third of the time of `round`."""


@register_jitable
def interval_hazard(score: float, offset: float) -> float:
    """Cumulative hazard of one interval from the raw score and the interval's offset (both log-odds).

    With p = sigmoid(score + offset), the hazard is -log(1 - p) = softplus(score + offset).

    >>> interval_hazard(0.0, 0.0) == math.log(2.0)
    True
    """
    logit = score + offset
    if logit > 0.0:
        return logit + math.log1p(math.exp(-logit))
    return math.log1p(math.exp(logit))


@register_jitable
def fill_hazard(hazards: Any, edges: Sequence[float], tail_s: float, rates: Any, cumulative: Any,
                after: Any, gaps: Any) -> None:
    """Write a hazard curve's numbers, each of shape (J + 1,), from its cumulative hazards per interval (J,).

    rates: hazard per second. cumulative: hazard from 0 to the interval's lower edge. after: mean remaining at
    its upper edge, s. gaps: `after - 1 / rates`. The last element is the tail's.

    Within an interval with rate r and upper edge e the mean remaining at u solves m' = r m - 1, so
    m(u) = after + (exp(r (u - e)) - 1) (after - 1 / r).
    """
    n = len(hazards)
    total = 0.0
    for idx in range(n):
        hazard = max(hazards[idx], LEAST_HAZARD)
        rates[idx] = hazard / (edges[idx + 1] - edges[idx])
        cumulative[idx] = total
        total += hazard
    rates[n] = 1.0 / tail_s
    cumulative[n] = total
    after[n] = tail_s
    gaps[n] = 0.0
    mean_s = tail_s
    for idx in range(n - 1, -1, -1):
        after[idx] = mean_s
        gaps[idx] = mean_s - 1.0 / rates[idx]
        mean_s = hazard_remaining(edges, rates, after, gaps, idx, edges[idx])


def hazard_numbers(hazards: Sequence[float], edges: Sequence[float], tail_s: float) -> np.ndarray:
    """What `fill_hazard` writes, laid flat: the same operations on lists, in a third of its time without numba."""
    rates, cumulative = [], []
    total, lower_s = 0.0, edges[0]
    for found, upper_s in zip(hazards, edges[1:], strict=True):
        hazard = found if found > LEAST_HAZARD else LEAST_HAZARD
        rates.append(hazard / (upper_s - lower_s))
        cumulative.append(total)
        total += hazard
        lower_s = upper_s
    mean_s, upper_s = tail_s, edges[-1]
    after, gaps = [tail_s], [0.0]
    for rate, lower_s in zip(reversed(rates), edges[-2::-1], strict=True):
        gap_s = mean_s - 1.0 / rate
        after.append(mean_s)
        gaps.append(gap_s)
        mean_s = mean_s + expm1((lower_s - upper_s) * rate) * gap_s
        upper_s = lower_s
    return np.array([*rates, 1.0 / tail_s, *cumulative, total, *reversed(after), *reversed(gaps)])


@register_jitable
def hazard_remaining(edges: Sequence[float], rates: Sequence[float], after: Sequence[float],
                     gaps: Sequence[float], idx: int, uptime_s: float) -> float:
    """E[Tr | Tu] in seconds, unrounded; `idx` is the interval of the uptime (J: beyond the last edge)."""
    if idx >= len(edges) - 1:
        return after[idx]
    return after[idx] + math.expm1((uptime_s - edges[idx + 1]) * rates[idx]) * gaps[idx]


@register_jitable
def hazard_at(edge_s: float, rate: float, cumulative: float, time_s: float) -> float:
    """Cumulative hazard from 0 to `time_s`, in the interval with these numbers. No unit; higher = fewer survive."""
    return cumulative + (time_s - edge_s) * rate


@register_jitable
def hazard_time(edge_s: float, rate: float, cumulative: float, target: float) -> float:
    """The time in seconds at which the cumulative hazard reaches `target`, in the interval with these numbers."""
    return edge_s + (target - cumulative) / rate


@register_jitable
def score_seconds(score: float) -> float:
    """Seconds of a point model's raw score (log10 seconds), at most three years.

    >>> score_seconds(2.0)
    100.0
    """
    if score >= _LONG_SCORE:  # also keeps pow from overflowing
        return min(10.0**min(score, 9.0), LONGEST_S)
    return 10.0**score


@register_jitable
def mean_seconds(score: float, smearing: float) -> float:
    """Conditional mean in seconds of a point model's raw score, unrounded, at most three years."""
    return min(score_seconds(score) * smearing, LONGEST_S)


@register_jitable
def outlived_total(total_s: float, uptime_s: float) -> float:
    """A predicted total lifetime, doubled until it lies above the uptime (lifetime-placement, Baselines).

    >>> outlived_total(100.0, 50.0), outlived_total(100.0, 100.0), outlived_total(100.0, 250.0)
    (100.0, 200.0, 400.0)
    """
    total = max(total_s, 1.0)
    while total <= uptime_s:
        total *= 2.0
    return total


@register_jitable
def once_remaining(total_s: float, uptime_s: float) -> float:
    """What is left of a one-shot prediction's doubled total, seconds, at most three years."""
    return min(outlived_total(total_s, uptime_s) - uptime_s, LONGEST_S)


@register_jitable
def residual_share_above(residuals: Sequence[float], value: float) -> float:
    """Share of validation residuals above `value` (log10), linear between grid quantiles; in [0, 1]."""
    n = len(residuals) - 1
    if value < residuals[0]:
        return 1.0
    if value >= residuals[n]:
        return 0.0
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        if residuals[middle] <= value:
            low = middle
        else:
            high = middle
    gap = residuals[high] - residuals[low]
    share = low / n if gap <= 0.0 else (low + (value - residuals[low]) / gap) / n
    return 1.0 - share


@register_jitable
def residual_quantile(residuals: Sequence[float], share: float) -> float:
    """The residual (log10) below which `share` of the validation residuals lie, linear between grid points."""
    n = len(residuals) - 1
    position = share * n
    low = min(int(position), n - 1)
    return residuals[low] + (position - low) * (residuals[low + 1] - residuals[low])


def lifetime_class(remaining_s: float) -> int:
    """LAVA's class of a remaining time: 1 below 1 h, 2 below 10 h, 3 below 100 h, else 4.

    >>> [lifetime_class(hours * 3600.0) for hours in (0.5, 1, 10, 100)]
    [1, 2, 3, 4]
    """
    return bisect_right(CLASS_BOUNDS_S, remaining_s) + 1


class LifetimeCurve(Protocol):
    """What every family answers for one request. Uptimes and answers in seconds, answers whole seconds."""

    def remaining(self, uptime_s: float) -> float:
        """E[Tr | Tu]: the mean time that is left, seconds; higher = longer-lived."""
        ...

    def quantile(self, q: float, uptime_s: float) -> float:
        """The remaining time that a share `q` of such requests does not exceed, seconds."""
        ...

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        """Probability of still running `horizon_s` seconds after the uptime, in [0, 1]."""
        ...

    def next_change(self, uptime_s: float) -> float:
        """The next uptime at which a held exit should be asked again, seconds; infinity if never.

        Not after the answer's next change, and often before it: a point model's is the forest's next threshold on the
        uptime (the whole second after it), where this request's `remaining` may be the same again; a one-shot
        prediction's is exact, the uptime at which its total is outlived and doubles; a hazard model's answer changes
        all the time, and this is the next edge of its sampling.
        """
        ...


def checked_seconds(value: Any, name: str) -> float:
    """The value as a float; ValueError naming it unless it is a finite number of seconds >= 0."""
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
    """The value as a float; NaN where it is text, complex, a truth value or no number."""
    if (isinstance(value, float | int) or hasattr(value, "__float__")) and not isinstance(value, _NOT_REAL):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    return math.nan


@dataclass(slots=True, eq=False, weakref_slot=True)  # frozen ones take 0.5 us longer to make
class HazardCurve:
    """Piecewise constant hazard: exact closed-form answers at any uptime.

    edges: (J + 1,) s, from 0; bounds: the same and infinity; grid: sampling uptimes for `next_change`, s; all three
    shared by all curves of a model. numbers: float64, what `fill_hazard` writes, each (J + 1,): rates, cumulative
    hazards from 0 to each edge, means after each interval, gaps; more may follow. steps: (J + 2,), for the interval
    from bounds[i - 1] to bounds[i] the tuple (upper edge, rate, gap, after) once it has been asked for, None before.

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
        # The hot call: hazard_remaining inlined. A step not asked for yet, and steps[0] for an uptime below 0, cannot
        # be unpacked; NaN and infinity lie beyond the last; another type is made a float once, which is faster.
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
        n = 4 * len(self.edges)
        return (self.edges, self.grid) == (other.edges, other.grid) and np.array_equal(self.numbers[:n],
                                                                                       other.numbers[:n])

    def _first_remaining(self, uptime_s: Any) -> float:
        """`remaining` in an interval that has not been asked for; ValueError where the uptime is none."""
        seconds = checked_seconds(uptime_s, "uptime_s")
        idx = bisect_right(self.bounds, seconds)
        upper_s, n, number = self.bounds[idx], len(self.edges), self.numbers.item
        rate, after_s, gap_s = number(idx - 1), number(2 * n + idx - 1), number(3 * n + idx - 1)
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


@dataclass(slots=True, eq=False, weakref_slot=True)
class PointCurve:
    """A forest's answer as a step function of the uptime, exact at and beside every threshold.

    thresholds: (K,) s, increasing, shared. numbers: float64, (K + 1,) raw scores (log10 s), more may follow; the score
    of uptime u is numbers[number of thresholds below u], as the forest sends u <= threshold to the left. seconds: mean
    remaining in whole s by step, of those steps that have been asked for. smearing: turns 10^score into a conditional
    mean (validation rows). residuals: quantile grid of log10 validation residuals.

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
        """Build from raw scores (K + 1,); ValueError where there are not so many."""
        if len(scores) != len(thresholds) + 1:
            raise ValueError(f"scores must be {len(thresholds) + 1}, one more than thresholds, got {len(scores)}")
        return cls(thresholds, np.array(scores, np.float64), {}, smearing, residuals)

    @property
    def scores(self) -> np.ndarray:
        """The raw score of each step, float64 (K + 1,), log10 s."""
        return self.numbers[:len(self.thresholds) + 1]

    def all_seconds(self) -> list[float]:
        """Mean remaining in whole s at each step, (K + 1,)."""
        smearing = self.smearing  # mean_seconds written out: a third of its time
        return [(seconds if (seconds := 10.0**score * smearing) < LONGEST_S else LONGEST_S) + _ROUND - _ROUND
                if score < _LONG_SCORE else mean_seconds(score, smearing) + _ROUND - _ROUND
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
        """Make `remaining` of one step ready to be asked for; returns it."""
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


@register_jitable
def once_survival(score: float, residuals: Sequence[float], total_s: float, horizon_s: float,
                  uptime_s: float) -> float:
    """P(T > u + h | T > u) of a one-shot prediction, by its residuals; by the doubled total once all are outlived."""
    alive = 1.0 if uptime_s <= 0.0 else residual_share_above(residuals, math.log10(uptime_s) - score)
    end_s = uptime_s + horizon_s
    if alive <= 0.0:
        return 1.0 if end_s < outlived_total(total_s, uptime_s) else 0.0
    if end_s <= 0.0:
        return 1.0
    return residual_share_above(residuals, math.log10(end_s) - score) / alive


@register_jitable
def once_quantile(score: float, residuals: Sequence[float], total_s: float, q: float, uptime_s: float) -> float:
    """Remaining time in s that a share `q` does not exceed, of a one-shot prediction at an uptime."""
    alive = 1.0 if uptime_s <= 0.0 else residual_share_above(residuals, math.log10(uptime_s) - score)
    if alive <= 0.0:
        return once_remaining(total_s, uptime_s)
    residual = residual_quantile(residuals, 1.0 - alive * (1.0 - q))
    total_s = 10.0**min(score + residual, _LARGEST_SCORE)  # three years bound what is left of it, not the total
    return min(max(total_s - uptime_s, 0.0), LONGEST_S)
