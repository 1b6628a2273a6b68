"""A detector for all ages and one more for each band of age; an alarm of any is an alarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sojourn.models.drift.detector import Detector, DriftDay, checked_state


class AnyBand:
    """The same detector on all exits and on those of each band of age: a drift of the few long-lived ones shows there.

    made: makes one detector. n_bands: as many as a day has. After an alarm all begin anew.

    >>> from sojourn.models.drift.cusum import Cusum
    >>> detector = AnyBand(Cusum, 2)
    >>> late = DriftDay(10.0, 50.0, 50.0)
    >>> day = DriftDay(2_010.0, 2_050.0, 2_050.0, bands=(DriftDay(2_000.0, 2_000.0, 2_000.0), late))
    >>> [detector.update(day) for _ in range(3)], detector.raised_by
    ([False, False, True], 1)
    """

    def __init__(self, made: Callable[[], Detector], n_bands: int) -> None:
        self.made, self.n_bands = made, n_bands
        self.score = 0.0
        self.raised_by: int | None = None
        """The band whose score is highest; None = all ages together."""
        self._inner = [made() for _ in range(n_bands + 1)]

    def update(self, day: DriftDay) -> bool:
        if len(day.bands) != self.n_bands:
            raise ValueError(f"a day must have {self.n_bands} bands, got {len(day.bands)}")
        alarms = [detector.update(each) for detector, each in zip(self._inner, (day, *day.bands), strict=True)]
        scores = [detector.score for detector in self._inner]
        self.score = max(scores)
        first = scores.index(self.score)
        self.raised_by = first - 1 if first else None
        if any(alarms):
            self._inner = [self.made() for _ in self._inner]
        return any(alarms)

    def state(self) -> dict[str, Any]:
        return {"inner": [detector.state() for detector in self._inner], "score": self.score,
                "raised_by": self.raised_by}

    def resume(self, state: Mapping[str, Any]) -> None:
        found = checked_state(state, ("inner", "score", "raised_by"))
        if len(found["inner"]) != len(self._inner):
            raise ValueError(f"a state must be of {len(self._inner)} detectors, got {len(found['inner'])}")
        self.score, self.raised_by = float(found["score"]), found["raised_by"]
        for detector, each in zip(self._inner, found["inner"], strict=True):
            detector.resume(each)
