"""Shortest Runtime Rescheduling: which batch requests leave an overloaded host, their next demand, and the cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from sojourn.simulator.elastic.autoscaler import WEIGHTS
from sojourn.simulator.elastic.evictor_kernels import evict

EvictionOrder = Literal["shortest-runtime", "largest-excess", "random"]
EVICTION_ORDERS = MappingProxyType({
    "shortest-runtime": "the latest start first: the least progress is lost (CTCL, algorithm 2)",
    "largest-excess": "what uses most above its demand first, as a kubelet does within one priority",
    "random": "an order drawn once for all requests: for traces that do not say",
})


@dataclass(frozen=True, slots=True)
class Evictor:
    """When a host is overloaded and what leaves it first.

    threshold: of the overall use, the weighted sum of used shares with `weights` (CTCL, table III: 80 %; weights of
    section V-B). A host whose use exceeds its capacity in one resource is overloaded as well. The paper calls the
    overall use "a vector" and does not weight it; but its own results use 87 to 90 % of the memory on average, so no
    single resource can be held to 80 %, and weighted they lie at 79 to 80 %.

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
    """Positions of the batch requests to evict, in order, int64 (k,); none where the host is not overloaded.

    used: (n, n_resources), what each uses now. rank: (n,), lower leaves first: the runtime for shortest-runtime.
    host_used: (n_resources,), with services. capacity: (n_resources,).

    All of them where that is not enough: services are never evicted.

    >>> used, runtime_s = np.array([[30, 0], [20, 0], [10, 0]]), np.array([90.0, 10.0, 50.0])
    >>> evicted(used, runtime_s, np.array([120, 60]), np.array([100, 100])).tolist()
    [1]
    """
    chosen_evictor = Evictor() if evictor is None else evictor
    if len(rank) != len(used) or used.shape[1:] != host_used.shape or host_used.shape != capacity.shape:
        raise ValueError(f"used, rank, host_used and capacity must agree in shape, got {used.shape}, {rank.shape}, "
                         f"{host_used.shape} and {capacity.shape}")
    chosen = np.zeros(len(used), np.int64)
    n = evict(used, rank, len(used), host_used.copy(), capacity, np.array(chosen_evictor.weights, np.float64),
              chosen_evictor.threshold, chosen)
    return chosen[:n]


def updated_demand(demand: np.ndarray, most_used: np.ndarray) -> np.ndarray:
    """What evicted requests ask for next: the most that they were seen to use (CTCL, equation 10), shape of both.

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
