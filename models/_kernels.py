"""Compiled loops over the scalar functions of `serving.curve`; rows of curves in, rows of answers out."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sojourn.serving.curve import (
    LONGEST_S,
    fill_hazard,
    hazard_at,
    hazard_remaining,
    hazard_time,
    interval_hazard,
    mean_seconds,
    once_quantile,
    once_remaining,
    once_survival,
    residual_quantile,
    residual_share_above,
    score_seconds,
)


@njit(cache=True)
def hazards_of(scores, offsets):
    n, k = scores.shape
    hazards = np.empty((n, k))
    for row in range(n):
        for idx in range(k):
            hazards[row, idx] = interval_hazard(scores[row, idx], offsets[idx])
    return hazards


@njit(cache=True)
def hazard_sums(edges, hazards, tail_s):
    """Rates, cumulative hazards, means after each interval and gaps, each (n, J + 1)."""
    n, k = hazards.shape
    rates, cumulative, after, gaps = (np.empty((n, k + 1)), np.empty((n, k + 1)), np.empty((n, k + 1)),
                                      np.empty((n, k + 1)))
    for row in range(n):
        fill_hazard(hazards[row], edges, tail_s, rates[row], cumulative[row], after[row], gaps[row])
    return rates, cumulative, after, gaps


@njit(cache=True)
def hazard_remaining_rows(edges, rates, after, gaps, uptime_s):
    answers = np.empty(len(rates))
    for row in range(len(rates)):
        idx = np.searchsorted(edges, uptime_s[row], side="right") - 1
        answers[row] = hazard_remaining(edges, rates[row], after[row], gaps[row], idx, uptime_s[row])
    return answers


@njit(cache=True)
def hazard_survival_rows(edges, rates, cumulative, horizon_s, uptime_s):
    answers = np.empty(len(rates))
    for row in range(len(rates)):
        end_s = uptime_s[row] + horizon_s[row]
        first = np.searchsorted(edges, uptime_s[row], side="right") - 1
        last = np.searchsorted(edges, end_s, side="right") - 1
        answers[row] = math.exp(hazard_at(edges[first], rates[row, first], cumulative[row, first], uptime_s[row])
                                - hazard_at(edges[last], rates[row, last], cumulative[row, last], end_s))
    return answers


@njit(cache=True)
def hazard_quantile_rows(edges, rates, cumulative, q, uptime_s):
    answers = np.empty(len(rates))
    for row in range(len(rates)):
        first = np.searchsorted(edges, uptime_s[row], side="right") - 1
        start = hazard_at(edges[first], rates[row, first], cumulative[row, first], uptime_s[row])
        target = start - math.log1p(-q)
        idx = np.searchsorted(cumulative[row], target, side="right") - 1
        time_s = hazard_time(edges[idx], rates[row, idx], cumulative[row, idx], target)
        answers[row] = min(max(time_s - uptime_s[row], 0.0), LONGEST_S)
    return answers


@njit(cache=True)
def point_rows(thresholds, scores, uptime_s):
    """The raw score of each row at its uptime."""
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = scores[row, np.searchsorted(thresholds, uptime_s[row], side="left")]
    return answers


@njit(cache=True)
def seconds_rows(scores, smearing):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = mean_seconds(scores[row], smearing)
    return answers


@njit(cache=True)
def point_quantile_rows(scores, residuals, q):
    answers = np.empty(len(scores))
    residual = residual_quantile(residuals, q)
    for row in range(len(scores)):
        answers[row] = score_seconds(scores[row] + residual)
    return answers


@njit(cache=True)
def point_survival_rows(scores, residuals, horizon_s):
    answers = np.ones(len(scores))
    for row in range(len(scores)):
        if horizon_s[row] > 0.0:
            answers[row] = residual_share_above(residuals, math.log10(horizon_s[row]) - scores[row])
    return answers


@njit(cache=True)
def once_remaining_rows(total_s, uptime_s):
    answers = np.empty(len(total_s))
    for row in range(len(total_s)):
        answers[row] = once_remaining(total_s[row], uptime_s[row])
    return answers


@njit(cache=True)
def once_quantile_rows(scores, residuals, total_s, q, uptime_s):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = once_quantile(scores[row], residuals, total_s[row], q, uptime_s[row])
    return answers


@njit(cache=True)
def once_survival_rows(scores, residuals, total_s, horizon_s, uptime_s):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = once_survival(scores[row], residuals, total_s[row], horizon_s[row], uptime_s[row])
    return answers
