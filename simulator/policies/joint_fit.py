"""Extension and fit in one score; ours.

NILAS and its expected form ask for the least extension first, in ten buckets, and for the fullest host only among those
that share a bucket. So a bucket's edge decides alone, however near to it two hosts are and however empty the better
one is, while within a bucket half an hour and none are the same. Here both are weighed against each other: the
logarithm makes the expected extension a matter of factors, as the buckets' edges do, and a host may be chosen that is
extended a little longer but is much fuller.
"""

from __future__ import annotations

import math

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.nilas_expected import expected_extension
from sojourn.simulator.policies.packing import PACKING, free_share_left
from sojourn.simulator.policies.policy import Policy, kernel

SCALE_S = 7200
"""An extension by this much costs log 2 = 0.69 of a host's room; much longer ones count by their factor."""


@kernel
def joint_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """log(1 + expected extension / SCALE_S) + the free share left of the binding resource.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[6]]), np.array([1]), np.array([3600]))
    >>> round(joint_cost(one, 0, Request(0, np.array([2]), 3600 + 7200), 0), 4)  # log 2 + 4/8
    1.1931
    """
    extension_s = expected_extension(cluster, host, request, now)
    return math.log1p(extension_s / SCALE_S) + free_share_left(cluster, host, request, 0)


JOINT_FIT = Policy("joint-fit", (joint_cost, *PACKING), predictions="current", above_share=joint_cost,
                   about="expected extension of the host's exit and room left, in one score; ours")
