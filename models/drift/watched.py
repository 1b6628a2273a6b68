"""Requests as a monitor knows them: when each was under observation, what became of it, and what was predicted."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from sojourn.models.curve_table import CurveTable

HAZARD_MAX = 30.0
"""A cumulative hazard is at most this: a curve that fell to 0 says exp(-30)."""


@dataclass(frozen=True, slots=True)
class WatchedRequests:
    """n requests whose ends are compared with their predicted curves. Times are seconds on one clock, int64 (n,).

    arrival_s: when it began to run. watch_s: from when its curve is held against its end, at or after the arrival
    (later for a curve that a new version gave to a running request). end_s: departure, or how far it is known.
    is_event: bool (n,), True = departed at end_s, False = censored there. cluster: int64 (n,), equal = their ends are
    not independent (an owner, a batch).
    ages_s: float64 (m,), rising from 0. hazard: float64 (n, m), the predicted cumulative hazard at each age, rising
    from 0; straight between the ages. Above the last age nothing is predicted: the request is no longer compared.

    Refused: other shapes, an end before the watch began, a watch before the arrival, a hazard that falls.
    """

    arrival_s: np.ndarray
    watch_s: np.ndarray
    end_s: np.ndarray
    is_event: np.ndarray
    cluster: np.ndarray
    ages_s: np.ndarray
    hazard: np.ndarray

    def __post_init__(self) -> None:
        n, m = len(self.arrival_s), len(self.ages_s)
        for each in fields(self):
            shape = {"ages_s": (m,), "hazard": (n, m)}.get(each.name, (n,))
            found = getattr(self, each.name).shape
            if found != shape:
                raise ValueError(f"{each.name} must be of shape {shape}, got {found}")
        if m < 2 or self.ages_s[0] != 0.0 or not (np.diff(self.ages_s) > 0.0).all():
            raise ValueError(f"ages_s must be at least two ages that rise from 0, got {self.ages_s!r}")
        if (self.watch_s < self.arrival_s).any():
            raise ValueError(f"watch_s must be at or after arrival_s, got {_first(self.watch_s < self.arrival_s)}")
        if (self.end_s < self.watch_s).any():
            raise ValueError(f"end_s must be at or after watch_s, got {_first(self.end_s < self.watch_s)}")
        is_good = np.isfinite(self.hazard).all(axis=1) & (np.diff(self.hazard, axis=1) >= 0.0).all(axis=1)
        if not is_good.all():
            raise ValueError(f"hazard must be finite and must not fall with the age, "
                             f"got {_first(~np.asarray(is_good))}")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def take(self, idx: np.ndarray) -> WatchedRequests:
        """Those at `idx` (positions or a bool mask)."""
        return WatchedRequests(self.arrival_s[idx], self.watch_s[idx], self.end_s[idx], self.is_event[idx],
                               self.cluster[idx], self.ages_s, self.hazard[idx])

    def known_at(self, now_s: int) -> WatchedRequests:
        """The same as it was known at a time: what began to be watched before it, censored there.

        >>> ages_s = np.array([0.0, 100.0])
        >>> rows = WatchedRequests(*np.array([[0, 50], [0, 50], [60, 70]]), np.array([True, True]), np.arange(2),
        ...                        ages_s, np.tile(ages_s / 50.0, (2, 1)))
        >>> seen = rows.known_at(60)
        >>> seen.end_s.tolist(), seen.is_event.tolist()
        ([60, 60], [True, False])
        """
        seen = self.take(self.watch_s < now_s)
        return WatchedRequests(seen.arrival_s, seen.watch_s, np.minimum(seen.end_s, now_s),
                               seen.is_event & (seen.end_s <= now_s), seen.cluster, seen.ages_s, seen.hazard)


def cumulative_hazard(table: CurveTable, ages_s: np.ndarray) -> np.ndarray:
    """-log P(lifetime > age) of each curve, float64 (n, m), at most 30; never falling. ages_s: float64 (m,), s.

    >>> from sojourn.models.curve_table import HazardTable
    >>> table = HazardTable.from_hazards(np.array([0.0, 10.0]), np.array([[0.5]]), 20.0, np.array([0.0]))
    >>> cumulative_hazard(table, np.array([0.0, 5.0, 10.0, 30.0])).round(3).tolist()
    [[0.0, 0.25, 0.5, 1.5]]
    """
    with np.errstate(divide="ignore"):
        found = np.column_stack([-np.log(table.survival(float(age_s), 0.0)) for age_s in ages_s])
    return np.maximum.accumulate(np.clip(found, 0.0, HAZARD_MAX), axis=1) + 0.0  # no -0


def _first(is_bad: np.ndarray) -> str:
    return f"request {int(np.flatnonzero(is_bad)[0])} (and {int(is_bad.sum()) - 1} more)"
