"""Compiled loops over the scalar functions of `serving`, from rows of curves to rows of answers."""

from __future__ import annotations

import math

import numpy as np

from sojourn.serving.curves import (
    fill_hazard,
    fill_limit_axis,
    fill_recalibrated,
    hazard_at,
    hazard_quantile,
    hazard_remaining,
    hazard_survival,
    interval_hazard,
    mean_seconds,
    once_quantile,
    once_remaining,
    once_survival,
    point_survival,
    residual_quantile,
    score_seconds,
)
from sojourn.serving.kernel import kernel


@kernel
def hazards_of(scores, offsets, hazards):
    n, k = scores.shape
    for row in range(n):
        for idx in range(k):
            hazards[row, idx] = interval_hazard(scores[row, idx], offsets[idx])


@kernel
def hazard_sums(edges, hazards, tail_s, rates, cumulative, after, gaps):
    """Write rates, cumulative hazards, means after each interval and gaps, each (n, J + 1). edges: (n, J + 1), or (1,
    J + 1) for all rows, here and below."""
    for row in range(len(hazards)):
        row_edges = edges[min(row, len(edges) - 1)]
        fill_hazard(hazards[row], row_edges, tail_s, rates[row], cumulative[row], after[row], gaps[row])


@kernel
def hazard_remaining_rows(edges, rates, after, gaps, uptime_s):
    answers = np.empty(len(rates))
    for row in range(len(rates)):
        row_edges = edges[min(row, len(edges) - 1)]
        idx = np.searchsorted(row_edges, uptime_s[row], side="right") - 1
        answers[row] = hazard_remaining(row_edges, rates[row], after[row], gaps[row], idx, uptime_s[row])
    return answers


@kernel
def hazard_survival_rows(edges, rates, cumulative, horizon_s, uptime_s):
    answers = np.empty(len(rates))
    for row in range(len(rates)):
        row_edges = edges[min(row, len(edges) - 1)]
        answers[row] = hazard_survival(row_edges, rates[row], cumulative[row], horizon_s[row], uptime_s[row])
    return answers


@kernel
def hazard_quantile_rows(edges, rates, cumulative, q, uptime_s):
    answers = np.empty(len(rates))
    for row in range(len(rates)):
        row_edges = edges[min(row, len(edges) - 1)]
        answers[row] = hazard_quantile(row_edges, rates[row], cumulative[row], q, uptime_s[row])
    return answers


@kernel
def hazard_held_rows(edges, rates, cumulative, after, gaps, uptimes_s, totals_s, overhangs_s):
    """Write mean total lifetimes, int64 (n, m), at uptimes int64 (m,) rising from 0, and the expected time by which a
    request outlasts each of them, as known at its start: never rising. No total is outlived before the next uptime."""
    n_uptimes = len(uptimes_s)
    for row in range(len(rates)):
        row_edges = edges[min(row, len(edges) - 1)]
        idx, overhang_s = 0, np.int64(2**62)
        for column in range(n_uptimes):
            uptime_s = float(uptimes_s[column])
            while idx + 1 < len(row_edges) and row_edges[idx + 1] <= uptime_s:
                idx += 1
            left_s = max(np.rint(hazard_remaining(row_edges, rates[row], after[row], gaps[row], idx, uptime_s)), 1.0)
            total_s = uptimes_s[column] + np.int64(left_s)
            totals_s[row, column] = total_s if column + 1 == n_uptimes else max(total_s, uptimes_s[column + 1])
            survival = math.exp(cumulative[row, 0] - hazard_at(row_edges[idx], rates[row, idx], cumulative[row, idx],
                                                               uptime_s))
            overhang_s = min(overhang_s, np.int64(np.rint(survival * left_s)))
            overhangs_s[row, column] = overhang_s


@kernel
def limit_axes(hazards, edges, shares, limit_s, tail_s):
    """Each row's edges (n, J + K + 1) and hazards (n, J + K); see `fill_limit_axis`."""
    n, k = hazards.shape
    own_edges, own_hazards = np.empty((n, k + 1)), np.empty((n, k))
    for row in range(n):
        fill_limit_axis(hazards[row], edges, shares, limit_s[row], tail_s, own_edges[row], own_hazards[row])
    return own_edges, own_hazards


@kernel
def recalibrated_hazards(edges, rates, factors, place):
    """Hazards (n, J) of rows recalibrated by factors[place[row]]; see `fill_recalibrated`."""
    n, k = rates.shape
    hazards = np.empty((n, k - 1))
    for row in range(n):
        fill_recalibrated(edges[min(row, len(edges) - 1)], rates[row], factors[place[row]], hazards[row])
    return hazards


@kernel
def point_rows(thresholds, scores, uptime_s):
    """The raw score of each row at its uptime."""
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = scores[row, np.searchsorted(thresholds, uptime_s[row], side="left")]
    return answers


@kernel
def seconds_rows(scores, smearing):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = mean_seconds(scores[row], smearing)
    return answers


@kernel
def point_quantile_rows(scores, residuals, q):
    answers = np.empty(len(scores))
    residual = residual_quantile(residuals, q)
    for row in range(len(scores)):
        answers[row] = score_seconds(scores[row] + residual)
    return answers


@kernel
def point_survival_rows(scores, residuals, horizon_s):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = point_survival(scores[row], residuals, horizon_s[row])
    return answers


@kernel
def once_remaining_rows(total_s, uptime_s):
    answers = np.empty(len(total_s))
    for row in range(len(total_s)):
        answers[row] = once_remaining(total_s[row], uptime_s[row])
    return answers


@kernel
def once_quantile_rows(scores, residuals, total_s, q, uptime_s):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = once_quantile(scores[row], residuals, total_s[row], q, uptime_s[row])
    return answers


@kernel
def once_survival_rows(scores, residuals, total_s, horizon_s, uptime_s):
    answers = np.empty(len(scores))
    for row in range(len(scores)):
        answers[row] = once_survival(scores[row], residuals, total_s[row], horizon_s[row], uptime_s[row])
    return answers
