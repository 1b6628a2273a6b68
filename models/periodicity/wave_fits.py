"""What a fit found in each series: the wave's numbers, its strength, or why there is no period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.serving.usage import PulseWave, UsageWaves

PERIODIC, EMPTY, GAPS, CONSTANT, SHORT, BOUND, WEAK, CHANCE = range(8)
REASONS: Mapping[int, str] = MappingProxyType({
    PERIODIC: "periodic",
    EMPTY: "aperiodic because it has no samples",
    GAPS: "aperiodic because too many samples are missing",
    CONSTANT: "aperiodic because it is constant or a straight line",
    SHORT: "aperiodic because it is shorter than two of the shortest periods",
    BOUND: "aperiodic because no frequency between the longest and the shortest period stands out from its neighbours",
    WEAK: "aperiodic because the strength is below the threshold",
    CHANCE: "aperiodic because no frequency is stronger than chance",
})
"""Text of each code."""


@dataclass(frozen=True, slots=True)
class WaveFits:
    """One row a request, float64 (n,) unless said otherwise. Aperiodic: period_s infinite, the wave is its peak.

    request_ids: as in the grid. peak, trough: share of the reservation; NaN where there are no samples.
    period_s, phase_s, duty: see `PulseWave`; seconds on the trace's clock.
    strength: share of the smoothed and detrended variance at the frequency, 0 to 1. magnitude: the paper's strength,
        0 to 1. Both 0 where no frequency was found; where it was too weak, the strength that was found.
    by_chance: the strength, in share of variance, that chance reaches at that frequency (`PeriodicitySettings.chance`);
        0 where no frequency was found, or the setting is 1.
    reason: int8, a key of `REASONS`.
    nrmse: in-sample, against the raw samples: root of the mean squared error over greatest minus least sample (paper,
        equation 4); NaN where that is 0. Aperiodic rows: of the peak at all times, as they are served.
    second: the same of the wave that is added, its levels around 0; None where one period was asked for. Its nrmse is
        that of the sum.

    >>> fits = WaveFits.aperiodic(np.array(["a"]), np.array([0.5]), np.array([0.1]), np.array([WEAK], np.int8))
    >>> fits.reason_text().tolist(), fits.waves(0).is_periodic
    (['aperiodic because the strength is below the threshold'], False)
    """

    request_ids: np.ndarray
    peak: np.ndarray
    trough: np.ndarray
    period_s: np.ndarray
    phase_s: np.ndarray
    duty: np.ndarray
    strength: np.ndarray
    magnitude: np.ndarray
    by_chance: np.ndarray
    reason: np.ndarray
    nrmse: np.ndarray
    second: WaveFits | None = None

    @classmethod
    def aperiodic(cls, request_ids: np.ndarray, peak: np.ndarray, trough: np.ndarray, reason: np.ndarray) -> WaveFits:
        """Rows without a period, to be written over where one is found."""
        n = len(request_ids)
        return cls(request_ids, peak, trough, np.full(n, np.inf), np.zeros(n), np.full(n, 0.5), np.zeros(n),
                   np.zeros(n), np.zeros(n), reason, np.full(n, np.nan))

    def __len__(self) -> int:
        return len(self.request_ids)

    @property
    def is_periodic(self) -> np.ndarray:
        """bool (n,)."""
        return self.reason == PERIODIC

    def reason_text(self) -> np.ndarray:
        """The reason of each row in words, str (n,)."""
        return np.array([REASONS[code] for code in range(len(REASONS))])[self.reason]

    def wave(self, row: int) -> PulseWave:
        """The first wave of a row. Refused with ValueError: a row without samples."""
        return PulseWave(float(self.peak[row]), float(self.trough[row]), float(self.period_s[row]),
                         float(self.phase_s[row]), float(self.duty[row]))

    def waves(self, row: int) -> UsageWaves:
        """All waves of a row. Refused with ValueError: a row without samples."""
        first = self.wave(row)
        if self.second is None or not self.second.is_periodic[row]:
            return UsageWaves((first,))
        return UsageWaves((first, self.second.wave(row)))
