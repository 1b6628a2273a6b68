"""The hosts of a replay over time, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class HostMap:
    """The hosts of one replay at k moments.

    time_s: int64 (k,), seconds from the replay's start, warm-up included.
    lifetime_class: int8 (k, n_hosts), 0 = empty, 1..4 = LC1..LC4 of the request that stays longest from then on.
    state: int8 (k, n_hosts), the policy's own state of each host as an index into state_names, or None where it
        keeps none. state_names: LAVA's (section 4.3) unless stated.

    >>> HostMap(np.array([0, 60]), np.array([[0, 3], [4, 0], [1, 1]], np.int8))
    Traceback (most recent call last):
    ValueError: lifetime_class must have 2 rows, got shape (3, 2)
    """

    time_s: np.ndarray
    lifetime_class: np.ndarray
    state: np.ndarray | None = None
    state_names: tuple[str, ...] = ("empty", "open", "recycling")

    def __post_init__(self) -> None:
        for name, array in (("lifetime_class", self.lifetime_class), ("state", self.state)):
            if array is not None and (array.ndim != 2 or len(array) != len(self.time_s)):
                raise ValueError(f"{name} must have {len(self.time_s)} rows, got shape {array.shape!r}")

    def by_use(self) -> np.ndarray:
        """The hosts' indices, those that are empty least often first, int64 (n_hosts,).

        >>> HostMap(np.array([0, 60]), np.array([[0, 3, 0], [4, 1, 0]], np.int8)).by_use().tolist()
        [1, 0, 2]
        """
        return np.argsort((self.lifetime_class == 0).sum(axis=0), kind="stable")
