"""Online recalibration in a predictor: what its other calls tell it, and the factors that they are given."""

from __future__ import annotations

import numpy as np

from sojourn.serving.answers import Served
from sojourn.serving.counters import Counted
from sojourn.serving.curves import curve_steps
from sojourn.serving.live import Admitted, CurveNumbers, LiveRequests, Recalibration

OFF, ON, NO_HAZARDS = "off", "on", "off: the version's curves are not of hazards"
WAITS = "off: requests wait after their admission, so it is not known what runs"


class RecalibrationCalls(Counted):
    """Parts of the calls of `Predictor` that admit and end requests; its lock is held in all of them."""

    _served: Served
    _running: LiveRequests
    _clock_s: int | None
    _recalibration: Recalibration | None
    _recalibrates: str

    def _begin_recalibration(self, wanted: bool, kept: tuple[str, Recalibration] | None = None) -> None:
        """Begin with factors of 1, or go on from a snapshot that is of the version that is served."""
        self._recalibration, self._recalibrates = None, OFF
        if not wanted:
            return
        if not self._served.schema.curves.has_hazards:
            self._recalibrates = NO_HAZARDS
            return
        self._recalibrates = ON
        self._served.builder.load_recalibration(Recalibration().factors)
        is_own = kept is not None and kept[0] == self._served.version
        if kept is not None and is_own:
            self._recalibration = kept[1]
            return
        self._recalibration = Recalibration()
        for one in self._running.all():
            clock_s = one.admission.arrival_s if self._clock_s is None else self._clock_s
            self._follow(one, max(clock_s, one.admission.arrival_s))

    def _factors_of(self, served: Served) -> np.ndarray | None:
        """What recalibrates a curve of this version now; None where nothing does."""
        own = self._recalibration
        return own.factors if own is not None and own.is_learnt and served.version == self._served.version else None

    def _follow(self, one: Admitted, recorded_s: int) -> None:
        """A request was admitted. recorded_s: when; it may have begun to run before."""
        own, start_s = self._recalibration, one.admission.arrival_s
        if own is not None and one.version == self._served.version:
            own.follow(one.admission.number, start_s, float(recorded_s - start_s))

    def _learn(self, one: Admitted, end_s: int, began_s: int) -> None:
        """A request ended; it is still among those that run."""
        own = self._recalibration
        if own is None:
            return
        if began_s != one.admission.arrival_s:
            self._recalibration, self._recalibrates = None, WAITS
            return
        number = one.admission.number
        numbers = self._curve_numbers(number)
        if numbers is None:
            own.forget(number)
            return
        own.ended(number, end_s, numbers)
        if own.is_due:
            own.count(end_s, self._curve_numbers)

    def _curve_numbers(self, number: int) -> CurveNumbers | None:
        """Of the curve of a running request as the model gave it; None where the version that is served did not."""
        one, served = self._running.numbered(number), self._served
        if one is None or one.version != served.version:
            return None
        if one.n_before:
            curve = served.builder.curve_of(one.encoded)
        else:  # made once
            curve = served.builder.curve(one.features.tolist())
            n = len(curve.numbers)  # type: ignore[union-attr]
            self._running.enter(one._replace(encoded=np.concatenate([curve.numbers, one.features]), n_before=n))  # type: ignore[union-attr]
        return curve_steps(curve)  # type: ignore[arg-type]
