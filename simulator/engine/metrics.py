"""What a replay is measured by; each figure is defined here once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.workloads import Demand


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one replay, over the time from the end of the warm-up to the horizon.

    empty_hosts_pct: time-weighted mean share of hosts that hold nothing and could be used; higher is better.
    packing_density_pct: core-seconds allocated in those provided by hosts in use; higher is better.
    utilisation_pct: allocated share of the whole cluster's capacity, per resource, time-weighted.
    n_requests: requests that arrived after the warm-up. n_rejected, rejected_pct: those of them that fit on
        no host; lower is better, and empty hosts are comparable only where few are.
    rejections: their reasons, most frequent first. "cpu_cores" = on every host too little of it was free,
        "cpu_cores+mem_gib" = of each of the two, "fragmentation" = each resource was there but never all on
        one host, "filter" = a host had room but the policy ruled it out, "constraint" = a rule of the workload did.
        Where what fits nowhere waits, those are rejected that never got a host.
    mean_wait_s: of the requests that arrived after the warm-up and were placed, seconds; lower is better.
    n_planned_migrations, n_migrations: of live migrations, those planned and those begun; what lies between ended, or
        could stay, before its turn. (One planned in the warm-up may be begun after it.) Lower is better. migrated_gib:
        memory copied by those begun.
    n_rescheduled, n_lost: requests that a host's failure made start again elsewhere, or ended; lower is better.
    n_updated: hosts that waves of maintenance have been through by the horizon; higher is better.
    voided_core_h: core-hours that these had run for since they last started, to be done again; lower is better.
    n_rescores: hosts whose predicted exit was recomputed; lower is cheaper.
    n_events: arrivals and departures processed, warm-up included.
    """

    empty_hosts_pct: float
    packing_density_pct: float
    utilisation_pct: Mapping[str, float]
    n_requests: int
    n_rejected: int
    rejected_pct: float
    rejections: Mapping[str, int]
    mean_wait_s: float
    n_planned_migrations: int
    n_migrations: int
    migrated_gib: float
    n_rescheduled: int
    n_lost: int
    n_updated: int
    voided_core_h: float
    n_rescores: int
    n_events: int


def fewest_hosts(steps: Demand, capacity: np.ndarray) -> np.ndarray:
    """Fewest hosts that total demand needs at each step, int64 (n_steps,): a lower bound for any policy.

    The largest over the resources; of hosts that differ, the largest in each resource are taken first.
    Demand above all hosts' capacity needs all of them.

    capacity: int64 (n_hosts, n_resources).

    >>> steps = Demand(np.array([0, 10]), np.array([[9, 1], [0, 0]]))
    >>> fewest_hosts(steps, np.array([[8, 8], [8, 8], [4, 8]])).tolist()
    [2, 0]
    """
    hosts = np.zeros(len(steps.time_s), np.int64)
    for d in range(capacity.shape[1]):
        largest_first = np.cumsum(np.sort(capacity[:, d])[::-1])
        needed = np.where(steps.amount[:, d] > 0, np.searchsorted(largest_first, steps.amount[:, d]) + 1, 0)
        hosts = np.maximum(hosts, np.minimum(needed, len(capacity)))
    return hosts


def integral_at(time_s: np.ndarray, level: np.ndarray, mark_s: np.ndarray) -> np.ndarray:
    """Integral from 0 to each mark of a step function that is 0 before its first step; int64 (n_marks,).

    >>> integral_at(np.array([0, 10]), np.array([2, 5]), np.array([10, 12])).tolist()
    [20, 30]
    """
    if len(time_s) == 0:
        return np.zeros(len(mark_s), np.int64)
    whole = np.append(0, np.cumsum(level[:-1] * np.diff(time_s)))
    k = np.searchsorted(time_s, mark_s, side="right") - 1
    held = whole[np.maximum(k, 0)] + level[np.maximum(k, 0)] * (mark_s - time_s[np.maximum(k, 0)])
    return np.where(k < 0, 0, held).astype(np.int64)


def reason_names(reason: np.ndarray, resources: tuple[str, ...]) -> dict[str, int]:
    """Counts of rejection codes by name, most frequent first, then by name.

    >>> reason_names(np.array([1, 3, 3, 0, -1]), ("cpu_cores", "mem_gib"))
    {'cpu_cores+mem_gib': 2, 'cpu_cores': 1, 'filter': 1, 'fragmentation': 1}
    """
    special = {0: "fragmentation", -1: "filter", -2: "constraint"}
    codes, counts = np.unique(reason, return_counts=True)
    named = {
        special.get(int(code), "+".join(name for d, name in enumerate(resources) if int(code) >> d & 1)): int(count)
        for code, count in zip(codes, counts, strict=True)
    }
    return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))
