"""The arguments of a scorer: the cluster's arrays and the request to place, as NamedTuples.

Resource dimensions are ordered by the load of the whole trace, the binding one first. Amounts are
whole milli-cores, MiB, milli-GPU and thousandths of any other resource, so sums are exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NEVER = np.iinfo(np.int64).max
"""A time that does not come."""
HOUR_S, DAY_S = 3_600, 86_400
_NONE = np.zeros(0, np.int64)
_NO_GPUS = np.zeros((0, 0), np.int64)
WHOLE_GPU = 1_000
"""Milli-GPU of one GPU."""


class Cluster(NamedTuple):
    """Hosts as a structure of arrays. The engine changes them; filters and scorers read them.

    capacity: int64 (n_hosts, n_resources).
    free: int64 (n_hosts, n_resources), 0 <= free <= capacity.
    n_running: int64 (n_hosts,), requests that hold room on each host; 0 = empty. A request that
        migrates holds room on two hosts.
    exit_s: int64 (n_hosts,), time at which the host's last request is predicted to leave. If the
        policy uses `current` predictions, it is up to date for the scored host, and later than
        `now`. If it uses `initial` ones, it is the maximum of the first predictions and may be in
        the past. It has no meaning on an empty host or for a policy without predictions.
    closed: int64 (n_hosts,), why each host is closed; 0 = open. Closed hosts are never scored.
    is_updated: int64 (n_hosts,), 1 once a wave of maintenance has updated the host.
    state: the policy's own arrays, a NamedTuple. `Policy.state` makes it, its hooks change it.
    gpu_free: int64 (n_hosts, n_gpus), free milli-GPU of each GPU, 0 for places beyond a host's last. It
        has no columns if GPUs are replayed as one amount (docs/simulator/semantics.md).
    gpu_held: int64 (n, 4), for each of the engine's records a host and the bits of the GPUs that the
        request holds there; then a second host and its bits while it migrates. No bits = none.
    gpu_dimension: int64 (1,), the place of `gpu` among the resources.

    >>> two = Cluster(np.array([[8, 8], [8, 8]]), np.array([[8, 8], [2, 4]]), np.array([0, 3]), np.array([0, 90]))
    >>> two.free[1].tolist()
    [2, 4]
    """

    capacity: np.ndarray
    free: np.ndarray
    n_running: np.ndarray
    exit_s: np.ndarray
    closed: np.ndarray = _NONE
    is_updated: np.ndarray = _NONE
    state: Any = _NONE
    gpu_free: np.ndarray = _NO_GPUS
    gpu_held: np.ndarray = _NO_GPUS
    gpu_dimension: np.ndarray = _NONE


class Request(NamedTuple):
    """The request to place.

    row: its row in the workload's requests.
    need: int64 (n_resources,), in the cluster's units and order.
    exit_s: time at which it is predicted to leave, int64 seconds, by the policy's kind of prediction.
    age_s: its uptime; above 0 only if it ran before the replay begins.
    uptimes_s, overhang_s: int64 (k,), as in `predictions.sources.Curves`; overhang_s is empty if the
        predictor gives none.
    place: of its record in the engine's tables; `row` is for all others.

    >>> Request(0, np.array([2, 4]), 3600).exit_s
    3600
    """

    row: int
    need: np.ndarray
    exit_s: int
    age_s: int = 0
    uptimes_s: np.ndarray = _NONE
    overhang_s: np.ndarray = _NONE
    place: int = -1
