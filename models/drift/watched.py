"""The requests of a monitor: their time under observation, end and prediction; and exits by day.

A request that is watched during a day adds its exit, 0 or 1, to the observed exits, and the growth
of its cumulative hazard to the expected ones. Under the true model the difference is a martingale
with mean 0 on every day, for any censoring, without waiting for ends (Aalen, Borgan, Gjessing 2008,
section 2.2.5: a counting process less its compensator).

`own_exits` and `new_owner_days` compare owners today with the past: the rate of their exits, and
the share of new owners. They use no model, so a model whose owner history follows a drift does not
hide it. `Detector` is the contract of drift detectors, with a state that can be saved as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from sojourn.models.curve_table import CurveTable
from sojourn.serving.inputs import DAY_S

HAZARD_MAX = 30.0
"""The largest cumulative hazard: survival of exp(-30)."""


@dataclass(frozen=True, slots=True)
class WatchedRequests:
    """n requests whose ends are compared with their predicted curves.

    Times are seconds on one clock, int64 (n,). arrival_s: when it began to run. watch_s: start of the comparison, at or
    after the arrival (later for a curve of a new version for a running request). end_s: departure, or end of
    observation. is_event: bool (n,), True = departed at end_s, False = censored there. cluster: int64 (n,), equal =
    their ends are not independent (an owner, a batch). ages_s: float64 (m,), rising from 0. hazard: float64 (n, m), the
    predicted cumulative hazard at each age, rising from 0; linear between the ages. Above the last age nothing is
    predicted, and the request is no longer compared.

    ValueError for other shapes, an end before watch_s, watch_s before the arrival, a falling hazard.
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
            shape_found = getattr(self, each.name).shape
            if shape_found != shape:
                raise ValueError(f"{each.name} must be of shape {shape}, got {shape_found}")
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
        """The requests at `idx` (positions or a bool mask)."""
        return WatchedRequests(self.arrival_s[idx], self.watch_s[idx], self.end_s[idx], self.is_event[idx],
                               self.cluster[idx], self.ages_s, self.hazard[idx])

    def known_at(self, now_s: int) -> WatchedRequests:
        """The requests as known at a time: those watched before it, censored there.

        >>> ages_s = np.array([0.0, 100.0])
        >>> rows = WatchedRequests(*np.array([[0, 50], [0, 50], [60, 70]]), np.array([True, True]), np.arange(2),
        ...                        ages_s, np.tile(ages_s / 50.0, (2, 1)))
        >>> seen = rows.known_at(60)
        >>> seen.end_s.tolist(), seen.is_event.tolist()
        ([60, 60], [True, False])
        """
        past = self.take(self.watch_s < now_s)
        return WatchedRequests(past.arrival_s, past.watch_s, np.minimum(past.end_s, now_s),
                               past.is_event & (past.end_s <= now_s), past.cluster, past.ages_s, past.hazard)


def cumulative_hazard(table: CurveTable, ages_s: np.ndarray) -> np.ndarray:
    """-log P(lifetime > age) of each curve, float64 (n, m), at most 30; never falling. ages_s: float64 (m,), s.

    >>> from sojourn.models.curve_table import HazardTable
    >>> table = HazardTable.from_hazards(np.array([0.0, 10.0]), np.array([[0.5]]), 20.0, np.array([0.0]))
    >>> cumulative_hazard(table, np.array([0.0, 5.0, 10.0, 30.0])).round(3).tolist()
    [[0.0, 0.25, 0.5, 1.5]]
    """
    with np.errstate(divide="ignore"):
        hazard = np.column_stack([-np.log(table.survival(float(age_s), 0.0)) for age_s in ages_s])
    return np.maximum.accumulate(np.clip(hazard, 0.0, HAZARD_MAX), axis=1) + 0.0  # no -0


def _first(is_bad: np.ndarray) -> str:
    return f"request {int(np.flatnonzero(is_bad)[0])} (and {int(is_bad.sum()) - 1} more)"


BANDS_S = (0.0, 3_600.0, 86_400.0)
"""The start of bands of age: the first hour, the first day, later."""
LIFETIME_MIN_S = 1.0
"""The least observed lifetime: on clocks of whole seconds, an end within the first second is at 0."""


@dataclass(frozen=True, slots=True)
class DailyExits:
    """Exits of D days by B bands of the age at which requests were at risk. All float64 (D, B).

    first_day: the number of the first day: day d is [d, d + 1) x 86,400 s on the requests' clock. observed: exits.
    expected: predicted by the curves of requests at risk. squared: sum over clusters of the square of (observed -
    expected) of the cluster, the variance of observed - expected that lets requests of a cluster end together.
    squared_all: float64 (D,), the same over all bands at once.
    """

    first_day: int
    observed: np.ndarray
    expected: np.ndarray
    squared: np.ndarray
    squared_all: np.ndarray

    def __len__(self) -> int:
        return len(self.observed)


def daily_exits(requests: WatchedRequests, first_day: int, last_day: int,
                bands_s: tuple[float, ...] = BANDS_S) -> DailyExits:
    """Observed and expected exits of the days `first_day` .. `last_day`, both included.

    A day uses only data known at its end: later days change nothing. An exit at midnight belongs to the ending day. An
    exit in the second of its arrival has age 1 s, the least age of curves; a request with watch_s at its end, at a
    later age, adds nothing. bands_s: start of bands, rising from 0.

    >>> ages_s = np.array([0.0, 1e6])
    >>> rows = WatchedRequests(*np.array([[0, 0], [0, 0], [43_200, 172_800]]), np.array([True, False]),
    ...                        np.arange(2), ages_s, np.tile(ages_s / 86_400.0, (2, 1)))  # one exit a day each
    >>> days = daily_exits(rows, 0, 1, (0.0,))
    >>> days.observed[:, 0].tolist(), days.expected[:, 0].tolist(), days.squared_all.tolist()
    ([1.0, 0.0], [1.5, 1.0], [1.25, 1.0])
    """
    if last_day < first_day:
        raise ValueError(f"last_day must be at or after first_day {first_day}, got {last_day!r}")
    if bands_s[0] != 0.0 or any(high <= low for low, high in pairwise(bands_s)):
        raise ValueError(f"bands_s must rise from 0, got {bands_s!r}")
    n_days, n_bands = last_day - first_day + 1, len(bands_s)
    last_age_s = requests.ages_s[-1]
    parts = []
    for idx_band, (low_s, high_s) in enumerate(pairwise((*bands_s, np.inf))):
        parts.append(_spells(requests, max(low_s, 0.0), min(high_s, last_age_s), idx_band, first_day, n_days))
    row, day, band, expected, is_exit = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    cell = day * n_bands + band
    shape = (n_days, n_bands)
    excess = is_exit - expected
    _, cluster = np.unique(requests.cluster, return_inverse=True)
    return DailyExits(
        first_day, np.bincount(cell, is_exit, n_days * n_bands).reshape(shape),
        np.bincount(cell, expected, n_days * n_bands).reshape(shape),
        _squared(cell, cluster[row], excess, n_days * n_bands).reshape(shape),
        _squared(day, cluster[row], excess, n_days))


def _spells(requests: WatchedRequests, low_s: float, high_s: float, idx_band: int, first_day: int,
            n_days: int) -> tuple[np.ndarray, ...]:
    """One entry for each request and day on which its age was in (low, high]: row, day, band, expected, exit."""
    age_from = np.maximum((requests.watch_s - requests.arrival_s).astype(np.float64), low_s)
    age_end = (requests.end_s - requests.arrival_s).astype(np.float64)
    age_end = np.where(requests.is_event, np.maximum(age_end, LIFETIME_MIN_S), age_end)
    age_to = np.minimum(age_end, high_s)
    # offsets from the first day's midnight, to cut off other days
    base_s = requests.arrival_s - first_day * DAY_S
    day_from = np.maximum((base_s + age_from) // DAY_S, 0).astype(np.int64)
    day_to = np.minimum(np.ceil((base_s + age_to) / DAY_S).astype(np.int64) - 1, n_days - 1)
    idx = np.flatnonzero((age_to > age_from) & (day_to >= day_from))
    count = (day_to - day_from + 1)[idx]
    row = np.repeat(idx, count)
    day = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + day_from[row]
    start = np.maximum(age_from[row], day * DAY_S - base_s[row])
    end = np.minimum(age_to[row], (day + 1) * DAY_S - base_s[row])
    expected = _hazard_at(requests, row, end) - _hazard_at(requests, row, start)
    is_exit = requests.is_event[row] & (end == age_end[row])
    return row, day, np.full(len(row), idx_band), expected, is_exit.astype(np.float64)


def _hazard_at(requests: WatchedRequests, row: np.ndarray, age_s: np.ndarray) -> np.ndarray:
    """The cumulative hazard of each row at an age, linear between the grid's ages."""
    ages_s = requests.ages_s
    idx = np.clip(np.searchsorted(ages_s, age_s, side="right") - 1, 0, len(ages_s) - 2)
    share = (age_s - ages_s[idx]) / (ages_s[idx + 1] - ages_s[idx])
    low, high = requests.hazard[row, idx], requests.hazard[row, idx + 1]
    return low + share * (high - low)


def _squared(cell: np.ndarray, cluster: np.ndarray, excess: np.ndarray, n_cells: int) -> np.ndarray:
    """By cell, the sum over clusters of the square of the cluster's sum."""
    n_clusters = int(cluster.max(initial=0)) + 1
    pairs, inverse = np.unique(cell * n_clusters + cluster, return_inverse=True)
    sums = np.bincount(inverse, excess, len(pairs))
    return np.bincount(pairs // n_clusters, sums**2, n_cells)


REFERENCE_DAYS = 28
"""Days before today that give the same owners' rate."""
NEW_DAYS = 7
"""An owner is new for so many days after its first request."""
SHARE_DAYS, SHARE_DAYS_MIN = 56, 14
"""Days that give the usual share of new owners, and the least number of them. The first 14 days of
a record do not count, since most owners look new in them."""
_AGES_S = np.append(0.0, np.geomspace(60.0, 400.0 * DAY_S, 42))
"""The start of cells of age, a factor of 1.4 apart; an owner's rate is constant within a cell."""


def own_exits(arrival_s: np.ndarray, watch_s: np.ndarray, end_s: np.ndarray, is_event: np.ndarray, owner: np.ndarray,
              first_day: int, last_day: int) -> list[DriftDay]:
    """Exits of each day relative to the rate of the same owners and ages in the 28 days before.

    One `DriftDay` for each of `first_day` .. `last_day`. A two-sample log-rank test stratified by owner (Mantel 1966)
    compares today with those 28 days: of all exits of an owner in a cell of age, today's expected share is its share of
    the time at risk. Without change, observed less expected has mean 0 for any lifetimes. variance: summed over owners.
    arrival_s, watch_s, end_s, is_event: as in `WatchedRequests`, int64 and bool (n,). owner: int64 (n,); requests of an
    owner without running time in the 28 days before do not count. A day uses only data known at its end.

    >>> arrival_s = np.arange(0, 40 * DAY_S, 3_600)
    >>> end_s = arrival_s + np.where(arrival_s < 35 * DAY_S, 1_800, 900)  # from day 35 on half as long
    >>> days = own_exits(arrival_s, arrival_s, end_s, np.ones(960, bool), np.zeros(960, int), 30, 39)
    >>> [round(day.observed - day.expected, 1) for day in days[3:7]]
    [0.0, 0.0, 23.7, 23.4]
    """
    if last_day < first_day:
        raise ValueError(f"last_day must be at or after first_day {first_day}, got {last_day!r}")
    _, code = np.unique(owner, return_inverse=True)
    day, cell, spell_owner, at_risk_s, exits = _owner_spells(arrival_s, watch_s, end_s, is_event, code)
    days = []
    for today in range(first_day, last_day + 1):
        low, begin, high = np.searchsorted(day, [today - REFERENCE_DAYS, today, today + 1])
        cells, place = np.unique(cell[begin:high], return_inverse=True)
        if len(cells) == 0:
            days.append(DriftDay(0.0, 0.0, 0.0))
            continue
        now_s, now_exits = (np.bincount(place, each[begin:high], len(cells)) for each in (at_risk_s, exits))
        then = np.minimum(np.searchsorted(cells, cell[low:begin]), len(cells) - 1)
        is_same = cells[then] == cell[low:begin]
        then_s, then_exits = (np.bincount(then[is_same], each[low:begin][is_same], len(cells))
                              for each in (at_risk_s, exits))
        is_told = then_s > 0.0
        expected = np.where(is_told, (now_exits + then_exits) * now_s / (now_s + then_s), 0.0)
        observed = np.where(is_told, now_exits, 0.0)
        owner_of = np.zeros(len(cells), np.int64)
        owner_of[place] = spell_owner[begin:high]
        excess = np.bincount(owner_of, observed - expected)
        days.append(DriftDay(float(observed.sum()), float(expected.sum()), float((excess**2).sum())))
    return days


def new_owner_days(arrival_s: np.ndarray, owner: np.ndarray, first_day: int, last_day: int) -> list[DriftDay]:
    """Requests of each day by owners whose first request is less than 7 days old, relative to their usual share.

    One `DriftDay` for each of `first_day` .. `last_day`: observed = such requests, expected = the
    day's requests times their share in the 56 days before; variance: summed over owners. A day is
    empty before there are 14 days to compare with, counted from the 15th day of the record on.
    arrival_s: int64 (n,), from the start of the record on. owner: int64 (n,).

    >>> arrival_s = np.arange(0, 60 * DAY_S, 3_600)
    >>> owner = np.where(arrival_s < 50 * DAY_S, arrival_s % 7, arrival_s)  # from day 50 on always another
    >>> days = new_owner_days(arrival_s, owner, 48, 51)
    >>> [(day.observed, round(day.expected, 1)) for day in days]
    [(0.0, 0.0), (0.0, 0.0), (24.0, 0.0), (24.0, 0.6)]
    """
    if last_day < first_day:
        raise ValueError(f"last_day must be at or after first_day {first_day}, got {last_day!r}")
    if len(arrival_s) == 0:
        return [DriftDay(0.0, 0.0, 0.0)] * (last_day - first_day + 1)
    _, code = np.unique(owner, return_inverse=True)
    seen_s = np.full(int(code.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(seen_s, code, arrival_s)
    order = np.argsort(arrival_s, kind="stable")
    code, day = code[order], arrival_s[order] // DAY_S
    is_new = (arrival_s[order] - seen_s[code] < NEW_DAYS * DAY_S).astype(np.float64)
    begin_day = int(day[0]) + SHARE_DAYS_MIN
    days = []
    for today in range(first_day, last_day + 1):
        low, begin, high = np.searchsorted(day, [max(today - SHARE_DAYS, begin_day), today, today + 1])
        if today - begin_day < SHARE_DAYS_MIN or begin <= low or high == begin:
            days.append(DriftDay(0.0, 0.0, 0.0))
            continue
        share = float(is_new[low:begin].mean())
        excess = np.bincount(code[begin:high], is_new[begin:high] - share)
        days.append(DriftDay(float(is_new[begin:high].sum()), share * float(high - begin), float((excess**2).sum())))
    return days


def _owner_spells(arrival_s: np.ndarray, watch_s: np.ndarray, end_s: np.ndarray, is_event: np.ndarray,
            owner: np.ndarray) -> tuple[np.ndarray, ...]:
    """By day: day, cell of owner and age, owner, seconds at risk, exit; one entry for each request, day and cell."""
    age_from = (watch_s - arrival_s).astype(np.float64)
    age_end = (end_s - arrival_s).astype(np.float64)
    age_end = np.where(is_event, np.maximum(age_end, LIFETIME_MIN_S), age_end)
    parts = []
    for idx_age, (low_s, high_s) in enumerate(pairwise(_AGES_S)):
        start, stop = np.maximum(age_from, low_s), np.minimum(age_end, high_s)
        idx = np.flatnonzero(stop > start)
        day_from = ((arrival_s[idx] + start[idx]) // DAY_S).astype(np.int64)
        count = np.ceil((arrival_s[idx] + stop[idx]) / DAY_S).astype(np.int64) - day_from
        row = np.repeat(idx, count)
        day = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(day_from, count)
        base_s = arrival_s[row]
        last = np.minimum(stop[row], (day + 1) * DAY_S - base_s)
        at_risk_s = last - np.maximum(start[row], day * DAY_S - base_s)
        is_exit = is_event[row] & (last == age_end[row])
        parts.append((day, owner[row] * len(_AGES_S) + idx_age, owner[row], at_risk_s, is_exit.astype(np.float64)))
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return tuple(each[order] for each in columns)


TOLERANCE = 0.25
"""If exits are within this share of the expected ones, the model counts as calibrated."""


@dataclass(frozen=True, slots=True)
class DriftDay:
    """The input of a detector for one day.

    observed, expected: exits. variance: of their difference, by clusters. shares: the share of running cores in each
    lifetime class, summing to 1, for detectors of class shares; may be empty for others. bands: the same day by bands
    of age, for `AnyOf`. own: exits relative to the owners' earlier rate, `own_exits`; new_owners: requests of new
    owners relative to their usual share, `new_owner_days`; None if not counted.
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

        The variance is at least that of independent requests; the residual is 0 without expected and observed exits.

        >>> DriftDay(130.0, 100.0, 400.0).residual(1, 0.1), DriftDay(130.0, 100.0, 400.0).residual(-1, 0.1)
        (1.0, -2.0)
        """
        variance = max(self.variance, self.expected)
        if variance <= 0.0:
            return 0.0
        return (side * (self.observed - self.expected) - tolerance * self.expected) / math.sqrt(variance)


class Detector(Protocol):
    """Takes one day after another. After an alarm a detector starts anew; its docstring lists the
    state that it keeps."""

    @property
    def score(self) -> float:
        """The distance to an alarm after the last day, 1 = alarm; after an alarm the score that raised it."""
        ...

    def update(self, day: DriftDay) -> bool:
        """Add the next day; True = alarm."""
        ...

    def state(self) -> dict[str, Any]:
        """The whole state for JSON; `resume` of a new detector with the same settings accepts it."""
        ...

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises ValueError for the state of another detector."""
        ...


def drift_days(exits: DailyExits, shares: np.ndarray | None = None, own: Sequence[DriftDay] | None = None,
               new_owners: Sequence[DriftDay] | None = None) -> list[DriftDay]:
    """The days of `exits` as inputs of detectors, all ages together and by bands. shares: float64
    (D, K) or None. own, new_owners: from `own_exits` and `new_owner_days` for the same D days, or None.

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
    """The state; raises ValueError if its names differ: it is of another detector."""
    if sorted(state) != sorted(names):
        raise ValueError(f"a detector's state must have {', '.join(sorted(names))}, got {', '.join(sorted(state))}")
    return state
