"""Lifetime alignment by initial predictions, in classes that double or in two classes (LAVA,
section 2.3)."""

from __future__ import annotations

from sojourn.simulator.cluster import HOUR_S, Cluster, Request
from sojourn.simulator.policies.policy import PACKING, Policy, kernel


@kernel
def doubling_class(remaining_s: int) -> int:
    """Class i of a remaining time from 2^i to 2^(i + 1) hours; 0 below 2 h, and if it has expired.

    >>> [doubling_class(hours * 3600) for hours in (-1, 0, 1, 2, 3, 4, 168)]
    [0, 0, 0, 1, 1, 2, 7]
    """
    number, upper_s = 0, 2 * HOUR_S
    while remaining_s >= upper_s:
        number, upper_s = number + 1, 2 * upper_s
    return number


@kernel
def doubling_class_mismatch(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """0 on a host of the request's class, 1 on another in use, 2 on an empty one.

    A host has the class of its longest remaining request.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([9000]))
    >>> doubling_class_mismatch(one, 0, Request(0, np.array([2]), 8000), 0)
    0.0
    """
    if cluster.n_running[host] == 0:
        return 2.0
    is_same = doubling_class(request.exit_s - now) == doubling_class(cluster.exit_s[host] - now)
    return 0.0 if is_same else 1.0


LA = Policy("la", (doubling_class_mismatch, *PACKING), predictions="initial", are_empty_hosts_alike=True,
            about="a host of the lifetime class of the request; classes double (LAVA, section 2.3)")

LONG_S = 2 * 3600
"""A request with at least this remaining is long (LAVA, section 2.3: 2 h)."""


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


LA_BINARY = Policy("la-binary", (class_mismatch, *PACKING), predictions="initial", are_empty_hosts_alike=True,
                   about="as la, with two classes: short and long")
