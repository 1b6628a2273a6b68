"""The paper's two ways to the duty cycle: least error over candidates, and change points."""

from __future__ import annotations

import numpy as np
import ruptures

from sojourn.models.periodicity.phase_filter import recurring


def duty_of_least_error(profile: np.ndarray, counts: np.ndarray, phase_share: float, peak: float,
                        trough: float) -> float:
    """The duty cycle whose wave is nearest to the samples, with phase and levels given (section III-A5).

    profile, counts: mean and number of the samples in each bin of the period, float64 and int64 (n_bins,); the
    candidates are 1 to n_bins - 1 bins from the bin that holds phase_share, a share of the period.

    >>> duty_of_least_error(np.array([0.2, 0.9, 0.8, 0.1]), np.ones(4, np.int64), 0.25, 0.9, 0.1)
    0.5
    """
    n_bins = len(profile)
    start = round(phase_share * n_bins) % n_bins
    # squared error of a bin as busy minus as idle: n ((y - peak)^2 - (y - trough)^2)
    change = counts * (trough - peak) * (2.0 * profile - peak - trough)
    total = np.cumsum(np.roll(change, -start))
    return float(np.argmin(total[:-1]) + 1) / n_bins


def duty_of_change_points(values: np.ndarray, period: float, epsilon: float) -> tuple[float, float] | None:
    """Phase in steps and duty cycle from abrupt changes of level (section III-A5), or None where too few are left.

    values: raw samples, float64 (m,), none missing. period: in steps. Change points: PELT with the cost of a shifted
    mean; the penalty is 3 ln m times the variance of the noise, which is that of the differences of neighbours, halved.
    Rises and falls are filtered apart by their phases, a rise is paired with the next fall where no other rise comes
    between, pairs of a period or longer are left out, and the median is taken.

    >>> busy = np.arange(600) % 50 < 20
    >>> noise = np.random.default_rng(0).normal(0, 0.05, 600)
    >>> duty_of_change_points(np.roll(busy, 5) + noise, 50.0, 0.1)
    (5.0, 0.4)
    """
    m = len(values)
    noise = 0.5 * float(np.median(np.diff(values) ** 2)) / 0.4549  # median of chi2 with one degree of freedom
    scale = float(np.ptp(values)) or 1.0
    penalty = 3.0 * np.log(m) * max(noise, 1e-6 * scale ** 2)
    search = ruptures.KernelCPD(kernel="linear", min_size=2).fit(values.reshape(-1, 1))
    ends = search.predict(pen=penalty) or []
    points = np.array(ends[:-1], np.int64)
    if len(points) < 2:
        return None
    means = np.add.reduceat(values, np.concatenate([[0], points])) / np.diff(np.concatenate([[0], points, [m]]))
    is_rise = np.diff(means) > 0.0
    rises, falls = points[is_rise].astype(np.float64), points[~is_rise].astype(np.float64)
    if len(rises) == 0 or len(falls) == 0:
        return None
    phase, is_kept = recurring(rises, period, epsilon)
    rises = rises[is_kept]
    falls = falls[recurring(falls, period, epsilon)[1]]
    after = np.searchsorted(falls, rises, side="right")
    next_rise = np.append(rises[1:], np.inf)
    lengths = np.array([falls[fall] - rise for rise, fall, following in zip(rises, after, next_rise, strict=True)
                        if fall < len(falls) and falls[fall] < following and falls[fall] - rise < period])
    return None if len(lengths) == 0 else (phase, float(np.median(lengths)) / period)
