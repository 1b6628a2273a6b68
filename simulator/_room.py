"""Whether a request fits, and what was short where it fits nowhere."""

from __future__ import annotations

import numpy as np

from sojourn.simulator._numba import kernel
from sojourn.simulator._state import FILTERED, FRAGMENTED
from sojourn.simulator.cluster import Cluster


@kernel
def fits(cluster: Cluster, host: int, need: np.ndarray) -> bool:
    """Whether the host's free amounts cover the need in every dimension."""
    for dimension in range(len(need)):
        if cluster.free[host, dimension] < need[dimension]:
            return False
    return True


@kernel
def shortage(cluster: Cluster, need: np.ndarray) -> int:
    """Why no host was chosen: bit mask of the resources short on every host, else FRAGMENTED or FILTERED.

    FRAGMENTED: each resource is there on some host, but never all on one. FILTERED: a host had room, but the
    policy's filter kept it out.
    """
    mask = 0
    for dimension in range(len(need)):
        is_short = True
        for host in range(len(cluster.n_running)):
            if cluster.free[host, dimension] >= need[dimension]:
                is_short = False
                break
        if is_short:
            mask |= 1 << dimension
    if mask:
        return mask
    for host in range(len(cluster.n_running)):
        if fits(cluster, host, need):
            return FILTERED
    return FRAGMENTED
