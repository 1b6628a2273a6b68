"""Alarms of a drift: the days of a log go through a detector, and each alarm says since when and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sojourn.flows.monitor.followed import Followed
from sojourn.models.drift import (
    DAY_S,
    DETECTORS,
    AnyOf,
    DailyExits,
    WatchedRequests,
    change_point,
    cumulative_hazard,
    daily_exits,
    drift_days,
)

_LOG_AGES_S = np.unique(np.rint(np.geomspace(30.0, 400.0 * DAY_S, 40)))
"""Ages at which curves are read where the model has no edges of its own, and beyond its last one."""
BANDS = ("in the first hour", "from 1 h to 1 d", "after the first day")


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm. day: number of the day on the clock that raised it; since_day: from when exits left the expected ones.

    since_low_day, since_high_day: the first and last day that may be it, see `change_point`.
    where: at which ages, in words. observed, expected: exits from `since_day` to `day`, at these ages; z: their
    difference in standard errors.
    """

    day: int
    since_day: int
    since_low_day: int
    since_high_day: int
    where: str
    observed: float
    expected: float
    z: float

    @property
    def ratio(self) -> float:
        """Observed over expected exits; above 1 = requests end earlier than predicted."""
        return self.observed / self.expected if self.expected > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """exits: by day; scores: float64 (D,), how near an alarm the detector was after each day, 1 = alarm."""

    exits: DailyExits
    scores: np.ndarray
    alarms: tuple[Alarm, ...]


def watched_requests(followed: Followed) -> WatchedRequests:
    """The decisions as detectors take them; curves are read at the edges of hazard models, which is exact there."""
    edges = [np.array(model.edges) for model in followed.models if model.edges]
    ages_s = np.unique(np.concatenate([[0.0], *edges, _LOG_AGES_S]))
    cluster = np.where(followed.owner < 0, np.arange(len(followed)) + followed.owner.max(initial=0) + 1, followed.owner)
    return WatchedRequests(followed.begin_s, followed.watch_s, followed.end_s, followed.is_event, cluster, ages_s,
                           cumulative_hazard(followed.table, ages_s))


def check_drift(followed: Followed, as_of_s: int, detector: str) -> DriftCheck | None:
    """Run the days that were over at `as_of_s` through a detector of `DETECTORS`; None where there is no whole day."""
    if len(followed) == 0:
        return None
    first, last = int(followed.watch_s.min() // DAY_S), as_of_s // DAY_S - 1
    if last < first:
        return None
    exits = daily_exits(watched_requests(followed), first, last)
    return DriftCheck(exits, *drift_alarms(exits, detector))


def drift_alarms(exits: DailyExits, detector: str) -> tuple[np.ndarray, tuple[Alarm, ...]]:
    """The scores of a detector of `DETECTORS` after each day, float64 (D,), and its alarms."""
    running = DETECTORS[detector]()
    scores, alarms = [], []
    for place, day in enumerate(drift_days(exits)):
        is_alarm = running.update(day)
        scores.append(running.score)
        if is_alarm:
            band = running.band if isinstance(running, AnyOf) else None
            alarms.append(_alarm(exits, place, band))
    return np.array(scores), tuple(alarms)


def _alarm(exits: DailyExits, place: int, band: int | None) -> Alarm:
    """What an alarm of a day says, from all days up to it."""
    bands = slice(None) if band is None else slice(band, band + 1)
    days = slice(0, place + 1)
    observed, expected = exits.observed[days, bands].sum(axis=1), exits.expected[days, bands].sum(axis=1)
    squared = exits.squared_all[days] if band is None else exits.squared[days, band]
    change = change_point(observed, expected, squared)
    start = change.start
    total, due = float(observed[start:].sum()), float(expected[start:].sum())
    spread = math.sqrt(max(float(squared[start:].sum()), due, 1e-9))
    where = "at all ages" if band is None else BANDS[band]
    first = exits.first_day
    return Alarm(first + place, first + start, first + change.low, first + change.high, where, total, due,
                 (total - due) / spread)
