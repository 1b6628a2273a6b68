"""The formulas of lifetime curves, from raw scores to seconds, for plain Python and compiled code.

Times are seconds; larger = longer-lived.

A hazard curve may have a limit axis: intervals of the age up to half of a request's limit, then of
the share of the limit. Many requests with a limit (a batch job's requested time) end at it or just
after it, at a different age each; intervals of the age alone would spread such an end over hours.

A lookup table has hazards by row, which are mixed with those of the forest. Recalibration
multiplies hazards by factors, by the age and by the hazard outlived.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1
from typing import Any

import numpy as np

from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import has_limit
from sojourn.serving.kernel import register_jitable

LONGEST_S = 3.0 * 365.0 * 86_400.0
"""Three years, in seconds: the longest quantile, tail and point prediction. Survival has no such
bound: if a quantile is three years, more than its share may run on."""
LEAST_HAZARD = 1e-12
"""The least cumulative hazard of an interval, so that every rate has an inverse."""
CLASS_BOUNDS_S = (3_600.0, 36_000.0, 360_000.0)
"""Upper bounds of the lifetime classes 1-3; longer is class 4 (LAVA, section 4.3)."""
LONG_SCORE = 7.976
"""About log10(LONGEST_S)."""
_LARGEST_SCORE = 300.0
"""10 to this power is a finite float."""
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
    """The numbers of `fill_hazard`, flat: the same operations on lists, in a third of the time without numba."""
    rates, cumulative = [], []
    total, lower_s = 0.0, edges[0]
    for raw, upper_s in zip(hazards, edges[1:], strict=True):
        hazard = raw if raw > LEAST_HAZARD else LEAST_HAZARD
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
    """Cumulative hazard from 0 to `time_s`, a time in the interval with these numbers; higher = fewer survive."""
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
    """A predicted total lifetime, doubled until it is above the uptime (lifetime-placement, Baselines).

    >>> outlived_total(100.0, 50.0), outlived_total(100.0, 100.0), outlived_total(100.0, 250.0)
    (100.0, 200.0, 400.0)
    """
    total = max(total_s, 1.0)
    while total <= uptime_s:
        total *= 2.0
    return total


@register_jitable
def once_remaining(total_s: float, uptime_s: float) -> float:
    """The remaining time of a one-shot prediction's doubled total, seconds, at most three years."""
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
    total_s = 10.0**min(score + residual, _LARGEST_SCORE)  # three years bound the remaining time, not the total
    return min(max(total_s - uptime_s, 0.0), LONGEST_S)


HALF_S = 0.5
"""Edges are half a second below a share of the limit, so a request that ends in the second of its
limit ends after the edge."""
WIDTH_MIN_S = 1e-3


@register_jitable
def unread_intervals(edges: Sequence[float], shares: Sequence[float], limit_s: float) -> tuple[int, int]:
    """First index and number of the intervals that `fill_limit_axis` does not read for this limit:
    those of the age beyond half of the limit, or, without a limit, all those of its share.

    >>> unread_intervals([0.0, 10.0, 100.0, 1000.0], [0.5, 1.0, 2.0], 110.0)
    (2, 1)
    >>> unread_intervals([0.0, 10.0, 100.0, 1000.0], [0.5, 1.0, 2.0], float("nan"))
    (3, 2)
    """
    n_ages = len(edges) - 1
    if not has_limit(limit_s):
        return n_ages, len(shares) - 1
    switch_s = shares[0] * limit_s - HALF_S
    first = 0
    while first < n_ages and switch_s - edges[first] >= WIDTH_MIN_S:
        first += 1
    return first, n_ages - first


@register_jitable
def fill_limit_axis(hazards: Any, edges: Sequence[float], shares: Sequence[float], limit_s: float, tail_s: float,
                    own_edges: Any, own_hazards: Any) -> int:
    """Write a request's edges (J + K + 1,) and its cumulative hazards between them (J + K,).
    Returns how many are of the age; those of the share of the limit follow.

    hazards: (J + K,), of J intervals of the age between edges (J + 1,), s, then of K intervals of
    the share of the limit between shares (K + 1,), rising. The axis changes from age to share at
    half of the limit (shares[0]): the age interval there is cut; if it is beyond the last edge, the
    last interval is stretched, at its rate. Unused intervals (K without a limit) follow the last
    edge, with the tail's rate.

    >>> own_edges, own_hazards = [0.0] * 6, [0.0] * 5
    >>> fill_limit_axis([0.1, 0.2, 0.4, 1.0, 2.0], [0.0, 10.0, 100.0, 1000.0], [0.5, 1.0, 2.0], 110.0, 500.0,
    ...                 own_edges, own_hazards)
    2
    >>> own_edges, [round(hazard, 3) for hazard in own_hazards]
    ([0.0, 10.0, 54.5, 109.5, 219.5, 719.5], [0.1, 0.099, 1.0, 2.0, 1.0])
    """
    n_ages, n_shares = len(edges) - 1, len(shares) - 1
    n = n_of_age = 0
    own_edges[0] = edges[0]
    if has_limit(limit_s):
        switch_s = shares[0] * limit_s - HALF_S
        for idx in range(n_ages):
            lower_s, upper_s = edges[idx], edges[idx + 1]
            if switch_s - lower_s < WIDTH_MIN_S:
                break
            end_s = switch_s if switch_s < upper_s or idx == n_ages - 1 else upper_s
            own_hazards[n] = hazards[idx] * ((end_s - lower_s) / (upper_s - lower_s))
            own_edges[n + 1] = end_s
            n += 1
        n_of_age = n
        for idx in range(n_shares):
            own_hazards[n] = hazards[n_ages + idx]
            own_edges[n + 1] = shares[idx + 1] * limit_s - HALF_S
            n += 1
    else:
        for idx in range(n_ages):
            own_hazards[idx] = hazards[idx]
            own_edges[idx + 1] = edges[idx + 1]
        n = n_of_age = n_ages
    while n < n_ages + n_shares:
        own_hazards[n] = 1.0
        own_edges[n + 1] = own_edges[n] + tail_s
        n += 1
    return n_of_age


HAZARD_MAX = 1_000.0
"""The largest cumulative hazard of an interval: in doubles, survival of it is 0."""


@register_jitable
def table_row(value: float, n_rows: int) -> int:
    """The row in a feature's value; 0, the row of all requests, if it is invalid.

    >>> [table_row(value, 3) for value in (2.0, 3.0, -1.0, float("nan"))]
    [2, 0, 0, 0]
    """
    if 0.0 <= value < n_rows:
        return int(value)
    return 0


@register_jitable
def mixed_hazard(hazard: float, weight: float, tabled: float) -> float:
    """weight x the forest's hazard + (1 - weight) x the table's; exactly one of them at weights 0 and 1.

    >>> mixed_hazard(0.2, 0.0, 0.7), mixed_hazard(0.2, 1.0, 0.7), mixed_hazard(0.2, 0.5, 0.4)
    (0.7, 0.2, 0.30000000000000004)
    """
    return weight * hazard + (1.0 - weight) * tabled


@dataclass(frozen=True, slots=True, eq=False)
class LookupTable:
    """Hazards by row, and their weights. hazards: float64 (R, J), cumulative hazard of each
    interval; row 0 is of all requests. weights: (J,), in [0, 1], of the forest's hazard; the rest
    is the table's. place: index of the row among the encoder's features."""

    hazards: np.ndarray
    weights: tuple[float, ...]
    place: int

    @classmethod
    def of(cls, hazards: np.ndarray, n_rows: int, weights: tuple[float, ...], place: int) -> LookupTable:
        """From hazards row by row, float64 (R x J,), with J weights; BundleError for wrong sizes and values."""
        n = n_rows * len(weights)
        if hazards.dtype != np.float64 or hazards.shape != (n,):
            raise BundleError(f"history.npz: lookup:hazards must be {n} doubles, {len(weights)} for each of {n_rows} "
                              f"rows, got {hazards.dtype} of shape {hazards.shape}")
        if not ((hazards >= 0.0) & (hazards <= HAZARD_MAX)).all():
            raise BundleError(f"history.npz: lookup:hazards must be within 0 and {HAZARD_MAX:g}, got others")
        if not weights or not all(0.0 <= weight <= 1.0 for weight in weights):
            raise BundleError("schema.json: lookup's weights must be within 0 and 1, one for each interval")
        return cls(hazards.reshape(n_rows, len(weights)), weights, place)

    def row(self, features: Sequence[float]) -> np.ndarray:
        """The table's hazards for an encoded request, float64 (J,)."""
        hazards: np.ndarray = self.hazards[table_row(features[self.place], len(self.hazards))]
        return hazards

    def mixed(self, hazards: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Mixed hazards of n requests, float64 (n, J), from the forest's hazards and encoded
        features (n, n_features)."""
        values = features[:, self.place]
        rows = np.where((values >= 0.0) & (values < len(self.hazards)), values, 0.0).astype(np.int64)
        weights = np.array(self.weights)
        result: np.ndarray = weights * hazards + (1.0 - weights) * self.hazards[rows]
        return result


AGE_STARTS_S = (0.0, 600.0, 3_600.0, 21_600.0)
"""The start of each bucket of the age, s: the ages at which calibration is measured. An interval
belongs to the bucket in which it starts."""
BAND_STARTS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0, 3.0)
"""The start of each band of the cumulative hazard outlived in a bucket; with a right model, 9.5,
16, 24, 20, 17, 9 and 5 % of the requests end in them."""
N_AGES, N_BANDS = len(AGE_STARTS_S), len(BAND_STARTS)


@register_jitable
def fill_recalibrated(edges: Sequence[float], rates: Sequence[float], factors: Any, hazards: Any) -> None:
    """Write the recalibrated cumulative hazard of each interval (J,).

    edges: (J + 1,) s. rates: (J,) or more, hazard per second. factors: (N_AGES, N_BANDS).

    >>> factors, hazards = [[1.0] * 7, [3.0] * 7, [1.0] * 7, [1.0] * 7], [0.0, 0.0]
    >>> factors[0][1] = 2.0
    >>> fill_recalibrated([0.0, 600.0, 3600.0], [0.2 / 600.0, 0.1 / 3000.0], factors, hazards)
    >>> [round(hazard, 6) for hazard in hazards]  # 0.1 x 1 + 0.1 x 2, then 0.1 x 3
    [0.3, 0.3]
    """
    age = band = 0
    outlived = 0.0
    for idx in range(len(edges) - 1):
        while age < N_AGES - 1 and edges[idx] >= AGE_STARTS_S[age + 1]:
            age += 1
            band = 0
            outlived = 0.0
        until = outlived + rates[idx] * (edges[idx + 1] - edges[idx])
        total = 0.0
        while band < N_BANDS - 1 and BAND_STARTS[band + 1] < until:
            total += factors[age][band] * (BAND_STARTS[band + 1] - outlived)
            outlived = BAND_STARTS[band + 1]
            band += 1
        hazards[idx] = total + factors[age][band] * (until - outlived)
        outlived = until
