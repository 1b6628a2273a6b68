"""The packing score: non-empty hosts first, then the least free share left, binding resource first.

These scorers end the chains of best-fit, la-binary and nilas. On hosts of one shape their order does not
depend on the request, which is what lets the engine keep hosts sorted (simulator/loop/ranking.py).
"""

from __future__ import annotations

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.policy import PerResource, kernel


@kernel
def opens_host(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """1 for an empty host, 0 for one in use.

    >>> import numpy as np
    >>> two = Cluster(np.array([[8], [8]]), np.array([[8], [3]]), np.array([0, 1]), np.array([0, 0]))
    >>> opens_host(two, 0, Request(0, np.array([2]), 0), 0)
    1.0
    """
    return 1.0 if cluster.n_running[host] == 0 else 0.0


@kernel
def free_share_left(cluster: Cluster, host: int, request: Request, dimension: int) -> float:
    """Share of the host's capacity that is free after the placement, 0..1; 0 where it has none of it.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([0]))
    >>> free_share_left(one, 0, Request(0, np.array([2]), 0), 0)
    0.25
    """
    capacity = cluster.capacity[host, dimension]
    if capacity == 0:
        return 0.0
    return (cluster.free[host, dimension] - request.need[dimension]) / capacity


PACKING = (opens_host, PerResource(free_share_left))
