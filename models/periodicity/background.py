"""The spectrum that a series has without a period, and the power that chance reaches above it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from sojourn.models.periodicity._background_kernels import background_rows
from sojourn.models.periodicity.band import Band
from sojourn.models.periodicity.low_pass import LowPass

_LEAST_GROUP = 5
"""Bins of the smallest group: a frequency between two bins fills two or three, and the median must be of the others."""
_GROUP_SHARE = 0.25
"""Bins of a larger group, as a share of its first bin."""
_KNEE_FACTOR = 4.0
_ALLOWANCE = 4.0
"""The background is known the less well the fewer bins there are: the limit is raised by this over their number.

Chosen on made noise: without it 2 to 4 % of one-day series pass at a chance of 1 %, with it 0.4 to 1.6 %
(benchmarks/periodicity_chance.py; docs/usage.md).
"""


@dataclass(frozen=True, slots=True)
class Background:
    """What noise alone gives in each bin of a spectrum, for series of one length.

    The background is a sum of c / (1 + (f / knee)^2) over knees from half a bin up, by factors of 4, and a constant,
    with c of at least 0. One such term is the spectrum of AR(1) noise and of on/off use with exponential times; a knee
    below the first bin is a random walk or a step; the constant is white noise. The sum falls from low frequencies to
    high ones, as the spectra of usage without a period do, and cannot follow a narrow peak. It is fitted to medians of
    groups of bins, which a period and its harmonics hardly move (compare Torrence and Compo 1998, who take AR(1), and
    Vaughan 2005, who takes a power law).

    In noise the power of a bin over its background is exponential with mean 1, and of three bins is gamma distributed
    of shape 3 (Fisher 1929 for one bin of white noise). `limit` is what the sum exceeds in any of the band's bins with
    the probability `chance` at most (Bonferroni), raised for the uncertainty of the background.

    one_share: the limit of a single bin as a share of `limit`. It is asked of the half and the third of a frequency
    that stands out, which are no new search.
    gain: share of power that the filter leaves, float64 (n_bins,). bounds, middles: of the groups, see `_kernels`.
    shapes: float64 (k, n_bins).

    >>> low_pass, band = LowPass(4, 3600.0, 300), Band(4, 168)
    >>> round(Background.of(low_pass, band, 2016, chance=0.01).limit, 1)
    14.9
    >>> round(Background.of(low_pass, band, 2016, chance=0.05).limit, 1)
    12.9
    """

    gain: np.ndarray
    bounds: np.ndarray
    middles: np.ndarray
    shapes: np.ndarray
    limit: float
    one_share: float

    @staticmethod
    @lru_cache(maxsize=128)
    def of(low_pass: LowPass, band: Band, n_steps: int, chance: float) -> Background:
        """For smoothed series of `n_steps`, with bins up to `band.last` + 2. chance: 0 to 1, both excluded."""
        bins = np.arange(band.last + 3, dtype=np.float64)
        bounds = [1]
        while bounds[-1] <= band.last:
            bounds.append(bounds[-1] + max(_LEAST_GROUP, int(_GROUP_SHARE * bounds[-1])))
        bounds[-1] = band.last + 1
        if len(bounds) > 2 and bounds[-1] - bounds[-2] < _LEAST_GROUP:
            del bounds[-2]
        edges = np.array(bounds, np.int64)
        knees = 0.5 * _KNEE_FACTOR ** np.arange(1 + int(np.log(2.0 * band.last) / np.log(_KNEE_FACTOR)))
        shapes = np.concatenate([1.0 / (1.0 + (bins / knees[:, None]) ** 2), np.ones((1, len(bins)))])
        shapes /= shapes[:, 1:2]
        n_bins = band.last - band.first + 1
        one, every = (float(special.gammainccinv(3.0, chance / n)) for n in (1, n_bins))
        return Background(low_pass.power_gain(bins / n_steps), edges, (edges[:-1] + edges[1:] - 1) // 2, shapes,
                          every * (1.0 + _ALLOWANCE / n_bins), one / every)

    def reached(self, power: np.ndarray) -> np.ndarray:
        """Power that chance reaches in each bin and its two neighbours together, float64 (n, n_bins).

        power: of smoothed series, float64 (n, n_bins); bins of 0 are left out. The first and the last bin, which have
        one neighbour, hold what these two reach.
        """
        noise = np.empty_like(power)
        background_rows(power, self.gain, self.bounds, self.middles, self.shapes, noise)
        near = noise.copy()
        near[:, 1:] += noise[:, :-1]
        near[:, :-1] += noise[:, 1:]
        near *= self.limit / 3.0
        return near
