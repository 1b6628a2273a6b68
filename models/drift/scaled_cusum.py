"""`ScaledCusum`: sums of residuals in long-run standard errors, which are learnt from the weeks before.

A CUSUM of correlated residuals alarms too often. Here a residual counts by its long-run standard deviation, that of an
AR(1) of the same spread and correlation from one day to the next (Johnson and Bagshaw 1974, The effect of serial
correlation on the performance of CUSUM tests).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sojourn.models.drift.detector import DriftDay, checked_state

HALF_LIFE_DAYS = 56.0
"""Of the mean square and the mean product with the day before, of which the scale is made."""
PRIOR_DAYS = 14
"""Days of independent residuals of spread 1 that the scale begins with."""
LAG_DAYS = 7
"""The scale is learnt so many days late, so that a drift that begins does not hide itself."""
CORRELATION_MAX = 0.9
_NAMES = ("sums", "n_days", "square", "product", "n_learnt", "recent", "score")


class ScaledCusum:
    """CUSUM of the day's residual, beyond a tolerance, over the scale that residuals had before; at least 1.

    threshold, allowance, limit: as `Cusum` has them, in units of that scale. rest_days: days at the start and after an
    alarm in which nothing is added and nothing learnt. The scale is kept after an alarm.

    >>> detector = ScaledCusum(threshold=3.0, allowance=1.0, tolerance=0.0, rest_days=2)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0, 130.0, 100.0, 130.0, 130.0]]
    [False, False, False, False, True]
    """

    def __init__(self, threshold: float = 3.3, allowance: float = 0.7, tolerance: float = 0.03, limit: float = 3.0,
                 rest_days: int = 28) -> None:
        for name, value in (("threshold", threshold), ("limit", limit)):
            if not value > 0.0:
                raise ValueError(f"{name} must be above 0, got {value!r}")
        if rest_days < 0:
            raise ValueError(f"rest_days must be at least 0, got {rest_days!r}")
        self.threshold, self.allowance, self.tolerance, self.limit = threshold, allowance, tolerance, limit
        self.rest_days = rest_days
        self._square, self._product, self._n_learnt = 1.0, 0.0, PRIOR_DAYS
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._sums, self._n_days = [0.0, 0.0], 0
        self._recent: list[float] = []

    @property
    def scale(self) -> float:
        """The long-run standard deviation of residuals, at least 1."""
        square = max(self._square, 1.0)
        correlation = min(max(self._product / square, 0.0), CORRELATION_MAX)
        return math.sqrt(square * (1.0 + correlation) / (1.0 - correlation))

    def update(self, day: DriftDay) -> bool:
        self._n_days += 1
        if self._n_days > self.rest_days:
            excesses = [day.residual(side, self.tolerance) / self.scale for side in (1, -1)]
            self._sums = [max(0.0, total + min(excess, self.limit) - self.allowance)
                          for total, excess in zip(self._sums, excesses, strict=True)]
            self._learn(day.residual(1))
        self.score = max(self._sums) / self.threshold
        if self.score < 1.0:
            return False
        self._begin()
        return True

    def _learn(self, residual: float) -> None:
        self._recent.append(residual)
        if len(self._recent) < LAG_DAYS + 2:
            return
        before, then = self._recent.pop(0), self._recent[0]
        self._n_learnt += 1
        weight = max(1.0 - 0.5 ** (1.0 / HALF_LIFE_DAYS), 1.0 / self._n_learnt)
        self._square += weight * (then * then - self._square)
        self._product += weight * (before * then - self._product)

    def state(self) -> dict[str, Any]:
        return {"sums": list(self._sums), "n_days": self._n_days, "square": self._square, "product": self._product,
                "n_learnt": self._n_learnt, "recent": list(self._recent), "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, _NAMES)
        self._sums, self._n_days = [float(value) for value in found["sums"]], int(found["n_days"])
        self._square, self._product = float(found["square"]), float(found["product"])
        self._n_learnt, self.score = int(found["n_learnt"]), float(found["score"])
        self._recent = [float(value) for value in found["recent"]]
