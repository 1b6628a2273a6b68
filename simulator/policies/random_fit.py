"""Random: any host on which the request fits, each as likely; what a policy must beat to have a reason."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.policy import Policy, kernel


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
