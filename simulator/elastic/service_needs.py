"""What services are predicted to need in each interval, where no class is at hand: own maximum, truth, adjusted."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.elastic.mixed_workload import Services

LEAD = 1
"""Intervals between the last one seen and the one predicted: the need of the next interval must be known in this one."""


def own_maximum(services: Services, n_observed: int, margin: float = 0.0) -> np.ndarray:
    """The most that each service used so far, float64 (n, n_intervals, 2); NaN until n_observed intervals were seen.

    The need of interval t is made of the intervals before t - 1: it must be known when t - 1 begins, since a batch
    request that is placed then may run into t. margin: added, as a share.

    Refused with ValueError: n_observed below 1, a negative margin.

    >>> used = np.array([[[2, 1], [5, 1], [3, 1], [1, 1]]])
    >>> one = Services(np.array([[8, 8]]), used, np.array([0]), np.array([4]), np.array([-1]))
    >>> own_maximum(one, 1)[0, :, 0].tolist()
    [nan, nan, 2.0, 5.0]
    """
    if n_observed < 1:
        raise ValueError(f"n_observed must be at least 1, got {n_observed!r}")
    if not margin >= 0:
        raise ValueError(f"margin must be 0 or more, got {margin!r}")
    n_intervals = services.n_intervals
    needs = np.full(services.used.shape, np.nan)
    seen = np.maximum.accumulate(services.used, axis=1)
    needs[:, 1 + LEAD:] = seen[:, : n_intervals - 1 - LEAD] * (1 + margin)
    is_early = np.arange(n_intervals) < (services.first + n_observed + LEAD)[:, None]
    needs[is_early] = np.nan
    return needs


def true_needs(services: Services) -> np.ndarray:
    """What each service will really use, float64 (n, n_intervals, 2): the bound that no prediction exceeds.

    >>> one = Services(np.array([[8, 8]]), np.array([[[2, 1]]]), np.array([0]), np.array([1]), np.array([-1]))
    >>> true_needs(one).tolist()
    [[[2.0, 1.0]]]
    """
    return services.used.astype(np.float64)
