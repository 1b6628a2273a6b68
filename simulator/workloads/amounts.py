"""Requests and hosts as whole amounts, the order of the resources, and demand over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

UNITS_PER = {"cpu_cores": 1000, "mem_gib": 1024, "gpu": 1000}
"""Milli-cores, MiB and milli-GPU in one of the trace's units; thousandths of all other resources."""
MOMENT_S = 60
"""Demand that lasts for less is a moment's."""
LARGEST = 2**40
"""Amount of one request or host that is accepted, so that no sum overflows."""


def whole_amounts(table: pd.DataFrame, resources: tuple[str, ...]) -> np.ndarray:
    """Amounts of the table's rows, int64 (n, n_resources): milli-cores, MiB, milli-GPU or the like, to nearest.

    A resource that the table does not have counts as 0. ValueError for one that is not in 0..LARGEST.

    >>> table = pd.DataFrame({"cpu_cores": [0.5], "mem_gib": [2.0]})
    >>> whole_amounts(table, ("cpu_cores", "mem_gib", "gpu")).tolist()
    [[500, 2048, 0]]
    """
    columns = [
        np.rint(table[name].to_numpy(np.float64) * UNITS_PER.get(name, 1000)) if name in table else np.zeros(len(table))
        for name in resources
    ]
    for name, column in zip(resources, columns, strict=True):
        is_bad = ~((column >= 0) & (column <= LARGEST))  # NaN as well: hosts need not come from a Trace
        if is_bad.any():
            raise ValueError(f"{name} must be in 0..{LARGEST / UNITS_PER.get(name, 1000):g}, got "
                             f"{table[name].tolist()[int(np.argmax(is_bad))]!r}")
    return np.asarray(np.stack(columns, axis=1), np.int64)


@dataclass(frozen=True, slots=True)
class Demand:
    """Total demand as a step function: amount[i] from time_s[i] on; int64 (n,) and (n, n_resources)."""

    time_s: np.ndarray
    amount: np.ndarray

    def peak(self) -> np.ndarray:
        """Highest demand of each resource, int64 (n_resources,)."""
        return self.amount.max(axis=0, initial=0)

    def lasting_peak(self, horizon_s: int) -> np.ndarray:
        """The peak, but for moments in which far more is asked for than at any other time, int64 (n_resources,).

        Where the peak is more than twice the highest demand that lasts for a minute in all, that demand: in a log of
        real jobs, dozens that each take the whole machine start in one second and fail at once.

        >>> Demand(np.array([0, 50, 51]), np.array([[3], [90], [3]])).lasting_peak(500).tolist()
        [3]
        """
        lasting_s = np.diff(np.append(self.time_s, horizon_s))
        peaks = self.peak()
        for idx, peak in enumerate(peaks.tolist()):
            order = np.argsort(-self.amount[:, idx], kind="stable")
            held_s = np.cumsum(lasting_s[order])
            if len(order) and held_s[-1] >= MOMENT_S:
                held = int(self.amount[order[int(np.searchsorted(held_s, MOMENT_S))], idx])
                peaks[idx] = held if 0 < held * 2 < peak else peak
        return peaks


def demand(arrival_s: np.ndarray, departure_s: np.ndarray, need: np.ndarray, horizon_s: int) -> Demand:
    """What all requests ask for together, from 0 up to and including the horizon.

    >>> steps = demand(np.array([0, 10]), np.array([20, 99]), np.array([[2], [3]]), 60)
    >>> steps.time_s.tolist(), steps.amount[:, 0].tolist()
    ([0, 10, 20], [2, 5, 3])
    """
    time = np.concatenate([arrival_s, departure_s])
    change = np.concatenate([need, -need])
    is_kept = time <= horizon_s
    order = np.argsort(time[is_kept], kind="stable")
    time, level = time[is_kept][order], np.cumsum(change[is_kept][order], axis=0)
    is_last = np.append(np.diff(time) > 0, True)[: len(time)]
    return Demand(time[is_last], level[is_last])


def n_hosts_for(peak: np.ndarray, room: np.ndarray, load: float) -> int:
    """Hosts of one shape that keep a peak at `load`, at least 1; a resource of which a host has none does not count.

    peak, room: int64 (n_resources,), of all requests and of one host. load: above 0.

    >>> n_hosts_for(np.array([40_000, 10]), np.array([8_000, 0]), 0.8)
    7
    """
    return max(1, *(math.ceil(int(most) / (load * int(one))) for most, one in zip(peak, room, strict=True) if one))


def binding_order(load: np.ndarray) -> np.ndarray:
    """Resource dimensions by falling whole-trace load, the binding one first; equal loads keep their order.

    >>> binding_order(np.array([0.5, 0.8])).tolist()
    [1, 0]
    """
    return np.argsort(-load, kind="stable")


def shares(amount: np.ndarray, total: np.ndarray) -> np.ndarray:
    """amount / total, 0 where there is none; float64.

    >>> shares(np.array([1, 0]), np.array([4, 0])).tolist()
    [0.25, 0.0]
    """
    return np.asarray(np.divide(amount, total, out=np.zeros(np.shape(amount)), where=np.asarray(total) > 0))
