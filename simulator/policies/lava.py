"""LAVA: short requests fill the gaps between long ones, on hosts that are to empty in time (LAVA,
section 4.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator.cluster import NEVER, Cluster, Request
from sojourn.simulator.policies.nilas import temporal_cost
from sojourn.simulator.policies.policy import PACKING, Hooks, Policy, kernel

EMPTY, OPEN, RECYCLING = range(3)
"""States of a host."""
HIGHEST_CLASS = 4
UPPER_S = (3_600, 36_000, 360_000, 3_600_000)
"""Upper bounds of lifetime classes 1 to 4: 1, 10, 100 and 1,000 h; class 4 has all above."""
DEADLINE_S = (3_960, 39_600, 396_000, 3_960_000)
"""1.1 times each upper bound."""
FULL_PCT = 90
"""An open host with more of its CPU or of its memory in use recycles."""


class LavaState(NamedTuple):
    """The state of LAVA; int64.

    Per host, (n_hosts,): mode; lifetime_class, 1 to 4 (0 on an empty host); opened_s, when it last
    opened; deadline_s, or NEVER; n_requests; n_residuals; epoch, how often its requests became
    residuals. Per request, (n_requests,): entered, its host's epoch when it came; if the host's
    epoch is now higher, it is a residual.
    """

    mode: np.ndarray
    lifetime_class: np.ndarray
    opened_s: np.ndarray
    deadline_s: np.ndarray
    n_requests: np.ndarray
    n_residuals: np.ndarray
    epoch: np.ndarray
    entered: np.ndarray


def lava_state(n_hosts: int, n_requests: int) -> LavaState:
    """All hosts empty.

    >>> lava_state(2, 9).deadline_s.tolist() == [NEVER, NEVER]
    True
    """
    state = LavaState(*(np.zeros(n_hosts, np.int64) for _ in LavaState._fields))
    state.deadline_s[:] = NEVER
    return state._replace(entered=np.zeros(n_requests, np.int64))


@kernel
def lifetime_class(remaining_s: int) -> int:
    """Class 1 to 4 of a remaining time: below 1 h, 10 h, 100 h, and longer.

    >>> [lifetime_class(seconds) for seconds in (0, 3599, 3600, 35_999, 36_000, 360_000, 10**9)]
    [1, 1, 2, 2, 3, 4, 4]
    """
    number = 1
    while number < HIGHEST_CLASS and remaining_s >= UPPER_S[number - 1]:
        number += 1
    return number


@kernel
def is_fuller_than(cluster: Cluster, host: int, used_pct: int) -> bool:
    """Whether more than used_pct of any of the host's resources is in use."""
    for dimension in range(cluster.free.shape[1]):
        if 100 * cluster.free[host, dimension] < (100 - used_pct) * cluster.capacity[host, dimension]:
            return True
    return False


@kernel
def name_residuals(state: LavaState, host: int) -> None:
    """All requests on the host become its residuals."""
    state.epoch[host] += 1
    state.n_residuals[host] = state.n_requests[host]


@kernel
def enter_host(cluster: Cluster, host: int, request: Request, now: int, full_pct: int, is_restarting: bool) -> None:
    """An empty host opens with the request's class; an open one recycles with more than full_pct in use.

    is_restarting: whether its deadline then restarts.
    """
    state = cluster.state
    if state.mode[host] == EMPTY:
        number = lifetime_class(request.exit_s - now)
        state.mode[host] = OPEN
        state.lifetime_class[host] = number
        state.opened_s[host] = now
        state.deadline_s[host] = now + DEADLINE_S[number - 1]
    state.entered[request.row] = state.epoch[host]
    state.n_requests[host] += 1
    if state.mode[host] == OPEN and is_fuller_than(cluster, host, full_pct):
        state.mode[host] = RECYCLING
        name_residuals(state, host)
        if is_restarting:
            state.deadline_s[host] = now + DEADLINE_S[state.lifetime_class[host] - 1]


@kernel
def leave_host(cluster: Cluster, host: int, row: int, now: int, n_down: int, is_restarting: bool) -> None:
    """When a host's last residual leaves, its class falls by n_down and the remaining requests are
    its residuals.

    is_restarting: whether its deadline then restarts.
    """
    state = cluster.state
    state.n_requests[host] -= 1
    if state.mode[host] != RECYCLING or state.entered[row] >= state.epoch[host]:
        return
    state.n_residuals[host] -= 1
    if state.n_residuals[host] == 0 and state.n_requests[host] > 0:
        name_residuals(state, host)
        state.lifetime_class[host] = max(state.lifetime_class[host] - n_down, 1)
        if is_restarting:
            state.deadline_s[host] = now + DEADLINE_S[state.lifetime_class[host] - 1]


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """`enter_host`: a host is full above 90 %, and its deadline restarts."""
    enter_host(cluster, host, request, now, FULL_PCT, True)


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """`leave_host`: the class falls by one, and the deadline restarts."""
    leave_host(cluster, host, row, now, 1, True)


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """Reset the host to its state at the start."""
    state = cluster.state
    state.mode[host] = EMPTY
    state.lifetime_class[host] = 0
    state.deadline_s[host] = NEVER
    state.n_residuals[host] = 0


@kernel
def pass_deadline(cluster: Cluster, host: int, now: int, n_up: int) -> None:
    """The host's class rises by n_up, its deadline begins again, and all its requests are residuals."""
    state = cluster.state
    state.mode[host] = RECYCLING
    state.lifetime_class[host] = min(state.lifetime_class[host] + n_up, HIGHEST_CLASS)
    state.deadline_s[host] = now + DEADLINE_S[state.lifetime_class[host] - 1]
    name_residuals(state, host)


@kernel
def at_deadline(cluster: Cluster, host: int, now: int) -> None:
    """The host outlived its class: the class rises by one, and all its requests are residuals."""
    pass_deadline(cluster, host, now, 1)


@kernel
def class_preference(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """0 to 2 on a recycling host of a higher class, the nearest first; 3 on an open one of the request's class; 4 on
    any other host in use, 5 on an empty one.

    >>> state = lava_state(2, 1)
    >>> state.mode[0], state.lifetime_class[0] = RECYCLING, 3
    >>> two = Cluster(np.array([[8], [8]]), np.array([[4], [8]]), np.array([1, 0]), np.array([9, 0]), state=state)
    >>> [class_preference(two, host, Request(0, np.array([2]), 60), 0) for host in (0, 1)]
    [1.0, 5.0]
    """
    state = cluster.state
    request_class, host_class = lifetime_class(request.exit_s - now), state.lifetime_class[host]
    if state.mode[host] == RECYCLING and host_class > request_class:
        return float(host_class - request_class - 1)
    if state.mode[host] == OPEN and host_class == request_class:
        return 3.0
    return 5.0 if cluster.n_running[host] == 0 else 4.0


SAMPLED = ("mode", ("empty", "open", "recycling"))
"""The array in `Result.samples`, and names of its values 0, 1 and 2."""
_HOOKS = Hooks(lava_state, placed, departed, emptied, at_deadline, *SAMPLED)
LAVA = Policy("lava", (class_preference, temporal_cost, *PACKING), predictions="current", hooks=_HOOKS,
              about="short requests fill the gaps between long ones, on hosts with a deadline (LAVA, section 4.3)")
