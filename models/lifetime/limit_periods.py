"""Person-periods on two clocks: the age up to half of a request's limit, then the share of the limit."""

from __future__ import annotations

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.lifetime._kernels import fill_limit_periods
from sojourn.models.lifetime.intervals import PersonPeriods
from sojourn.serving.inputs import LIMIT_MAX_S, LIMIT_MIN_S

LIMIT_SHARES = (0.5, 0.7, 0.85, 0.95, 0.99, 1.0, 1.001, 1.003, 1.01, 1.03, 1.1, 2.0, 20.0)
"""Shares of the limit between which the hazard is constant: narrow just above 1, where jobs are killed."""
NEAR = (0.97, 1.03)
NEAR_MIN = 0.05
"""The second clock runs where at least this share of the ends after ten minutes lie so near to the limit."""
_LATE_S = 600.0
_N_ENDS_MIN = 200


def wants_limit(examples: Examples, limit_s: np.ndarray) -> bool:
    """Whether ends come at the limits often enough for a clock of their own. limit_s: float64 (n,), NaN = none."""
    n_ends, near = _near_limit(examples, limit_s)
    return n_ends >= _N_ENDS_MIN and near >= NEAR_MIN


def limit_text(examples: Examples, limit_s: np.ndarray) -> str:
    """One sentence: how many ends lie near the limit, and whether the second clock runs; "" where no limit is stated.

    And a warning where they lie near 60 times the number instead: it is minutes, most likely.
    """
    n_ends, near = _near_limit(examples, limit_s)
    n_minutes, near_minutes = _near_limit(examples, 60.0 * limit_s)
    if n_minutes >= _N_ENDS_MIN and near_minutes >= NEAR_MIN > near:
        return (f"requested_s must be seconds, but {near_minutes:.0%} of {n_minutes:,} ends after 10 min lie near 60 "
                "times its value, as if it were minutes.")
    if n_ends == 0:
        return ""
    clock = "has" if n_ends >= _N_ENDS_MIN and near >= NEAR_MIN else "does not have"
    return (f"Limits: {near:.1%} of {n_ends:,} ends after 10 min lie within 3 % of requested_s; the model {clock} a "
            "clock of the limit.")


def _near_limit(examples: Examples, limit_s: np.ndarray) -> tuple[int, float]:
    """How many ends after ten minutes have a limit, and which share of these lies near it."""
    is_limited = (limit_s >= LIMIT_MIN_S) & (limit_s <= LIMIT_MAX_S)
    is_asked = examples.is_event & (examples.lifetime_s >= _LATE_S) & is_limited
    share = examples.lifetime_s[is_asked] / limit_s[is_asked]
    n_ends, n_near = len(share), int(((share >= NEAR[0]) & (share <= NEAR[1])).sum())
    return n_ends, n_near / max(n_ends, 1)


def limit_periods(examples: Examples, edges: np.ndarray, shares: np.ndarray, limit_s: np.ndarray) -> PersonPeriods:
    """As `person_periods`, on each example's own axis (`serving.curves.limit_axis`).

    edges: float64 (J + 1,) s; shares: float64 (K + 1,) of the limit; limit_s: float64 (n,), NaN = none. Intervals 0 to
    J - 1 are of the age, J to J + K - 1 of the share of the limit. A weight is the seen part of the *whole* interval,
    so that an interval of the age that was cut at half of a limit counts less, one that was stretched to it more.
    """
    arrays = (edges, shares, limit_s, examples.entry_s, examples.lifetime_s, examples.is_event)
    none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0)
    n = int(fill_limit_periods(*arrays, *none))
    idx, interval = np.empty(n, np.int64), np.empty(n, np.int64)
    is_end, weight = np.empty(n, np.bool_), np.empty(n)
    fill_limit_periods(*arrays, idx, interval, is_end, weight)
    return PersonPeriods(idx, interval, is_end, weight)
