"""Seeded completions of censored lifetimes, so that oracle and replay share one truth."""

from __future__ import annotations

import numpy as np

from sojourn.features.trace import Trace


def true_totals(trace: Trace, rng: np.random.Generator) -> np.ndarray:
    """Total lifetime of each request from its start, int64 seconds, shape (n,).

    Observed lifetimes are kept; a request is on its host for at least 1 s, so a shorter one counts up to 1 s
    after its placement. A request still running at the horizon gets a completion drawn from the trace's
    Kaplan-Meier curve given its age, which always ends past the horizon.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 70], "departure_s": [50, None],
    ...                       "cpu_cores": [1.0, 1.0], "mem_gib": [1.0, 1.0]})
    >>> true_totals(Trace(table, 100), np.random.default_rng(0)).tolist()
    [50, 50]
    """
    start = trace.start_s()
    total = np.maximum(trace.lifetime_s(), np.maximum(start, 0) + 1 - start)
    is_event = trace.is_event()
    if is_event.all():
        return np.asarray(total)
    is_known = trace.is_start_known()
    time_s, survival = kaplan_meier(total[is_known], is_event[is_known], np.maximum(-start[is_known], 0))
    age = trace.horizon_s - start[~is_event]
    total[~is_event] = draw_beyond(age, time_s, survival, rng)
    return np.asarray(total)


def kaplan_meier(total_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Event times (ascending) and the survival just after each (Kaplan and Meier 1958).

    entry_s: age at which each request came under observation; it is at risk only above it (left truncation).

    >>> times, survival = kaplan_meier(np.array([1, 2, 3]), np.array([True, False, True]), np.zeros(3))
    >>> times.tolist(), survival.round(3).tolist()
    ([1, 3], [0.667, 0.0])
    """
    times, n_events = np.unique(total_s[is_event], return_counts=True)
    n_left = np.searchsorted(np.sort(total_s), times, side="left")
    n_entered = np.searchsorted(np.sort(entry_s), times, side="left")
    n_at_risk = np.maximum(n_entered - n_left, n_events)
    return times, np.cumprod(1.0 - n_events / n_at_risk)


def draw_beyond(
    age_s: np.ndarray, time_s: np.ndarray, survival: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One total lifetime above each age, int64 seconds, drawn from the curve given that age.

    Where the draw falls beyond the last event, or the age does, the total is twice the larger of the two
    (the rule for an outlived prediction); Kaplan-Meier says nothing there.

    >>> draw_beyond(np.array([2, 9]), np.array([1, 3]), np.array([0.7, 0.0]), np.random.default_rng(0)).tolist()
    [3, 18]
    """
    uniform = rng.random(len(age_s))
    beyond = 2 * np.maximum(np.maximum(age_s, time_s[-1] if len(time_s) else 0), 1)
    if len(time_s) == 0:
        return np.asarray(beyond, np.int64)
    idx_next = np.searchsorted(time_s, age_s, side="right")
    survival_now = np.append(1.0, survival)[idx_next]
    # survival falls along time_s; the draw is the first event time where it is at most uniform * S(age)
    idx_drawn = np.searchsorted(-survival, -uniform * survival_now, side="left")
    idx_drawn = np.maximum(idx_drawn, idx_next)
    is_inside = idx_drawn < len(time_s)
    drawn = np.where(is_inside, time_s[np.minimum(idx_drawn, len(time_s) - 1)], beyond)
    return np.asarray(drawn, np.int64)
