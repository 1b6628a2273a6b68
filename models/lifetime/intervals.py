"""The time axis of hazard curves: log-spaced intervals, their pooled hazards, and the tail beyond them.

An `Axis` has intervals of the age, and, if many requests of a trace end at their limits, a limit
axis: the age up to half of a request's limit, then the share of the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.lifetime._kernels import fill_limit_periods
from sojourn.models.lifetime.contract import FitSettings
from sojourn.serving.curves import LONGEST_S
from sojourn.serving.inputs import LIMIT, LIMIT_MAX_S, LIMIT_MIN_S

N_AT_RISK_MIN = 50
"""The last interval starts where at least this many are at risk (specs, Meaning of remaining)."""

N_INTERVALS = 37
FIRST_S = 2.0
"""The end of the first interval. With 10 s, a fifth of CEA-Curie's jobs ended within it, and the
constant hazard there gave a PIT deviation of .12; with 2 s it is .05."""

HAZARD_MIN = 1e-6
"""The least pooled hazard; the largest is 1 - 1e-6."""
HAZARD_MAX = 30.0
"""The cumulative hazard of an interval in which a curve falls to 0: exp(-30) remain."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """edges: float64 (J + 1,) s, from 0, at half seconds so that no lifetime is on one.

    shares: float64 (K + 1,), of the limit, if there is a limit axis, else empty: K intervals follow those of the age.
    offsets: float64 (J + K,), log-odds of the pooled hazard. tail_s: mean remaining beyond the last edge, s. grid:
    float64 (2J + 1,) s, edges and their geometric middles, for held exits.
    """

    edges: np.ndarray
    offsets: np.ndarray
    tail_s: float
    grid: np.ndarray
    shares: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class PersonPeriods:
    """One row per example and interval at risk. idx: example, interval: number, both int64 (m,).

    is_end: bool (m,), the example ended in the interval. weight: float64 (m,), the share of the
    interval under observation (1 where it ended): with a constant hazard within it the likelihood
    is exact, except for an end in the interval of a late entry, which counts as a whole interval.
    """

    idx: np.ndarray
    interval: np.ndarray
    is_end: np.ndarray
    weight: np.ndarray


def fit_intervals(examples: Examples, n_intervals: int = N_INTERVALS, first_s: float = FIRST_S) -> Intervals:
    """Log-spaced intervals from `first_s` to the age at which 50 are still at risk, with pooled hazards.

    Raises ValueError if no end was observed.
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
    """Log-odds of the pooled hazard in each interval, float64 (n_intervals,).

    Before the first interval with a request at risk it is the minimum, since all requests outlived these.
    """
    at_risk = np.bincount(periods.interval, weights=periods.weight, minlength=n_intervals)
    ends = np.bincount(periods.interval, weights=periods.is_end, minlength=n_intervals)
    hazard = np.clip((ends + 0.5) / (at_risk + 1.0), HAZARD_MIN, 1.0 - HAZARD_MIN)
    hazard[:np.argmax(at_risk > 0.0)] = HAZARD_MIN
    return np.log(hazard / (1.0 - hazard))


def interval_hazards(at_edges: np.ndarray, edges: np.ndarray, offsets: np.ndarray, last_s: float) -> np.ndarray:
    """Cumulative hazards (..., J) from survival at the edges (..., J + 1), at most 30 an interval.

    The pooled hazard is used where the curve is undefined: after it reached 0, and in intervals
    that start at or after `last_s`, the last time under observation.
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


@dataclass(frozen=True, slots=True)
class Axis:
    """intervals: of the age and of the limit's share. limit_place: index of the limit among the
    features; -1 = no limit axis."""

    intervals: Intervals
    limit_place: int = -1

    @classmethod
    def fit(cls, examples: Examples, limit_place: int, n_intervals: int = N_INTERVALS) -> Axis:
        """Intervals and pooled hazards of the examples; ValueError if no end was observed."""
        intervals = fit_intervals(examples, n_intervals)
        if limit_place < 0:
            return cls(intervals)
        shares = np.array(LIMIT_SHARES)
        periods = limit_periods(examples, intervals.edges, shares, examples.features[:, limit_place])
        n = len(intervals.edges) + len(shares) - 2
        return cls(replace(intervals, offsets=pooled_offsets(periods, n), shares=shares), limit_place)

    @property
    def kind(self) -> str:
        """The kind of score of a bundle on this axis."""
        return "hazard" if self.limit_place < 0 else "hazard-limit"

    @property
    def n_ages(self) -> int:
        """How many of the intervals are of the age: the first ones."""
        return len(self.intervals.edges) - 1

    def limit_s(self, rows: Examples) -> np.ndarray:
        """The rows' limits, float64 (n,), NaN = none."""
        return rows.features[:, self.limit_place]

    def periods(self, rows: Examples) -> PersonPeriods:
        """The intervals in which rows were at risk and observed."""
        if self.limit_place < 0:
            return person_periods(rows, self.intervals.edges)
        return limit_periods(rows, self.intervals.edges, self.intervals.shares, self.limit_s(rows))

    def table(self, hazards: np.ndarray, rows: Examples) -> HazardTable:
        """The curves of rows with these hazards of whole intervals, float64 (n, J + K)."""
        axis = self.intervals
        if self.limit_place < 0:
            return HazardTable.from_hazards(axis.edges, hazards, axis.tail_s, axis.grid)
        return HazardTable.from_limits(axis.edges, axis.shares, hazards, self.limit_s(rows), axis.tail_s, axis.grid)

    def age_edges(self) -> np.ndarray:
        """Edges of all intervals for age features. For intervals of a share of the limit they have
        no meaning and are beyond all others; there, limit features are used
        (`serving.inputs.encoder`)."""
        n_shares = max(len(self.intervals.shares) - 1, 0)
        edges = self.intervals.edges
        return np.append(edges, edges[-1] * 2.0 ** np.arange(1, n_shares + 1))

    def fields(self) -> dict[str, Any]:
        """The fields in schema.json."""
        intervals = self.intervals
        fields = {"edges": intervals.edges.tolist(), "offsets": intervals.offsets.tolist(), "tail_s": intervals.tail_s,
                  "grid": intervals.grid.tolist()}
        return fields if self.limit_place < 0 else {**fields, "shares": intervals.shares.tolist()}


def limit_place_of(train: Examples, settings: FitSettings) -> int:
    """The index of the limit among the features, if enough training rows end at their limits; else -1."""
    place = settings.names.index(LIMIT) if LIMIT in settings.names else -1
    return place if place >= 0 and wants_limit(train, train.features[:, place]) else -1


LIMIT_SHARES = (0.5, 0.7, 0.85, 0.95, 0.99, 1.0, 1.001, 1.003, 1.01, 1.03, 1.1, 2.0, 20.0)
"""Edges of the limit's shares: narrow just above 1, where jobs are killed."""
NEAR = (0.97, 1.03)
NEAR_MIN = 0.05
"""The limit axis is used if at least this share of the ends after ten minutes is so near to the limit."""
_LATE_S = 600.0
_N_ENDS_MIN = 200


def wants_limit(examples: Examples, limit_s: np.ndarray) -> bool:
    """Whether enough ends are at the limits for a limit axis. limit_s: float64 (n,), NaN = none."""
    n_ends, near = _near_limit(examples, limit_s)
    return n_ends >= _N_ENDS_MIN and near >= NEAR_MIN


def limit_text(examples: Examples, limit_s: np.ndarray) -> str:
    """One sentence: how many ends are near the limit, and whether the limit axis is used; "" without limits.

    And a warning if they are near 60 times the number instead: then it is probably in minutes.
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
    """How many ends after ten minutes have a limit, and the share of these that is near it."""
    is_limited = (limit_s >= LIMIT_MIN_S) & (limit_s <= LIMIT_MAX_S)
    is_asked = examples.is_event & (examples.lifetime_s >= _LATE_S) & is_limited
    share = examples.lifetime_s[is_asked] / limit_s[is_asked]
    n_ends, n_near = len(share), int(((share >= NEAR[0]) & (share <= NEAR[1])).sum())
    return n_ends, n_near / max(n_ends, 1)


def limit_periods(examples: Examples, edges: np.ndarray, shares: np.ndarray, limit_s: np.ndarray) -> PersonPeriods:
    """As `person_periods`, on each example's limit axis (`serving.curves.formulas`).

    edges: float64 (J + 1,) s; shares: float64 (K + 1,) of the limit; limit_s: float64 (n,), NaN = none. Intervals 0 to
    J - 1 are of the age, J to J + K - 1 of the share of the limit. A weight is the observed part of the *whole*
    interval, so an age interval that is cut at half of a limit counts less, a stretched one more.
    """
    arrays = (edges, shares, limit_s, examples.entry_s, examples.lifetime_s, examples.is_event)
    none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0)
    n = int(fill_limit_periods(*arrays, *none))
    idx, interval = np.empty(n, np.int64), np.empty(n, np.int64)
    is_end, weight = np.empty(n, np.bool_), np.empty(n)
    fill_limit_periods(*arrays, idx, interval, is_end, weight)
    return PersonPeriods(idx, interval, is_end, weight)
