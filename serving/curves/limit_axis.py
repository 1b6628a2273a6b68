"""The second clock of a hazard curve: intervals of the age up to half of a request's limit, then of the share of it.

Requests with a limit (a batch job's requested time) end at it and just after it, at an age that is each request's own;
intervals of the age alone spread such an end over hours. Plain Python and compiled code alike. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sojourn.serving.inputs import has_limit
from sojourn.serving.jitable import register_jitable

HALF_S = 0.5
"""Edges lie half a second below a share of the limit: a request that ends in the second of its limit ends after the
edge."""
WIDTH_MIN_S = 1e-3


@register_jitable
def unread_intervals(edges: Sequence[float], shares: Sequence[float], limit_s: float) -> tuple[int, int]:
    """Of the model's intervals, those that `fill_limit_axis` does not read for this limit: the first one's number and
    how many. They stand side by side: of the age, beyond half of the limit; without a limit, all those of its share.

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
    """Write a request's own edges (J + K + 1,) and its cumulative hazards between them (J + K,); returns how many of
    these are of the age: the first ones. Of a request with a limit those of the share follow.

    hazards: (J + K,), of J whole intervals of the age between edges (J + 1,), s, and of K intervals of the share of the
    limit between shares (K + 1,), rising. The age's interval in which half of the limit lies (shares[0]) is cut there;
    where that is beyond the last edge, the last one is stretched, at its own rate. What is left over, of a request
    without a limit K intervals, lies beyond the last edge and has the tail's rate.

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
