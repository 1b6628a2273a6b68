"""Worst fit: the host that is left with most room, empty or not; it spreads requests, as load balancers do."""

from __future__ import annotations

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.policy import PerResource, Policy, kernel


@kernel
def used_share(cluster: Cluster, host: int, request: Request, dimension: int) -> float:
    """Share of the host's capacity that is in use after the placement, 0..1; 1 where it has none of it.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([0]))
    >>> used_share(one, 0, Request(0, np.array([2]), 0), 0)
    0.75
    """
    capacity = cluster.capacity[host, dimension]
    if capacity == 0:
        return 1.0
    return (capacity - cluster.free[host, dimension] + request.need[dimension]) / capacity


WORST_FIT = Policy("worst-fit", (PerResource(used_share),), about="the host that is left with most room, empty or not")
