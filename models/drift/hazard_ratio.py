"""`hazard-ratio`: likelihood ratios of exits, summed from every possible day of change: a bound on false alarms.

A Shiryaev-Roberts sum (Shiryaev 1963; Roberts 1966) of test supermartingales. Where exits are those of independent
requests at most a tolerance off the expected ones, on average at least `mean_days` pass before a false alarm (Shin,
Ramdas, Rinaldo 2024, e-detectors, theorem 2.4): the ratio (r / c)^N exp(-(r - c) E) of a day with N exits and E
expected ones has a mean of at most 1 wherever their hazard is at most c times the predicted (for r > c).

Requests of one owner are not independent: a day's log ratio is divided by the dispersion, the variance by clusters
over that of independent requests. The bound is then approximate; the detector table has what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sojourn.models.drift.detector import DriftDay, checked_state

RATIOS = (1.25, 1.5, 2.0, 0.8, 1.0 / 1.5, 0.5)
"""Hazards, relative to the predicted one, that are looked for; with equal weights."""
HALF_LIFE_DAYS = 14.0
"""Of the mean dispersion of the days before."""
_NAMES = ("log_sums", "dispersion", "score")


class HazardRatio:
    """Shiryaev-Roberts detector of a hazard that is above or below the predicted one by more than a tolerance.

    mean_days: days that pass on average, at least, before a false alarm; the threshold of the sum. limit: the log
    ratio of a day is at most this share of what is needed for an alarm. The dispersion is kept after an alarm.

    >>> detector = HazardRatio(mean_days=1_000.0)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0, 160.0, 160.0, 160.0]]
    [False, False, False, True]
    """

    def __init__(self, mean_days: float = 3_650.0, tolerance: float = 0.1, limit: float = 0.5) -> None:
        if not mean_days > 1.0:
            raise ValueError(f"mean_days must be above 1, got {mean_days!r}")
        if not 0.0 <= tolerance < 0.2:
            raise ValueError(f"tolerance must be at least 0 and below 0.2, got {tolerance!r}")
        self.mean_days, self.tolerance, self.limit = mean_days, tolerance, limit
        self._dispersion = 0.0
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._log_sums = [-math.inf] * len(RATIOS)

    def update(self, day: DriftDay) -> bool:
        if day.expected > 0.0:
            self._add(day)
        best = max(self._log_sums)
        total = best + math.log(sum(math.exp(each - best) for each in self._log_sums) / len(RATIOS)) if (
            best > -math.inf) else -math.inf
        self.score = max(total / math.log(self.mean_days), 0.0)
        if self.score < 1.0:
            return False
        self._begin()
        return True

    def _add(self, day: DriftDay) -> None:
        today = day.variance / day.expected
        dispersion = max(1.0, today, self._dispersion)
        most = self.limit * math.log(self.mean_days)
        for idx, ratio in enumerate(RATIOS):
            bound = 1.0 + self.tolerance if ratio > 1.0 else 1.0 - self.tolerance
            log_ratio = day.observed * math.log(ratio / bound) - (ratio - bound) * day.expected
            before = self._log_sums[idx]  # log(1 + sum), without an overflow
            self._log_sums[idx] = max(before, 0.0) + math.log1p(math.exp(-abs(before))) + min(log_ratio / dispersion,
                                                                                              most)
        weight = 1.0 - 0.5 ** (1.0 / HALF_LIFE_DAYS)
        self._dispersion += (today - self._dispersion) * (weight if self._dispersion > 0.0 else 1.0)

    def state(self) -> dict[str, Any]:
        return {"log_sums": [None if each == -math.inf else each for each in self._log_sums],
                "dispersion": self._dispersion, "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, _NAMES)
        self._log_sums = [-math.inf if each is None else float(each) for each in found["log_sums"]]
        self._dispersion, self.score = float(found["dispersion"]), float(found["score"])
