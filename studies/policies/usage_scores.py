"""Scores of a host by the profiles of its requests, and the policies that use one of them."""

from __future__ import annotations

from sojourn.simulator import PACKING, Cluster, Policy, Request, kernel
from studies.policies.usage_state import UsageProfile


@kernel
def squared_load(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """What the request adds to the sum over the day's slots of the host's squared load, cores squared."""
    state, row = cluster.state, request.row
    total = 0.0
    for slot in range(state.load.shape[1]):
        use = float(state.profile[row, slot])
        total += (2.0 * state.load[host, slot] + use) * use
    return total * 1e-6


@kernel
def violation_above_mean(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """What the request adds above the mean load of a host, the request included, summed over the slots; milli-cores.

    Period-aware placement, Algorithm 1, with the virtual capacity over hosts.
    """
    state, row, n_hosts = cluster.state, request.row, len(cluster.n_running)
    total = 0
    for slot in range(state.load.shape[1]):
        use = state.profile[row, slot]
        line = (state.total[slot] + use) // n_hosts
        total += min(max(state.load[host, slot] + use - line, 0), use)
    return float(total)


@kernel
def summed_load(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """The host's load summed over the slots, milli-cores: ties go to the least."""
    total = 0
    for slot in range(cluster.state.load.shape[1]):
        total += cluster.state.load[host, slot]
    return float(total)


@kernel
def violating_share(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Share of the request's use over the day that the host's capacity would not hold, 0 to 1."""
    state, row = cluster.state, request.row
    capacity = cluster.capacity[host, state.cpu[0]]
    above, total = 0, 0
    for slot in range(state.load.shape[1]):
        use = state.profile[row, slot]
        total += use
        above += min(max(state.load[host, slot] + use - capacity, 0), use)
    return above / total if total > 0 else 0.0


def squares(profile: UsageProfile) -> Policy:
    """The policy `squares` of one workload: least increase of squared load over the day.

    >>> import numpy as np
    >>> squares(UsageProfile(np.zeros((1, 4), np.int64), 0)).name
    'squares'
    """
    return Policy("squares", (squared_load, summed_load), hooks=profile.hooks(),
                  about="the least increase of squared load over the day")


def period_aware(profile: UsageProfile) -> Policy:
    """The policy `period-aware` of one workload: least increase of violations above the mean load of a host.

    >>> import numpy as np
    >>> period_aware(UsageProfile(np.zeros((1, 4), np.int64), 0)).name
    'period-aware'
    """
    return Policy("period-aware", (violation_above_mean, summed_load), hooks=profile.hooks(),
                  about="the least increase of violations above the mean load of a host")


def violation_fit(profile: UsageProfile) -> Policy:
    """The policy `violation-fit` of one workload: least violations above the capacity, then best fit.

    >>> import numpy as np
    >>> violation_fit(UsageProfile(np.zeros((1, 4), np.int64), 0)).name
    'violation-fit'
    """
    return Policy("violation-fit", (violating_share, *PACKING), hooks=profile.hooks(),
                  about="the least use above the capacity, then best fit")
