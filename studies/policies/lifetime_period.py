"""Lifetime and usage in one score; ours.

`joint-fit` weighs extension and room; it ignores that requests of a host are busy at the same
hours. `violation-fit` considers only that. This policy adds both scores: the weight is how much
extension or room it costs to keep a share of a request's use below the host's capacity.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sojourn.simulator import PACKING, Cluster, Policy, Request, kernel
from sojourn.simulator.policies.joint import joint_cost
from studies.policies.usage_scores import violating_share
from studies.policies.usage_state import UsageProfile


@kernel
def cost_1(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """joint-fit's cost + the share of the request's use above the capacity."""
    return joint_cost(cluster, host, request, now) + violating_share(cluster, host, request, now)


@kernel
def cost_4(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """The same with weight 4."""
    return joint_cost(cluster, host, request, now) + 4.0 * violating_share(cluster, host, request, now)


@kernel
def cost_16(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """The same with weight 16."""
    return joint_cost(cluster, host, request, now) + 16.0 * violating_share(cluster, host, request, now)


@kernel
def cost_64(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """The same with weight 64."""
    return joint_cost(cluster, host, request, now) + 64.0 * violating_share(cluster, host, request, now)


_COSTS: MappingProxyType[int, Any] = MappingProxyType({1: cost_1, 4: cost_4, 16: cost_16, 64: cost_64})
"""By weight. Each is a separate function: a compiled loop is cached by the source of its
functions."""
WEIGHTS = tuple(_COSTS)
"""The known weights, ascending."""


def lifetime_period(profile: UsageProfile, weight: int = 16) -> Policy:
    """The policy `lifetime-period` of one workload: joint-fit's cost + weight x the share of use above the capacity.

    weight: 1, 4, 16 or 64; the default was chosen on seeds that docs/simulator/usage.md does not judge.

    >>> import numpy as np
    >>> lifetime_period(UsageProfile(np.zeros((1, 4), np.int64), 0)).name
    'lifetime-period'
    """
    if weight not in _COSTS:
        raise ValueError(f"weight must be one of {', '.join(map(str, _COSTS))}, got {weight!r}")
    return Policy("lifetime-period", (_COSTS[weight], *PACKING), predictions="current", hooks=profile.hooks(),
                  about="joint-fit's cost and use above the capacity, in one sum; ours")
