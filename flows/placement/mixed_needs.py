"""What the services of a mix are predicted to need, by classes; and how many machines a fixed pool has."""

from __future__ import annotations

import math

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.flows.placement.usage_needs import DailyClasses, usage_needs
from sojourn.serving.usage import DayClock
from sojourn.simulator.elastic import DEFAULT_TYPE, Evictor, MixedWorkload, type_capacities


def class_needs(workload: MixedWorkload, *, n_classes: int, observed_s: int, rule: str, seed: int = 0,
                classes: DailyClasses | None = None) -> np.ndarray:
    """Needs for `replay_mixed`, float64 (n_services, n_intervals, 2): what `usage_needs` predicts for an interval and
    the next one from what was seen before it; NaN = not identified.

    rule: `class` is the paper's, `combined` the own maximum and the class's surplus. classes: as of `usage_needs`, for
    `service_grid` of the workload.
    """
    services = workload.services
    found = usage_needs(service_grid(workload), n_classes=n_classes, observed_s=observed_s,
                        ahead_s=2 * workload.interval_s, rule=rule, seed=seed, classes=classes)
    if found.mem is None:
        raise ValueError("usage_needs must give memory for a grid with memory, got none")
    needs = np.stack([found.cpu, found.mem], axis=2).astype(np.float64) * services.reserved[:, None, :]
    return np.asarray(needs[:, :services.n_intervals])


def service_grid(workload: MixedWorkload) -> UsageGrid:
    """What the services use, as shares of what they reserve, while they are there."""
    services = workload.services
    reserved = services.reserved.astype(np.float64)
    share = services.used / np.maximum(reserved, 1.0)[:, None, :]
    interval = np.arange(services.n_intervals)
    is_there = (interval >= services.first[:, None]) & (interval < services.last[:, None])
    share[~is_there] = np.nan
    cpu, mem = (share[..., d].astype(np.float32) for d in range(2))
    return UsageGrid(np.arange(len(services)), cpu, mem, reserved[:, 0] / 1000, reserved[:, 1] / 1024, 0,
                     workload.interval_s, DayClock())


def fixed_pool(workload: MixedWorkload, evictor: Evictor | None = None) -> int:
    """Machines of the default type for a pool that does not grow, where a trace does not say.

    Enough for all services by first fit of their reservations, and to keep 99 % of the intervals below the eviction
    threshold with what services use and batch requests ask for.
    """
    chosen = Evictor() if evictor is None else evictor
    capacity = type_capacities((DEFAULT_TYPE,), ("cpu_cores", "mem_gib"))[0]
    free: list[np.ndarray] = []
    for need in workload.services.reserved:
        host = next((left for left in free if (need <= left).all()), None)
        if host is None:
            host = capacity.copy()
            free.append(host)
        host -= need
    batch = workload.batch
    edges = np.arange(workload.services.n_intervals + 1) * workload.interval_s * 1000
    asked = np.zeros((workload.services.n_intervals, 2))
    for time, sign in ((batch.arrival_ms, 1), (batch.arrival_ms + batch.duration_ms, -1)):
        at = np.searchsorted(edges, time, side="right") - 1
        is_in = at < len(asked)
        np.add.at(asked, at[is_in], sign * batch.requested[is_in])
    load = np.cumsum(asked, axis=0) + workload.services.used.sum(axis=0)
    overall = (load / capacity) @ np.array(chosen.weights)
    return max(len(free), math.ceil(np.quantile(overall, 0.99) / chosen.threshold), 1)
