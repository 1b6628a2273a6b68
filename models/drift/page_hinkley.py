"""`page-hinkley`: a running sum of residuals less their mean so far, on both sides (Page 1954; Hinkley 1971)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.models.drift.detector import DriftDay, checked_state

_NAMES = ("n_days", "mean", "sums", "score")


class PageHinkley:
    """Page-Hinkley on the day's residual in standard errors.

    threshold, allowance: in standard errors; the sum falls by the allowance each day and alarms above the threshold.
    warmup_days: days without an alarm at the start, in which the mean settles. The mean is of all days since the
    start, so a bias that was there from the first day is no drift.

    >>> detector = PageHinkley(threshold=5.0, allowance=0.25, warmup_days=3)
    >>> [detector.update(DriftDay(observed, 100.0, 100.0)) for observed in [100.0] * 5 + [140.0] * 2]
    [False, False, False, False, False, False, True]
    """

    def __init__(self, threshold: float = 20.0, allowance: float = 0.25, warmup_days: int = 14) -> None:
        if not threshold > 0.0:
            raise ValueError(f"threshold must be above 0, got {threshold!r}")
        self.threshold, self.allowance, self.warmup_days = threshold, allowance, warmup_days
        self._begin()
        self.score = 0.0

    def _begin(self) -> None:
        self._n_days, self._mean, self._sums = 0, 0.0, [0.0, 0.0]

    def update(self, day: DriftDay) -> bool:
        residual = day.residual(1)
        self._n_days += 1
        self._mean += (residual - self._mean) / self._n_days
        for idx, side in enumerate((1, -1)):
            self._sums[idx] = max(0.0, self._sums[idx] + side * (residual - self._mean) - self.allowance)
        is_alarm = self._n_days > self.warmup_days and max(self._sums) > self.threshold
        self.score = max(self._sums) / self.threshold
        if is_alarm:
            self._begin()
        return is_alarm

    def state(self) -> dict[str, Any]:
        return {"n_days": self._n_days, "mean": self._mean, "sums": list(self._sums), "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, _NAMES)
        self._n_days, self._mean, self.score = int(found["n_days"]), float(found["mean"]), float(found["score"])
        self._sums = [float(value) for value in found["sums"]]
