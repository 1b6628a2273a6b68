"""The zero-phase Butterworth low-pass filter: smoothed series, and what is left of them without their trend."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import signal

from sojourn.models.periodicity._kernels import smooth_rows


@dataclass(frozen=True, slots=True)
class LowPass:
    """A Butterworth filter for steps of `step_s` seconds (section II-B), run forwards and backwards.

    The result equals `scipy.signal.sosfiltfilt` with its own odd padding, to the rounding of float32.

    Refused with ValueError: a cut-off period of two steps or less, which a series cannot hold.

    >>> smoothed = LowPass(order=4, cutoff_s=3600.0, step_s=300).smooth(np.ones((1, 60), np.float32))
    >>> smoothed.values[0, :2].round(6).tolist(), smoothed.variance.round(6).tolist()
    ([1.0, 1.0], [0.0])
    """

    order: int
    cutoff_s: float
    step_s: int

    def __post_init__(self) -> None:
        if self.cutoff_s <= 2 * self.step_s:
            raise ValueError(f"cutoff_s must be above two steps of {self.step_s} s, got {self.cutoff_s!r}")

    @property
    def n_pad(self) -> int:
        """Samples by which each end is extended; a series must have more."""
        return 3 * (2 * ((self.order + 1) // 2) + 1 - self.order % 2)

    def power_gain(self, per_step: np.ndarray) -> np.ndarray:
        """Share of power that is left at frequencies in turns a step, both passes together."""
        sos, _ = _design(self.order, 2.0 * self.step_s / self.cutoff_s)
        return np.abs(np.asarray(signal.sosfreqz(sos, 2.0 * np.pi * per_step)[1])) ** 4

    def smooth(self, rows: np.ndarray) -> Smoothed:
        """rows: float32 (n, m), no missing value, m > n_pad."""
        sos, settled = _design(self.order, 2.0 * self.step_s / self.cutoff_s)
        values, detrended, variance = np.empty_like(rows), np.empty_like(rows), np.empty(len(rows))
        smooth_rows(rows, sos, settled, self.n_pad, values, detrended, variance)
        return Smoothed(values, detrended, variance)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """values, detrended: float32 (n, m). variance: of the detrended rows, float64 (n,)."""

    values: np.ndarray
    detrended: np.ndarray
    variance: np.ndarray


@lru_cache(maxsize=16)
def _design(order: int, cutoff: float) -> tuple[np.ndarray, np.ndarray]:
    """Second-order sections, and their states after a long input of 1; cutoff: as a share of half the sampling rate."""
    sos = np.asarray(signal.butter(order, cutoff, output="sos"))
    return sos, np.asarray(signal.sosfilt_zi(sos))
