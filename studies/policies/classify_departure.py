"""Classify by departure time, First Fit within a class (Ren and Tang, SPAA 2016, "Clairvoyant
Dynamic Bin Packing for Job Scheduling with Minimum Server Usage Time").

A baseline of MinUsageTime bin packing. Time is divided into intervals of equal length. Only
requests that are to leave within the same interval share hosts, so a host empties within an
interval. Unlike the paper's bins a pool is finite: if no empty host is left, a request goes to a
host of another class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator import Cluster, Hooks, Policy, Request, kernel

INTERVAL_S = 6 * 3600
"""Length of an interval. The paper has shortest lifetime x sqrt(longest / shortest): 7.5 h for 10 min to two weeks."""


class IntervalState(NamedTuple):
    """interval: int64 (n_hosts,), in which the request that opened each host is to leave."""

    interval: np.ndarray


def interval_state(n_hosts: int, n_requests: int) -> IntervalState:
    """All hosts empty.

    >>> interval_state(2, 9).interval.tolist()
    [-1, -1]
    """
    return IntervalState(np.full(n_hosts, -1))


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """The first request on a host sets its interval."""
    if cluster.state.interval[host] < 0:
        cluster.state.interval[host] = max(request.exit_s, now) // INTERVAL_S


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Nothing: a host keeps its interval."""


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """The host has no interval."""
    cluster.state.interval[host] = -1


@kernel
def interval_mismatch(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """0 on a host of the interval in which the request is to leave, 1 on an empty one, 2 on any other.

    >>> state = interval_state(3, 9)
    >>> state.interval[:2] = 1, 2
    >>> three = Cluster(np.full((3, 1), 8), np.full((3, 1), 4), np.array([1, 1, 0]), np.zeros(3, int), state=state)
    >>> [interval_mismatch(three, host, Request(0, np.array([2]), 7 * 3600), 0) for host in (0, 1, 2)]
    [0.0, 2.0, 1.0]
    """
    if cluster.n_running[host] == 0:
        return 1.0
    return 0.0 if cluster.state.interval[host] == max(request.exit_s, now) // INTERVAL_S else 2.0


CLASSIFY_DEPARTURE = Policy("classify-departure", (interval_mismatch,), predictions="initial",
                            hooks=Hooks(interval_state, placed, departed, emptied),
                            about="a host whose requests leave in the same 6 h (MinUsageTime packing, Ren and Tang)")
