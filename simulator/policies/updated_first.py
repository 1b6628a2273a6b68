"""Any policy during maintenance: updated hosts come before the others (LAVA, section 4.4)."""

from __future__ import annotations

from dataclasses import replace

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies.policy import Policy, kernel


@kernel
def is_outdated(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """1 for a host that no wave of maintenance has been through, 0 for one that is done.

    >>> import numpy as np
    >>> two = Cluster(*(np.zeros(0, int),) * 5, is_updated=np.array([0, 1]))
    >>> [is_outdated(two, host, Request(0, np.array([2]), 0), 0) for host in (0, 1)]
    [1.0, 0.0]
    """
    return float(1 - cluster.is_updated[host])


def updated_first(policy: Policy) -> Policy:
    """The policy with `is_outdated` as its first score.

    >>> updated_first(Policy("first-fit")).name
    'first-fit-updated-first'
    """
    return replace(policy, name=f"{policy.name}-updated-first", scorers=(is_outdated, *policy.scorers),
                   are_empty_hosts_alike=False)
