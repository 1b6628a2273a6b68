"""`dvla`: algorithm 1 of DVLA (Alibaba, OSDI'26, section 4.2 and appendix B) on the shares of lifetime classes.

A comparison, not a choice: on shares without drift it spends much of its time in observation (docs/drift.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sojourn.models.drift.detector import DriftDay, checked_state

WARMUP, STABLE, OBSERVATION, COOLDOWN = "warmup", "stable", "observation", "cooldown"
_LEAST_SPREAD = 1e-6
_NAMES = ("phase", "n_days", "means", "error", "spread", "n_learnt", "window", "score")


@dataclass(frozen=True, slots=True)
class ClassShareSettings:
    """Constants of algorithm 1. window_days: of an observation; alarm, confirm: thresholds of the score.

    alpha, beta: factors of the EWMA of shares and of errors (not given in the paper). is_as_printed: the paper's text
    to the letter: the day of an alarm is learnt twice, nothing is learnt while cooling down, and averages begin at 0
    without correction. Else each day is learnt once, and averages are corrected for their beginning.
    """

    window_days: int = 20
    alarm: float = 2.0
    confirm: float = 3.0
    alpha: float = 0.1
    beta: float = 0.1
    warmup_days: int = 12
    cooldown_days: int = 14
    is_as_printed: bool = False


DVLA_PRESETS: Mapping[str, ClassShareSettings] = MappingProxyType({
    "production": ClassShareSettings(),
    "figure 9": ClassShareSettings(window_days=14),
})
"""The stated constants, and those that give the paper's figure 9 exactly (an update on days 25 and 53)."""


class ClassShares:
    """Algorithm 1: an alarm is a confirmed change, on which DVLA makes new groups.

    The score of a day is (error - its EWMA) / (EWMA of the distance from it), at least 0, where the error is 1 minus
    the cosine of the day's shares and their EWMA. A score above `alarm` begins an observation; a mean score of at
    least `confirm` over its window, against the baseline as it was when it began, confirms the change.

    >>> detector = ClassShares(ClassShareSettings(window_days=2))
    >>> shares = [(0.5, 0.5)] * 14 + [(0.2, 0.8)] * 2
    >>> [detector.update(DriftDay(0.0, 0.0, 0.0, row)) for row in shares][-2:]
    [False, True]
    """

    def __init__(self, settings: ClassShareSettings = DVLA_PRESETS["production"]) -> None:
        self.settings = settings
        self.score = 0.0
        self.phase = WARMUP
        self._n_days = 0
        self._means: list[float] = []
        self._error, self._spread, self._n_learnt = 0.0, 0.0, 0
        self._window: list[list[float]] = []

    def update(self, day: DriftDay) -> bool:
        shares = list(day.shares)
        if not shares or (self._means and len(shares) != len(self._means)):
            raise ValueError(f"a day must have {len(self._means) or 'some'} class shares, got {len(shares)}")
        self._n_days += 1
        self.score = self._score(shares) / self.settings.confirm
        if self.phase == WARMUP:
            self._learn(shares)
            if self._n_days == self.settings.warmup_days:
                self._enter(STABLE)
        elif self.phase == COOLDOWN:
            if not self.settings.is_as_printed:
                self._learn(shares)
            if self._n_days == self.settings.cooldown_days:
                self._enter(STABLE)
        elif self.phase == STABLE:
            is_suspicious = self._score(shares) > self.settings.alarm
            if not is_suspicious or self.settings.is_as_printed:
                self._learn(shares)
            if is_suspicious:
                self._enter(OBSERVATION)
                return self._observe(shares)
        else:
            return self._observe(shares)
        return False

    def _observe(self, shares: list[float]) -> bool:
        self._window.append(shares)
        if len(self._window) < self.settings.window_days:
            return False
        mean = sum(map(self._score, self._window)) / len(self._window)
        self.score = mean / self.settings.confirm
        for each in self._window:
            self._learn(each)
        self._window = []
        is_confirmed = mean >= self.settings.confirm
        self._enter(COOLDOWN if is_confirmed else STABLE)
        return is_confirmed

    def _enter(self, phase: str) -> None:
        self.phase, self._n_days = phase, 0

    def _score(self, shares: list[float]) -> float:
        """How far the error lies above its mean, in mean distances; 0 in the warm-up."""
        if self.phase == WARMUP:
            return 0.0
        return max(0.0, (self._distance(shares) - self._error) / max(self._spread, _LEAST_SPREAD))

    def _distance(self, shares: list[float]) -> float:
        product = sum(a * b for a, b in zip(shares, self._means, strict=True))
        lengths = math.sqrt(sum(a * a for a in shares) * sum(b * b for b in self._means))
        return 1.0 - product / lengths if lengths > 0.0 else 0.0

    def _learn(self, shares: list[float]) -> None:
        """Errors against the old mean first, then the mean."""
        if not self._means:
            self._means = shares
            return
        distance = self._distance(shares)
        alpha, beta = self.settings.alpha, self.settings.beta
        self._n_learnt += 1
        if not self.settings.is_as_printed:  # the mean of what there is, until there is more than an EWMA remembers
            alpha = max(alpha, 1.0 / (self._n_learnt + 1))
            beta = max(beta, 1.0 / self._n_learnt)
        self._spread += beta * (abs(distance - self._error) - self._spread)
        self._error += beta * (distance - self._error)
        self._means = [mean + alpha * (share - mean) for mean, share in zip(self._means, shares, strict=True)]

    def state(self) -> dict[str, Any]:
        return {"phase": self.phase, "n_days": self._n_days, "means": list(self._means), "error": self._error,
                "spread": self._spread, "n_learnt": self._n_learnt, "window": [list(day) for day in self._window],
                "score": self.score}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, _NAMES)
        self.phase, self._n_days = str(found["phase"]), int(found["n_days"])
        self._means = [float(value) for value in found["means"]]
        self._error, self._spread = float(found["error"]), float(found["spread"])
        self._n_learnt, self.score = int(found["n_learnt"]), float(found["score"])
        self._window = [[float(value) for value in day] for day in found["window"]]
