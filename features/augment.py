"""Uptime augmentation: one example becomes several, at shares of its lifetime (LAVA, section 3) or at fixed ages."""

from __future__ import annotations

import numpy as np

UPTIME_SHARES = tuple(step / 8.0 for step in range(8))
"""0, 12.5 %, ..., 87.5 % of the lifetime."""
LANDMARKS_S = (0, 60, 600, 3_600, 21_600, 86_400, 172_800, 604_800, 1_209_600, 2_419_200)
"""Absolute uptimes, seconds: 0, 1 min, 10 min, 1 h, 6 h, 1 d, 2 d, 7 d, 14 d, 28 d."""


def augment_uptime(lifetime_s: np.ndarray, entry_s: np.ndarray,
                   shares: tuple[float, ...] = UPTIME_SHARES) -> tuple[np.ndarray, np.ndarray]:
    """Positions and uptimes of the augmented rows: int64 (m,), float64 (m,) whole seconds.

    lifetime_s, entry_s: float64 (n,). No row is made for an uptime below the entry age, none twice, and none
    that leaves no time.

    >>> idx, uptime_s = augment_uptime(np.array([80.0, 2.0]), np.array([0.0, 0.0]))
    >>> idx.tolist(), uptime_s.tolist()
    ([0, 0, 0, 0, 0, 0, 0, 0, 1, 1], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 0.0, 1.0])
    """
    return _kept(np.floor(lifetime_s[:, None] * np.array(shares)), lifetime_s, entry_s)


def augment_landmarks(lifetime_s: np.ndarray, entry_s: np.ndarray,
                      landmarks_s: tuple[int, ...] = LANDMARKS_S) -> tuple[np.ndarray, np.ndarray]:
    """Positions and uptimes of the rows at fixed uptimes, among those still alive: int64 (m,), float64 (m,) s.

    lifetime_s, entry_s: float64 (n,). landmarks_s: rising. An uptime that every longer-lived example shares says
    nothing of the lifetime but that it is longer. No row is made for an uptime below the entry age.

    >>> idx, uptime_s = augment_landmarks(np.array([60.0, 700.0]), np.array([0.0, 30.0]))
    >>> idx.tolist(), uptime_s.tolist()
    ([0, 1, 1], [0.0, 60.0, 600.0])
    """
    uptime_s = np.broadcast_to(np.array(landmarks_s, np.float64), (len(lifetime_s), len(landmarks_s)))
    return _kept(uptime_s, lifetime_s, entry_s)


def _kept(uptime_s: np.ndarray, lifetime_s: np.ndarray, entry_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of uptimes (n, k), rising in a row: those under observation, not twice in a row, that leave time."""
    is_kept = (uptime_s >= entry_s[:, None]) & (uptime_s < lifetime_s[:, None])
    is_kept[:, 1:] &= uptime_s[:, 1:] > uptime_s[:, :-1]
    idx, column = np.nonzero(is_kept)
    return idx.astype(np.int64), uptime_s[idx, column]
