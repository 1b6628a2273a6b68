"""The time axis of hazard curves: log-spaced intervals, their pooled hazards, and the tail beyond them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sojourn.features.split import Examples
from sojourn.serving.curves import LONGEST_S

N_AT_RISK_MIN = 50
"""The last interval begins where at least this many are at risk (specs, Meaning of remaining)."""

N_INTERVALS = 37
FIRST_S = 2.0
"""Where the first interval ends. At 10 s a fifth of CEA-Curie's jobs ended within it, and a constant hazard there put
the largest PIT deviation at .12; from 2 s on it is .05."""

HAZARD_MIN = 1e-6
"""Of a pooled hazard; its greatest is 1 - 1e-6."""
HAZARD_MAX = 30.0
"""A curve that falls to 0 within an interval has this cumulative hazard there: exp(-30) of them stay."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """edges: float64 (J + 1,) s, from 0, at half seconds so that no lifetime lies on one.

    shares: float64 (K + 1,), of the limit, where the axis has that clock, else empty: K intervals follow those of the
    age. offsets: float64 (J + K,), log-odds of the pooled hazard. tail_s: mean remaining beyond the last edge, s.
    grid: float64 (2J + 1,) s, edges and their geometric middles, for held exits.
    """

    edges: np.ndarray
    offsets: np.ndarray
    tail_s: float
    grid: np.ndarray
    shares: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class PersonPeriods:
    """One row per example and interval at risk. idx: example, interval: number, both int64 (m,).

    is_end: bool (m,), the example ended in the interval. weight: float64 (m,), the share of the interval
    under observation (1 where it ended): with a constant hazard within it the likelihood is exact, but
    for an end in the very interval of a late entry, which counts as the whole of it.
    """

    idx: np.ndarray
    interval: np.ndarray
    is_end: np.ndarray
    weight: np.ndarray


def fit_intervals(examples: Examples, n_intervals: int = N_INTERVALS, first_s: float = FIRST_S) -> Intervals:
    """Log-spaced intervals from `first_s` to the age at which 50 are still at risk, with pooled hazards.

    Raises ValueError where no end was observed.
    """
    if not examples.is_event.any():
        raise ValueError("training examples must hold at least one observed end, got censored ones only")
    edges = _edges(examples, n_intervals, first_s)
    periods = person_periods(examples, edges)
    offsets = pooled_offsets(periods, len(edges) - 1)
    beyond_s = np.maximum(examples.lifetime_s - np.maximum(examples.entry_s, edges[-1]), 0.0).sum()
    n_beyond = int((examples.is_event & (examples.lifetime_s > edges[-1])).sum())
    tail_s = float(np.clip(beyond_s / n_beyond if n_beyond else edges[-1], 60.0, LONGEST_S))
    inner = np.sqrt(np.maximum(edges[:-1], 1.0) * edges[1:])
    return Intervals(edges, offsets, tail_s, np.unique(np.concatenate([edges, inner])))


def pooled_offsets(periods: PersonPeriods, n_intervals: int) -> np.ndarray:
    """Log-odds of the hazard of all together in each interval, float64 (n_intervals,).

    Before the first interval in which anybody was at risk it is the least: who is asked about was alive after it.
    """
    at_risk = np.bincount(periods.interval, weights=periods.weight, minlength=n_intervals)
    ends = np.bincount(periods.interval, weights=periods.is_end, minlength=n_intervals)
    hazard = np.clip((ends + 0.5) / (at_risk + 1.0), HAZARD_MIN, 1.0 - HAZARD_MIN)
    hazard[:np.argmax(at_risk > 0.0)] = HAZARD_MIN
    return np.log(hazard / (1.0 - hazard))


def interval_hazards(at_edges: np.ndarray, edges: np.ndarray, offsets: np.ndarray, last_s: float) -> np.ndarray:
    """Cumulative hazards (..., J) from survival at the edges (..., J + 1), at most 30 an interval.

    The pooled hazard stands where the curve says nothing: after it reached 0, and in intervals that begin at or
    after `last_s`, the last time under observation.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        hazards = -np.log(at_edges[..., 1:] / at_edges[..., :-1])
    pooled = np.log1p(np.exp(offsets))
    is_seen = (at_edges[..., :-1] > 0.0) & (edges[:-1] < last_s)
    return np.where(is_seen, np.clip(hazards, 0.0, HAZARD_MAX), pooled)


def _edges(examples: Examples, n_intervals: int, first_s: float) -> np.ndarray:
    lifetimes = np.sort(examples.lifetime_s)
    entries = np.sort(examples.entry_s)
    at_risk = np.searchsorted(entries, lifetimes, side="left") - np.arange(len(lifetimes))
    enough = np.flatnonzero(at_risk >= min(N_AT_RISK_MIN, len(lifetimes)))
    last_s = max(float(lifetimes[enough[-1]]) if len(enough) else float(lifetimes[-1]), 2.0 * first_s)
    inner = np.unique(np.floor(np.geomspace(first_s, last_s, n_intervals)) + 0.5)
    return np.concatenate([[0.0], inner])


def person_periods(examples: Examples, edges: np.ndarray) -> PersonPeriods:
    """Expand examples to the intervals in which they were at risk and observed."""
    n = len(edges) - 1
    first = np.clip(np.searchsorted(edges, examples.entry_s, side="right") - 1, 0, n)
    end = np.searchsorted(edges, examples.lifetime_s, side="left") - 1  # the interval (e_j, e_j+1] of the end
    last = np.minimum(end, n - 1)
    count = np.maximum(last - first + 1, 0)
    idx = np.repeat(np.arange(len(examples)), count)
    interval = np.arange(len(idx)) - np.repeat(np.cumsum(count) - count, count) + first[idx]
    is_end = examples.is_event[idx] & (interval == end[idx])
    low = np.maximum(edges[interval], examples.entry_s[idx])
    high = np.minimum(edges[interval + 1], examples.lifetime_s[idx])
    weight = np.where(is_end, 1.0, (high - low) / np.diff(edges)[interval])
    return PersonPeriods(idx, interval, is_end, weight)
