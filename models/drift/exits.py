"""Observed against expected exits, day by day: what a calibrated model makes a martingale.

A request that is watched through a day adds its exit, 0 or 1, to the observed ones and the growth of its cumulative
hazard to the expected ones. Under the true model the difference has mean 0 on every day, however requests are
censored, and no end has to be waited for (Aalen, Borgan, Gjessing 2008, section 2.2.5: a counting process less its
compensator).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sojourn.models.drift.watched import WatchedRequests

DAY_S = 86_400
BANDS_S = (0.0, 3_600.0, 86_400.0)
"""Where bands of age begin: the first hour, the first day, later."""
LIFETIME_MIN_S = 1.0
"""An observed lifetime counts as at least this: clocks of whole seconds tell an end within the first one as 0."""


@dataclass(frozen=True, slots=True)
class DailyExits:
    """Exits of D days by B bands of the age at which requests were at risk. All float64 (D, B).

    first_day: the number of the first day: day d is [d, d + 1) x 86,400 s on the requests' clock.
    observed: exits. expected: what the curves predict of those at risk. squared: sum over clusters of the square of
    (observed - expected) of the cluster, the variance of observed - expected that lets requests of a cluster end
    together. squared_all: float64 (D,), the same over all bands at once.
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

    A day needs only what was known at its end: later days change nothing. An exit at midnight is the ending day's. An
    exit in the second of its arrival counts as one of age 1 s, which is the least that curves are asked for; whose
    watch begins at its end, at a later age, adds nothing. bands_s: where bands begin, rising from 0.

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
    """One entry for each request and day on which its age lay in (low, high]: row, day, band, expected, exit."""
    age_from = np.maximum((requests.watch_s - requests.arrival_s).astype(np.float64), low_s)
    age_end = (requests.end_s - requests.arrival_s).astype(np.float64)
    age_end = np.where(requests.is_event, np.maximum(age_end, LIFETIME_MIN_S), age_end)
    age_to = np.minimum(age_end, high_s)
    # as offsets from the first day's midnight, so that the days before it and after the last are cut off
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
    """The cumulative hazard of each row at an age, straight between the grid's ages."""
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
