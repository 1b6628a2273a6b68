"""How often, and by how much, hosts are asked for more than they have: of a placement by usage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.colocation.colocation import UNITS, numbers, whole_numbers
from sojourn.simulator.whole_numbers import check_setting


@dataclass(frozen=True, slots=True)
class Violations:
    """Of one placement, over all slots; lower is better but for used_pct.

    host_rate_pct: share of hosts x slots in which a host's requests ask for more than it has (section III-B).
    request_rate_pct: share of the slots in which a request's host is so, mean over requests (section V-B: "the average
        job's violation rate").
    severity_pct: what is asked for above capacity, of all that is asked for: aggregate severity over the total workload
        (section III-B).
    host_severity_pct: the same share of each host's own load, mean over the hosts that have requests.
    request_severity_pct: the same of each request's own use, mean over requests that use something; a host's excess is
        shared by its requests as their use at the time.
    used_pct: mean utilisation of hosts: load x (1 - severity); what is above capacity is not served.
    """

    host_rate_pct: float
    request_rate_pct: float
    severity_pct: float
    host_severity_pct: float
    request_severity_pct: float
    used_pct: float


def checked_hosts(hosts: np.ndarray, n_requests: int, n_hosts: int, name: str = "hosts") -> np.ndarray:
    """The host of each request, int64 (n_requests,); ValueError for another number of them, what is no whole number,
    and a host that is not one of 0 .. n_hosts - 1.

    >>> checked_hosts(np.array([0, -1]), 2, 2)
    Traceback (most recent call last):
    ValueError: hosts must be 0 .. n_hosts - 1, 1, got -1 of request 1
    """
    found = whole_numbers(hosts, (n_requests,), name)
    for request in np.flatnonzero((found < 0) | (found >= n_hosts)).tolist():
        raise ValueError(f"{name} must be 0 .. n_hosts - 1, {n_hosts - 1}, got {int(found[request])!r} of request "
                         f"{request}")
    return found


def host_loads(used: np.ndarray, hosts: np.ndarray, n_hosts: int) -> np.ndarray:
    """Load of each host, int64 (n_hosts, n_columns), in the unit of `used` (n, n_columns).

    Refused with ValueError: hosts that `checked_hosts` refuses, n_hosts below 1, and used that is no table of whole
    numbers from 0 on.

    >>> host_loads(np.array([[1, 2], [3, 4], [5, 6]]), np.array([1, 0, 1]), 3).tolist()
    [[3, 4], [6, 8], [0, 0]]
    """
    check_setting(n_hosts, 1, "n_hosts", 2**31)
    used = numbers(used, "used")
    if used.dtype.kind not in "iu" or used.ndim != 2 or 0 in used.shape or used.min() < 0:
        raise ValueError(f"used must be whole numbers, 0 or more, of the shape (n, n_columns), none of them 0, got "
                         f"{used.dtype} {used.shape}, least {used.min(initial=0):g}")
    loads = np.zeros((n_hosts, used.shape[1]), np.int64)
    for request, host in enumerate(checked_hosts(hosts, len(used), n_hosts).tolist()):
        loads[host] += used[request]
    return loads


def violations(used: np.ndarray, hosts: np.ndarray, n_hosts: int, n_resources: int = 1) -> Violations:
    """Violations of a placement.

    used: int (n, n_resources x n_slots), in 1/65,536 of a host's capacity: `Colocation.used`, or `modelled` to judge by
        the model. hosts: int64 (n,).
    Several resources: a slot is violated where one of them is; excess and load, in shares of capacity, are summed.

    Refused with ValueError: what `host_loads` refuses, n_resources that does not divide the columns.

    >>> half = UNITS // 2
    >>> found = violations(np.array([[half, 3 * half], [half, half]]), np.array([0, 0]), 2)
    >>> found.host_rate_pct, found.request_rate_pct, round(found.severity_pct, 2)  # load 1 and 2: excess 0 and 1
    (25.0, 50.0, 33.33)
    """
    loads = host_loads(used, hosts, n_hosts)
    used, hosts = np.asarray(used), np.asarray(hosts)
    check_setting(n_resources, 1, "n_resources", 2**31)
    if used.shape[1] % n_resources:
        raise ValueError(f"n_resources must divide the {used.shape[1]} columns of used, got {n_resources!r}")
    excess = np.maximum(loads - UNITS, 0)
    is_violated = (excess > 0).reshape(n_hosts, n_resources, -1).any(axis=1)
    total, host_total = int(loads.sum()), loads.sum(axis=1)
    is_loaded = host_total > 0
    severity = float(excess.sum()) / total if total else 0.0
    unserved = np.divide(excess, loads, out=np.zeros(loads.shape), where=loads > 0)
    own = used.sum(axis=1, dtype=np.int64)
    lost = np.array([float(used[k] @ unserved[host]) for k, host in enumerate(hosts.tolist())])
    load = total / (n_hosts * used.shape[1] * UNITS)
    return Violations(
        100.0 * float(is_violated.mean()), 100.0 * float(is_violated.mean(axis=1)[hosts].mean()), 100.0 * severity,
        100.0 * _mean(excess.sum(axis=1)[is_loaded] / host_total[is_loaded]),
        100.0 * _mean(lost[own > 0] / own[own > 0]), 100.0 * load * (1.0 - severity))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
