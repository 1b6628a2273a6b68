"""What must hold after every event; looked at in tests only, for it walks over everything."""

from __future__ import annotations

from sojourn.simulator.jit import inner
from sojourn.simulator.loop.ranking import key_of
from sojourn.simulator.loop.state import ALLOCATED, DRAINED, EMPTY_HOSTS, World

VIOLATIONS = {
    -10: "free + used must equal the capacity on every host, and neither be negative",
    -11: "each running request must be on exactly one host's list, where its record says",
    -12: "the requests that hold room on a host must be as many as it counts",
    -13: "totals over hosts must equal their sums",
    -14: "ranked hosts must be in ascending order of their keys",
}
"""What each code of `violation` says."""


@inner
def violation(world: World) -> int:
    """0, or the code of the first invariant that does not hold."""
    cluster, requests, key = world.cluster, world.requests, world.order.key
    n_hosts, n_resources = cluster.free.shape
    n_listed, n_running, n_empty = 0, 0, 0
    for row in range(len(requests)):
        n_running += requests[row].host >= 0
    for host in range(n_hosts):
        row, n_holding = world.hosts[host].first, 0
        while row >= 0:
            n_listed += 1
            if requests[row].host != host or n_listed > n_running:
                return -11
            row = requests[row].next
        for row in range(len(requests)):
            n_holding += (requests[row].host == host) + (requests[row].from_host == host)
        if n_holding != cluster.n_running[host]:
            return -12
        n_empty += n_holding == 0 and cluster.closed[host] < DRAINED
    if n_listed != n_running:
        return -11
    if n_empty != world.level[EMPTY_HOSTS]:
        return -13
    for d in range(n_resources):
        allocated, in_use = 0, 0
        for host in range(n_hosts):
            used = 0
            for row in range(len(requests)):
                used += world.need[row, d] * ((requests[row].host == host) + (requests[row].from_host == host))
            if cluster.free[host, d] < 0 or cluster.free[host, d] + used != cluster.capacity[host, d]:
                return -10
            allocated += used
            in_use += cluster.capacity[host, d] if cluster.n_running[host] > 0 else 0
        if allocated != world.level[ALLOCATED + d] or in_use != world.level[ALLOCATED + n_resources + d]:
            return -13
    for k in range(len(key)):
        host = key[k] & ((1 << world.order.host_bits[0]) - 1)
        if (k > 0 and key[k] <= key[k - 1]) or key_of(cluster, world.order, host) != key[k]:
            return -14
    return 0
