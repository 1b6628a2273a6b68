"""The formulas of lifetime curves, from raw scores to seconds, for plain Python and compiled code alike.

Times are seconds; larger = longer-lived.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from math import expm1
from typing import Any

import numpy as np

from sojourn.serving.jitable import register_jitable

LONGEST_S = 3.0 * 365.0 * 86_400.0
"""Three years, in seconds: no quantile of what remains, no tail and no point prediction is longer. Survival has no
such bound: where a quantile is three years, more than its share may live on."""
LEAST_HAZARD = 1e-12
"""An interval's cumulative hazard is taken to be at least this, so that every rate has an inverse."""
CLASS_BOUNDS_S = (3_600.0, 36_000.0, 360_000.0)
"""Upper bounds of the lifetime classes 1-3; longer is class 4 (LAVA, section 4.3)."""
LONG_SCORE = 7.976
"""About log10(LONGEST_S)."""
_LARGEST_SCORE = 300.0
"""10 to its power is still a float."""
RATES, CUMULATIVE, AFTER, GAPS = range(4)
"""Rows of a hazard curve's numbers, each of shape (J + 1,); see `fill_hazard`."""
N_HAZARD = GAPS + 1


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
    if score >= LONG_SCORE:  # also keeps pow from overflowing
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
