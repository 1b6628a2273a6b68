"""NILAS: least extension of the host's predicted exit, in buckets, then best fit (LAVA, section 4.2).

Its variants: hosts' exits recomputed once a minute, as in the paper (section 5.1); never, by first predictions; without
buckets; the lifetime level below that of opening a host, and below all of packing.
"""

from __future__ import annotations

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Policy, kernel

BUCKET_S = (1800, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400, 604800)
"""Lower edges of buckets 1 to 10; below the first the cost is 0 (LAVA, section 4.2)."""


@kernel
def bucket_of(extension_s: float) -> float:
    """Bucket 0..10 of a host's extension in seconds; each is closed on the left.

    >>> [bucket_of(minutes * 60) for minutes in (-5, 29, 30, 70, 10**6)]
    [0.0, 0.0, 1.0, 2.0, 10.0]
    """
    cost = 0
    for edge in BUCKET_S:
        if extension_s < edge:
            break
        cost += 1
    return float(cost)


@kernel
def temporal_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Bucket 0..10 of the time by which the request outstays the host; an empty host's exit is now.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([3600]))
    >>> temporal_cost(one, 0, Request(0, np.array([2]), 3600 + 70 * 60), 0)
    2.0
    """
    host_exit = now if cluster.n_running[host] == 0 else max(cluster.exit_s[host], now)
    return bucket_of(request.exit_s - host_exit)


@kernel
def extension(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Seconds by which the request outstays the host, not in buckets."""
    host_exit = now if cluster.n_running[host] == 0 else max(cluster.exit_s[host], now)
    return float(max(request.exit_s - host_exit, 0))


NILAS = Policy("nilas", (temporal_cost, *PACKING), predictions="current",
               about="least extension of the host's predicted exit, in buckets; then best fit (LAVA, section 4.2)")
NILAS_60S = Policy("nilas-60s", NILAS.scorers, predictions="current", refresh_s=60,
                   about="nilas: a host's exit is predicted again after 60 s at most, as in the paper")
NILAS_ONE_SHOT = Policy("nilas-one-shot", NILAS.scorers, predictions="initial",
                        about="nilas: by each request's first prediction")
NILAS_UNBUCKETED = Policy("nilas-unbucketed", (extension, *PACKING), predictions="current",
                          about="nilas: seconds instead of buckets")
NILAS_SECOND = Policy("nilas-second", (PACKING[0], temporal_cost, *PACKING[1:]), predictions="current",
                      about="nilas: hosts in use come before empty ones, then by extension")
NILAS_LAST = Policy("nilas-last", (*PACKING, temporal_cost), predictions="current",
                    about="nilas: extension breaks the ties of best fit")
