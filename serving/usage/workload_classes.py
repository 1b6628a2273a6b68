"""Workload classes as they are served: which class a request's day is nearest to, and what it may need next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.serving.usage.day_clock import DAY_S

N_SLOTS = 96
"""Slots of a local day, 15 minutes each (CTCL, section V-C)."""
SLOT_S = DAY_S // N_SLOTS
N_ENDS = 8
"""Times of day at which windows of observation end when surpluses are learnt: every 3 hours."""
SEEN_S = (10_800, 21_600, 43_200)
"""Lengths of observation for which surpluses are learnt, seconds; more than the last counts as the last."""
CLASSES, BY_HOURS = "classes", "hours"
SURPLUS_RULES = (CLASSES, BY_HOURS)
"""What a surplus is learnt of: the requests of a class, or all requests that were observed for as many hours."""
OWN_AFTER_S = DAY_S
"""From this much observation on, every slot has been seen, and the own maximum stands alone."""
N_HOURS = 24
_N_ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class WorkloadClasses:
    """Classes of one resource (CPU or memory), in shares of what a request reserved.

    ids: int64 (k,), what a class is called; the same class keeps its id when classes are learnt again.
    centres: float64 (k, 96), highest use in each slot of the local day, the mean over the class's requests.
    means: float64 (k, 96), their mean use in each slot.
    surplus: float64 (k, 3 * 8 * 24), how far a request that was observed as long as SEEN_S says, until one of N_ENDS
        times of the day, then exceeded its own maximum, by hour of the local day; at least 0.
    n_members: int64 (k,), requests that the class was learnt of.

    Refused with ValueError: shapes that do not agree, numbers that are not finite or below 0, no class, an id twice.

    >>> classes = WorkloadClasses(np.array([4, 7]), np.repeat([[0.1], [0.8]], 96, axis=1), np.full((2, 96), 0.1),
    ...                           np.full((2, 576), 0.05), np.array([3, 2]))
    >>> seen = np.full((1, 96), np.nan)
    >>> seen[0, :12] = 0.6
    >>> at = classes.nearest(seen)
    >>> needs = classes.needs(at, np.array([0.6]), np.array([10_800]), 12, np.array([12, 13]))
    >>> classes.ids[at].tolist(), needs.tolist()
    ([7], [[0.65, 0.65]])
    """

    ids: np.ndarray
    centres: np.ndarray
    means: np.ndarray
    surplus: np.ndarray
    n_members: np.ndarray

    def __post_init__(self) -> None:
        k = len(self.ids)
        if not k or len(np.unique(self.ids)) < k:
            raise ValueError(f"ids must be at least one, each once, got {k}")
        for name, width in (("centres", N_SLOTS), ("means", N_SLOTS), ("surplus", len(SEEN_S) * N_ENDS * N_HOURS)):
            array = getattr(self, name)
            if array.shape != (k, width):
                raise ValueError(f"{name} must have the shape ({k}, {width}), got {array.shape}")
            if not (np.isfinite(array) & (array >= 0.0)).all():
                raise ValueError(f"{name} must be finite and at least 0, got others")
        if self.n_members.shape != (k,) or (self.n_members < 0).any():
            raise ValueError(f"n_members must have the shape ({k},) and be at least 0, got {self.n_members!r}")

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(self, profiles: np.ndarray) -> np.ndarray:
        """Position of the nearest centre over the slots seen so far, int64 (n,); O(slots x classes) a request.

        profiles: (n, 96), highest use in each slot seen, NaN = not seen. One with no slot gets position 0.
        """
        return nearest_centre(profiles, self.centres)

    def needs(self, at: np.ndarray, own: np.ndarray, seen_s: np.ndarray, now_slot: int,
              slots: np.ndarray) -> np.ndarray:
        """The most that each request is expected to use in each of `slots`, float64 (n, len(slots)), shares.

        at: position of its class. own: its highest use so far. seen_s: for how long it was observed, at least
        SEEN_S[0]. now_slot: the slot of now. Its own maximum and its class's surplus, at most the whole reservation;
        never below the own maximum; after OWN_AFTER_S the own maximum alone.
        """
        length = np.clip(np.searchsorted(SEEN_S, seen_s, side="right") - 1, 0, len(SEEN_S) - 1)
        end = now_slot * N_ENDS // N_SLOTS
        hours = np.asarray(slots) * N_HOURS // N_SLOTS
        table = self.surplus.reshape(len(self), len(SEEN_S), N_ENDS, N_HOURS)
        surplus = table[at[:, None], length[:, None], end, hours[None, :]]
        surplus = np.where((seen_s >= OWN_AFTER_S)[:, None], 0.0, surplus)
        mine = np.asarray(own, np.float64)[:, None]
        return np.maximum(np.minimum(mine + surplus, 1.0), mine)


def nearest_centre(profiles: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Position of the nearest centre (Euclidean) over the slots that are not NaN, int64 (n,); the first of equals.

    >>> nearest_centre(np.array([[np.nan, 1.0]]), np.array([[0.0, 0.0], [9.0, 0.9]])).tolist()
    [1]
    """
    found = np.empty(len(profiles), np.int64)
    n_chunk = max(1, _N_ELEMENTS // centres.size)
    for first in range(0, len(profiles), n_chunk):
        chunk = np.asarray(profiles[first:first + n_chunk], np.float64)
        is_seen = ~np.isnan(chunk)
        values = np.where(is_seen, chunk, 0.0)
        # |x - c|^2 over the slots seen, without what does not depend on c
        distance = is_seen @ (centres**2).T - 2.0 * (values @ centres.T)
        found[first:first + n_chunk] = distance.argmin(axis=1)
    return found
