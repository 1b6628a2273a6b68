"""Extension, fit and the time that a request leaves unused on its host, in one score; ours, for sure predictions only.

A request that leaves long before its host takes room there that one of the host's own length could have had, which
then extends another host. NILAS does not see that: all hosts that outlast a request are the same to it. So the time
between the two exits costs something here, too. It is worth as much as it is known: with perfect lifetimes it is the
larger part of what can be gained, with a model's it does harm, since the hosts that seem to empty soon are those whose
requests are yet to show how long they stay.
"""

from __future__ import annotations

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.nilas_expected import expected_extension
from sojourn.simulator.policies.packing import PACKING, free_share_left
from sojourn.simulator.policies.policy import Policy, kernel

SCALE_S = 7200
"""An extension by this much costs as much as a whole host's room."""
SLACK_WEIGHT = 0.03
"""What a second between the two exits costs, in seconds of extension."""


@kernel
def aligned_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """(Expected extension + SLACK_WEIGHT x expected slack) / SCALE_S + the free share left of the binding resource.

    The slack is the time by which the host outstays the request, E[max(R - T, 0)] = R - E[T] + E[max(T - R, 0)].

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[6]]), np.array([1]), np.array([79_200]))
    >>> aligned_cost(one, 0, Request(0, np.array([2]), 7200), 0)  # 0.03 x 72,000 / 7,200 + 4/8
    0.8
    """
    extension_s = expected_extension(cluster, host, request, now)
    host_left_s = 0 if cluster.n_running[host] == 0 else max(cluster.exit_s[host] - now, 0)
    slack_s = max(host_left_s - (request.exit_s - now) + extension_s, 0.0)
    return (extension_s + SLACK_WEIGHT * slack_s) / SCALE_S + free_share_left(cluster, host, request, 0)


ALIGNED_FIT = Policy("aligned-fit", (aligned_cost, *PACKING), predictions="current",
                     about="as joint-fit, with a price for the time that the host outlasts the request; ours")
