"""Uptime augmentation: one example becomes several, at shares of its own lifetime (LAVA, section 3)."""

from __future__ import annotations

import numpy as np

UPTIME_SHARES = tuple(step / 8.0 for step in range(8))
"""0, 12.5 %, ..., 87.5 % of the lifetime."""


def augment_uptime(lifetime_s: np.ndarray, entry_s: np.ndarray,
                   shares: tuple[float, ...] = UPTIME_SHARES) -> tuple[np.ndarray, np.ndarray]:
    """Positions and uptimes of the augmented rows: int64 (m,), float64 (m,) whole seconds.

    lifetime_s, entry_s: float64 (n,). No row is made for an uptime below the entry age, none twice, and none
    that leaves no time.

    >>> idx, uptime_s = augment_uptime(np.array([80.0, 2.0]), np.array([0.0, 0.0]))
    >>> idx.tolist(), uptime_s.tolist()
    ([0, 0, 0, 0, 0, 0, 0, 0, 1, 1], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 0.0, 1.0])
    """
    uptime_s = np.floor(lifetime_s[:, None] * np.array(shares))
    is_kept = (uptime_s >= entry_s[:, None]) & (uptime_s < lifetime_s[:, None])
    is_kept[:, 1:] &= uptime_s[:, 1:] > uptime_s[:, :-1]
    idx, column = np.nonzero(is_kept)
    return idx.astype(np.int64), uptime_s[idx, column]
