"""One number for a whole model: the integrated Brier score at creation and of what remains at each absolute age.

What families, settings and champions are chosen by. A proper score of the whole distribution, censored requests
weighed for: errors over observed ends favour answers that are too short (docs/lifetime.md). Lower is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.measures.brier import N_TIMES, Survives, SurvivesByRow, brier_times, integrated_brier_rows
from sojourn.models.measures.censoring import censoring_curve
from sojourn.models.measures.thresholds import AGES_S, alive_at

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
