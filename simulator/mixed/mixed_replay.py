"""Replays services and batch requests under a scheduler; the result has utilisation, cluster size,
reschedulings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.loop import SLOTS
from sojourn.simulator.mixed._loop_kernels import run_mixed
from sojourn.simulator.mixed.mixed_scheduler import BELOW, SCHEDULERS, MixedScheduler, MixedWorkload
from sojourn.simulator.mixed.rules import RESOURCES
from sojourn.simulator.mixed.state import (
    BATCH,
    CAPACITY,
    CHOSEN,
    COUNTS,
    HOSTS,
    LARGEST_EXCESS,
    MOST_IN_USE,
    MOST_READY,
    N_ABOVE,
    N_COLUMNS,
    N_IN_USE,
    N_OVERLOADED,
    N_PENDING,
    N_READY,
    RANDOM,
    RANKS,
    READY,
    REQUESTS,
    SERVICES,
    SHORTEST_RUNTIME,
    USED,
    MixedRules,
    MixedWorld,
)
from sojourn.simulator.pool import type_capacities
from sojourn.simulator.whole_numbers import check_setting, is_whole

_ORDERS = {"shortest-runtime": SHORTEST_RUNTIME, "largest-excess": LARGEST_EXCESS, "random": RANDOM}
_N_LAGS = 4096
MOST_MACHINES = 2000
"""Slots of an elastic pool; a released machine frees its slot."""


def replay_mixed(workload: MixedWorkload, scheduler: str | MixedScheduler, needs: np.ndarray | None = None, *,
                 rng: np.random.Generator, n_machines: int | None = None,
                 most_machines: int = MOST_MACHINES) -> MixedResult:
    """One replay of all requests until the end of the series.

    needs: float64 (n_services, n_intervals, 2), milli-cores and MiB: the predicted maximum need of
        each service in the interval and the next one, from data before the interval; NaN = not
        identified, so its whole reservation counts. It covers two intervals, as a request placed
        within the first may run for the prediction interval of 15 min. The scheduler's `needs` sets
        its meaning; must be None if that is "none".
    n_machines: of a fixed pool, by default the workload's. most_machines: of an elastic one.
    rng: draws the boot lags, and the order of a random eviction.

    An elastic pool begins without machines: those for the first services are ordered at time 0.
    Every request ends at most once; an evicted request starts over.

    Refused with ValueError: an unknown scheduler; needs of another shape, below 0 or infinite; a
    fixed pool without machines, most_machines below 1, and numbers of machines that are not whole;
    a scheduling cycle that does not divide the interval.
    """
    if isinstance(scheduler, str):
        if scheduler not in SCHEDULERS:
            raise ValueError(f"scheduler must be one of {', '.join(SCHEDULERS)}, got {scheduler!r}")
        scheduler = SCHEDULERS[scheduler]
    is_fixed = scheduler.autoscaler is None
    n_fixed = workload.n_machines if n_machines is None else n_machines
    if (is_fixed or n_machines is not None) and not is_whole(n_fixed, 1):
        raise ValueError(f"n_machines must be a whole number, at least 1 for a fixed pool, got {n_fixed!r}")
    check_setting(most_machines, 1, "most_machines")
    if workload.interval_s * 1000 % scheduler.timing.cycle_ms:
        raise ValueError(f"cycle_ms must divide the interval of {workload.interval_s} s, got "
                         f"{scheduler.timing.cycle_ms!r}")
    named = int(max(workload.services.machine.max(initial=-1), workload.batch.machine.max(initial=-1)))
    if is_fixed and named >= n_fixed:
        raise ValueError(f"machine must be below n_machines, {n_fixed}, got {named!r}")
    rules = _rules(workload, scheduler)
    world = _world(workload, scheduler, needs, rng, n_fixed if is_fixed else most_machines)
    if is_fixed:
        _open_fixed(world)
    run_mixed(world, rules)
    return _result(workload, world, is_fixed)


def _rules(workload: MixedWorkload, scheduler: MixedScheduler) -> MixedRules:
    timing, scaler = scheduler.timing, scheduler.autoscaler
    interval_ms = workload.interval_s * 1000
    return MixedRules(
        horizon=workload.horizon_s * 1000, interval=interval_ms, cycle=timing.cycle_ms, decision=timing.decision_ms,
        start=timing.start_ms, eviction=timing.eviction_ms,
        idle_release=round(scaler.idle_release_s * 1000) if scaler else 0,
        most_at_once=scaler.most_at_once if scaler else 0, by_need=scheduler.needs == "vertical",
        by_use=scheduler.is_by_use, is_first_fit=scheduler.is_first_fit, is_raised=scheduler.is_raised,
        is_long=scheduler.is_long, is_by_trace=scheduler.is_by_trace, order=_ORDERS[scheduler.evictor.order],
        day=max(86_400_000 // interval_ms, 1), threshold=scheduler.evictor.threshold)


def _world(workload: MixedWorkload, scheduler: MixedScheduler, needs: np.ndarray | None, rng: np.random.Generator,
           n_slots: int) -> MixedWorld:
    services, batch = workload.services, workload.batch
    n_services, n_batch = len(services), len(batch)
    n, n_intervals = n_services + n_batch, services.n_intervals
    types = scheduler.autoscaler.types if scheduler.autoscaler else (scheduler.fixed_type,)
    capacities = type_capacities(types, RESOURCES)
    ahead, need = _needs(workload, scheduler, needs)
    lag_ms = np.empty(_N_LAGS, np.int64)
    lag_ms[:] = np.rint(types[0].boot_lag.drawn_s(rng, _N_LAGS) * 1000)

    counts = np.zeros(1, COUNTS)
    counts["next_ready"], counts["next_release"] = NEVER, NEVER
    requests = np.zeros(n, REQUESTS)
    for name in ("host", "after", "before", "bound", "not_on"):
        requests[name] = -1
    requests["own_machine"] = np.concatenate([services.machine, batch.machine])
    of_services = np.zeros(n_services, SERVICES)
    for name in ("first", "last", "reserved"):
        of_services[name] = getattr(services, name)
    of_batch = np.zeros(n_batch, BATCH)
    for name, values in (("arrival", batch.arrival_ms), ("duration", batch.duration_ms), ("peak_at", batch.peak_ms),
                         ("longest", batch.longest_ms), ("drawn_rank", rng.permutation(n_batch)), ("used", batch.used),
                         ("peak", batch.peak), ("started", -1), ("ended", -1), ("evicted_at", -1)):
        of_batch[name] = values
    slots = np.zeros(n_batch, SLOTS)
    slots["time"], slots["position"] = NEVER, -1
    hosts = np.zeros(n_slots, HOSTS)
    for name in ("serial", "first_service", "first_batch"):
        hosts[name] = -1
    size = max(n, 1)
    return MixedWorld(
        counts=counts, series=np.zeros((n_intervals, N_COLUMNS), np.int64), requests=requests,
        demand=np.concatenate([services.reserved, batch.requested]).astype(np.int64), services=of_services,
        service_order=np.argsort(services.first, kind="stable").astype(np.int64),
        service_use=services.used.astype(np.int64), need=need, ahead=ahead, batch=of_batch, slots=slots, hosts=hosts,
        totals=np.zeros(4, np.int64), n_of_type=np.zeros(len(types), np.int64),
        type_ms=np.zeros(len(types), np.int64), capacities=capacities,
        limits=np.floor(capacities * scheduler.fill).astype(np.int64),
        prices=np.array([each.price_per_h for each in types], np.float64),
        weights=np.array(scheduler.evictor.weights, np.float64), lags=lag_ms,
        service_queue=np.zeros(max(n_services, 1), np.int64), queue=np.zeros(max(n_batch, 1), np.int64),
        scratch=np.zeros((CHOSEN + 1, size), np.int64), scores=np.zeros((RANKS + 1, size)),
        member_use=np.zeros((size, 2), np.int64), room=np.zeros(2, np.int64), two=np.zeros(2, np.int64))


def _needs(workload: MixedWorkload, scheduler: MixedScheduler,
           needs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The predicted needs, -1 if unknown, and the needs that count: the reservation if unknown."""
    services = workload.services
    shape = services.used.shape
    if scheduler.needs == "none":
        if needs is not None:
            raise ValueError("needs must be None for a scheduler that reads none, got an array")
        needs = np.full(shape, np.nan)
    if needs is None or np.shape(needs) != shape:
        raise ValueError(f"needs must have the shape {shape}, got {None if needs is None else np.shape(needs)}")
    if needs.dtype.kind not in "iuf":
        raise ValueError(f"needs must be numbers, got {needs.dtype}")
    bad = needs[(needs < 0) | (needs >= BELOW)]
    if len(bad):
        raise ValueError(f"needs must be 0 or more and below 2^40, or NaN, got {float(bad[0])!r}")
    is_known = ~np.isnan(needs).any(axis=2, keepdims=True)
    whole = np.ceil(np.where(is_known, needs, 0)).astype(np.int64)
    reserved = services.reserved[:, None, :]
    if scheduler.needs == "idle":
        whole = np.minimum(whole, reserved)
    counted = np.where(is_known, whole, reserved)
    return np.where(is_known, whole, -1).astype(np.int64), counted.astype(np.int64)


def _open_fixed(world: MixedWorld) -> None:
    n = len(world.hosts)
    world.hosts["state"] = READY
    world.hosts["serial"] = np.arange(n)
    world.hosts["capacity"], world.hosts["limit"] = world.capacities[0], world.limits[0]
    world.counts["n_ready"] = world.counts["n_slots"] = n
    world.n_of_type[0] = n
    world.totals[2:] = world.capacities[0] * n


def _result(workload: MixedWorkload, world: MixedWorld, is_fixed: bool) -> MixedResult:
    n_services = len(workload.services)
    rows = world.series.astype(np.float64)
    interval_ms = workload.interval_s * 1000
    n_machine_ms = rows[:, N_IN_USE if is_fixed else N_READY]
    capacity = rows[:, CAPACITY:CAPACITY + 2]
    if is_fixed:  # of the machines in use: all are of one type
        capacity = n_machine_ms[:, None] * world.capacities[0]
    used = rows[:, USED:USED + 2]
    most = rows[:, MOST_IN_USE if is_fixed else MOST_READY]
    share = _pct(used, capacity)
    series = pd.DataFrame({
        "time_s": np.arange(len(rows), dtype=np.int64) * workload.interval_s, "cpu_pct": share[:, 0],
        "mem_pct": share[:, 1], "n_machines": n_machine_ms / interval_ms, "most_machines": most.astype(np.int64),
        "overloaded_pct": _pct(rows[:, N_OVERLOADED], n_machine_ms),
        "above_capacity_pct": _pct(rows[:, N_ABOVE], n_machine_ms), "n_pending": rows[:, N_PENDING] / interval_ms})
    type_ms = np.array([n_machine_ms.sum()]) if is_fixed else world.type_ms
    hours = type_ms / 3_600_000
    total = _pct(used.sum(axis=0), capacity.sum(axis=0))
    return MixedResult(
        series, float(total[0]), float(total[1]), float(n_machine_ms.sum() / interval_ms / len(rows)),
        int(most.max(initial=0)), int(world.counts["n_serials"][0]),
        tuple(hours.tolist()), float((hours * world.prices).sum()),
        float(_pct(rows[:, N_OVERLOADED].sum(), n_machine_ms.sum())),
        float(_pct(rows[:, N_ABOVE].sum(), n_machine_ms.sum())), world.requests["status"][:n_services].copy(),
        world.requests["status"][n_services:].copy(), world.requests["host"][n_services:].copy(),
        *(world.batch[name].copy() for name in ("started", "ended", "n_evicted", "cost")))


def _pct(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """100 * part / whole, 0 if the whole is 0."""
    return np.asarray(100 * np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) > 0))


OUTCOMES = ("waiting", "pending", "running", "ended", "too large")
"""Outcomes of a request at the horizon, by number: not arrived, in the queue, running, ended,
larger than every machine type (by its demand, or because its highest use so far would overload each
of them)."""


@dataclass(frozen=True, slots=True)
class MixedResult:
    """One replay. `series` has a row for each interval; requests are in the workload's order.

    series: `time_s`, `cpu_pct`, `mem_pct` (use over capacity of the machines that are ready, or, in
        a fixed pool, that hold a request; a host's use counts up to its capacity), `n_machines`
        (mean), `most_machines`, `overloaded_pct` and `above_capacity_pct` (of these machines'
        time), `n_pending` (mean).
    n_ordered: machines over the whole time, 0 in a fixed pool. type_hours: machine-hours by type;
        price: their cost.
    service_outcome, batch_outcome: int64, an index of OUTCOMES. started_ms: start of the last run;
        ended_ms: -1 if it did not end.
    n_evicted: int64 (n_batch,). cost_ms: int64 (n_batch,), lost progress and reallocation of all
        evictions.
    """

    series: pd.DataFrame
    cpu_pct: float
    mem_pct: float
    n_machines: float
    most_machines: int
    n_ordered: int
    type_hours: tuple[float, ...]
    price: float
    overloaded_pct: float
    above_capacity_pct: float
    service_outcome: np.ndarray
    batch_outcome: np.ndarray
    batch_host: np.ndarray
    started_ms: np.ndarray
    ended_ms: np.ndarray
    n_evicted: np.ndarray
    cost_ms: np.ndarray

    @property
    def n_rescheduled(self) -> int:
        """Batch requests that were evicted at least once."""
        return int((self.n_evicted > 0).sum())

    @property
    def n_multi_rescheduled(self) -> int:
        """Batch requests that were evicted more than once."""
        return int((self.n_evicted > 1).sum())

    @property
    def mean_cost_s(self) -> float:
        """Mean cost of the rescheduled requests, seconds; 0 if there are none. If a request has no
        place yet at the horizon, its last eviction counts only lost progress."""
        cost_ms = self.cost_ms[self.n_evicted > 0]
        return float(cost_ms.mean() / 1000) if len(cost_ms) else 0.0

    def outcomes(self) -> dict[str, int]:
        """Number of batch requests by outcome."""
        counts = np.bincount(self.batch_outcome, minlength=len(OUTCOMES))
        return dict(zip(OUTCOMES, counts.tolist(), strict=True))
