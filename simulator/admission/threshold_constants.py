"""The constants of the threshold algorithm: how much a core's load counts, and the competitive ratio they give."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ThresholdConstants:
    """Of m cores and a slack.

    first: k, the place (from 1) of the first core that counts, in descending order of load. factors: f_k .. f_m,
    float64 (m - k + 1,), rising from at least 2 to (1 + slack) / slack. ratio: C, the competitive ratio of the
    algorithm on sequential jobs of at least this slack; lower = better.
    """

    first: int
    factors: np.ndarray
    ratio: float


def threshold_constants(n_cores: int, slack: float) -> ThresholdConstants:
    """The constants with the smallest k for which the equations hold with f_k >= 2 (Jamalabadi et al.; several k can
    meet them).

    C = (m f_k + 1) / k and f_q = (C (k + sum_{h=k}^{q-1} (f_h - 1)) - 1) / m for q > k give f_q - 1 = (f_k - 1)
    (1 + C / m)^(q - k). So f_m = (1 + slack) / slack is one equation in f_k, whose left side rises: it is bisected
    in logarithms until the bracket has no number inside.

    Refused with ValueError: n_cores below 1, a slack outside (0, 1].

    >>> [round(threshold_constants(m, 0.1).ratio, 6) for m in (1, 3, 10, 100)]
    [12.0, 6.658911, 4.912199, 4.362387]
    >>> threshold_constants(10, 0.1).first
    5
    """
    if not isinstance(n_cores, int | np.integer) or n_cores < 1:
        raise ValueError(f"n_cores must be a whole number of at least 1, got {n_cores!r}")
    if not 0.0 < slack <= 1.0:
        raise ValueError(f"slack must be above 0 and at most 1 with threshold acceptance, got {slack!r}")
    low, high = 1, n_cores  # the excess at f = 2 falls with k, and at k = m it is not above 0
    while low < high:
        middle = (low + high) // 2
        if _excess(2.0, middle, n_cores, slack) <= 0.0:
            high = middle
        else:
            low = middle + 1
    first = low
    factor = _root(first, n_cores, slack)
    ratio = (n_cores * factor + 1) / first
    factors = 1.0 + (factor - 1.0) * np.exp(np.arange(n_cores - first + 1) * math.log1p(ratio / n_cores))
    factors[-1] = (1.0 + slack) / slack
    return ThresholdConstants(first, factors, ratio)


def _excess(factor: float, first: int, n_cores: int, slack: float) -> float:
    """log(f_m - 1) - log(1 / slack), where f_k is `factor`; rises with it."""
    ratio = (n_cores * factor + 1) / first
    return math.log(factor - 1.0) + (n_cores - first) * math.log1p(ratio / n_cores) + math.log(slack)


def _root(first: int, n_cores: int, slack: float) -> float:
    low, high = 2.0, (1.0 + slack) / slack
    if first == n_cores or high <= 2.0:
        return high
    while low < (middle := (low + high) / 2) < high:
        if _excess(middle, first, n_cores, slack) <= 0.0:
            low = middle
        else:
            high = middle
    return low
