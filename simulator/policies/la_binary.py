"""Lifetime alignment in two classes, short and long, by initial predictions (LAVA, section 2.3)."""

from __future__ import annotations

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Policy, kernel

LONG_S = 2 * 3600
"""A request with at least this left is long (LAVA, section 2.3: 2 h)."""


@kernel
def class_mismatch(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """0 on a host of the request's class, 1 on another in use, 2 on an empty one.

    A host has the class of its longest remaining request; an expired initial prediction counts as 0.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([9000]))
    >>> class_mismatch(one, 0, Request(0, np.array([2]), 7200), 0)
    0.0
    """
    if cluster.n_running[host] == 0:
        return 2.0
    is_long = request.exit_s - now >= LONG_S
    is_host_long = cluster.exit_s[host] - now >= LONG_S
    return 0.0 if is_long == is_host_long else 1.0


LA_BINARY = Policy("la-binary", (class_mismatch, *PACKING), predictions="initial",
                   about="as la, with two classes: short and long")
