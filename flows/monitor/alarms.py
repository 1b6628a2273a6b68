"""Alarms of a drift: the days of a log go through a detector, and each alarm says since when and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.flows.monitor.followed import Followed
from sojourn.models.drift import (
    DAY_S,
    DETECTORS,
    NEW_OWNERS,
    OWN,
    REFERENCE_DAYS,
    AnyOf,
    DailyExits,
    DriftDay,
    WatchedRequests,
    change_point,
    cumulative_hazard,
    daily_exits,
    drift_days,
    new_owner_days,
    own_exits,
)

_LOG_AGES_S = np.unique(np.rint(np.geomspace(30.0, 400.0 * DAY_S, 40)))
"""Ages at which curves are read where the model has no edges of its own, and beyond its last one."""
_AGAINST = {OWN: "before", NEW_OWNERS: "share"}
BANDS = ("in the first hour", "from 1 h to 1 d", "after the first day")


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm. day: number of the day on the clock that raised it; since_day: from when exits left the expected ones.

    since_low_day, since_high_day: the first and last day that may be it, see `change_point`.
    where: at which ages, in words. observed, expected: exits from `since_day` to `day`, at these ages; z: their
    difference in standard errors. against: `predicted` = what the curves say; `before` = the same owners' rate of the
    28 days before; `share` = requests of new owners, instead of exits, against their usual share.
    """

    day: int
    since_day: int
    since_low_day: int
    since_high_day: int
    where: str
    observed: float
    expected: float
    z: float
    against: str = "predicted"

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
    return DriftCheck(exits, *drift_alarms(exits, detector, *owner_days(followed, first, last)))


def owner_days(followed: Followed, first: int, last: int) -> tuple[list[DriftDay], list[DriftDay]]:
    """Exits against the owners' own rate before, and requests of new owners, of the days `first` .. `last`; of
    requests whose owner is known."""
    known = np.flatnonzero(followed.owner >= 0)
    begin_s, watch_s, end_s, owner = (each[known] for each in (followed.begin_s, followed.watch_s, followed.end_s,
                                                               followed.owner))
    return (own_exits(begin_s, watch_s, end_s, followed.is_event[known], owner, first, last),
            new_owner_days(followed.arrival_s[known], owner, first, last))


def drift_alarms(exits: DailyExits, detector: str, own: Sequence[DriftDay],
                 new_owners: Sequence[DriftDay]) -> tuple[np.ndarray, tuple[Alarm, ...]]:
    """The scores of a detector of `DETECTORS` after each day, float64 (D,), and its alarms."""
    running = DETECTORS[detector]()
    scores, alarms = [], []
    for place, day in enumerate(drift_days(exits, None, own, new_owners)):
        is_alarm = running.update(day)
        scores.append(running.score)
        if is_alarm:
            series = running.series if isinstance(running, AnyOf) else None
            of_owners = {OWN: own, NEW_OWNERS: new_owners}.get(series) if isinstance(series, str) else None
            alarms.append(_alarm(exits, place, series, of_owners))
    return np.array(scores), tuple(alarms)


def _alarm(exits: DailyExits, place: int, series: int | str | None, of_owners: Sequence[DriftDay] | None) -> Alarm:
    """What an alarm of a day says, from all days up to it; of an alarm of owners from the last 28, which the day is
    compared with."""
    band = series if isinstance(series, int) else None
    bands = slice(None) if band is None else slice(band, band + 1)
    low = 0 if of_owners is None else max(place + 1 - REFERENCE_DAYS, 0)
    days = slice(low, place + 1)
    if of_owners is None:
        observed, expected = exits.observed[days, bands].sum(axis=1), exits.expected[days, bands].sum(axis=1)
        squared = exits.squared_all[days] if band is None else exits.squared[days, band]
    else:
        observed, expected, squared = np.array([(day.observed, day.expected, day.variance)
                                                for day in of_owners[days]]).T
    change = change_point(observed, expected, squared)
    start = change.start
    total, due = float(observed[start:].sum()), float(expected[start:].sum())
    spread = math.sqrt(max(float(squared[start:].sum()), due, 1e-9))
    where = "at all ages" if band is None else BANDS[band]
    first = exits.first_day
    against = _AGAINST.get(series, "predicted") if isinstance(series, str) else "predicted"
    return Alarm(first + place, first + low + start, first + low + change.low, first + low + change.high, where, total,
                 due, (total - due) / spread, against)
