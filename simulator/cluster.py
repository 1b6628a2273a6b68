"""What a scorer sees: the cluster's arrays and the request to place, as NamedTuples of plain types.

Resource dimensions are ordered by whole-trace load, the binding one first. Amounts are whole milli-cores,
MiB, milli-GPU and thousandths of what else there is, so that sums are exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NEVER = np.iinfo(np.int64).max
"""A time that does not come."""
HOUR_S, DAY_S = 3_600, 86_400
_NONE = np.zeros(0, np.int64)


class Cluster(NamedTuple):
    """Hosts as a structure of arrays; owned by the engine, read by filters and scorers.

    capacity: int64 (n_hosts, n_resources).
    free: int64 (n_hosts, n_resources), 0 <= free <= capacity.
    n_running: int64 (n_hosts,), requests that hold room on each host; 0 = empty. One that migrates holds on two.
    exit_s: int64 (n_hosts,), time at which the host's last request is predicted to leave. Current for the
        host being scored if the policy asks for `current` predictions, and then later than `now`; by the
        first prediction of each request, and perhaps in the past, if it asks for `initial` ones. It means
        nothing on an empty host, nor for a policy that asks for no predictions.
    closed: int64 (n_hosts,), what each host is closed for; 0 = open. Closed hosts are never scored.
    is_updated: int64 (n_hosts,), 1 once a wave of maintenance has been through the host.
    state: the policy's own arrays, a NamedTuple; the engine makes it by `Policy.state` and calls the policy's hooks.

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


class Request(NamedTuple):
    """The request to place.

    row: its row in the workload's requests.
    need: int64 (n_resources,), in the cluster's units and order.
    exit_s: time at which it is predicted to leave, int64 seconds, in the policy's kind of prediction.
    age_s: how long it has been running; above 0 only for what runs before the replay begins.
    uptimes_s, overhang_s: int64 (k,), as in `predictions.sources.Curves`; no overhang where the predictor tells none.

    >>> Request(0, np.array([2, 4]), 3600).exit_s
    3600
    """

    row: int
    need: np.ndarray
    exit_s: int
    age_s: int = 0
    uptimes_s: np.ndarray = _NONE
    overhang_s: np.ndarray = _NONE
