"""Profiles of the day for policies of the event loop: of the owner's past, or the request's own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.serving.usage import DAY_S, DayClock
from sojourn.simulator import Workload
from sojourn.simulator.policies.usage import UsageProfile

N_SLOTS = 48
"""Of a day, half an hour each: what policies keep per host and request."""
_MILLI = 1000


def own_profile(workload: Workload) -> UsageProfile:
    """Each request's own mean use per slot over its whole series, the future included: an oracle's."""
    table, usage = workload.trace.requests, _samples(workload.trace)
    sums, counts = _sums(usage, pd.Index(table["request_id"]).get_indexer(pd.Index(usage["request_id"])), len(table))
    mean = sums.sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    return _profile(workload, np.where(counts > 0, sums / np.maximum(counts, 1), mean[:, None]))


def owner_profile(workload: Workload) -> UsageProfile:
    """Mean use per slot of all requests of the same owner in the samples before the day on which a request arrives.

    Where the owner has no sample of a slot, the owner's mean; without any, what all requests used on the mean before
    that day; before the first, all that is reserved. Nothing from the request's own day or later is read.
    """
    trace = workload.trace
    table, usage = trace.requests, _samples(trace)
    row = pd.Index(table["request_id"]).get_indexer(pd.Index(usage["request_id"]))
    owner = pd.factorize(table[trace.roles.owners[-1]] if trace.roles.owners else table["request_id"])[0]
    owner = np.where(owner < 0, owner.max(initial=0) + 1, owner)
    arrival_day = workload.placed_s // DAY_S
    sample_day = usage["time_s"].to_numpy(np.int64) // DAY_S
    n_owners = int(owner.max(initial=0)) + 1
    sums, counts = np.zeros((n_owners, N_SLOTS)), np.zeros((n_owners, N_SLOTS))
    shares = np.ones((len(table), N_SLOTS))
    for day in range(int(arrival_day.max(initial=0)) + 1):
        asking = np.flatnonzero(arrival_day == day)
        total, n_total = sums.sum(), counts.sum()
        if len(asking) and n_total:
            known, n_known = sums[owner[asking]], counts[owner[asking]]
            n_own = n_known.sum(axis=1)
            level = np.where(n_own > 0, known.sum(axis=1) / np.maximum(n_own, 1), total / n_total)
            shares[asking] = np.where(n_known > 0, known / np.maximum(n_known, 1), level[:, None])
        is_now = sample_day == day
        more, n_more = _sums(usage[is_now], owner[row[is_now]], n_owners)
        sums, counts = sums + more, counts + n_more
    return _profile(workload, shares)


def _samples(trace: Trace) -> pd.DataFrame:
    if trace.usage is None:
        raise ValueError("trace must carry usage, got none")
    return trace.usage


def _sums(usage: pd.DataFrame, row: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of samples by row and slot, float64 (n, N_SLOTS); rows below 0 are left out."""
    cell = row * N_SLOTS + DayClock().slot(usage["time_s"].to_numpy(np.int64), N_SLOTS)
    is_in = row >= 0
    weights = usage["cpu_frac"].to_numpy(np.float64)[is_in]
    shape = (n, N_SLOTS)
    return (np.bincount(cell[is_in], weights, n * N_SLOTS).reshape(shape),
            np.bincount(cell[is_in], minlength=n * N_SLOTS).reshape(shape))


def _profile(workload: Workload, shares: np.ndarray) -> UsageProfile:
    cpu = workload.resources.index("cpu_cores")
    return UsageProfile(np.rint(shares * workload.need[:, cpu][:, None]).astype(np.int64), cpu)


def overcommitted(trace: Trace, factor: float) -> Trace:
    """The trace as if each host could reserve `factor` times what it has: reservations are that much smaller, and the
    shares of them that are used that much larger. Hosts stay as they are, so that measures of usage need no change.

    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [9], "cpu_cores": [3.0],
    ...                       "mem_gib": [6.0]})
    >>> usage = pd.DataFrame({"request_id": [1], "time_s": [0], "cpu_frac": [0.5]})
    >>> made = overcommitted(Trace(table, 10, usage=usage), 1.5)
    >>> made.requests["cpu_cores"].tolist(), made.usage["cpu_frac"].tolist()
    ([2.0], [0.75])
    """
    if not factor >= 1.0:
        raise ValueError(f"factor must be at least 1, got {factor!r}")
    usage = _samples(trace)
    requests = trace.requests.assign(cpu_cores=trace.requests["cpu_cores"] / factor,
                                     mem_gib=trace.requests["mem_gib"] / factor)
    return Trace(requests, trace.horizon_s, trace.roles, trace.hosts,
                 usage.assign(cpu_frac=usage["cpu_frac"] * factor), trace.meta)
