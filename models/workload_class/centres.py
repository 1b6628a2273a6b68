"""Centres of workload classes by k-means++, and the ids that they keep from one day's clustering to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

N_CLASSES = 20
"""Of 10 to 30 in the paper (CTCL, section V-C), which found 20 best."""
N_SEEDS = 10
SHIFT_MAX = 0.25
"""A centre that moved further, root mean square over the slots in shares of the reservation, is another class."""


@dataclass(frozen=True, slots=True)
class Centres:
    """ids: int64 (k,). centres: float64 (k, n_slots). labels: int64 (n,), position of each request's class.

    next_id: the lowest id that no class has ever had.
    """

    ids: np.ndarray
    centres: np.ndarray
    labels: np.ndarray
    next_id: int


def cluster(profiles: np.ndarray, n_classes: int = N_CLASSES, *, seed: int = 0) -> Centres:
    """Classes of complete profiles, by k-means++ from 10 seeds, the best kept (CTCL, section V-C).

    profiles: (n, n_slots), without NaN. Fewer distinct profiles than n_classes: one class for each of them. ids follow
    the size of the class, largest first. Refused with ValueError: no profile, NaN, n_classes below 1.

    >>> found = cluster(np.array([[0.1, 0.1], [0.1, 0.2], [0.9, 0.1]]), 2)
    >>> found.labels.tolist(), found.centres.round(2).tolist()
    ([0, 0, 1], [[0.1, 0.15], [0.9, 0.1]])
    """
    values = _checked(profiles)
    if n_classes < 1:
        raise ValueError(f"n_classes must be at least 1, got {n_classes!r}")
    k = min(n_classes, len(np.unique(values, axis=0)))
    centres, labels = _fitted(values, n_clusters=k, n_init=N_SEEDS, random_state=seed)
    order = np.argsort(-np.bincount(labels, minlength=k), kind="stable")
    rank = np.empty(k, np.int64)
    rank[order] = np.arange(k)
    return Centres(np.arange(k), centres[order], rank[labels], k)


def cluster_again(profiles: np.ndarray, before: Centres, n_classes: int = N_CLASSES) -> Centres:
    """Classes of today's profiles, started from yesterday's centres, with the ids that they had.

    Old and new centres are matched so that the sum of squared moves is least. A pair that is SHIFT_MAX or more apart
    is no match: the old id vanishes and is never given again, the new centre gets the next id. A class that has no
    request left vanishes likewise. Where there are more distinct profiles than centres, and fewer than n_classes of
    these, the profiles that are furthest from every centre become starts of new classes.
    """
    values = _checked(profiles)
    distinct = np.unique(values, axis=0)
    k = min(n_classes, len(distinct))
    starts = before.centres[:k]  # the largest classes of the first clustering stand first
    while len(starts) < k:
        distance = ((distinct[:, None, :] - starts[None]) ** 2).sum(axis=2).min(axis=1)
        starts = np.vstack([starts, distinct[distance.argmax()]])
    centres, labels = _fitted(values, n_clusters=k, init=starts, n_init=1)
    is_held = np.bincount(labels, minlength=k) > 0
    centres, labels = centres[is_held], (np.cumsum(is_held) - 1)[labels]
    ids, next_id = _matched(before, centres)
    return Centres(ids, centres, labels, next_id)


def _fitted(values: np.ndarray, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Centres, float64, and the label of each row, int64.

    A centre is the mean of its rows, so it lies within their extent; KMeans shifts the values by their mean, which can
    leave it a rounding error outside, as below 0 where all are 0.
    """
    fitted: Any = KMeans(**settings).fit(values)
    centres = np.clip(np.asarray(fitted.cluster_centers_, np.float64), values.min(), values.max())
    return centres, np.asarray(fitted.labels_, np.int64)


def _matched(before: Centres, centres: np.ndarray) -> tuple[np.ndarray, int]:
    """The id of each new centre, and the next id."""
    cost = ((before.centres[:, None, :] - centres[None]) ** 2).mean(axis=2)
    cost = np.minimum(cost, SHIFT_MAX**2)  # one centre far away must not make others swap their ids
    old, new = linear_sum_assignment(cost)
    ids = np.full(len(centres), -1, np.int64)
    is_same = cost[old, new] < SHIFT_MAX**2
    ids[new[is_same]] = before.ids[old[is_same]]
    fresh = np.flatnonzero(ids < 0)
    ids[fresh] = before.next_id + np.arange(len(fresh))
    return ids, before.next_id + len(fresh)


def _checked(profiles: np.ndarray) -> np.ndarray:
    values = np.asarray(profiles, np.float64)
    if values.ndim != 2 or not len(values):
        raise ValueError(f"profiles must be at least one row of slots, got the shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("profiles must be finite, got NaN or infinity")
    return values
