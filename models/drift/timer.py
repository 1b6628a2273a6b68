"""`timer`: an alarm every so many days, whatever happens. What every detector is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.models.drift.detector import DriftDay, checked_state


class Timer:
    """An alarm on every `every_days`-th day.

    >>> timer = Timer(2)
    >>> [timer.update(DriftDay(0.0, 0.0, 0.0)) for _ in range(4)]
    [False, True, False, True]
    """

    def __init__(self, every_days: int = 28) -> None:
        if every_days < 1:
            raise ValueError(f"every_days must be at least 1, got {every_days!r}")
        self.every_days = every_days
        self.score = 0.0
        self._n_days = 0

    def update(self, day: DriftDay) -> bool:
        self._n_days += 1
        self.score = self._n_days / self.every_days
        if self._n_days < self.every_days:
            return False
        self._n_days = 0
        return True

    def state(self) -> dict[str, Any]:
        return {"n_days": self._n_days, "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, ("n_days", "score"))
        self._n_days, self.score = int(found["n_days"]), float(found["score"])
