"""Greedy Autoscaling: which machines to order for the requests that are pending, and when one is given back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.elastic.autoscaler_kernels import scale_out
from sojourn.simulator.elastic.machine_types import (
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

    types: that may be ordered. weights: of the resources in the score. most_at_once: machines ordered in one round.
    idle_release_s: a machine that has held no request for so long is given back (CTCL, section IV-C: five minutes).

    >>> greedy().most_at_once > homogeneous().most_at_once
    True
    """

    types: tuple[MachineType, ...] = tuple(MACHINE_TYPES.values())
    weights: tuple[float, ...] = WEIGHTS
    resources: tuple[str, ...] = RESOURCES
    most_at_once: int = 1_000_000
    idle_release_s: float = 300.0

    def __post_init__(self) -> None:
        type_capacities(self.types, self.resources)  # refuses no type
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
    """As a cluster autoscaler with one node group: one type, one machine a round (CTCL, section V-B on Kubernetes)."""
    return Autoscaler((default,), most_at_once=1)


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """type_of: int64 (n_new,), the type of each machine ordered. machine: int64 (n,), the machine that each request is
    bound to; -1 where it got none: see `reason`."""

    type_of: np.ndarray
    machine: np.ndarray
    reason: tuple[str, ...]


TOO_LARGE, LATER = "larger than every machine type", "a later round"


def machines_for(demand: np.ndarray, autoscaler: Autoscaler | None = None) -> ScaleOut:
    """Machines for pending requests, by Algorithm 3 of the CTCL paper.

    demand: int64 or float64 (n, n_resources), what each asks for, in the units of `type_capacities`.

    In each round every type is filled with the requests that are left, the largest first. Its score is equation 6,
    sum of r_i w_i: r_i is read as the share of resource i of the machine that these requests use ("normalised used
    constraining resource"), w_i the weights. The type with the highest score is ordered, the cheapest of equal ones,
    then the first listed, and its requests are bound to it. Largest first: by the weighted share of the first type.

    >>> cpu_heavy, mem_heavy = [90_000, 96 * 1024], [4_000, 700 * 1024]
    >>> made = machines_for(np.array([cpu_heavy, mem_heavy, [97_000, 1]]))
    >>> made.type_of.tolist(), made.machine.tolist(), made.reason[2]
    ([0, 2], [0, 1, -1], 'larger than every machine type')
    """
    chosen = Autoscaler() if autoscaler is None else autoscaler
    if demand.ndim != 2 or demand.shape[1] != len(chosen.resources):
        raise ValueError(f"demand must have the shape (n, {len(chosen.resources)}), got {demand.shape}")
    is_bad = np.less(demand, 0)
    if is_bad.any():
        raise ValueError(f"demand must be 0 or more, got {demand[is_bad].tolist()[0]!r}")
    capacities = type_capacities(chosen.types, chosen.resources)
    weights = np.array(chosen.weights, np.float64)
    order = largest_first(demand, capacities[0], weights)
    n = len(demand)
    machine, type_of = np.full(n, -1, np.int64), np.zeros(n + 1, np.int64)
    n_new = scale_out(demand, order, n, capacities, np.array([each.price_per_h for each in chosen.types], np.float64),
                      weights, min(chosen.most_at_once, n), machine, type_of, np.zeros(demand.shape[1], demand.dtype))
    by_row = np.empty(n, np.int64)
    by_row[order] = machine
    is_possible = fits_a_type(demand, capacities)
    reason = tuple("" if k >= 0 else LATER if is_fit else TOO_LARGE
                   for k, is_fit in zip(by_row.tolist(), is_possible.tolist(), strict=True))
    return ScaleOut(type_of[:n_new].copy(), by_row, reason)


def size_of(demand: np.ndarray, capacity: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted share of one machine that each demand asks for, float64 (n,); resources it lacks do not count."""
    size = np.zeros(len(demand))
    for d in range(len(capacity)):
        if capacity[d] > 0:
            size += weights[d] * demand[:, d] / capacity[d]
    return size


def largest_first(demand: np.ndarray, capacity: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows by falling size, equal ones in their order, int64 (n,)."""
    return np.asarray(np.argsort(-size_of(demand, capacity, weights), kind="stable"), np.int64)
