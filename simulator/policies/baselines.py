"""Policies without predictions: best fit, first fit, first in use, worst fit, random and waste-min.

Best fit is the baseline of every comparison. Worst fit spreads requests, as load balancers do. A
policy must be better than random to be of use.

Waste-min follows Borg, which packs in several dimensions so that free room stays useful (LAVA,
section 2.2, which gives no formula). Fill a host's free room with requests of the mean shape of all
that have been placed, until one resource is used up. The rest of the other resources is the host's
waste. The score of a placement is the waste that it adds. (The waste that it leaves, instead,
favours emptier hosts, which fit the mix: on openb it filled the pool until requests were rejected.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.policy import PACKING, Hooks, PerResource, Policy, kernel, opens_host

BEST_FIT = Policy("best-fit", PACKING, are_empty_hosts_alike=True,
                  about="the fullest host on which the request fits; the baseline")

FIRST_FIT = Policy("first-fit", about="the lowest-numbered host on which the request fits")

FIRST_IN_USE = Policy("first-in-use", (opens_host,), about="the lowest-numbered host in use, else an empty one")


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


@kernel
def draw(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """A number in [0, 1) that looks random, of the request's row and the host: the same in every replay.

    Two rounds of SplitMix64's finaliser (Steele et al., OOPSLA 2014).

    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([0]))
    >>> 0.0 <= draw(one, 0, Request(0, np.array([2]), 0), 0) < 1.0
    True
    """
    mixed = np.uint64(request.row) * np.uint64(0x9E3779B97F4A7C15)
    for addend in (np.uint64(host), np.uint64(0)):
        mixed = mixed + addend
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return np.float64(mixed >> np.uint64(11)) * 2.0**-53


RANDOM = Policy("random", (draw,), about="any host on which the request fits, each as likely")

MOST_RESOURCES = 62
"""The bits of the mask of short resources."""
STEPS = 50
"""Wastes are compared in steps of 2 % of a host, then by best fit. Finer steps left fewer hosts
empty."""


class WasteState(NamedTuple):
    """mix: int64 (at least n_resources,), the needs of all requests placed so far, summed.
    is_counted: int64 (n_requests,), 1 for those."""

    mix: np.ndarray
    is_counted: np.ndarray


def waste_state(n_hosts: int, n_requests: int) -> WasteState:
    """The state before the first request.

    >>> waste_state(2, 9).mix[:3].tolist()
    [0, 0, 0]
    """
    return WasteState(np.zeros(MOST_RESOURCES, np.int64), np.zeros(n_requests, np.int64))


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """The mix gains a request when it is first placed, and not when it migrates or starts again."""
    if cluster.state.is_counted[request.row] == 0:
        cluster.state.is_counted[request.row] = 1
        for d in range(len(request.need)):
            cluster.state.mix[d] += request.need[d]


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Nothing: the mix holds all requests that have been placed."""


@kernel
def unchanged(cluster: Cluster, host: int, now: int) -> None:
    """Nothing."""


@kernel
def waste(cluster: Cluster, host: int, need: np.ndarray, n_more: int) -> float:
    """Share of the host, 0..1, that the mix can't use after `n_more` such requests; the largest of
    all resources. 0 before the first request."""
    mix = cluster.state.mix
    n_mixes = np.inf
    for d in range(len(need)):
        if mix[d] > 0:
            n_mixes = min(n_mixes, (cluster.free[host, d] - n_more * need[d]) / mix[d])
    most = 0.0
    for d in range(len(need)):
        if n_mixes < np.inf and cluster.capacity[host, d] > 0:
            left = cluster.free[host, d] - n_more * need[d] - n_mixes * mix[d]
            most = max(most, left / cluster.capacity[host, d])
    return most


@kernel
def added_waste(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """What the request adds to the host's waste, in steps of 2 %; 50 where that is nothing, below where it takes away.

    >>> state = waste_state(1, 1)
    >>> state.mix[:2] = 2, 2
    >>> one = Cluster(np.array([[8, 8]]), np.array([[6, 4]]), np.array([1]), np.array([0]), state=state)
    >>> [added_waste(one, 0, Request(0, np.array(need), 0), 0) for need in ([1, 1], [2, 0], [0, 2])]
    [50.0, 38.0, 62.0]
    """
    growth = waste(cluster, host, request.need, 1) - waste(cluster, host, request.need, 0)
    return float(np.rint(STEPS * (1.0 + growth)))


WASTE_MIN = Policy("waste-min", (opens_host, added_waste, *PACKING),
                   hooks=Hooks(waste_state, placed, departed, unchanged),
                   about="the host where least room becomes useless to the mix of requests so far; then best fit")
