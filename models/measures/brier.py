"""Brier score under censoring: squared error of "still running at t", lower is better, 0.25 is a coin.

Rows are weighted by inverse probability of censoring (Graf et al. 1999), with G(L-) for ends: they
come before a censoring at the same second. Given G, a score and its integral over times are means
over rows: the contributions (n,) are computed once, and `weighted_mean` reweighs them. Predictions
are those at creation, so rows must be under observation from their start; others are refused.

`BrierOverAges` is one number for a whole model: the integrated Brier score at creation and of the remaining time at
each absolute age. It decides between families, settings and champions: a proper score of the whole distribution under
censoring. Errors over observed ends would favour too short answers (docs/lifetime/candidate.md). Lower is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.censoring import censoring_curve, follow_up_s, outliving_weights, weighted_mean
from sojourn.models.measures.errors import FLOOR_S
from sojourn.models.measures.measure import AGES_S, OwnerDraws, alive_at, standard_error
from sojourn.models.outcomes import CensoringCurve

N_TIMES = 40


class Survives(Protocol):
    """The part of a curve table that a Brier score needs."""

    def survival(self, horizon_s: float, uptime_s: float) -> np.ndarray:
        """P(still running after `horizon_s` more seconds), float64 (n,)."""
        ...


class SurvivesByRow(Survives, Protocol):
    """The same, with a selection of rows."""

    def take(self, idx: np.ndarray) -> Survives:
        """The rows at `idx` (positions or a bool mask)."""
        ...


def brier_rows(table: Survives, rows: Examples, time_s: float, curve: CensoringCurve,
               before: np.ndarray | None = None) -> np.ndarray:
    """Contributions of rows to the Brier score at `time_s` > 0, float64 (n,); the score is their (weighted) mean.

    curve: G, of the test rows. Rows censored by then contribute 0, and others have weights above 1
    for them. before: see `outliving_weights`.
    """
    if (n_late := int((rows.entry_s > 0.0).sum())) > 0:
        raise ValueError(f"rows must be under observation from their start (entry_s 0), got {n_late} that are not")
    weight, _ = outliving_weights(curve, rows, time_s, before=before)
    missed = (rows.lifetime_s > time_s) - table.survival(time_s, 0.0)
    return weight * missed**2


def brier_score(table: CurveTable, rows: Examples, time_s: float, weight: np.ndarray | None = None) -> float:
    """Brier score at `time_s`, with G of the same rows. weight: float64 (n,), how often a row
    counts; NaN for no rows."""
    return weighted_mean(brier_rows(table, rows, time_s, censoring_curve(rows)), weight) if len(rows) else float("nan")


def brier_times(rows: Examples, n_times: int = N_TIMES) -> np.ndarray:
    """Geometric times, float64 (n_times,), from the floor of 30 s to the 95 % follow-up of the rows.

    Empty if that is no longer than the floor.
    """
    last_s = follow_up_s(rows)
    return np.geomspace(FLOOR_S, last_s, n_times) if last_s > FLOOR_S else np.empty(0)


def integrated_brier_rows(table: Survives, rows: Examples, times_s: np.ndarray, curve: CensoringCurve) -> np.ndarray:
    """The contribution of each row to the integrated Brier score, float64 (n,); NaN for fewer than two times.

    times_s: rising, float64 (m,), from `brier_times`. The mean is over log time (trapezoids), since
    lifetimes cover many decades, and in linear time only the last would count.
    """
    if len(times_s) < 2:
        return np.full(len(rows), np.nan)
    step = np.diff(np.log(times_s))
    share = (np.append(step, 0.0) + np.append(0.0, step)) / (2.0 * step.sum())
    total, before = np.zeros(len(rows)), curve.before(rows.lifetime_s)
    for time_s, part in zip(times_s.tolist(), share.tolist(), strict=True):
        total += part * brier_rows(table, rows, time_s, curve, before)
    return total


def integrated_brier_score(table: CurveTable, rows: Examples, weight: np.ndarray | None = None) -> float:
    """Brier score averaged over log time from 30 s to the 95 % follow-up, with G of the same rows.

    weight: float64 (n,), how often a row counts. NaN if the follow-up is no longer than 30 s.
    """
    return weighted_mean(integrated_brier_rows(table, rows, brier_times(rows), censoring_curve(rows)), weight)


_BLOCK = 65_536

Part = tuple[np.ndarray, np.ndarray]
"""For one age: bool (n,), the rows that count; and float64, the contribution of each of these."""


@dataclass(frozen=True, slots=True)
class BrierOverAges:
    """The score as a ratio of two sums over rows, for a bootstrap with new row weights.

    added: float64 (n,), contribution of each row, summed over its ages. n_asked: float64 (n,), number of its ages:
    creation, and each age at which it was observed alive, if observed from its start.
    """

    added: np.ndarray
    n_asked: np.ndarray

    @classmethod
    def of(cls, table: SurvivesByRow, rows: Examples) -> BrierOverAges:
        """From a model's curves. table: of the same rows, in the same order."""
        return cls.of_parts(parts_by_age(table, rows), len(rows))

    @classmethod
    def of_parts(cls, parts: Mapping[int, Part | None], n: int) -> BrierOverAges:
        """From the parts of each age of n rows (`parts_by_age`)."""
        added, n_asked = np.zeros(n), np.zeros(n)
        for part in parts.values():
            if part is not None:
                added[part[0]] += part[1]
                n_asked[part[0]] += 1.0
        return cls(added, n_asked)

    def score(self, weight: np.ndarray | None = None) -> float:
        """The score, each row counted `weight` (n,) times (None = once); NaN if no row counts.

        The weight of an age is its number of rows.

        >>> BrierOverAges(np.array([0.2, 0.1]), np.array([2.0, 1.0])).score(np.array([1.0, 2.0]))
        0.1
        """
        n_asked = float((self.n_asked if weight is None else weight * self.n_asked).sum())
        added = float((self.added if weight is None else weight * self.added).sum())
        return added / n_asked if n_asked > 0.0 else float("nan")


def first_within_error(briers: Mapping[str, BrierOverAges], place: Mapping[str, int],
                       draws: OwnerDraws) -> tuple[str, str, float, float]:
    """The chosen name, its rival, and the rival's score minus the chosen one's, with its error.

    Of those within one standard error of the best the one with the lowest place is taken, at the same place the better,
    then the first. If no name has a score, the lowest place is. A name with the same answers as the chosen one is no
    rival. A name that is worse by mean than another, whose place is no higher, is never taken: only its noise would be
    in its favour.
    """
    names = list(briers)
    if not names:
        raise ValueError("families must hold at least one to choose from, got none")
    scores = {name: briers[name].score() for name in names}
    scored = sorted((name for name in names if math.isfinite(scores[name])), key=lambda name: scores[name])
    if not scored:
        return min(names, key=lambda name: place[name]), "", math.nan, math.nan
    best = scored[0]
    drawn = {name: np.empty(len(draws)) for name in scored}
    for at, weight in enumerate(draws):
        for name in scored:
            drawn[name][at] = briers[name].score(weight)
    errors = {name: standard_error(drawn[name] - drawn[best], draws.n_units) if name != best else 0.0
              for name in scored}
    level = [name for name in scored if scores[name] - scores[best] <= errors[name]
             and not any(scores[other] < scores[name] and place[other] <= place[name] for other in scored)]
    chosen = min(level, key=lambda name: (place[name], scores[name]))
    if chosen != best:
        return chosen, best, scores[best] - scores[chosen], errors[chosen]
    rival = next((name for name in scored[1:] if not np.array_equal(drawn[name], drawn[best])), "")
    return chosen, rival, *((scores[rival] - scores[best], errors[rival]) if rival else (math.nan, math.nan))


@dataclass(frozen=True, slots=True)
class _Aged:
    """A curve table for requests alive at an age, where time starts."""

    table: Survives
    age_s: float

    def survival(self, horizon_s: float, uptime_s: float) -> np.ndarray:
        return self.table.survival(horizon_s, self.age_s + uptime_s)


def parts_by_age(table: SurvivesByRow, rows: Examples) -> dict[int, Part | None]:
    """The part of creation, 0, and of each absolute age, in s; see `integrated_at_age`."""
    return {age_s: integrated_at_age(table, rows, age_s) for age_s in (0, *AGES_S)}


def integrated_at_age(table: SurvivesByRow, rows: Examples, age_s: float) -> Part | None:
    """The contribution of each row observed alive at an age to the integrated Brier score of the remaining time.

    Only rows observed from their start count; G is of them. None if there are none, or none can be followed for 30 s.
    """
    is_asked = alive_at(rows, age_s) & (rows.entry_s == 0.0)
    alive = rows.without_features().take(is_asked)
    if len(alive) == 0:
        return None
    alive = replace(alive, lifetime_s=alive.lifetime_s - age_s)
    times_s = brier_times(alive, N_TIMES if age_s == 0.0 else N_TIMES // 2)
    if len(times_s) < 2:
        return None
    curve, idx, added = censoring_curve(alive), np.flatnonzero(is_asked), np.empty(len(alive))
    for start in range(0, len(idx), _BLOCK):  # so that curves are not copied all at once
        block = np.arange(start, min(start + _BLOCK, len(idx)))
        aged = _Aged(table.take(idx[block]), age_s)
        added[block] = integrated_brier_rows(aged, alive.take(block), times_s, curve)
    return is_asked, added


N_MOMENTS, N_TOGETHER, N_GROUPS = 500, 4, 16
EXIT_TIMES_S = np.geomspace(60.0, 10 * 86_400.0, N_TIMES)


def _spread(n: int, n_most: int) -> np.ndarray:
    """At most so many positions of n, evenly spread, int64."""
    return np.unique(np.linspace(0, n - 1, min(n, n_most)).astype(np.int64))


class _Groups(NamedTuple):
    """Requests that ran together. row, uptime_s: (k, N_TOGETHER), of each; exit_s: (k,), of the last one, from then
    on; is_seen: bool (k,), all ends were observed."""

    row: np.ndarray
    uptime_s: np.ndarray
    exit_s: np.ndarray
    is_seen: np.ndarray


def exit_groups(rows: Examples) -> _Groups:
    """At `N_MOMENTS` arrivals what runs, N_TOGETHER each in the order of arrival; at most N_GROUPS at each."""
    start_s, order = rows.arrival_s, np.argsort(rows.arrival_s, kind="stable")
    end_s = start_s + rows.lifetime_s
    from_s, to_s = (start_s + rows.entry_s)[order], end_s[order]
    found: list[np.ndarray] = [np.empty((0, N_TOGETHER), np.int64)]
    moments: list[np.ndarray] = [np.empty(0)]
    for moment_s in start_s[order[_spread(len(order), N_MOMENTS)]].tolist():
        runs = order[(from_s <= moment_s) & (to_s > moment_s)]
        groups = runs[:len(runs) // N_TOGETHER * N_TOGETHER].reshape(-1, N_TOGETHER)
        groups = groups[_spread(len(groups), N_GROUPS)]
        found.append(groups)
        moments.append(np.full(len(groups), moment_s))
    row, moment = np.concatenate(found), np.concatenate(moments)[:, None]
    return _Groups(row, moment - start_s[row], (end_s[row] - moment).max(axis=1, initial=0.0),
                   np.asarray(rows.is_event[row].all(axis=1)))


def group_exits(table: CurveTable, rows: Examples) -> Callable[[np.ndarray | None], float]:
    """Brier score of "one of four requests that run together still runs after h", mean over log h; lower is better.

    Placement asks when a host is empty: when the longest of its requests ends. The chance is 1 - the product of the
    chances to have ended. Groups are of consecutive arrivals, so no policy chooses them. If an end was not observed, h
    counts up to the last time at which one of them ran. A group weighs as the mean of its rows.
    """
    groups = exit_groups(rows)
    n = len(groups.exit_s)
    each, uptimes_s = table.take(groups.row.ravel()), groups.uptime_s.ravel()
    squared, known = np.zeros(n), np.zeros(n)
    for time_s in EXIT_TIMES_S.tolist():
        in_use = 1.0 - np.prod(1.0 - each.survival(time_s, uptimes_s).reshape(n, N_TOGETHER), axis=1)
        is_in_use = groups.exit_s > time_s
        is_known = groups.is_seen | is_in_use
        squared += is_known * np.square(in_use - is_in_use)
        known += is_known

    def measure(weight: np.ndarray | None) -> float:
        of_group = np.ones(n) if weight is None else weight[groups.row].mean(axis=1)
        total = float(of_group @ known)
        return float(of_group @ squared) / total if total > 0.0 else math.nan

    return measure
