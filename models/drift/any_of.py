"""Several detectors side by side, each on one of the things that a day has; an alarm of any is an alarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sojourn.models.drift.detector import Detector, DriftDay, checked_state

OWN, NEW_OWNERS = "own", "new_owners"
Series = int | str | None
"""What of a day a part gets: a band of age; `own` or `new_owners`; None = exits of all ages together."""
Part = tuple[Callable[[], Detector], Series]
"""What makes a detector, and what of a day it gets."""


class AnyOf:
    """Detectors by name; the score is the highest of theirs, and after an alarm all begin anew.

    >>> from sojourn.models.drift.cusum import Cusum
    >>> detector = AnyOf({"all": (Cusum, None), "late": (Cusum, 1)})
    >>> late = DriftDay(1.0, 50.0, 50.0)
    >>> day = DriftDay(2_001.0, 2_050.0, 2_050.0, bands=(DriftDay(2_000.0, 2_000.0, 2_000.0), late))
    >>> [detector.update(day) for _ in range(4)], detector.raised_by, detector.series
    ([False, False, False, True], 'late', 1)
    """

    def __init__(self, parts: Mapping[str, Part]) -> None:
        if not parts:
            raise ValueError("parts must hold at least one detector, got none")
        self.parts = dict(parts)
        self.score = 0.0
        self.raised_by = next(iter(self.parts))
        """The part whose score is highest."""
        self._begin()

    def _begin(self) -> None:
        self._detectors = {name: made() for name, (made, _) in self.parts.items()}

    @property
    def series(self) -> Series:
        """What the part whose score is highest gets of a day."""
        return self.parts[self.raised_by][1]

    def update(self, day: DriftDay) -> bool:
        alarms = [detector.update(self._of_day(day, self.parts[name][1]))
                  for name, detector in self._detectors.items()]
        self.raised_by = max(self._detectors, key=lambda name: self._detectors[name].score)
        self.score = self._detectors[self.raised_by].score
        if any(alarms):
            self._begin()
        return any(alarms)

    @staticmethod
    def _of_day(day: DriftDay, series: Series) -> DriftDay:
        if series is None:
            return day
        if isinstance(series, int):
            if series >= len(day.bands):
                raise ValueError(f"a day must have at least {series + 1} bands, got {len(day.bands)}")
            return day.bands[series]
        found = day.own if series == OWN else day.new_owners
        if found is None:
            raise ValueError(f"a day must have {series}, got None")
        return found

    def state(self) -> dict[str, Any]:
        return {"parts": {name: detector.state() for name, detector in self._detectors.items()}, "score": self.score,
                "raised_by": self.raised_by}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, ("parts", "score", "raised_by"))
        parts = checked_state(found["parts"], tuple(self.parts))
        self.score, self.raised_by = float(found["score"]), str(found["raised_by"])
        for name, detector in self._detectors.items():
            detector.resume(parts[name])
