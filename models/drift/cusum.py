"""`cusum`: sums of residuals beyond a tolerance, on both sides (Page 1954; Montgomery 2013, chapter 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sojourn.models.drift.detector import TOLERANCE, DriftDay, checked_state

WARMUP_DAYS = 14
"""Days from which the baseline's first mean and scale are learnt."""
_NAMES = ("sums", "n_days", "mean", "spread", "score")


class Cusum:
    """Two-sided CUSUM of the day's exits beyond the tolerance, in standard errors.

    threshold, allowance: in standard errors. limit: a day counts at most this much, so that a single day, however far
    off, is no alarm where the threshold is higher. half_life_days: of a baseline, the EWMA of the residual and of its
    distance from it; a day then counts by how far its residual lies from the first (less the tolerance), over the
    second where that is above 1. A change of the exits is found, their level is not looked at, and 14 days pass before
    the first sum. 0 = no baseline. After an alarm the sums begin at 0 and the baseline is learnt anew. rest_days: at
    the start and after an alarm, in which nothing is added. sides: 1 = more exits than expected, -1 = fewer.

    >>> detector = Cusum(threshold=4.0, allowance=0.5)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0, 110.0, 160.0, 160.0]]
    [False, False, False, True]
    """

    def __init__(self, threshold: float = 8.0, allowance: float = 0.5, tolerance: float = TOLERANCE,
                 limit: float = 3.0, half_life_days: float = 0.0, rest_days: int = 0,
                 sides: tuple[int, ...] = (1, -1)) -> None:
        for name, value in (("threshold", threshold), ("limit", limit)):
            if not value > 0.0:
                raise ValueError(f"{name} must be above 0, got {value!r}")
        self.threshold, self.allowance, self.tolerance, self.limit = threshold, allowance, tolerance, limit
        self.half_life_days, self.rest_days, self.sides = half_life_days, rest_days, sides
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._sums, self._n_days, self._mean, self._spread = [0.0] * len(self.sides), 0, 0.0, 0.0

    def update(self, day: DriftDay) -> bool:
        excesses = [day.residual(side, self.tolerance) for side in self.sides]
        if self.half_life_days > 0.0:
            excesses = self._from_baseline(day.residual(1), excesses)
        self._n_days += 1
        if self._n_days > self.rest_days:
            self._sums = [max(0.0, total + min(excess, self.limit) - self.allowance)
                          for total, excess in zip(self._sums, excesses, strict=True)]
        self.score = max(self._sums) / self.threshold
        if self.score < 1.0:
            return False
        self._begin()
        return True

    def _from_baseline(self, residual: float, excesses: list[float]) -> list[float]:
        """The excesses less the baseline as it was before today, in its distances; 0 in the warm-up."""
        weight = max(1.0 - 0.5 ** (1.0 / self.half_life_days), 1.0 / (self._n_days + 1))
        distance = abs(residual - self._mean)
        scale = max(self._spread * math.sqrt(math.pi / 2.0), 1.0)  # of a normal one, from its mean distance
        is_warm = self._n_days >= WARMUP_DAYS
        found = [(excess - side * self._mean) / scale if is_warm else 0.0
                 for side, excess in zip(self.sides, excesses, strict=True)]
        self._mean += weight * (residual - self._mean)
        self._spread += weight * (distance - self._spread) if self._n_days else 0.0
        return found

    def state(self) -> dict[str, Any]:
        return {"sums": list(self._sums), "n_days": self._n_days, "mean": self._mean, "spread": self._spread,
                "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, _NAMES)
        self._sums = [float(value) for value in found["sums"]]
        self._n_days, self._mean = int(found["n_days"]), float(found["mean"])
        self._spread, self.score = float(found["spread"]), float(found["score"])
