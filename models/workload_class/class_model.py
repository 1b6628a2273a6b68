"""Workload classes of one resource, learnt from the samples so far, and again every day.

`Centres` of classes come from k-means++; classes keep their ids from one day to the next.
`SlotMaxima` has highest and mean use of each request in each slot of each local day.

The class's centre, scaled to a request's maximum, is a poor bound of its need (docs/usage/classes.md), and
so is the maximum of a few hours. A better bound adds a surplus, learnt from earlier requests: by
how much those with the same class after the same observation exceeded their maximum afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import CLASSES, N_ENDS, N_HOURS, N_SLOTS, SEEN_S, WorkloadClasses, nearest_centre

N_CLASSES = 20
"""The best of 10 to 30 in the paper (CTCL, section V-C)."""
N_SEEDS = 10
SHIFT_MAX = 0.25
"""A centre that moves further (root mean square over slots, shares of the reservation) becomes another class."""


@dataclass(frozen=True, slots=True)
class Centres:
    """ids: int64 (k,). centres: float64 (k, n_slots). labels: int64 (n,), position of each request's class.

    next_id: the lowest id that was never used.
    """

    ids: np.ndarray
    centres: np.ndarray
    labels: np.ndarray
    next_id: int


def cluster(profiles: np.ndarray, n_classes: int = N_CLASSES, *, seed: int = 0) -> Centres:
    """Classes of complete profiles, by the best of 10 runs of k-means++ (CTCL, section V-C).

    profiles: (n, n_slots), without NaN. With fewer distinct profiles than n_classes, each is a class. ids follow the
    size of the class, largest first. ValueError for no profile, NaN, n_classes below 1.

    >>> centres = cluster(np.array([[0.1, 0.1], [0.1, 0.2], [0.9, 0.1]]), 2)
    >>> centres.labels.tolist(), centres.centres.round(2).tolist()
    ([0, 0, 1], [[0.1, 0.15], [0.9, 0.1]])
    """
    values = _check_profiles(profiles)
    if n_classes < 1:
        raise ValueError(f"n_classes must be at least 1, got {n_classes!r}")
    k = min(n_classes, len(np.unique(values, axis=0)))
    centres, labels = _fit_centres(values, n_clusters=k, n_init=N_SEEDS, random_state=seed)
    order = np.argsort(-np.bincount(labels, minlength=k), kind="stable")
    rank = np.empty(k, np.int64)
    rank[order] = np.arange(k)
    return Centres(np.arange(k), centres[order], rank[labels], k)


def cluster_again(profiles: np.ndarray, before: Centres, n_classes: int = N_CLASSES) -> Centres:
    """Classes of today's profiles, started from yesterday's centres and with their ids.

    Old and new centres are matched with the least sum of squared moves. A pair with a distance of SHIFT_MAX or more is
    no match: the old id is never used again, the new centre gets the next id. An id without requests is dropped, too.
    If there are more distinct profiles than centres, and fewer than n_classes centres, the profiles with the largest
    distance from all centres start new classes.
    """
    values = _check_profiles(profiles)
    distinct = np.unique(values, axis=0)
    k = min(n_classes, len(distinct))
    starts = before.centres[:k]  # the largest classes of the first clustering come first
    while len(starts) < k:
        distance = ((distinct[:, None, :] - starts[None]) ** 2).sum(axis=2).min(axis=1)
        starts = np.vstack([starts, distinct[distance.argmax()]])
    centres, labels = _fit_centres(values, n_clusters=k, init=starts, n_init=1)
    is_held = np.bincount(labels, minlength=k) > 0
    centres, labels = centres[is_held], (np.cumsum(is_held) - 1)[labels]
    ids, next_id = _match_ids(before, centres)
    return Centres(ids, centres, labels, next_id)


def _fit_centres(values: np.ndarray, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Centres, float64, and the label of each row, int64.

    A centre is the mean of its rows, so it is clipped to their range: KMeans shifts the values by
    their mean, and a rounding error may give, for example, a centre below 0 if all values are 0.
    """
    fitted: Any = KMeans(**settings).fit(values)
    centres = np.clip(np.asarray(fitted.cluster_centers_, np.float64), values.min(), values.max())
    return centres, np.asarray(fitted.labels_, np.int64)


def _match_ids(before: Centres, centres: np.ndarray) -> tuple[np.ndarray, int]:
    cost = ((before.centres[:, None, :] - centres[None]) ** 2).mean(axis=2)
    cost = np.minimum(cost, SHIFT_MAX**2)  # so that one distant centre does not change the ids of others
    old, new = linear_sum_assignment(cost)
    ids = np.full(len(centres), -1, np.int64)
    is_same = cost[old, new] < SHIFT_MAX**2
    ids[new[is_same]] = before.ids[old[is_same]]
    fresh = np.flatnonzero(ids < 0)
    ids[fresh] = before.next_id + np.arange(len(fresh))
    return ids, before.next_id + len(fresh)


def _check_profiles(profiles: np.ndarray) -> np.ndarray:
    values = np.asarray(profiles, np.float64)
    if values.ndim != 2 or not len(values):
        raise ValueError(f"profiles must be at least one row of slots, got the shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("profiles must be finite, got NaN or infinity")
    return values


RESOURCES = ("cpu", "mem")

_COVERED_DAY = 0.9


@dataclass(frozen=True, slots=True)
class SlotMaxima:
    """Use by 15-minute slots of local days: column day * 96 + slot.

    request_ids: (n,). highest, mean: float32 (n, n_days * 96), shares of the reservation, NaN = no sample. first_slot:
    the column of the series' first step. When daylight saving ends, an hour's slots hold two hours.

    >>> from sojourn.serving.usage import DayClock
    >>> grid = UsageGrid(np.array([7]), np.array([[0.5, 0.25, 0.75]], np.float32), None, np.ones(1), np.ones(1), 300,
    ...                  600, DayClock())
    >>> slot_maxima(grid).highest[0, :3].tolist()
    [0.5, 0.75, nan]
    """

    request_ids: np.ndarray
    highest: np.ndarray
    mean: np.ndarray
    first_slot: int

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def n_days(self) -> int:
        """Local days; the first and the last one may be partial."""
        return self.highest.shape[1] // N_SLOTS

    def before(self, column: int, rows: np.ndarray | None = None) -> SlotMaxima:
        """The samples before a column, of all requests or some, in whole days; later slots are NaN."""
        n_columns = -(-column // N_SLOTS) * N_SLOTS
        selected = slice(None) if rows is None else rows
        highest, mean = self.highest[selected, :n_columns].copy(), self.mean[selected, :n_columns].copy()
        highest[:, column:] = mean[:, column:] = np.nan
        return SlotMaxima(self.request_ids[selected], highest, mean, self.first_slot)

    def profiles(self) -> np.ndarray:
        """The day of each request: each slot's highest use over all days, float32 (n, 96), NaN = no sample."""
        return _quietly_folded(np.nanmax, self.highest.reshape(len(self), self.n_days, N_SLOTS))

    def mean_profiles(self) -> np.ndarray:
        """Each slot's mean over the days, float32 (n, 96)."""
        return _quietly_folded(np.nanmean, self.mean.reshape(len(self), self.n_days, N_SLOTS))


def slot_maxima(grid: UsageGrid, resource: str = "cpu") -> SlotMaxima:
    """Use by slots of local days of one resource of a grid; ValueError if the grid does not have it.

    resource: `cpu` or `mem`. A step longer than a slot counts in its first slot. Infinite or
    negative samples count as missing.
    """
    if resource not in RESOURCES:
        raise ValueError(f"resource must be one of {', '.join(RESOURCES)}, got {resource!r}")
    values = getattr(grid, resource)
    if values is None:
        raise ValueError("resource must be one that the grid has, got 'mem' of a grid without memory")
    if not values.shape[1]:
        raise ValueError("grid must have at least one step, got none")
    times_s = grid.time_s()
    columns = grid.clock.day(times_s) * N_SLOTS + grid.clock.slot(times_s, N_SLOTS)
    first_day = int(columns.min()) // N_SLOTS
    columns = columns - first_day * N_SLOTS
    n_columns = (int(columns.max()) // N_SLOTS + 1) * N_SLOTS
    values = np.where(np.isfinite(values) & (values >= 0.0), values, np.nan).astype(np.float32)
    order = np.argsort(columns, kind="stable")  # not sorted when daylight saving ends
    sorted_columns = columns[order]
    starts = np.flatnonzero(np.diff(sorted_columns, prepend=-1))
    ordered = values[:, order]
    is_seen = ~np.isnan(ordered)
    n_seen = np.add.reduceat(is_seen, starts, axis=1, dtype=np.int64)
    total = np.add.reduceat(np.where(is_seen, ordered, 0.0), starts, axis=1, dtype=np.float64)
    most = np.maximum.reduceat(np.where(is_seen, ordered, -np.inf), starts, axis=1)
    highest = np.full((len(grid), n_columns), np.nan, np.float32)
    mean = highest.copy()
    at = sorted_columns[starts]
    highest[:, at] = np.where(n_seen > 0, most, np.nan)
    mean[:, at] = np.where(n_seen > 0, total / np.maximum(n_seen, 1), np.nan)
    return SlotMaxima(np.asarray(grid.request_ids), highest, mean, int(columns[0]))


def covered(profiles: np.ndarray) -> np.ndarray:
    """True for profiles with samples in at least nine tenths of their slots, bool (n,): classes are
    learnt from them."""
    return (~np.isnan(profiles)).mean(axis=1) >= _COVERED_DAY


def filled(profiles: np.ndarray) -> np.ndarray:
    """The profiles with missing slots at the row's maximum, float64, so that no unknown slot counts as idle."""
    rows = np.asarray(profiles, np.float64)
    return np.where(np.isnan(rows), _quietly_folded(np.nanmax, rows[:, :, None]), rows)


def _quietly_folded(fold: np.ufunc | object, days: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a slot without samples
        return fold(days, axis=1)  # type: ignore[operator]


QUANTILE = 0.98
"""Chosen on bitbrains, July 2013 (docs/usage/classes.md): half the under-served work, a quarter of the reservation."""
N_WINDOWS_MIN = 20
"""With fewer windows of a class, those of all classes are used."""
N_WINDOWS_MAX = 5_000
"""The most windows of one end and length; the latest are kept."""
_COVERED = 0.75
_SLOT_S = 900
_BESIDE = 2


def class_surplus(earlier: SlotMaxima, centres: np.ndarray,
                  quantile: float = QUANTILE) -> tuple[np.ndarray, np.ndarray]:
    """Surplus by length of observation, its end and hour of the day, >= 0.

    Returns that of each class, float64 (k, 3 * 8 * 24), and of all requests, float64 (3 * 8 * 24,). earlier: earlier
    requests. A window is one request's observation of a length of SEEN_S until one of N_ENDS times of one day; its
    class is that of the nearest centre. Its surplus is the use in the 24 hours after, minus the maximum in the window.
    The quantile is over all windows of a class and the slots of an hour with half an hour on each side. An hour without
    windows gets the class's maximum, or the whole reservation (1) if no hour is known. ValueError for a quantile that
    is not between 0 and 1.
    """
    if not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile must be above 0 and below 1, got {quantile!r}")
    k = len(centres)
    table = np.full((k + 1, len(SEEN_S), N_ENDS, N_HOURS), np.nan)  # the last row: all requests
    after = np.full((len(earlier), N_SLOTS), np.nan, np.float32)
    values = np.hstack([earlier.highest, after])
    for i, seen_s in enumerate(SEEN_S):
        for end in range(N_ENDS):
            maxima, profiles, following = _windows(values, earlier.n_days, seen_s // _SLOT_S, end * N_SLOTS // N_ENDS)
            if not len(maxima):
                continue
            labels = nearest_centre(profiles, centres)
            above = following - maxima[:, None]
            n_windows = np.bincount(labels, minlength=k)
            is_few = np.append(n_windows < N_WINDOWS_MIN, True)
            table[is_few, i, end] = _by_hour(above, quantile)
            for c in np.flatnonzero(n_windows >= N_WINDOWS_MIN):
                table[c, i, end] = _by_hour(above[labels == c], quantile)
    table = np.maximum(table, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        highest = np.nan_to_num(np.nanmax(table, axis=(2, 3), keepdims=True), nan=1.0)
    table_filled = np.where(np.isnan(table), highest, table).reshape(k + 1, -1)
    return table_filled[:k], table_filled[k]


def _windows(values: np.ndarray, n_days: int, n_slots: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximum (m,), profile (m, 96) and the next 24 hours by slot of the day (m, 96) of all windows."""
    owns, profiles, followings = [], [], []
    n_kept = 0
    for day in reversed(range(n_days)):
        last = day * N_SLOTS + end
        if last < n_slots:
            break
        window, following = values[:, last - n_slots:last], values[:, last:last + N_SLOTS]
        is_used = ((~np.isnan(window)).mean(axis=1) >= _COVERED) & (~np.isnan(following)).any(axis=1)
        window, following = window[is_used], following[is_used]
        profile = np.full((len(window), N_SLOTS), np.nan, np.float32)
        profile[:, np.arange(last - n_slots, last) % N_SLOTS] = window
        owns.append(np.nanmax(window, axis=1))
        profiles.append(profile)
        followings.append(np.roll(following, end, axis=1))
        n_kept += len(window)
        if n_kept >= N_WINDOWS_MAX:
            break
    if not n_kept:
        nothing = np.empty((0, N_SLOTS))
        return np.empty(0), nothing, nothing
    return np.concatenate(owns), np.concatenate(profiles), np.concatenate(followings)


def _by_hour(above: np.ndarray, quantile: float) -> np.ndarray:
    """The quantile of each hour of the day, float64 (24,), NaN without samples."""
    if not len(above):
        return np.full(N_HOURS, np.nan)
    width = N_SLOTS // N_HOURS
    around = np.hstack([above[:, -_BESIDE:], above, above[:, :_BESIDE]])
    columns = np.arange(N_HOURS)[:, None] * width + np.arange(width + 2 * _BESIDE)
    values = np.sort(around.T[columns].reshape(N_HOURS, -1), axis=1)  # one sort of all hours; NaN comes last
    n = (~np.isnan(values)).sum(axis=1)
    place = np.maximum(n - 1, 0) * quantile
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(n - 1, 0))
    hours = np.arange(N_HOURS)
    below, beyond = values[hours, low].astype(np.float64), values[hours, high].astype(np.float64)
    return np.where(n > 0, below + (beyond - below) * (place - low), np.nan)


@dataclass(frozen=True, slots=True)
class ClassModel:
    """The served classes, and the start of the next day's clustering.

    classes: of serving. clustered: centres, ids, and the class of each request in training.
    learnt_of: their ids. hours: float64 (3 * 8 * 24,), the surplus of all requests together.
    """

    classes: WorkloadClasses
    clustered: Centres
    learnt_of: np.ndarray
    hours: np.ndarray

    def by(self, rules: Sequence[str]) -> ClassModel:
        """The model with the surplus of the classes, or of all requests, at each length of observation.

        rules: of SURPLUS_RULES, one for each of SEEN_S.
        """
        surplus = self.classes.surplus.reshape(len(self.classes), len(SEEN_S), -1)
        is_classes = np.array([rule == CLASSES for rule in rules])
        served = np.where(is_classes[None, :, None], surplus, self.hours.reshape(1, len(SEEN_S), -1))
        classes = replace(self.classes, surplus=served.reshape(len(self.classes), -1))
        return replace(self, classes=classes)


def fit_classes(earlier: SlotMaxima, *, n_classes: int = N_CLASSES, quantile: float = QUANTILE, seed: int = 0,
                before: ClassModel | None = None) -> ClassModel | None:
    """Classes of the requests with samples in nine tenths of the slots; None if there is no such request.

    before: the model of the day before; its centres are the start, and its ids continue. For a
    model of the past at a column, give `earlier.before(column)`.
    """
    profiles = earlier.profiles()
    is_used = covered(profiles)
    if not is_used.any():
        return None
    full = filled(profiles[is_used])
    if before is None:
        clustered = cluster(full, n_classes, seed=seed)
    else:
        clustered = cluster_again(full, before.clustered, n_classes)
    k = len(clustered.ids)
    n_members = np.bincount(clustered.labels, minlength=k)
    own_means = earlier.mean_profiles()[is_used].astype(np.float64)
    own_means = np.where(np.isnan(own_means), full, own_means)
    means = np.zeros_like(clustered.centres)
    np.add.at(means, clustered.labels, own_means)
    surplus, hours = class_surplus(earlier, clustered.centres, quantile)
    classes = WorkloadClasses(clustered.ids, clustered.centres, means / n_members[:, None], surplus, n_members)
    return ClassModel(classes, clustered, earlier.request_ids[is_used], hours)
