"""The Hybrid Algorithm (Azar and Vainstein, SPAA 2017, "Tight Bounds for Clairvoyant Dynamic Bin
Packing").

A baseline of MinUsageTime bin packing with known lifetimes; up to a constant no algorithm has a
better worst case. A request has a type: the class i of its lifetime, 2^(i - 1) to 2^i minutes, and
the interval of 2^i minutes in which it came. While few requests of a type run, they share the
general hosts with all others, by First Fit. Once they would need more than 1 / (2 sqrt(i)) of a
general host, the type gets its own hosts. Unlike the paper's bins a pool is finite: if no empty
host is left, a request goes to any host.

Only the binding resource counts, against the first host's capacity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sojourn.simulator import Cluster, Hooks, Policy, Request, kernel

SHORTEST_S = 60
"""The paper's unit of time is the shortest lifetime."""
N_CLASSES = 64
UNUSED, GENERAL, OWN = range(3)


class HybridState(NamedTuple):
    """Per class, int64 (N_CLASSES,), of the latest interval: interval, its number; load, the need
    of its requests on general hosts of the binding resource; n_own, the type's own hosts. Per host,
    int64 (n_hosts,): kind, UNUSED, GENERAL or OWN; host_class, host_interval, the type of an OWN
    host. Per request, int64 (n_requests,): class_of, interval_of, load_of, as counted on a general
    host; load_of is 0 on others."""

    interval: np.ndarray
    load: np.ndarray
    n_own: np.ndarray
    kind: np.ndarray
    host_class: np.ndarray
    host_interval: np.ndarray
    class_of: np.ndarray
    interval_of: np.ndarray
    load_of: np.ndarray


def hybrid_state(n_hosts: int, n_requests: int) -> HybridState:
    """All hosts unused.

    >>> hybrid_state(2, 9).kind.tolist()
    [0, 0]
    """
    per_class, per_host, per_request = (np.zeros((3, n), np.int64) for n in (N_CLASSES, n_hosts, n_requests))
    before_any = np.full(N_CLASSES, np.iinfo(np.int64).min)
    return HybridState(before_any, per_class[0], per_class[1], per_host[0], per_host[1], per_host[2],
                       per_request[0], per_request[1], per_request[2])


@kernel
def duration_class(lifetime_s: int) -> int:
    """Class from 1: up to 2, 4, 8, ... minutes.

    >>> [duration_class(seconds) for seconds in (-5, 0, 120, 121, 240, 241)]
    [1, 1, 1, 2, 2, 3]
    """
    number, upper_s = 1, 2 * SHORTEST_S
    while lifetime_s > upper_s:
        number, upper_s = number + 1, 2 * upper_s
    return number


@kernel
def interval_number(request_class: int, arrival_s: int) -> int:
    """The interval of a class in which a request came; below 0 before the replay.

    >>> [interval_number(2, arrival_s) for arrival_s in (-1, 0, 239, 240)]
    [-1, 0, 0, 1]
    """
    return arrival_s // (SHORTEST_S << request_class)


@kernel
def is_of_own(cluster: Cluster, request: Request, now: int) -> bool:
    """Whether the request's type has its own hosts, or is to get one."""
    state = cluster.state
    arrival_s = now - request.age_s
    request_class = duration_class(request.exit_s - arrival_s)
    if state.interval[request_class] != interval_number(request_class, arrival_s):
        return 2 * math.sqrt(request_class) * request.need[0] > cluster.capacity[0, 0]
    load = state.load[request_class] - state.load_of[request.row] + request.need[0]  # once if it migrates
    return state.n_own[request_class] > 0 or 2 * math.sqrt(request_class) * load > cluster.capacity[0, 0]


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """An unused host becomes general or the type's own; on a general host the request counts."""
    state, row = cluster.state, request.row
    arrival_s = now - request.age_s
    request_class = duration_class(request.exit_s - arrival_s)
    number = interval_number(request_class, arrival_s)
    is_own = is_of_own(cluster, request, now)
    if number > state.interval[request_class]:
        state.interval[request_class], state.load[request_class], state.n_own[request_class] = number, 0, 0
    if state.kind[host] == UNUSED:
        state.kind[host] = OWN if is_own else GENERAL
        if is_own:
            state.host_class[host], state.host_interval[host] = request_class, number
            state.n_own[request_class] += number == state.interval[request_class]
    state.class_of[row], state.interval_of[row] = request_class, number
    state.load_of[row] = request.need[0] if state.kind[host] == GENERAL else 0
    if number == state.interval[request_class]:
        state.load[request_class] += state.load_of[row]


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Subtract the request from its type's load."""
    state = cluster.state
    if state.interval_of[row] == state.interval[state.class_of[row]]:
        state.load[state.class_of[row]] -= state.load_of[row]
    state.load_of[row] = 0


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """The host is unused."""
    state = cluster.state
    if state.kind[host] == OWN and state.host_interval[host] == state.interval[state.host_class[host]]:
        state.n_own[state.host_class[host]] -= 1
    state.kind[host] = UNUSED


@kernel
def kind_mismatch(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """0 on a general host, or on one of the type's own where it has such; 1 on an empty host, 2 on any other.

    >>> state = hybrid_state(3, 9)
    >>> state.kind[:2], state.host_class[1] = (GENERAL, OWN), 1
    >>> three = Cluster(np.full((3, 1), 8), np.full((3, 1), 4), np.array([1, 1, 0]), np.zeros(3, int), state=state)
    >>> [[kind_mismatch(three, host, Request(0, np.array([need]), 60), 0) for host in (0, 1, 2)] for need in (4, 5)]
    [[0.0, 2.0, 1.0], [2.0, 0.0, 1.0]]
    """
    state = cluster.state
    if cluster.n_running[host] == 0:
        return 1.0
    if not is_of_own(cluster, request, now):
        return 0.0 if state.kind[host] == GENERAL else 2.0
    arrival_s = now - request.age_s
    request_class = duration_class(request.exit_s - arrival_s)
    number = interval_number(request_class, arrival_s)
    is_type = state.host_class[host] == request_class and state.host_interval[host] == number
    return 0.0 if state.kind[host] == OWN and is_type else 2.0


HYBRID = Policy("hybrid", (kind_mismatch,), predictions="initial",
                hooks=Hooks(hybrid_state, placed, departed, emptied),
                about="few requests of one length and age share hosts with all, many have their own (Azar, Vainstein)")
