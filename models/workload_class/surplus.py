"""How far requests of a class exceed what they were seen to use: learnt of earlier requests' own days.

The class's centre, scaled to a request's own maximum, is a poor bound of its need (figures: docs/usage.md), and so is
the own maximum of a few hours. What helps is to ask of each class by how much requests that looked the same after the
same observation exceeded their own maximum afterwards.
"""

from __future__ import annotations

import warnings

import numpy as np

from sojourn.models.workload_class.slot_maxima import SlotMaxima
from sojourn.serving.usage import N_ENDS, N_HOURS, N_SLOTS, SEEN_S, nearest_centre

QUANTILE = 0.98
"""Chosen on bitbrains of July 2013 (docs/usage.md): half of the under-served work for a quarter of the reservation."""
N_WINDOWS_MIN = 20
"""With fewer windows of a class, those of all classes count."""
N_WINDOWS_MAX = 5_000
"""Of one end and length, the latest kept."""
_COVERED = 0.75
_SLOT_S = 900
_BESIDE = 2


def class_surplus(seen: SlotMaxima, centres: np.ndarray,
                  quantile: float = QUANTILE) -> tuple[np.ndarray, np.ndarray]:
    """Surplus by length of observation, its end and hour of the day, >= 0: of each class, float64 (k, 3 * 8 * 24), and
    of all requests whatever their class, float64 (3 * 8 * 24,).

    seen: earlier requests. A window is one request's observation of a length of SEEN_S until one of N_ENDS times of one
    day; it belongs to the class that it would be identified as. What it used in the 24 hours after, minus its own
    maximum within the window, is a surplus; the quantile is taken over all windows of a class and the slots of an hour
    with half an hour on each side. An hour that no window reaches gets the class's highest, or the whole reservation
    (1) where no hour is known.

    Refused with ValueError: a quantile that is not between 0 and 1.
    """
    if not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile must be above 0 and below 1, got {quantile!r}")
    k = len(centres)
    table = np.full((k + 1, len(SEEN_S), N_ENDS, N_HOURS), np.nan)  # the last row: all requests
    after = np.full((len(seen), N_SLOTS), np.nan, np.float32)
    values = np.hstack([seen.highest, after])
    for i, seen_s in enumerate(SEEN_S):
        for end in range(N_ENDS):
            own, profiles, following = _windows(values, seen.n_days, seen_s // _SLOT_S, end * N_SLOTS // N_ENDS)
            if not len(own):
                continue
            labels = nearest_centre(profiles, centres)
            above = following - own[:, None]
            n_windows = np.bincount(labels, minlength=k)
            is_few = np.append(n_windows < N_WINDOWS_MIN, True)
            table[is_few, i, end] = _by_hour(above, quantile)
            for c in np.flatnonzero(n_windows >= N_WINDOWS_MIN):
                table[c, i, end] = _by_hour(above[labels == c], quantile)
    table = np.maximum(table, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        highest = np.nan_to_num(np.nanmax(table, axis=(2, 3), keepdims=True), nan=1.0)
    known = np.where(np.isnan(table), highest, table).reshape(k + 1, -1)
    return known[:k], known[k]


def _windows(values: np.ndarray, n_days: int, n_slots: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Own maximum (m,), profile (m, 96) and the next 24 hours by slot of the day (m, 96) of all windows."""
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
    """The quantile of each hour of the day, float64 (24,), NaN where nothing was seen."""
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
