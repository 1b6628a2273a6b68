"""Move To Front: the host that took a request last (Kamali and López-Ortiz, SOFSEM 2015, "Efficient Online Strategies
for Renting Servers in the Cloud").

A baseline of MinUsageTime bin packing, in which bins cost as long as they are in use; it needs no
lifetimes. Requests that come together stay together, and hosts at the back become empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.simulator import Cluster, Hooks, Policy, Request, kernel


class FrontState(NamedTuple):
    """n_placed: int64 (1,), placements so far. last: int64 (n_hosts,), number of each host's last
    one."""

    n_placed: np.ndarray
    last: np.ndarray


def front_state(n_hosts: int, n_requests: int) -> FrontState:
    """The state before the first placement.

    >>> front_state(2, 9).last.tolist()
    [0, 0]
    """
    return FrontState(np.zeros(1, np.int64), np.zeros(n_hosts, np.int64))


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """The host moves to the front."""
    cluster.state.n_placed[0] += 1
    cluster.state.last[host] = cluster.state.n_placed[0]


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Nothing: the host stays where it is in the list."""


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """The host leaves the list."""
    cluster.state.last[host] = 0


@kernel
def places_behind(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Placements since the host's last one; all of them and one more on an empty host.

    >>> state = front_state(3, 9)
    >>> state.n_placed[0], state.last[:2] = 5, (5, 2)
    >>> three = Cluster(np.full((3, 1), 8), np.full((3, 1), 4), np.array([1, 1, 0]), np.zeros(3, int), state=state)
    >>> [places_behind(three, host, Request(0, np.array([2]), 0), 0) for host in (0, 1, 2)]
    [0.0, 3.0, 6.0]
    """
    state = cluster.state
    if cluster.n_running[host] == 0:
        return float(state.n_placed[0] + 1)
    return float(state.n_placed[0] - state.last[host])


MOVE_TO_FRONT = Policy("move-to-front", (places_behind,),
                       hooks=Hooks(front_state, placed, departed, emptied),
                       about="the host that took a request last (MinUsageTime packing, Kamali and López-Ortiz)")
