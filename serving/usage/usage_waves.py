"""The sum of a request's pulse waves: one period, or a day's and a week's together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.serving.usage.pulse_wave import PulseWave, check_interval

_EDGES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class UsageWaves:
    """Expected use over time: one or two pulse waves added, the second with levels around 0.

    Two are enough for a day and a week, beyond the paper, which has one (section III-A, discussion).

    >>> day = PulseWave(0.6, 0.2, period_s=24.0, phase_s=8.0, duty=0.5)
    >>> week = PulseWave(0.1, -0.25, period_s=168.0, phase_s=0.0, duty=5 / 7)
    >>> waves = UsageWaves((day, week))
    >>> waves.at(np.array([0, 8, 128])).round(2).tolist()
    [0.3, 0.7, 0.35]
    >>> round(waves.largest(0, 8), 2), round(waves.largest(120, 168), 2), waves.next_busy(25)
    (0.3, 0.35, (32.0, 44.0))
    """

    waves: tuple[PulseWave, ...]

    def __post_init__(self) -> None:
        if len(self.waves) not in (1, 2):
            raise ValueError(f"waves must be one or two, got {len(self.waves)}")
        if len(self.waves) == 2 and not all(wave.is_periodic for wave in self.waves):
            raise ValueError("waves must both have a period where there are two, got an infinite one")

    @property
    def is_periodic(self) -> bool:
        """Whether it has a period."""
        return self.waves[0].is_periodic

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """Use at each time, float64, the shape of `time_s` (seconds on the trace's clock)."""
        total = self.waves[0].at(time_s)
        for wave in self.waves[1:]:
            total = total + wave.at(time_s)
        return total

    def largest(self, from_s: float, to_s: float) -> float:
        """The largest use at any time of [from_s, to_s), exact. An interval that ends before it begins is refused.

        Between two edges nothing changes, so the use at `from_s` and at the begin of every busy window in the interval
        is enough. It stops where every wave is at its peak together; until then the time grows with the number of
        windows.
        """
        check_interval(from_s, to_s)
        if len(self.waves) == 1:
            return self.waves[0].largest(from_s, to_s)
        bound = sum(wave.largest(from_s, to_s) for wave in self.waves)
        best = float(self.at(np.array([from_s]))[0])
        for wave, other in (self.waves, self.waves[::-1]):
            begin_s = from_s - (from_s - wave.phase_s) % wave.period_s + wave.period_s
            while begin_s < to_s and best < bound:
                begins = begin_s + wave.period_s * np.arange(_EDGES_AT_ONCE)
                begins = begins[begins < to_s]
                best = max(best, wave.peak + float(other.at(begins).max()))
                begin_s += wave.period_s * _EDGES_AT_ONCE
        return best

    def next_busy(self, from_s: float) -> tuple[float, float]:
        """Begin and end of the next busy window; one that is under way begins at `from_s`. Aperiodic: endless.

        Busy = above the middle between the least and the greatest sum. That is so exactly while the wave with the
        greater distance from trough to peak is busy, whatever the other one does. At equal distances it is the first.
        """
        return max(self.waves, key=lambda wave: wave.peak - wave.trough).next_busy(from_s)
