"""Whether a request fits and may be there, and what was short where it can be placed nowhere."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import Cluster
from sojourn.simulator.jit import inlined, inner
from sojourn.simulator.loop.state import FILTERED, FRAGMENTED, OPEN, RULED_OUT, World


@inlined
def fits(cluster: Cluster, host: int, need: np.ndarray) -> bool:
    """Whether the host's free amounts cover the need in every dimension."""
    for dimension in range(len(need)):
        if cluster.free[host, dimension] < need[dimension]:
            return False
    return True


@inner
def is_allowed(world: World, host: int, request: int) -> bool:
    """Whether the host is open and the rules let it take the request, room aside."""
    if world.cluster.closed[host] != OPEN:
        return False
    if world.settings[0].has_kinds == 1:
        kind = world.requests[request].kind
        if kind >= 0 and kind != world.hosts[host].kind:
            return False
    if world.settings[0].has_groups == 1:
        group = world.requests[request].group
        other = world.hosts[host].first if group >= 0 else -1
        while other >= 0:
            if world.requests[other].group == group and other != request:
                return False
            other = world.requests[other].next
    return True


@inner
def shortage(world: World, request: int) -> int:
    """Why no host was chosen: bit mask of the resources short on every open host, else one of the other reasons.

    FRAGMENTED: each resource is there on some host, but never all on one. RULED_OUT: a host had room, but a rule keeps
    the request off it. FILTERED: a host that may had room, but the policy's filter kept it out.
    """
    cluster, need = world.cluster, world.need[request]
    mask = 0
    for dimension in range(len(need)):
        is_short = True
        for host in range(len(cluster.n_running)):
            if cluster.closed[host] == OPEN and cluster.free[host, dimension] >= need[dimension]:
                is_short = False
                break
        if is_short:
            mask |= 1 << dimension
    if mask:
        return mask
    found = FRAGMENTED
    for host in range(len(cluster.n_running)):
        if cluster.closed[host] == OPEN and fits(cluster, host, need):
            if is_allowed(world, host, request):
                return FILTERED
            found = RULED_OUT
    return found
