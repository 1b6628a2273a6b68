"""What was decided about each job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REASONS = ("accepted", "wider than the machine", "its deadline is before its earliest end",
           "no room before its deadline", "its deadline is below the threshold", "no room before the power ends")
"""By the code in `Decisions.reason`."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Of jobs in the order in which they were given; arrays of shape (n,).

    start_s: int64, when an accepted job begins, -1 = rejected. reason: int8, index into REASONS. offer_s: int64, the
    earliest deadline with which a rejected job would have been accepted at that moment, -1 = accepted, or there is
    none. core_first, core_last: int64, where the numbers of an accepted job's cores stand in `core_numbers`; all 0
    where the cores were not asked for.
    """

    start_s: np.ndarray
    reason: np.ndarray
    offer_s: np.ndarray
    core_first: np.ndarray
    core_last: np.ndarray
    core_numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def is_accepted(self) -> np.ndarray:
        """bool (n,)."""
        return np.asarray(self.reason == 0)

    def cores_of(self, row: int) -> np.ndarray:
        """Numbers of the cores of a job, int64; empty if it was rejected."""
        return np.asarray(self.core_numbers[self.core_first[row]:self.core_last[row]])

    def n_by_reason(self) -> dict[str, int]:
        """How many jobs have each reason, those without jobs left out."""
        counts = np.bincount(self.reason, minlength=len(REASONS)).tolist()
        return {words: count for words, count in zip(REASONS, counts, strict=True) if count}
