"""How soon other requests take what is left or freed: what a pool has shown so far."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.rectification.cells import HORIZON_S, N_CELLS, edges_s, knots_s

N_DAYS = 14
"""Days that are remembered."""
SAMPLE_S = 6 * 3_600
"""So far apart are the moments of a day at which the hosts in use are looked at."""
_MOST = 2_000
"""Hosts that became empty in a day; of more, every second or every third and so on is asked."""
_TOGETHER = 4
"""Cells that are counted together, since single ones hold few hosts."""


@dataclass(frozen=True, slots=True)
class Spells:
    """Spells in which hosts were empty, by host and then by time; int64 (n,).

    host: of each. since_s, until_s: from when and to when; one that lasts ends now.
    """

    host: np.ndarray
    since_s: np.ndarray
    until_s: np.ndarray


@dataclass(frozen=True, slots=True)
class Refill:
    """What a pool has shown of its hosts.

    left_empty: float64 (N_CELLS + 1,), never rising: the chance that a host is empty when the last of the requests that
    run on it now has left, that being `edges_s()` from now; else others have come. still_empty: float64 (N_CELLS + 2,),
    the chance that a host that became empty is empty `knots_s()` later, whether in between it was in use or not.
    """

    left_empty: np.ndarray
    still_empty: np.ndarray


class RefillRecord:
    """Counts of a pool's last N_DAYS days, a day at a time; each is counted when the day after it is over, so that what
    became of a host within HORIZON_S is known of all."""

    def __init__(self) -> None:
        self._left: deque[np.ndarray] = deque(maxlen=N_DAYS)
        self._still: deque[np.ndarray] = deque(maxlen=N_DAYS)

    def add(self, left: np.ndarray, still: np.ndarray) -> None:
        """Count one more day. left: of `count_left`. still: of `count_still`."""
        self._left.append(left)
        self._still.append(still)

    def refill(self) -> Refill:
        """By all that was counted, and one more host for each number that was empty, so that few say little."""
        n_cells = N_CELLS // _TOGETHER
        left = np.sum([np.ones((n_cells, 2)), *self._left], axis=0)
        still = np.sum([np.ones((N_CELLS + 2, 2)), *self._still], axis=0)
        share = np.minimum.accumulate(left[:, 0] / left[:, 1])
        return Refill(np.append(share.repeat(_TOGETHER), share[-1]), still[:, 0] / still[:, 1])


def count_still(spells: Spells, from_s: int, now_s: int) -> np.ndarray:
    """Of the hosts that became empty from a time on and until HORIZON_S before now: how many were empty `knots_s()`
    later, and how many there were; int64 (N_CELLS + 2, 2).

    >>> spells = Spells(np.array([0]), np.array([0]), np.array([1_300]))
    >>> count_still(spells, 0, 86_400)[:4].tolist()
    [[1, 1], [1, 1], [0, 1], [0, 1]]
    """
    asked = np.flatnonzero((spells.since_s >= from_s) & (spells.since_s <= now_s - HORIZON_S))
    asked = asked[::max(-(-len(asked) // _MOST), 1)]
    at_s = spells.since_s[asked] + knots_s()[:, None]
    far_s = now_s + 1  # keeps hosts apart
    key = spells.host * far_s + spells.since_s
    place = np.searchsorted(key, spells.host[asked] * far_s + at_s, side="right") - 1  # the last that began by then
    n_empty = ((at_s < spells.until_s[place]) | (spells.until_s[place] == now_s)).sum(axis=1)
    return np.stack([n_empty, np.full(len(n_empty), len(asked))], axis=1)


def count_left(host: np.ndarray, from_s: np.ndarray, to_s: np.ndarray, at_s: int) -> np.ndarray:
    """Of the hosts that were in use at a time, and that all who ran there then had left within HORIZON_S: on how many
    nobody else was when the last of them left, and how many there were, by when that was; int64
    (N_CELLS / 4, 2).

    host, from_s, to_s: int64 (n,), stays, by host; all that began within HORIZON_S of the time.
    """
    n_hosts = int(host.max(initial=-1)) + 1
    was_there = (from_s <= at_s) & (to_s > at_s)
    last_s = np.full(n_hosts, at_s)
    np.maximum.at(last_s, host[was_there], to_s[was_there])
    is_over = (last_s > at_s) & (last_s <= at_s + HORIZON_S)
    holds = (from_s > at_s) & (from_s < last_s[host]) & (to_s > last_s[host])
    is_empty = np.bincount(host[holds], minlength=n_hosts) == 0
    cell = np.clip(np.searchsorted(edges_s(), last_s - at_s, side="right") - 1, 0, N_CELLS - 1) // _TOGETHER
    n_cells = N_CELLS // _TOGETHER
    return np.stack([np.bincount(cell[is_over & is_empty], minlength=n_cells),
                     np.bincount(cell[is_over], minlength=n_cells)], axis=1)


def weights_s(refill: Refill | None) -> np.ndarray:
    """How long a host is expected to be empty for each cell in which nothing that runs there now is left, seconds,
    float64 (N_CELLS,).

    refill: None = nobody comes. If the last of them leaves in x, the host is expected to be empty for G(x) before the
    horizon: the chance that it is empty then, times how long it is from then on. By parts, the mean of G over when they
    leave is the chance that they have left, weighed in each cell by how much G falls over it.

    >>> bool((weights_s(None) == np.diff(edges_s())).all())
    True
    """
    edges, knots = edges_s(), knots_s()
    if refill is None:
        return np.diff(edges).astype(np.float64)
    still = refill.still_empty
    within_s = np.append(0.0, np.cumsum(np.diff(knots) * (still[1:] + still[:-1]) / 2))
    return np.asarray(-np.diff(refill.left_empty * np.interp(HORIZON_S - edges, knots, within_s)))
