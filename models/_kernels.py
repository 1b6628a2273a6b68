"""Compiled loops over the scalar functions of `serving.curve`; rows of curves in, rows of answers out."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sojourn.serving.curve import (
    hazard_at,
    hazard_remaining,
    hazard_time,
    interval_hazard,
    mean_within,
    once_quantile,
    once_survival,
    outlived_total,
    residual_quantile,
    residual_share_above,
    score_seconds,
)

LONGEST_S = 3.0 * 365.0 * 86_400.0


@njit(cache=True)
def hazards_of(scores, offsets):  # type: ignore[no-untyped-def]
    n, k = scores.shape
    hazards = np.empty((n, k))
    for row in range(n):
        for idx in range(k):
            hazards[row, idx] = interval_hazard(scores[row, idx], offsets[idx])
    return hazards


@njit(cache=True)
def hazard_sums(edges, hazards, tail_s):  # type: ignore[no-untyped-def]
    """Cumulative hazards and means beyond each edge, both (n, J + 1)."""
    n, k = hazards.shape
    cumulative = np.zeros((n, k + 1))
    beyond = np.zeros((n, k + 1))
    for row in range(n):
        beyond[row, k] = tail_s
        for idx in range(k):
            cumulative[row, idx + 1] = cumulative[row, idx] + hazards[row, idx]
        for idx in range(k - 1, -1, -1):
            hazard = hazards[row, idx]
            beyond[row, idx] = (mean_within(hazard, edges[idx + 1] - edges[idx])
                                + math.exp(-hazard) * beyond[row, idx + 1])
    return cumulative, beyond


@njit(cache=True)
def hazard_remaining_rows(edges, hazards, beyond, uptime_s):  # type: ignore[no-untyped-def]
    answers = np.empty(len(hazards))
    for row in range(len(hazards)):
        idx = np.searchsorted(edges, uptime_s[row], side="right") - 1
        answers[row] = hazard_remaining(edges, hazards[row], beyond[row], idx, uptime_s[row])
    return answers


@njit(cache=True)
def hazard_survival_rows(edges, hazards, cumulative, tail_s, horizon_s, uptime_s):  # type: ignore[no-untyped-def]
    answers = np.empty(len(hazards))
    for row in range(len(hazards)):
        end_s = uptime_s[row] + horizon_s[row]
        first = np.searchsorted(edges, uptime_s[row], side="right") - 1
        last = np.searchsorted(edges, end_s, side="right") - 1
        answers[row] = math.exp(hazard_at(edges, hazards[row], cumulative[row], tail_s, first, uptime_s[row])
                                - hazard_at(edges, hazards[row], cumulative[row], tail_s, last, end_s))
    return answers


@njit(cache=True)
def hazard_quantile_rows(edges, hazards, cumulative, tail_s, q, uptime_s):  # type: ignore[no-untyped-def]
    answers = np.empty(len(hazards))
    for row in range(len(hazards)):
        first = np.searchsorted(edges, uptime_s[row], side="right") - 1
        target = hazard_at(edges, hazards[row], cumulative[row], tail_s, first, uptime_s[row]) - math.log1p(-q)
        idx = np.searchsorted(cumulative[row], target, side="right") - 1
        time_s = hazard_time(edges, hazards[row], cumulative[row], tail_s, idx, target)
        answers[row] = min(max(time_s - uptime_s[row], 0.0), LONGEST_S)
    return answers


@njit(cache=True)
def point_rows(thresholds, scores, uptime_s):  # type: ignore[no-untyped-def]
    """The raw score of each row at its uptime."""
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = scores[row, np.searchsorted(thresholds, uptime_s[row], side="left")]
    return answers


@njit(cache=True)
def seconds_rows(scores, smearing):  # type: ignore[no-untyped-def]
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = min(score_seconds(scores[row]) * smearing, LONGEST_S)
    return answers


@njit(cache=True)
def point_quantile_rows(scores, residuals, q):  # type: ignore[no-untyped-def]
    answers = np.empty(len(scores))
    residual = residual_quantile(residuals, q)
    for row in range(len(scores)):
        answers[row] = score_seconds(scores[row] + residual)
    return answers


@njit(cache=True)
def point_survival_rows(scores, residuals, horizon_s):  # type: ignore[no-untyped-def]
    answers = np.ones(len(scores))
    for row in range(len(scores)):
        if horizon_s[row] > 0.0:
            answers[row] = residual_share_above(residuals, math.log10(horizon_s[row]) - scores[row])
    return answers


@njit(cache=True)
def once_remaining_rows(total_s, uptime_s):  # type: ignore[no-untyped-def]
    answers = np.empty(len(total_s))
    for row in range(len(total_s)):
        answers[row] = outlived_total(total_s[row], uptime_s[row]) - uptime_s[row]
    return answers


@njit(cache=True)
def once_quantile_rows(scores, residuals, total_s, q, uptime_s):  # type: ignore[no-untyped-def]
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = once_quantile(scores[row], residuals, total_s[row], q, uptime_s[row])
    return answers


@njit(cache=True)
def once_survival_rows(scores, residuals, total_s, horizon_s, uptime_s):  # type: ignore[no-untyped-def]
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = once_survival(scores[row], residuals, total_s[row], horizon_s[row], uptime_s[row])
    return answers
