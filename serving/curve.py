"""Lifetime curves: a request's whole future as numbers, from raw model scores to seconds.

Every path (one request, a table of requests, numba or plain Python) calls the scalar functions here, so
that they agree to the bit: libm calls one at a time, sums from the left. Times are seconds, and larger
values mean longer-lived.

Two shapes. A *hazard* curve has J intervals with edges e_0 = 0 < ... < e_J and a cumulative hazard h_j in
each; within an interval the hazard is constant, so every answer is in closed form. Beyond e_J the hazard is
the pooled one, `1 / beyond[J]`. A *point* curve is a step function of the uptime: between two thresholds of
the forest the raw score (log10 of seconds) is one number.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

try:
    from numba.extending import register_jitable
except ImportError:  # numba is optional: `sojourn[fast]`

    def register_jitable(function):  # type: ignore[no-untyped-def, no-redef]
        """Without numba the functions are plain Python only."""
        return function


LONGEST_S = 3.0 * 365.0 * 86_400.0
"""No answer is longer: three years, in seconds."""
CLASS_BOUNDS_S = (3_600.0, 36_000.0, 360_000.0)
"""Upper bounds of the lifetime classes 1-3; longer is class 4 (LAVA, section 4.3)."""
N_RESIDUALS = 201
"""Size of the grid of residual quantiles that a point model carries (log10, at 0, 1/200, ..., 1)."""


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
def mean_within(hazard: float, span_s: float) -> float:
    """Expected time spent in a span of constant hazard whose cumulative hazard is `hazard`, seconds.

    >>> mean_within(0.0, 10.0), round(mean_within(1.0, 10.0), 3)
    (10.0, 6.321)
    """
    if hazard < 1e-12:
        return span_s
    return -math.expm1(-hazard) / hazard * span_s


@register_jitable
def hazard_remaining(edges: Sequence[float], hazards: Sequence[float], beyond: Sequence[float], idx: int,
                     uptime_s: float) -> float:
    """E[Tr | Tu] in seconds, unrounded; `idx` is the interval of the uptime (J: beyond the last edge).

    edges: shape (J + 1,), s. hazards: shape (J,). beyond: shape (J + 1,), mean remaining at each edge, s.
    """
    if idx >= len(hazards):
        return beyond[idx]
    upper = edges[idx + 1]
    left = upper - uptime_s
    hazard = hazards[idx] * (left / (upper - edges[idx]))
    return mean_within(hazard, left) + math.exp(-hazard) * beyond[idx + 1]


@register_jitable
def hazard_at(edges: Sequence[float], hazards: Sequence[float], cumulative: Sequence[float], tail_s: float,
              idx: int, time_s: float) -> float:
    """Cumulative hazard from 0 to `time_s`, which lies in interval `idx`. No unit; higher = fewer survive."""
    if idx >= len(hazards):
        return cumulative[idx] + (time_s - edges[idx]) / tail_s
    share = (time_s - edges[idx]) / (edges[idx + 1] - edges[idx])
    return cumulative[idx] + hazards[idx] * share


@register_jitable
def hazard_time(edges: Sequence[float], hazards: Sequence[float], cumulative: Sequence[float], tail_s: float,
                idx: int, target: float) -> float:
    """The time in seconds at which the cumulative hazard reaches `target`, in interval `idx` of `cumulative`."""
    if idx >= len(hazards):
        return edges[idx] + (target - cumulative[idx]) * tail_s
    if hazards[idx] <= 0.0:
        return edges[idx]
    return edges[idx] + (edges[idx + 1] - edges[idx]) * ((target - cumulative[idx]) / hazards[idx])


@register_jitable
def score_seconds(score: float) -> float:
    """Seconds of a point model's raw score (log10 seconds), at most three years.

    >>> score_seconds(2.0)
    100.0
    """
    if score >= 7.976:  # log10(LONGEST_S), rounded down; also keeps pow from overflowing
        return min(10.0**min(score, 9.0), LONGEST_S)
    return 10.0**score


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
        """The next uptime at which a held exit should be asked again, seconds; infinity if never."""
        ...


def check_uptime(uptime_s: float) -> None:
    """Refuse an uptime that is not a finite number of seconds >= 0."""
    if isinstance(uptime_s, str | bytes) or not 0.0 <= uptime_s < math.inf:
        raise ValueError(f"uptime_s must be finite and >= 0, got {uptime_s!r}")


def check_share(q: float) -> None:
    """Refuse a quantile's share that is not strictly between 0 and 1."""
    if not 0.0 < q < 1.0:
        raise ValueError(f"q must be between 0 and 1, got {q!r}")


def check_horizon(horizon_s: float) -> None:
    """Refuse a horizon that is not a finite number of seconds >= 0."""
    if not 0.0 <= horizon_s < math.inf:
        raise ValueError(f"horizon_s must be finite and >= 0, got {horizon_s!r}")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class HazardCurve:
    """Piecewise constant hazard: exact closed-form answers at any uptime.

    edges: (J + 1,) s, shared by all curves of a model. hazards: (J,). cumulative: (J + 1,), their running sum.
    beyond: (J + 1,), mean remaining at each edge in s; its last element is the pooled tail's mean.
    grid: sampling uptimes for `next_change`, s, shared.

    >>> curve = HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1000.0, (0.0, 10.0, 100.0))
    >>> curve.remaining(0.0), curve.survival(10.0, 0.0) == math.exp(-0.5), curve.next_change(3.0)
    (266, True, 10.0)
    """

    edges: Sequence[float]
    hazards: Sequence[float]
    cumulative: Sequence[float]
    beyond: Sequence[float]
    grid: Sequence[float]

    @classmethod
    def from_hazards(cls, edges: Sequence[float], hazards: Sequence[float], tail_s: float,
                     grid: Sequence[float]) -> HazardCurve:
        """Build from the interval hazards (J,) and the tail's mean remaining time in s."""
        n = len(hazards)
        cumulative = [0.0] * (n + 1)
        beyond = [0.0] * (n + 1)
        beyond[n] = tail_s
        for idx in range(n):
            cumulative[idx + 1] = cumulative[idx] + hazards[idx]
        for idx in range(n - 1, -1, -1):
            hazard = hazards[idx]
            beyond[idx] = mean_within(hazard, edges[idx + 1] - edges[idx]) + math.exp(-hazard) * beyond[idx + 1]
        return cls(edges, hazards, cumulative, beyond, grid)

    def remaining(self, uptime_s: float) -> float:
        if not 0.0 <= uptime_s < math.inf:
            check_uptime(uptime_s)
        edges = self.edges
        hazards = self.hazards
        idx = bisect_right(edges, uptime_s) - 1
        if idx >= len(hazards):
            return round(self.beyond[idx])
        # hazard_remaining and mean_within, inlined: two calls would cost as much as the answer
        upper = edges[idx + 1]
        left = upper - uptime_s
        hazard = hazards[idx] * (left / (upper - edges[idx]))
        if hazard < 1e-12:
            return round(left + math.exp(-hazard) * self.beyond[idx + 1])
        return round(-math.expm1(-hazard) / hazard * left + math.exp(-hazard) * self.beyond[idx + 1])

    def quantile(self, q: float, uptime_s: float) -> float:
        check_share(q)
        check_uptime(uptime_s)
        target = self._cumulative_at(uptime_s) - math.log1p(-q)
        idx = bisect_right(self.cumulative, target) - 1
        time_s = hazard_time(self.edges, self.hazards, self.cumulative, self.beyond[-1], idx, target)
        return round(min(max(time_s - uptime_s, 0.0), LONGEST_S))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        check_horizon(horizon_s)
        check_uptime(uptime_s)
        return math.exp(self._cumulative_at(uptime_s) - self._cumulative_at(uptime_s + horizon_s))

    def next_change(self, uptime_s: float) -> float:
        check_uptime(uptime_s)
        idx = bisect_right(self.grid, uptime_s)
        return self.grid[idx] if idx < len(self.grid) else math.inf

    def _cumulative_at(self, time_s: float) -> float:
        idx = bisect_right(self.edges, time_s) - 1
        return hazard_at(self.edges, self.hazards, self.cumulative, self.beyond[-1], idx, time_s)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PointCurve:
    """A forest's answer as a step function of the uptime, exact at and beside every threshold.

    thresholds: (K,) s, increasing, shared. scores: (K + 1,) raw scores (log10 s); the score of uptime u is
    scores[number of thresholds below u], as the forest sends u <= threshold to the left.
    seconds: (K + 1,) mean remaining in whole s. residuals: quantile grid of log10 validation residuals.

    >>> curve = PointCurve.from_scores((60.0,), (2.0, 3.0), 1.5, (-0.1, 0.0, 0.1))
    >>> curve.remaining(60.0), curve.remaining(61.0), curve.next_change(0.0), curve.quantile(0.5, 0.0)
    (150, 1500, 61.0, 100)
    """

    thresholds: Sequence[float]
    scores: Sequence[float]
    seconds: Sequence[float]
    residuals: Sequence[float]

    @classmethod
    def from_scores(cls, thresholds: Sequence[float], scores: Sequence[float], smearing: float,
                    residuals: Sequence[float]) -> PointCurve:
        """Build from raw scores; `smearing` turns 10^score into a conditional mean (validation rows)."""
        seconds = [round(min(score_seconds(score) * smearing, LONGEST_S)) for score in scores]
        return cls(thresholds, scores, seconds, residuals)

    def remaining(self, uptime_s: float) -> float:
        if not 0.0 <= uptime_s < math.inf:
            check_uptime(uptime_s)
        return self.seconds[bisect_left(self.thresholds, uptime_s)]

    def quantile(self, q: float, uptime_s: float) -> float:
        check_share(q)
        check_uptime(uptime_s)
        score = self.scores[bisect_left(self.thresholds, uptime_s)]
        return round(score_seconds(score + residual_quantile(self.residuals, q)))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        check_horizon(horizon_s)
        check_uptime(uptime_s)
        if horizon_s <= 0.0:
            return 1.0
        score = self.scores[bisect_left(self.thresholds, uptime_s)]
        return residual_share_above(self.residuals, math.log10(horizon_s) - score)

    def next_change(self, uptime_s: float) -> float:
        check_uptime(uptime_s)
        idx = bisect_left(self.thresholds, uptime_s)
        if idx >= len(self.thresholds):
            return math.inf
        return math.floor(self.thresholds[idx]) + 1.0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OnceCurve:
    """A one-shot prediction: the total is held until it is outlived, then it doubles.

    total_s: mean total lifetime, s. score: raw score (log10 s). residuals: grid of log10 residuals.

    >>> curve = OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1))
    >>> curve.remaining(40.0), curve.remaining(100.0), curve.next_change(40.0)
    (60, 100, 100.0)
    """

    total_s: float
    score: float
    residuals: Sequence[float]

    @classmethod
    def from_score(cls, score: float, smearing: float, residuals: Sequence[float]) -> OnceCurve:
        """Build from one raw score; `smearing` turns 10^score into a mean (validation rows)."""
        return cls(max(1.0, float(round(min(score_seconds(score) * smearing, LONGEST_S)))), score, residuals)

    def remaining(self, uptime_s: float) -> float:
        check_uptime(uptime_s)
        return round(outlived_total(self.total_s, uptime_s) - uptime_s)

    def quantile(self, q: float, uptime_s: float) -> float:
        check_share(q)
        check_uptime(uptime_s)
        return round(once_quantile(self.score, self.residuals, self.total_s, q, uptime_s))

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        check_horizon(horizon_s)
        check_uptime(uptime_s)
        return once_survival(self.score, self.residuals, self.total_s, horizon_s, uptime_s)

    def next_change(self, uptime_s: float) -> float:
        check_uptime(uptime_s)
        return outlived_total(self.total_s, uptime_s)


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
        return outlived_total(total_s, uptime_s) - uptime_s
    residual = residual_quantile(residuals, 1.0 - alive * (1.0 - q))
    return max(score_seconds(score + residual) - uptime_s, 0.0)
