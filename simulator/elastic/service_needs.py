"""What services are predicted to need in each interval, without classes: their own maximum, and the truth."""

from __future__ import annotations

import math

import numpy as np

from sojourn.simulator.elastic.mixed_workload import Services
from sojourn.simulator.whole_numbers import check_setting


def own_maximum(services: Services, n_observed: int, margin: float = 0.0) -> np.ndarray:
    """The most that each service used so far, float64 (n, n_intervals, 2); NaN until n_observed intervals were seen.

    Nothing of the interval itself or later enters. margin: added, as a share.

    Refused with ValueError: n_observed below 1, a negative margin.

    >>> used = np.array([[[2, 1], [5, 1], [3, 1], [1, 1]]])
    >>> one = Services(np.array([[8, 8]]), used, np.array([0]), np.array([4]), np.array([-1]))
    >>> own_maximum(one, 1)[0, :, 0].tolist()
    [nan, 2.0, 5.0, 5.0]
    """
    check_setting(n_observed, 1, "n_observed")
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin must be 0 or more and finite, got {margin!r}")
    n_intervals = services.n_intervals
    needs = np.full(services.used.shape, np.nan)
    seen = np.maximum.accumulate(services.used, axis=1)
    needs[:, 1:] = seen[:, :-1] * (1 + margin)
    is_early = np.arange(n_intervals) < (services.first + n_observed)[:, None]
    needs[is_early] = np.nan
    return needs


def true_needs(services: Services) -> np.ndarray:
    """The most that each service will really use in the interval and the next, float64 (n, n_intervals, 2): what a
    perfect prediction says.

    >>> used = np.array([[[2, 1], [5, 1], [3, 1]]])
    >>> one = Services(np.array([[8, 8]]), used, np.array([0]), np.array([3]), np.array([-1]))
    >>> true_needs(one)[0, :, 0].tolist()
    [5.0, 5.0, 3.0]
    """
    following = np.concatenate([services.used[:, 1:], services.used[:, -1:]], axis=1)
    return np.maximum(services.used, following).astype(np.float64)
