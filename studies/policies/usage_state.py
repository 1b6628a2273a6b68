"""The state of policies by usage: each request's profile of a day, and each host's sum of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from sojourn.simulator import NEVER, Cluster, Hooks, Request, kernel


class UsageState(NamedTuple):
    """profile: int32 (n_requests, n_slots), expected use in milli-cores. load: int32 (n_hosts,
    n_slots), the sum of each host. total: int64 (n_slots,), of all hosts. cpu: int64 (1,), index of
    the cores. deadline_s: int64 (n_hosts,), NEVER."""

    profile: np.ndarray
    load: np.ndarray
    total: np.ndarray
    cpu: np.ndarray
    deadline_s: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class UsageProfile:
    """Expected use of every request of one workload over the local day.

    milli_cores: (n, n_slots), whole numbers from 0 to 2^24, in the order of the workload's requests. cpu: place of the
    cores in `Workload.resources`.

    >>> UsageProfile(np.array([[500, 1000]]), 0).state(1, 1).load.tolist()
    [[0, 0]]
    """

    milli_cores: np.ndarray
    cpu: int

    def __post_init__(self) -> None:
        values = np.asarray(self.milli_cores)
        if values.ndim != 2 or values.shape[1] < 1 or values.dtype.kind not in "iu":
            raise ValueError(f"milli_cores must be whole numbers (n, n_slots), got {values.dtype} {values.shape}")
        if values.size and not 0 <= values.min() <= values.max() <= 1 << 24:
            raise ValueError(f"milli_cores must be from 0 to {1 << 24}, got {values.min()} to {values.max()}")

    def state(self, n_hosts: int, n_requests: int) -> UsageState:
        """All hosts empty; profiles are 0 for another number of requests (the loop compiles with
        none)."""
        n, n_slots = self.milli_cores.shape
        profile = self.milli_cores if n_requests == n else np.zeros((n_requests, n_slots))
        return UsageState(np.ascontiguousarray(profile, np.int32), np.zeros((n_hosts, n_slots), np.int32),
                          np.zeros(n_slots, np.int64), np.array([self.cpu]), np.full(n_hosts, NEVER))

    def hooks(self) -> Hooks:
        """The functions that keep the sums up to date."""
        return Hooks(partial(_state, self), placed, departed, emptied, at_deadline)


def _state(profile: UsageProfile, n_hosts: int, n_requests: int) -> UsageState:
    return profile.state(n_hosts, n_requests)


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Add the request's profile to its host's load."""
    _add(cluster, host, request.row, 1)


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Subtract the request's profile from its host's load."""
    _add(cluster, host, row, -1)


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """Nothing: the sums are 0 already."""


@kernel
def at_deadline(cluster: Cluster, host: int, now: int) -> None:
    """Nothing: there are no deadlines."""


@kernel
def _add(cluster: Cluster, host: int, row: int, sign: int) -> None:
    state = cluster.state
    for slot in range(state.load.shape[1]):
        use = state.profile[row, slot]
        state.load[host, slot] += sign * use
        state.total[slot] += sign * use
