"""What every drift detector is: one day in, alarm or not out, and a state that can be saved as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sojourn.models.drift.exits import DailyExits

TOLERANCE = 0.25
"""Exits may lie this share above or below the expected ones and the model still counts as calibrated."""


@dataclass(frozen=True, slots=True)
class DriftDay:
    """What a detector sees of one day.

    observed, expected: exits. variance: of their difference, by clusters. shares: the share of running cores in each
    lifetime class, summing to 1, for detectors of class shares; may be empty for others. bands: the same day by bands
    of age, for `AnyOf`. own: exits against the owners' own rate before, `own_exits`; new_owners: requests of new
    owners against their usual share, `new_owner_days`; None where they were not counted.
    """

    observed: float
    expected: float
    variance: float
    shares: tuple[float, ...] = ()
    bands: tuple[DriftDay, ...] = ()
    own: DriftDay | None = None
    new_owners: DriftDay | None = None

    def residual(self, side: int, tolerance: float = 0.0) -> float:
        """Exits beyond the tolerance in standard errors; > 0 = more (side 1) or fewer (side -1) than tolerated.

        The variance counts as at least that of independent requests; 0 on a day on which no exit is expected or seen.

        >>> DriftDay(130.0, 100.0, 400.0).residual(1, 0.1), DriftDay(130.0, 100.0, 400.0).residual(-1, 0.1)
        (1.0, -2.0)
        """
        variance = max(self.variance, self.expected)
        if variance <= 0.0:
            return 0.0
        return (side * (self.observed - self.expected) - tolerance * self.expected) / math.sqrt(variance)


class Detector(Protocol):
    """Days go in one after another. After an alarm a detector begins anew, but for what its docstring says it keeps."""

    @property
    def score(self) -> float:
        """How near an alarm it is after the last day, or after an alarm the score that raised it: 1 = alarm."""
        ...

    def update(self, day: DriftDay) -> bool:
        """Take the next day; True = alarm."""
        ...

    def state(self) -> dict[str, Any]:
        """All that it knows, as JSON has it; `resume` of a new detector with the same settings takes it."""
        ...

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave. Raises ValueError where the state is another detector's."""
        ...


def drift_days(exits: DailyExits, shares: np.ndarray | None = None, own: Sequence[DriftDay] | None = None,
               new_owners: Sequence[DriftDay] | None = None) -> list[DriftDay]:
    """The days of `exits` as detectors take them, all ages together, and by bands. shares: float64 (D, K) or None.
    own, new_owners: what `own_exits` and `new_owner_days` give of the same D days, or None.

    >>> one = np.array([[3.0, 1.0]])
    >>> day, = drift_days(DailyExits(0, one, 2.0 * one, one, np.array([5.0])))
    >>> day.observed, day.expected, day.variance, [band.observed for band in day.bands]
    (4.0, 8.0, 5.0, [3.0, 1.0])
    """
    rows = [()] * len(exits) if shares is None else [tuple(row) for row in shares.tolist()]
    columns = (exits.observed.tolist(), exits.expected.tolist(), exits.squared.tolist())
    nothing = [None] * len(exits)
    return [DriftDay(sum(observed), sum(expected), squared_all, row, tuple(map(DriftDay, observed, expected, squared)),
                     of_own, of_new)
            for observed, expected, squared, squared_all, row, of_own, of_new in
            zip(*columns, exits.squared_all.tolist(), rows, own or nothing, new_owners or nothing, strict=True)]


def checked_state(state: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    """The state itself; raises ValueError where its names are not these: it is another detector's."""
    if sorted(state) != sorted(names):
        raise ValueError(f"a detector's state must have {', '.join(sorted(names))}, got {', '.join(sorted(state))}")
    return state
