"""A policy is a name, a filter, and scorers compared in order. The packing score is best fit.

The packing score puts hosts in use first, then the least free share after the placement, binding
resource first. It ends the chains of best-fit, la-binary and nilas. On hosts of one shape its order
does not depend on the request, so the engine can keep hosts sorted (simulator/loop/occupancy.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.jit import kernel

__all__ = ["Filter", "Hooks", "HostScores", "PerResource", "Policy", "ResourceScorer", "Scorer", "kernel"]

Scorer = Callable[[Cluster, int, Request, int], float]
"""Score of one host for a request at `now`: finite, >= 0, lower is better, 0 is the best. Compiled
by numba; it reads only the arrays, so hosts that are equal in them have equal scores."""
ResourceScorer = Callable[[Cluster, int, Request, int], float]
"""As a Scorer, but its last argument is the resource dimension instead of `now`."""
Filter = Callable[[Cluster, int, Request, int], bool]
"""Whether a host on which the request fits may take it. Compiled by numba."""


@dataclass(frozen=True, slots=True)
class PerResource:
    """A scorer that is called once per resource dimension, the binding one first."""

    scorer: ResourceScorer


HostScores = Callable[[Cluster, Request, int], "np.ndarray | tuple[np.ndarray, ...]"]
"""Scores of all hosts for a request at `now`, in NumPy: one array (n_hosts,), or several in order
of importance. Lower is better, 0 or more; inf excludes a host. Hosts that are full or closed are
excluded anyway."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """A policy's state of hosts, and the functions that update it, compiled by numba.

    state: makes the arrays for a number of hosts and of requests, a NamedTuple; scorers read them
        in `cluster.state`. With at_deadline it needs a field `deadline_s` (n_hosts,): the time at
        which the engine calls at_deadline, or NEVER.
    placed: (cluster, host, request, now), when the request has its room on the host.
    departed: (cluster, host, row, now), when a request has left the host, or begins to migrate from
        it.
    emptied: (cluster, host, now), when no request holds room there any more.
    at_deadline: (cluster, host, now), when the host's deadline has come; None = no deadlines.
    sampled: a field of the state, int64 (n_hosts,), for `Result.samples`; "" = none. sampled_names:
        names of its values 0, 1, ...
    resident: (cluster, host, request, now), for each request on the host just before at_deadline,
        with its prediction at that time; None = not called.

    The engine sets a field `idx_cpu` of the state, int64 (1,), to the index of the cores.
    """

    state: Callable[[int, int], Any]
    placed: Callable[[Cluster, int, Request, int], None]
    departed: Callable[[Cluster, int, int, int], None]
    emptied: Callable[[Cluster, int, int], None]
    at_deadline: Callable[[Cluster, int, int], None] | None = None
    sampled: str = ""
    sampled_names: tuple[str, ...] = ()
    resident: Callable[[Cluster, int, Request, int], None] | None = None

    def __post_init__(self) -> None:
        if self.resident is not None and self.at_deadline is None:
            raise ValueError("resident must come with at_deadline, got it alone")

    def given(self) -> dict[str, Callable[..., None]]:
        """The functions that are not None, by name."""
        hooks = {"placed": self.placed, "departed": self.departed, "emptied": self.emptied,
                 "at_deadline": self.at_deadline, "resident": self.resident}
        return {name: function for name, function in hooks.items() if function is not None}


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to choose a host: filter, then scorers compared lexicographically, ties to the lowest
    index.

    name: its name in configs, tables and figures.
    scorers: in order of importance; none means the first host on which the request fits.
    filter: which of the hosts with room may be used; None = all.
    predictions: the kind of prediction in `exit_s` of hosts and requests: none, the first of each
        request, or the current one at its uptime.
    refresh_s: 0 keeps current predictions exact. Otherwise a host's is recomputed when a request
        comes or goes, when its predicted exit has passed, and after this many seconds (LAVA,
        section 5.1: 60).
    hooks: its state of hosts; None = no state.
    host_scores: a NumPy function that replaces scorers and filter.
    is_queueing: whether a request that fits nowhere waits until it does; else it is rejected.
    above_share: its first scorer, if that score is never below the binding resource's free share
        after the placement. Then a ranked scan ends once that share is above the best score so far.
        None or another function: all hosts are scored.
    are_empty_hosts_alike: whether its scorers give all empty hosts of one shape the same score.
        Then a ranked scan ends at the first of them. They do if they use a host's index only to
        read arrays.
    gpu_score: (cluster, host, request, gpu), which GPU of the chosen host gets a share of one: the
        lowest finite score, then the lowest number. None = the fullest with room.
    about: which host it chooses, one line for the docs.

    >>> Policy("any").predictions
    'none'
    >>> Policy("any", predictions="best")
    Traceback (most recent call last):
    ValueError: predictions must be one of none, initial, current, got 'best'
    """

    name: str
    scorers: tuple[Scorer | PerResource, ...] = ()
    filter: Filter | None = None
    predictions: Literal["none", "initial", "current"] = "none"
    refresh_s: int = 0
    hooks: Hooks | None = None
    host_scores: HostScores | None = None
    is_queueing: bool = False
    above_share: Scorer | None = None
    are_empty_hosts_alike: bool = False
    gpu_score: Scorer | None = None
    about: str = ""

    def __post_init__(self) -> None:
        if self.predictions not in ("none", "initial", "current"):
            raise ValueError(f"predictions must be one of none, initial, current, got {self.predictions!r}")
        if self.refresh_s < 0 or (self.refresh_s and self.predictions != "current"):
            raise ValueError(f"refresh_s must be 0 or, with current predictions, more; got {self.refresh_s!r}")
        if self.host_scores is not None and (self.scorers or self.filter is not None or self.hooks is not None):
            raise ValueError(f"host_scores must stand alone, got scorers, a filter or hooks with it in policy "
                             f"{self.name!r}")


@kernel
def opens_host(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """1 for an empty host, 0 for one in use.

    >>> import numpy as np
    >>> two = Cluster(np.array([[8], [8]]), np.array([[8], [3]]), np.array([0, 1]), np.array([0, 0]))
    >>> opens_host(two, 0, Request(0, np.array([2]), 0), 0)
    1.0
    """
    return 1.0 if cluster.n_running[host] == 0 else 0.0


@kernel
def free_share_left(cluster: Cluster, host: int, request: Request, dimension: int) -> float:
    """Share of the host's capacity that is free after the placement, 0..1; 0 where it has none of it.

    >>> import numpy as np
    >>> one = Cluster(np.array([[8]]), np.array([[4]]), np.array([1]), np.array([0]))
    >>> free_share_left(one, 0, Request(0, np.array([2]), 0), 0)
    0.25
    """
    capacity = cluster.capacity[host, dimension]
    if capacity == 0:
        return 0.0
    return (cluster.free[host, dimension] - request.need[dimension]) / capacity


PACKING = (opens_host, PerResource(free_share_left))


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
