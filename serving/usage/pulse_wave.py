"""The pulse wave: use that is at its peak for a share of each period and at its trough for the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_INF = math.inf


@dataclass(frozen=True, slots=True)
class PulseWave:
    """Expected use over time, by five numbers (period-aware placement, section III-A).

    peak, trough: use within and without the busy window, as a share of the request's reservation; trough <= peak. A
        wave that is added to another one has levels around 0.
    period_s: seconds from one busy window to the next; infinite = aperiodic, `peak` at all times.
    phase_s: when a busy window begins, seconds on the trace's clock modulo the period.
    duty: share of the period that is busy, above 0 and below 1.

    Refused with ValueError: what breaks one of these rules.

    >>> wave = PulseWave(peak=0.8, trough=0.2, period_s=100.0, phase_s=10.0, duty=0.3)
    >>> wave.at(np.array([0, 10, 39, 40, 110])).tolist()
    [0.2, 0.8, 0.8, 0.2, 0.8]
    >>> wave.largest(40, 100), wave.largest(40, 111), wave.next_busy(20), wave.next_busy(50)
    (0.2, 0.8, (20, 40.0), (110.0, 140.0))
    """

    peak: float
    trough: float
    period_s: float = _INF
    phase_s: float = 0.0
    duty: float = 0.5

    def __post_init__(self) -> None:
        if not (math.isfinite(self.peak) and math.isfinite(self.trough) and self.trough <= self.peak):
            raise ValueError(f"peak and trough must be finite and trough at most peak, got {self.peak!r} and "
                             f"{self.trough!r}")
        if not self.period_s > 0.0:
            raise ValueError(f"period_s must be above 0, got {self.period_s!r}")
        if not math.isfinite(self.phase_s):
            raise ValueError(f"phase_s must be finite, got {self.phase_s!r}")
        if not 0.0 < self.duty < 1.0:
            raise ValueError(f"duty must be above 0 and below 1, got {self.duty!r}")

    @property
    def is_periodic(self) -> bool:
        """Whether it has a period."""
        return self.period_s < _INF

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """Use at each time, float64, the shape of `time_s` (seconds on the trace's clock)."""
        times = np.asarray(time_s, np.float64)
        if not self.is_periodic:
            return np.full(times.shape, self.peak)
        is_busy = np.mod(times - self.phase_s, self.period_s) < self.duty * self.period_s
        return np.where(is_busy, self.peak, self.trough)

    def largest(self, from_s: float, to_s: float) -> float:
        """The largest use at any time of [from_s, to_s). An interval that ends before it begins is refused."""
        check_interval(from_s, to_s)
        return self.peak if not self.is_periodic or self.next_busy(from_s)[0] < to_s else self.trough

    def next_busy(self, from_s: float) -> tuple[float, float]:
        """Begin and end of the next busy window; one that is under way begins at `from_s`. Aperiodic: endless."""
        if not self.is_periodic:
            return from_s, _INF
        since_s = (from_s - self.phase_s) % self.period_s
        if since_s < self.duty * self.period_s:
            return from_s, from_s - since_s + self.duty * self.period_s
        begin_s = from_s - since_s + self.period_s
        return begin_s, begin_s + self.duty * self.period_s


def check_interval(from_s: float, to_s: float) -> None:
    """ValueError unless both ends are finite and `to_s` is after `from_s`.

    >>> check_interval(0.0, 1.0)
    """
    if not (math.isfinite(from_s) and math.isfinite(to_s) and from_s < to_s):
        raise ValueError(f"to_s must be after from_s = {from_s!r} and both finite, got {to_s!r}")
