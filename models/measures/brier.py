"""Brier score under censoring: squared error of "still running at t", lower is better, 0.25 is a coin.

Weighted by inverse probability of censoring (Graf et al. 1999), with G(L-) for ends: they come before a censoring
at the same second. Given G a score is a mean over rows, also its integral over times: the contributions (n,) are
made once, and `weighted_mean` reweighs them. Predictions are those made at creation, so rows must be under
observation from their start; others are refused.

One number for a whole model: the integrated Brier score at creation and of what remains at each absolute age.

What families, settings and champions are chosen by. A proper score of the whole distribution, censored requests
weighed for: errors over observed ends favour answers that are too short (docs/lifetime.md). Lower is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable
from sojourn.models.measures.censoring import censoring_curve, follow_up_s, outliving_weights, weighted_mean
from sojourn.models.measures.errors import FLOOR_S
from sojourn.models.measures.measure import AGES_S, alive_at
from sojourn.models.outcomes import CensoringCurve

N_TIMES = 40


class Survives(Protocol):
    """What a Brier score asks of a curve table."""

    def survival(self, horizon_s: float, uptime_s: float) -> np.ndarray:
        """P(still running after `horizon_s` more seconds), float64 (n,)."""
        ...


class SurvivesByRow(Survives, Protocol):
    """The same, of which rows can be taken."""

    def take(self, idx: np.ndarray) -> Survives:
        """Of the rows at `idx` (positions or a bool mask)."""
        ...


def brier_rows(table: Survives, rows: Examples, time_s: float, curve: CensoringCurve,
               before: np.ndarray | None = None) -> np.ndarray:
    """What each row adds to the Brier score at `time_s` > 0, float64 (n,); the score is their (weighted) mean.

    curve: G, of the test rows. Rows censored by then add 0, and those that weigh for them more than 1. before: see
    `outliving_weights`.
    """
    if (n_late := int((rows.entry_s > 0.0).sum())) > 0:
        raise ValueError(f"rows must be under observation from their start (entry_s 0), got {n_late} that are not")
    weight, _ = outliving_weights(curve, rows, time_s, before=before)
    missed = (rows.lifetime_s > time_s) - table.survival(time_s, 0.0)
    return weight * missed**2


def brier_score(table: CurveTable, rows: Examples, time_s: float, weight: np.ndarray | None = None) -> float:
    """Brier score at `time_s`, G of the rows themselves. weight: float64 (n,), times a row counts; NaN for no rows."""
    return weighted_mean(brier_rows(table, rows, time_s, censoring_curve(rows)), weight) if len(rows) else float("nan")


def brier_times(rows: Examples, n_times: int = N_TIMES) -> np.ndarray:
    """Geometric times, float64 (n_times,), from the floor of 30 s to the 95 % follow-up of the rows.

    Empty where that is no longer than the floor: there is nothing to integrate over.
    """
    last_s = follow_up_s(rows)
    return np.geomspace(FLOOR_S, last_s, n_times) if last_s > FLOOR_S else np.empty(0)


def integrated_brier_rows(table: Survives, rows: Examples, times_s: np.ndarray, curve: CensoringCurve) -> np.ndarray:
    """What each row adds to the integrated Brier score, float64 (n,); NaN for fewer than two times.

    times_s: rising, float64 (m,), as of `brier_times`. Averaged over log time (trapezoids): lifetimes spread over
    many decades, and linear time would see only the last.
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
    """Brier score averaged over log time from 30 s to the 95 % follow-up, G of the rows themselves.

    weight: float64 (n,), times a row counts. NaN where the follow-up is no longer than 30 s.
    """
    return weighted_mean(integrated_brier_rows(table, rows, brier_times(rows), censoring_curve(rows)), weight)


Part = tuple[np.ndarray, np.ndarray]
"""Of one age: bool (n,), the rows asked; and float64, what each of these adds to their mean."""


@dataclass(frozen=True, slots=True)
class BrierOverAges:
    """The score prepared for new row weights, as a bootstrap needs it: a ratio of two sums over rows.

    added: float64 (n,), what each row adds, summed over the ages at which it is asked. n_asked: float64 (n,), at how
    many it is: at creation, and at each age that it was seen alive at, if it was seen from its start.
    """

    added: np.ndarray
    n_asked: np.ndarray

    @classmethod
    def of(cls, table: SurvivesByRow, rows: Examples) -> BrierOverAges:
        """The parts of a model's curves. table: of the same rows, in the same order."""
        return cls.of_parts(parts_by_age(table, rows), len(rows))

    @classmethod
    def of_parts(cls, parts: Mapping[int, Part | None], n: int) -> BrierOverAges:
        """From the parts of each age of n rows, as of `parts_by_age`."""
        added, n_asked = np.zeros(n), np.zeros(n)
        for part in parts.values():
            if part is not None:
                added[part[0]] += part[1]
                n_asked[part[0]] += 1.0
        return cls(added, n_asked)

    def score(self, weight: np.ndarray | None = None) -> float:
        """The score, each row counted `weight` (n,) times (None = once); NaN where no row is asked.

        An age counts by the rows asked at it.

        >>> BrierOverAges(np.array([0.2, 0.1]), np.array([2.0, 1.0])).score(np.array([1.0, 2.0]))
        0.1
        """
        n_asked = float((self.n_asked if weight is None else weight * self.n_asked).sum())
        added = float((self.added if weight is None else weight * self.added).sum())
        return added / n_asked if n_asked > 0.0 else float("nan")


@dataclass(frozen=True, slots=True)
class _Aged:
    """A curve table as seen by those alive at an age: time begins there."""

    table: Survives
    age_s: float

    def survival(self, horizon_s: float, uptime_s: float) -> np.ndarray:
        return self.table.survival(horizon_s, self.age_s + uptime_s)


def parts_by_age(table: SurvivesByRow, rows: Examples) -> dict[int, Part | None]:
    """The part of creation, 0, and of each absolute age, in s; see `integrated_at_age`."""
    return {age_s: integrated_at_age(table, rows, age_s) for age_s in (0, *AGES_S)}


def integrated_at_age(table: SurvivesByRow, rows: Examples, age_s: float) -> Part | None:
    """What each row seen alive at an age adds to the integrated Brier score of what remains then.

    Only rows seen from their start are asked; G is of them. None where there are none, or where none can be followed
    for 30 s.
    """
    is_asked = alive_at(rows, age_s) & (rows.entry_s == 0.0)
    asked = rows.take(is_asked)
    if len(asked) == 0:
        return None
    asked = replace(asked, lifetime_s=asked.lifetime_s - age_s)
    times_s = brier_times(asked, N_TIMES if age_s == 0.0 else N_TIMES // 2)
    if len(times_s) < 2:
        return None
    return is_asked, integrated_brier_rows(_Aged(table.take(is_asked), age_s), asked, times_s, censoring_curve(asked))
