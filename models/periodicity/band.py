"""The frequencies among which a period is looked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Band:
    """Bins of the FFT of `n_steps` samples in which a period is looked for; bin k = k periods in the span.

    first: the least bin whose period is at most the longest one; refined by up to half a bin, a period may lie a little
    above. last: the greatest whose period is not below the cut-off. Empty where first is above last.

    >>> Band.of(8640, 12.0, 0.25)
    Band(first=4, last=720)
    """

    first: int
    last: int

    @classmethod
    def of(cls, n_steps: int, cutoff_steps: float, longest_share: float) -> Band:
        """Bounds from the shortest period in steps and the longest as a share of the span."""
        return cls(int(np.ceil(1.0 / longest_share)), min(int(n_steps / cutoff_steps), n_steps // 2 - 2))
