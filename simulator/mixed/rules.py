"""The rules of CTCL: Greedy Autoscaling, Least Requested Priority, Shortest Runtime Rescheduling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from sojourn.simulator.mixed._rule_kernels import evict, least_requested, scale_out
from sojourn.simulator.pool import (
    DEFAULT_TYPE,
    MACHINE_TYPES,
    MachineType,
    fits_a_type,
    type_capacities,
)
from sojourn.simulator.whole_numbers import check_setting

WEIGHTS = (0.38, 0.62)
"""Of CPU and memory (CTCL, table III)."""
RESOURCES = ("cpu_cores", "mem_gib")


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """How a pool grows and shrinks.

    types: machine types to order. weights: of the resources in the score. most_at_once: machines
    ordered in one round. idle_release_s: a machine without requests is released after this time
    (CTCL, section IV-C: five minutes).

    >>> greedy().most_at_once > homogeneous().most_at_once
    True
    """

    types: tuple[MachineType, ...] = tuple(MACHINE_TYPES.values())
    weights: tuple[float, ...] = WEIGHTS
    resources: tuple[str, ...] = RESOURCES
    most_at_once: int = 1_000_000
    idle_release_s: float = 300.0

    def __post_init__(self) -> None:
        type_capacities(self.types, self.resources)  # refuses an empty list
        are_weights = all(0 <= weight < math.inf for weight in self.weights) and any(self.weights)
        if len(self.weights) != len(self.resources) or not are_weights:
            raise ValueError(f"weights must be one of each of {', '.join(self.resources)}, 0 or more and not all 0, "
                             f"got {self.weights!r}")
        check_setting(self.most_at_once, 1, "most_at_once")
        if not 0 <= self.idle_release_s < math.inf:
            raise ValueError(f"idle_release_s must be 0 or more and finite, got {self.idle_release_s!r}")


def greedy(types: Sequence[MachineType] = tuple(MACHINE_TYPES.values())) -> Autoscaler:
    """Algorithm 3: any of the types, as many machines as the pending requests need."""
    return Autoscaler(tuple(types))


def homogeneous(default: MachineType = DEFAULT_TYPE) -> Autoscaler:
    """A cluster autoscaler with one node group: one type, one machine a round (CTCL, section V-B on
    Kubernetes)."""
    return Autoscaler((default,), most_at_once=1)


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """type_of: int64 (n_new,), the type of each machine ordered. machine: int64 (n,), the machine
    of each request, or -1; reason: why it has none."""

    type_of: np.ndarray
    machine: np.ndarray
    reason: tuple[str, ...]


TOO_LARGE, LATER = "larger than every machine type", "a later round"


def machines_for(demand: np.ndarray, autoscaler: Autoscaler | None = None) -> ScaleOut:
    """Machines for pending requests, by Algorithm 3 of the CTCL paper.

    demand: int64 or float64 (n, n_resources), in the units of `type_capacities`.

    In each round every type is filled with the remaining requests, the largest first (by the
    weighted share of the first type). Its score is equation 6, sum of r_i w_i, with weights w_i. We
    read r_i ("normalised used constraining resource") as the share of resource i of the machine
    that these requests use. The type with the highest score is ordered, the cheapest of equal ones,
    then the first listed, and gets its requests.

    >>> cpu_heavy, mem_heavy = [90_000, 96 * 1024], [4_000, 700 * 1024]
    >>> order = machines_for(np.array([cpu_heavy, mem_heavy, [97_000, 1]]))
    >>> order.type_of.tolist(), order.machine.tolist(), order.reason[2]
    ([0, 2], [0, 1, -1], 'larger than every machine type')
    """
    scaler = Autoscaler() if autoscaler is None else autoscaler
    if demand.ndim != 2 or demand.shape[1] != len(scaler.resources):
        raise ValueError(f"demand must have the shape (n, {len(scaler.resources)}), got {demand.shape}")
    is_bad = np.less(demand, 0)
    if is_bad.any():
        raise ValueError(f"demand must be 0 or more, got {demand[is_bad].tolist()[0]!r}")
    capacities = type_capacities(scaler.types, scaler.resources)
    weights = np.array(scaler.weights, np.float64)
    order = largest_first(demand, capacities[0], weights)
    n = len(demand)
    machine, type_of = np.full(n, -1, np.int64), np.zeros(n + 1, np.int64)
    n_new = scale_out(demand, order, n, capacities, np.array([each.price_per_h for each in scaler.types], np.float64),
                      weights, min(scaler.most_at_once, n), machine, type_of, np.zeros(demand.shape[1], demand.dtype))
    by_row = np.empty(n, np.int64)
    by_row[order] = machine
    is_possible = fits_a_type(demand, capacities)
    reason = tuple("" if k >= 0 else LATER if is_fit else TOO_LARGE
                   for k, is_fit in zip(by_row.tolist(), is_possible.tolist(), strict=True))
    return ScaleOut(type_of[:n_new].copy(), by_row, reason)


def size_of(demand: np.ndarray, capacity: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted share of one machine in each demand, float64 (n,), of resources that it has."""
    size = np.zeros(len(demand))
    for d in range(len(capacity)):
        if capacity[d] > 0:
            size += weights[d] * demand[:, d] / capacity[d]
    return size


def largest_first(demand: np.ndarray, capacity: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows by falling size, equal ones in their order, int64 (n,)."""
    return np.asarray(np.argsort(-size_of(demand, capacity, weights), kind="stable"), np.int64)


def available(capacity: np.ndarray, allocated: np.ndarray) -> np.ndarray:
    """The room for a service: capacity less all allocations (CTCL, equation 2); may be negative.

    capacity, allocated: (n_hosts, n_resources); allocated to services and batch requests together.

    >>> available(np.array([[96, 384]]), np.array([[90, 100]])).tolist()
    [[6, 284]]
    """
    return np.asarray(capacity - allocated)


def idle(reserved: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Idle room of services over an interval: reserved less the predicted maximum, 0 or more (CTCL,
    equation 3).

    reserved: (n, n_resources). predicted: (n, n_intervals, n_resources), the intervals to cover;
    NaN = the service is not identified yet, so it has no idle room.

    >>> idle(np.array([[8.0], [8.0]]), np.array([[[2.0], [3.0]], [[np.nan], [1.0]]])).tolist()
    [[5.0], [0.0]]
    """
    most = predicted.max(axis=1)  # NaN if any is NaN
    return np.asarray(np.where(np.isnan(most), 0.0, np.maximum(reserved - most, 0.0)))


def least_requested_host(available_to_it: np.ndarray, capacity: np.ndarray, need: np.ndarray,
                         weights: tuple[float, ...] = WEIGHTS, is_open: np.ndarray | None = None) -> int:
    """The host for a request by Algorithm 1 of the CTCL paper, or -1 if none fits.

    Of the hosts with room in each resource it takes the one with the lowest utilisation, the first
    of equal ones. Utilisation is the weighted share that is not available to the request: for a
    batch request the idle room of services counts as free (equation 4).

    available_to_it: (n_hosts, n_resources). capacity: the same. need: (n_resources,). is_open: bool
    (n_hosts,).

    >>> capacity = np.array([[96, 384], [96, 192], [96, 768]])
    >>> least_requested_host(np.array([[10, 60], [50, 90], [40, 100]]), capacity, np.array([8, 80]))
    1
    """
    if available_to_it.shape != capacity.shape or capacity.shape[1:] != need.shape:
        raise ValueError(f"available_to_it, capacity and need must agree in shape, got {available_to_it.shape}, "
                         f"{capacity.shape} and {need.shape}")
    is_allowed = np.ones(len(capacity), bool) if is_open is None else is_open
    return int(least_requested(available_to_it, capacity, is_allowed, need, np.array(weights, np.float64)))


EvictionOrder = Literal["shortest-runtime", "largest-excess", "random"]
EVICTION_ORDERS = MappingProxyType({
    "shortest-runtime": "the latest start first: the least progress is lost (CTCL, algorithm 2)",
    "largest-excess": "what uses most above its demand first, as a kubelet does within one priority",
    "random": "an order drawn once for all requests: for traces that do not say",
})


@dataclass(frozen=True, slots=True)
class Evictor:
    """When a host is overloaded, and which request leaves it first.

    threshold: of the overall use, the sum of used shares weighted by `weights` (CTCL, table III: 80
    %; weights of section V-B). A host is also overloaded if its use exceeds its capacity in one
    resource. The paper calls the overall use "a vector" and does not weight it. But its results use
    87 to 90 % of the memory on average, so 80 % can't be the limit of each resource; weighted they
    are at 79 to 80 %.

    >>> Evictor().threshold, Evictor().order
    (0.8, 'shortest-runtime')
    """

    threshold: float = 0.8
    order: EvictionOrder = "shortest-runtime"
    weights: tuple[float, ...] = WEIGHTS

    def __post_init__(self) -> None:
        if not 0 < self.threshold < math.inf:
            raise ValueError(f"threshold must be above 0 and finite, got {self.threshold!r}")
        if self.order not in EVICTION_ORDERS:
            raise ValueError(f"order must be one of {', '.join(EVICTION_ORDERS)}, got {self.order!r}")
        if not all(0 <= weight < math.inf for weight in self.weights) or not any(self.weights):
            raise ValueError(f"weights must be 0 or more, finite and not all 0, got {self.weights!r}")


def evicted(used: np.ndarray, rank: np.ndarray, host_used: np.ndarray, capacity: np.ndarray,
            evictor: Evictor | None = None) -> np.ndarray:
    """Positions of the batch requests to evict, in order, int64 (k,); none without overload.

    used: (n, n_resources), the use of each now. rank: (n,), lower leaves first: the runtime for
    shortest-runtime. host_used: (n_resources,), with services. capacity: (n_resources,). If all
    batch requests are not enough, all leave: services are never evicted.

    >>> used, runtime_s = np.array([[30, 0], [20, 0], [10, 0]]), np.array([90.0, 10.0, 50.0])
    >>> evicted(used, runtime_s, np.array([120, 60]), np.array([100, 100])).tolist()
    [1]
    """
    rule = Evictor() if evictor is None else evictor
    if len(rank) != len(used) or used.shape[1:] != host_used.shape or host_used.shape != capacity.shape:
        raise ValueError(f"used, rank, host_used and capacity must agree in shape, got {used.shape}, {rank.shape}, "
                         f"{host_used.shape} and {capacity.shape}")
    positions = np.zeros(len(used), np.int64)
    n = evict(used, rank, len(used), host_used.copy(), capacity, np.array(rule.weights, np.float64),
              rule.threshold, positions)
    return positions[:n]


def updated_demand(demand: np.ndarray, most_used: np.ndarray) -> np.ndarray:
    """The next demand of evicted requests: their highest use so far (CTCL, equation 10), in the
    shape of both.

    >>> updated_demand(np.array([[4, 8]]), np.array([[6, 2]])).tolist()
    [[6, 2]]
    """
    if demand.shape != most_used.shape:
        raise ValueError(f"most_used must have the shape of demand, {demand.shape}, got {most_used.shape}")
    return most_used.copy()


def rescheduling_cost_s(started_s: np.ndarray, evicted_s: np.ndarray, restarted_s: np.ndarray) -> np.ndarray:
    """Cost of each eviction, seconds: lost progress + the time until it runs again (CTCL, equation 8).

    The cost of a request is the sum over its evictions (equation 9).

    >>> rescheduling_cost_s(np.array([0.0]), np.array([60.0]), np.array([62.0])).tolist()
    [62.0]
    """
    return np.asarray((evicted_s - started_s) + (restarted_s - evicted_s))
