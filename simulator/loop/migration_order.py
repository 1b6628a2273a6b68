"""Which hosts live migration empties, and in which order their requests go (LAVA, section 4.4).

Also the invariants after every event; only tests check them, as the check walks over all requests.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import WHOLE_GPU, Cluster
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.exits import predict_now
from sojourn.simulator.loop.occupancy import key_of
from sojourn.simulator.loop.state import ALLOCATED, CURRENT, DRAINED, EMPTY_HOSTS, OPEN, World

LONGEST_FIRST, SHORTEST_FIRST, BY_ROW, AT_RANDOM = range(4)
"""Orders of a plan."""


@inner
def least_work(world: World, is_wave: bool) -> int:
    """The open host with the least to move, or -1: least in use, binding resource first, then
    fewest requests, then lowest index.

    A batch takes hosts in use; a wave takes hosts not yet updated, empty ones first. A host with a
    request that can't migrate or is migrating is passed over.
    """
    cluster, best = world.cluster, -1
    for host in range(len(cluster.n_running)):
        if cluster.closed[host] != OPEN or not _can_be_emptied(world, host):
            continue
        if cluster.is_updated[host] == 1 if is_wave else world.hosts[host].first < 0:
            continue
        if best < 0 or _is_less(cluster, host, best):
            best = host
    return best


@inner
def _can_be_emptied(world: World, host: int) -> bool:
    request = world.hosts[host].first
    while request >= 0:
        if not _can_migrate(world, request):
            return False
        request = world.requests[request].next
    return True


@inner
def _can_migrate(world: World, request: int) -> bool:
    return bool(world.requests[request].is_pinned == 0 and world.requests[request].from_host < 0)


@inner
def _is_less(cluster: Cluster, host: int, other: int) -> bool:
    for d in range(cluster.free.shape[1]):
        used = cluster.capacity[host, d] - cluster.free[host, d]
        other_used = cluster.capacity[other, d] - cluster.free[other, d]
        if used != other_used:
            return bool(used < other_used)
    return bool(cluster.n_running[host] < cluster.n_running[other])


@inner
def next_resident(world: World, host: int, after: int) -> int:
    """The first of a host's requests in order of arrival that comes after `after`, or -1."""
    best, request = -1, world.hosts[host].first
    while request >= 0:
        if request > after and (best < 0 or request < best):
            best = request
        request = world.requests[request].next
    return best


@inner
def begin_plan(world: World) -> int:
    """Where a new part of the plan begins; open entries move to the front if it is more than half
    full.

    The plan is always long enough: a request is on one host, and at most upkeep and a rectifier
    each plan once that it leaves it.
    """
    counts, planned = world.counts[0], world.plan
    if 2 * counts.plan_to > len(planned):
        n_open = 0
        for k in range(counts.plan_from, counts.plan_to):
            row = planned[k].row
            if row >= 0 and world.requests[row].host == planned[k].host:
                planned[n_open] = planned[k]
                n_open += 1
            else:
                counts.n_spared += row >= 0
        counts.plan_from, counts.plan_to = 0, n_open
    return counts.plan_to


@inner
def strike(world: World, host: int) -> None:
    """Remove the migrations from a host from the plan: it is open again."""
    counts, planned = world.counts[0], world.plan
    for k in range(counts.plan_from, counts.plan_to):
        if planned[k].row >= 0 and planned[k].host == host:
            planned[k].row = -1
            counts.n_spared += 1


@inner
def plan(world: World, host: int, first: int, now: int) -> None:
    """Add a host's requests that can migrate to the part of the plan from `first`, in the settings'
    order."""
    request = next_resident(world, host, -1)
    while request >= 0:
        if _can_migrate(world, request):
            if world.settings[0].predictions == CURRENT and world.requests[request].change_s <= now:
                predict_now(world, request, now)
            insert(world, request, first)
        request = next_resident(world, host, request)


@inner
def insert(world: World, request: int, first: int) -> None:
    """Plan one more migration, in its place in the order among those from `first`; its host is
    closed already."""
    counts, planned = world.counts[0], world.plan
    k = counts.plan_to
    while k > first and _is_earlier(world, request, planned[k - 1].row):
        planned[k] = planned[k - 1]
        k -= 1
    host = world.requests[request].host
    planned[k].row, planned[k].host, planned[k].target = request, host, -1
    planned[k].planner, planned[k].planned_s = world.cluster.closed[host], counts.time_s
    counts.plan_to += 1
    counts.n_planned += 1


@inner
def _is_earlier(world: World, request: int, other: int) -> bool:
    key, other_key = _key(world, request), _key(world, other)
    return key < other_key or (key == other_key and request < other)


@inner
def _key(world: World, request: int) -> int:
    order = world.settings[0].move_order
    if order == LONGEST_FIRST:
        return -world.requests[request].exit_s
    if order == SHORTEST_FIRST:
        return world.requests[request].exit_s
    if order == BY_ROW:
        return 0
    mixed = (np.uint64(world.requests[request].row) + np.uint64(world.settings[0].seed)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(np.int64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(2)))


VIOLATIONS = {
    -10: "free + used must equal the capacity on every host, and neither be negative",
    -11: "each running request must be on exactly one host's list, where its record says",
    -12: "the requests that hold room on a host must be as many as it counts",
    -13: "totals over hosts must equal their sums",
    -14: "ranked hosts must be in ascending order of their keys",
    -15: "each GPU must be free by 0 to 1, and a host's GPUs together by as much as the host says",
}
"""The invariant of each code of `violation`."""


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
    for host in range(n_hosts if cluster.gpu_free.shape[1] > 0 else 0):
        free = 0
        for gpu in range(cluster.gpu_free.shape[1]):
            if cluster.gpu_free[host, gpu] < 0 or cluster.gpu_free[host, gpu] > WHOLE_GPU:
                return -15
            free += cluster.gpu_free[host, gpu]
        if free != cluster.free[host, cluster.gpu_dimension[0]]:
            return -15
    for k in range(len(key)):
        host = key[k] & ((1 << world.order.host_bits[0]) - 1)
        if (k > 0 and key[k] <= key[k - 1]) or key_of(cluster, world.order, host) != key[k]:
            return -14
    return 0
