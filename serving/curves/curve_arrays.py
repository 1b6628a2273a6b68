"""Many lifetime curves as arrays, and their answers one by one, for compiled code and plain Python.

A scheduler's compiled loop may call the functions (see `remaining_at`). They check nothing: slots
must be in use, uptimes and horizons finite and >= 0. Times are seconds; larger = longer-lived.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.curves.formulas import (
    LONGEST_S,
    hazard_at,
    hazard_time,
    once_quantile,
    once_remaining,
    once_survival,
    outlived_total,
    residual_quantile,
    residual_share_above,
    score_seconds,
)
from sojourn.serving.kernel import register_inlined, register_jitable

HAZARD, POINT, ONCE, LIMITED = 0, 1, 2, 3
"""The kinds of curve, as numbers."""
AT_RATE, AT_GAP, AT_AFTER, AT_CUMULATIVE = range(4)
"""Positions of an interval's numbers in `CurveArrays.numbers` of a hazard curve; see `formulas.fill_hazard`."""
N_INTERVAL = AT_CUMULATIVE + 1
AT_SECONDS, AT_SCORE = range(2)
"""The same of a step of a point curve: mean remaining seconds, whole, and the raw score."""
N_STEP = AT_SCORE + 1
AT_TOTAL = 0
"""Position of a one-shot prediction's total, s; its raw score is at AT_SCORE."""

N_BLOCK = 128
"""Hosts that share one due time, so that a decision checks 1/128 of the hosts."""


class CurveArrays(NamedTuple):
    """Curves by slot, and the arrays that the curves of one model share.

    model: int32 (capacity,), the row of each slot's model, -1 where the slot is free. numbers:
    float64 (capacity, width), interval by interval or step by step at the positions above. The
    numbers of one answer are adjacent, since each position read in a large table costs a cache
    miss.
    kind: int64 (n_models,). bounds: float64 (n_models, ...), edges or thresholds in s, and changes:
    likewise, the uptimes from 0 at which a held exit changes; both end in infinity. residuals:
    float64 (n_models, ...).
    n_bounds, n_residuals: int64 (n_models,), how many of them count.
    """

    model: np.ndarray
    numbers: np.ndarray
    kind: np.ndarray
    bounds: np.ndarray
    n_bounds: np.ndarray
    changes: np.ndarray
    residuals: np.ndarray
    n_residuals: np.ndarray


class Hosts(NamedTuple):
    """The requests on each host, and each host's exit.

    exit_s: float64 (n_hosts,), the latest held exit, -infinity where empty; due_s: likewise, the
    time of its next check. soon_s: float64, for each 128 hosts a lower bound of their due_s
    (compiled code only). last: int32 (n_hosts,), the row of the last-leaving request. members:
    int32 (n_hosts, m), rows of requests, of which the first n_members count. rises_s: float64
    (n_hosts, m), until when each member's exit is at most the host's, or is the last-leaving one's
    and unchanged (compiled code only). By row: arrival_s float64, model int32 (the row in
    `changes_s`), totals_s float64 (n_rows, width), held totals, -infinity after the last.
    changes_s: float64 (n_models, width + 1), uptimes from which each total holds, infinity after
    the last; n_changes: int64 (n_models,), their number.
    """

    exit_s: np.ndarray
    due_s: np.ndarray
    soon_s: np.ndarray
    last: np.ndarray
    members: np.ndarray
    rises_s: np.ndarray
    n_members: np.ndarray
    arrival_s: np.ndarray
    model: np.ndarray
    totals_s: np.ndarray
    changes_s: np.ndarray
    n_changes: np.ndarray


@register_inlined
def remaining_at(curves: CurveArrays, slot: int, uptime_s: float) -> float:
    """E[Tr | Tu] in whole seconds of the curve in a slot; the bits of `vm.remaining(uptime_s)`.

    >>> from sojourn.serving import CurvePool, Lifetime
    >>> from sojourn.serving.curves.curve import OnceCurve
    >>> pool = CurvePool()
    >>> slot = pool.add(Lifetime(OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1)), np.empty(0), 0, (), "v1", None))
    >>> float(remaining_at(pool.arrays, slot, 40.0))
    60.0
    """
    model = curves.model[slot]
    kind = curves.kind[model]
    if kind == ONCE:
        return np.rint(once_remaining(float(curves.numbers[slot, AT_TOTAL]), uptime_s))
    if kind == POINT:
        return curves.numbers[slot, N_STEP * n_below(curves.bounds[model], uptime_s) + AT_SECONDS]
    if kind == LIMITED:
        n, row = curves.n_bounds[model] - 1, curves.numbers[slot]
        idx = n_at_most(row[:n], uptime_s) - 1
        start = n + N_INTERVAL * idx
        upper_s = row[idx + 1] if idx + 1 < n else np.inf
        return hazard_mean(upper_s, row[start + AT_RATE], row[start + AT_GAP], row[start + AT_AFTER], uptime_s)
    idx = n_at_most(curves.bounds[model], uptime_s) - 1
    start = N_INTERVAL * idx
    return hazard_mean(curves.bounds[model, idx + 1], curves.numbers[slot, start + AT_RATE],
                       curves.numbers[slot, start + AT_GAP], curves.numbers[slot, start + AT_AFTER], uptime_s)


@register_jitable
def quantile_at(curves: CurveArrays, slot: int, q: float, uptime_s: float) -> float:
    """The remaining time that a share `q` does not exceed, whole seconds."""
    model = curves.model[slot]
    kind = curves.kind[model]
    residuals: Any = curves.residuals[model, : curves.n_residuals[model]]
    if kind == ONCE:
        total_s, score = float(curves.numbers[slot, AT_TOTAL]), float(curves.numbers[slot, AT_SCORE])
        return np.rint(once_quantile(score, residuals, total_s, q, uptime_s))
    n = curves.n_bounds[model]
    if kind == LIMITED:
        edges, numbers = curves.numbers[slot, : n - 1], curves.numbers[slot, n - 1 : (N_INTERVAL + 1) * (n - 1)]
        return np.rint(hazard_quantile(edges, numbers[AT_RATE::N_INTERVAL], numbers[AT_CUMULATIVE::N_INTERVAL], q,
                                       uptime_s))
    bounds = curves.bounds[model, :n]
    if kind == POINT:
        score = float(curves.numbers[slot, N_STEP * np.searchsorted(bounds, uptime_s, side="left") + AT_SCORE])
        return np.rint(score_seconds(score + residual_quantile(residuals, q)))
    numbers = curves.numbers[slot, : N_INTERVAL * n]
    return np.rint(hazard_quantile(bounds, numbers[AT_RATE::N_INTERVAL], numbers[AT_CUMULATIVE::N_INTERVAL], q,
                                   uptime_s))


@register_jitable
def survival_at(curves: CurveArrays, slot: int, horizon_s: float, uptime_s: float) -> float:
    """P(still running after `horizon_s` more seconds), in [0, 1]."""
    model = curves.model[slot]
    kind = curves.kind[model]
    residuals: Any = curves.residuals[model, : curves.n_residuals[model]]
    if kind == ONCE:
        total_s, score = float(curves.numbers[slot, AT_TOTAL]), float(curves.numbers[slot, AT_SCORE])
        return once_survival(score, residuals, total_s, horizon_s, uptime_s)
    n = curves.n_bounds[model]
    if kind == LIMITED:
        edges, numbers = curves.numbers[slot, : n - 1], curves.numbers[slot, n - 1 : (N_INTERVAL + 1) * (n - 1)]
        return hazard_survival(edges, numbers[AT_RATE::N_INTERVAL], numbers[AT_CUMULATIVE::N_INTERVAL], horizon_s,
                               uptime_s)
    bounds = curves.bounds[model, :n]
    if kind == POINT:
        score = float(curves.numbers[slot, N_STEP * np.searchsorted(bounds, uptime_s, side="left") + AT_SCORE])
        return point_survival(score, residuals, horizon_s)
    numbers = curves.numbers[slot, : N_INTERVAL * n]
    return hazard_survival(bounds, numbers[AT_RATE::N_INTERVAL], numbers[AT_CUMULATIVE::N_INTERVAL], horizon_s,
                           uptime_s)


@register_jitable
def next_change_at(curves: CurveArrays, slot: int, uptime_s: float) -> float:
    """The next uptime at which a held exit should be computed again (`LifetimeCurve.next_change`);
    infinity if never."""
    model = curves.model[slot]
    kind = curves.kind[model]
    if kind == ONCE:
        return outlived_total(float(curves.numbers[slot, AT_TOTAL]), uptime_s)
    if kind == POINT:
        bounds = curves.bounds[model]
        return np.floor(bounds[np.searchsorted(bounds, uptime_s, side="left")]) + 1.0
    changes = curves.changes[model]
    return changes[np.searchsorted(changes, uptime_s, side="right")]


@register_jitable
def n_below(bounds: np.ndarray, value: float) -> int:
    """How many of the bounds are below a value. Counting all uses vector instructions and no
    branches: 5 ns for 40 bounds and 19 for 254; a binary search takes 37 and 57."""
    n = 0
    for idx in range(len(bounds)):
        n += bounds[idx] < value
    return n


@register_jitable
def n_at_most(bounds: np.ndarray, value: float) -> int:
    """How many of the bounds are not above a value; see `n_below`."""
    n = 0
    for idx in range(len(bounds)):
        n += bounds[idx] <= value
    return n


@register_jitable
def hazard_mean(upper_s: float, rate: float, gap_s: float, after_s: float, uptime_s: float) -> float:
    """Mean remaining time in whole seconds, from the numbers of the uptime's interval (upper edge infinite: gap 0)."""
    return np.rint(after_s + math.expm1((uptime_s - upper_s) * rate) * gap_s)


@register_jitable
def hazard_survival(edges: np.ndarray, rates: np.ndarray, cumulative: np.ndarray, horizon_s: float,
                    uptime_s: float) -> float:
    """P(T > u + h | T > u) of a hazard curve, its arrays all of shape (J + 1,)."""
    end_s = uptime_s + horizon_s
    first = np.searchsorted(edges, uptime_s, side="right") - 1
    last = np.searchsorted(edges, end_s, side="right") - 1
    return math.exp(hazard_at(edges[first], rates[first], cumulative[first], uptime_s)
                    - hazard_at(edges[last], rates[last], cumulative[last], end_s))


@register_jitable
def hazard_quantile(edges: np.ndarray, rates: np.ndarray, cumulative: np.ndarray, q: float, uptime_s: float) -> float:
    """The remaining time that a share `q` does not exceed, of a hazard curve, s, unrounded."""
    first = np.searchsorted(edges, uptime_s, side="right") - 1
    target = hazard_at(edges[first], rates[first], cumulative[first], uptime_s) - math.log1p(-q)
    idx = np.searchsorted(cumulative, target, side="right") - 1
    time_s = hazard_time(edges[idx], rates[idx], cumulative[idx], target)
    return min(max(time_s - uptime_s, 0.0), LONGEST_S)


@register_jitable
def point_survival(score: float, residuals: Any, horizon_s: float) -> float:
    """P(still running after `horizon_s`) of a point curve's raw score, by its residuals."""
    if horizon_s <= 0.0:
        return 1.0
    return residual_share_above(residuals, math.log10(horizon_s) - score)
