"""How long a request was observed: what decides when it gets a class and when its own use stands alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.serving.usage.workload_classes import N_HOURS, N_SLOTS, SLOT_S

_HOUR_S = 3_600
_N_HOURS_OF_DAY = 22
"""Nine tenths of the hours: a day on which daylight saving begins has 23."""


def observed_s(first_slot: Any, last_slot: Any, n_hours: Any) -> np.ndarray:
    """Seconds of observation, int64, of the arguments' common shape.

    From the begin of the first slot with a sample to the end of the last one, but at most an hour for each hour of the
    day that has a sample, until 22 of them have one. So hourly samples count in full, two samples with half a day
    between them count as two hours, and a wrong stamp adds an hour.

    first_slot, last_slot: slots of 15 minutes, counted on without regard to days. n_hours: as of `hours_seen`.

    >>> observed_s(0, np.array([11, 48, 95, 95]), np.array([3, 2, 8, 24])).tolist()
    [10800, 7200, 28800, 86400]
    """
    span_s = (np.asarray(last_slot, np.int64) - first_slot + 1) * SLOT_S
    return np.where(np.asarray(n_hours) >= _N_HOURS_OF_DAY, span_s, np.minimum(span_s, np.asarray(n_hours) * _HOUR_S))


def hours_seen(is_seen: np.ndarray) -> np.ndarray:
    """In how many hours of the local day there is a sample, int64 (n,); is_seen: bool (n, 96), by slot of the day.

    >>> hours_seen(np.arange(96)[None, :] % 8 == 0).tolist()
    [12]
    """
    return is_seen.reshape(len(is_seen), N_HOURS, N_SLOTS // N_HOURS).any(axis=2).sum(axis=1)
