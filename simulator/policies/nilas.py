"""NILAS: least extension of the host's predicted exit, in buckets, then best fit (LAVA, section
4.2).

nilas-expected, ours, takes the expected extension from the request's whole distribution. NILAS uses
the mean lifetime alone. A request that probably leaves within the hour and may stay a month has a
mean of days. Beside a host that is busy for a week that seems short, but it may stay three weeks
longer; beside a host that empties tonight it seems long, but it probably leaves before.
"""

from __future__ import annotations

import math

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.policy import PACKING, Policy, kernel

BUCKET_S = (1800, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400, 604800)
"""Lower edges of buckets 1 to 10; below the first the cost is 0 (LAVA, section 4.2)."""


@kernel
def bucket_of(extension_s: float) -> float:
    """Bucket 0..10 of a host's extension in seconds; a bucket contains its lower edge.

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


NILAS = Policy("nilas", (temporal_cost, *PACKING), predictions="current", are_empty_hosts_alike=True,
               about="least extension of the host's predicted exit, in buckets; then best fit (LAVA, section 4.2)")


@kernel
def overhang_at(request: Request, uptime_s: int) -> float:
    """E[max(T - u, 0)] of a request, seconds: linear between breakpoints, geometric beyond the last two.

    >>> import numpy as np
    >>> one = Request(0, np.array([2]), 0, 0, np.array([0, 100, 200]), np.array([80, 40, 20]))
    >>> [overhang_at(one, uptime_s) for uptime_s in (0, 50, 200, 300)]
    [80.0, 60.0, 20.0, 10.0]
    """
    uptimes_s = request.uptimes_s
    low, high = 0, len(request.overhang_s)
    while high - low > 1:
        middle = (low + high) // 2
        if uptimes_s[middle] <= uptime_s:
            low = middle
        else:
            high = middle
    return overhang_from(request, uptime_s, low)


@kernel
def overhang_from(request: Request, uptime_s: int, low: int) -> float:
    """`overhang_at`, with the last breakpoint at or before the uptime: low."""
    uptimes_s, overhang_s = request.uptimes_s, request.overhang_s
    last = len(overhang_s) - 1
    value, beyond_s = float(overhang_s[low]), uptime_s - uptimes_s[low]
    if low < last:
        return value - (value - overhang_s[low + 1]) * (beyond_s / (uptimes_s[low + 1] - uptimes_s[low]))
    if last == 0:
        return max(value - beyond_s, 0.0)
    before = float(overhang_s[last - 1])
    if value == 0.0 or before == value:
        return value
    return value * math.exp(math.log(value / before) * (beyond_s / (uptimes_s[last] - uptimes_s[last - 1])))


@kernel
def expected_extension(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Seconds by which the request is expected to extend the host's exit; an empty host's is now.

    If the predictor gives only one lifetime, its overhang. For a request that already runs, the
    expectation given that it reached its age.

    >>> import numpy as np
    >>> two = Cluster(np.array([[8], [8]]), np.array([[4], [8]]), np.array([1, 0]), np.array([100, 0]))
    >>> one = Request(0, np.array([2]), 80, 0, np.array([0, 100, 200]), np.array([80, 40, 20]))
    >>> [expected_extension(two, host, one, 0) for host in (0, 1)]
    [40.0, 80.0]
    """
    host_left_s = 0 if cluster.n_running[host] == 0 else max(cluster.exit_s[host] - now, 0)
    left_s = request.exit_s - now
    if len(request.overhang_s) == 0:
        return float(max(left_s - host_left_s, 0))
    extension_s = overhang_at(request, request.age_s + host_left_s)
    if request.age_s == 0:
        return extension_s
    reached_s = overhang_at(request, request.age_s)
    # the quotient first: at a great age both are near the smallest positive number
    return extension_s / reached_s * left_s if reached_s > 0.0 else float(max(left_s - host_left_s, 0))


@kernel
def expected_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Bucket 0..10 of the expected extension, by NILAS's edges.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([3600]))
    >>> expected_cost(one, 0, Request(0, np.array([2]), 3600 + 70 * 60), 0)
    2.0
    """
    return bucket_of(expected_extension(cluster, host, request, now))


NILAS_EXPECTED = Policy("nilas-expected", (expected_cost, *PACKING), predictions="current", are_empty_hosts_alike=True,
                        about="nilas by the expected extension, from the request's whole distribution; ours")
