"""Hazards of intervals times factors, by the age and by the hazard outlived; for plain Python and compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sojourn.serving.jitable import register_jitable

AGE_STARTS_S = (0.0, 600.0, 3_600.0, 21_600.0)
"""Where each bucket of the age begins, s: the ages at which calibration is measured. An interval is of the bucket in
which it begins."""
BAND_STARTS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0, 3.0)
"""Where each band of the cumulative hazard outlived since the bucket began starts; of a right model 9.5, 16, 24, 20,
17, 9 and 5 % of the requests end in them."""
N_AGES, N_BANDS = len(AGE_STARTS_S), len(BAND_STARTS)


@register_jitable
def fill_recalibrated(edges: Sequence[float], rates: Sequence[float], factors: Any, hazards: Any) -> None:
    """Write the recalibrated cumulative hazard of each interval (J,).

    edges: (J + 1,) s. rates: (J,) or more, hazard per second. factors: (N_AGES, N_BANDS).

    >>> factors, hazards = [[1.0] * 7, [3.0] * 7, [1.0] * 7, [1.0] * 7], [0.0, 0.0]
    >>> factors[0][1] = 2.0
    >>> fill_recalibrated([0.0, 600.0, 3600.0], [0.2 / 600.0, 0.1 / 3000.0], factors, hazards)
    >>> [round(hazard, 6) for hazard in hazards]  # 0.1 x 1 + 0.1 x 2, then 0.1 x 3
    [0.3, 0.3]
    """
    age = band = 0
    outlived = 0.0
    for idx in range(len(edges) - 1):
        while age < N_AGES - 1 and edges[idx] >= AGE_STARTS_S[age + 1]:
            age += 1
            band = 0
            outlived = 0.0
        until = outlived + rates[idx] * (edges[idx + 1] - edges[idx])
        total = 0.0
        while band < N_BANDS - 1 and BAND_STARTS[band + 1] < until:
            total += factors[age][band] * (BAND_STARTS[band + 1] - outlived)
            outlived = BAND_STARTS[band + 1]
            band += 1
        hazards[idx] = total + factors[age][band] * (until - outlived)
        outlived = until
