"""The recorded runs of a trace: its machines, its evictions and their costs, without any decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.mixed import OUTCOMES, Evictor, MixedResult, MixedWorkload
from sojourn.simulator.mixed.mixed_scheduler import check_whole, n_rows
from sojourn.simulator.mixed.rules import RESOURCES
from sojourn.simulator.pool import DEFAULT_TYPE, MachineType, type_capacities


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """Runs of a workload's batch requests, by request and time, int64 (n,) each. request: place in the workload.
    end_ms: -1 = it runs at the horizon. used: int64 (n, 2). A request with several runs was rescheduled."""

    request: np.ndarray
    machine: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    used: np.ndarray

    def __post_init__(self) -> None:
        n = n_rows(self.request)
        check_whole(("request", self.request, (n,)), ("start_ms", self.start_ms, (n,)), ("used", self.used, (n, 2)))
        check_whole(("machine", self.machine, (n,)), ("end_ms", self.end_ms, (n,)), least=-1)
        is_next = np.diff(self.request) == 0
        if (np.diff(self.request) < 0).any() or (np.diff(self.start_ms)[is_next] < 0).any():
            raise ValueError("runs must be in the order of requests and times, got another order")
        if ((self.end_ms >= 0) & (self.end_ms < self.start_ms)).any():
            raise ValueError("end_ms must not be before start_ms, got one that is")


def replay_recorded(workload: MixedWorkload, runs: RecordedRuns, machine_type: MachineType = DEFAULT_TYPE,
                    evictor: Evictor | None = None) -> MixedResult:
    """The figures of `replay_mixed` for the recorded placements.

    Services stay on their recorded machine. All machines are of one type; a machine counts in an
    interval if it holds a request. Overload is that of an interval's mean use, so shorter peaks do
    not count. A run with a later run of its request was evicted; the cost is the time from its
    start to the next start (lost progress and reallocation).

    Refused with ValueError: a machine of a service or run that is not below the workload's
    `n_machines`, a run of a request that the workload does not have.

    >>> from sojourn.simulator.mixed import BatchRequests, Services
    >>> services = Services(np.array([[4000, 8192]]), np.full((1, 2, 2), 1000), np.array([0]), np.array([2]),
    ...                     np.array([0]))
    >>> batch = BatchRequests(np.array([0]), np.array([9000]), np.array([[500, 256]]), np.array([[600, 256]]),
    ...                       np.array([[600, 256]]), np.array([0]), np.array([9000]), np.array([1]))
    >>> runs = RecordedRuns(np.array([0, 0]), np.array([1, 0]), np.array([0, 50_000]), np.array([40_000, 59_000]),
    ...                     np.array([[600, 256]] * 2))
    >>> result = replay_recorded(MixedWorkload(services, batch, 900, "one of each", n_machines=2), runs)
    >>> result.n_rescheduled, result.mean_cost_s, result.series["most_machines"].tolist()
    (1, 50.0, [2, 1])
    """
    rule = Evictor() if evictor is None else evictor
    services, n_machines = workload.services, workload.n_machines
    for machine in (services.machine, runs.machine):
        if len(machine) and not (machine.min() >= 0 and machine.max() < n_machines):
            raise ValueError(f"machine must be 0 .. n_machines - 1, {n_machines - 1}, got {int(machine.min())} to "
                             f"{int(machine.max())}")
    if runs.request.max(initial=-1) >= len(workload.batch):
        raise ValueError(f"request must be below the number of batch requests, {len(workload.batch)}, got "
                         f"{int(runs.request.max())!r}")
    n_intervals, interval_ms, horizon_ms = services.n_intervals, workload.interval_s * 1000, workload.horizon_s * 1000
    capacity = type_capacities((machine_type,), RESOURCES)[0].astype(np.float64)
    used, is_in_use = _of_services(workload)
    start, end = (np.clip(time, 0, horizon_ms) for time in (
        runs.start_ms, np.where(runs.end_ms < 0, horizon_ms, runs.end_ms)))
    used += _mean_use(runs, start, end, used.shape, interval_ms)
    count = np.zeros((n_machines, n_intervals + 1), np.int64)
    is_within = start < horizon_ms
    np.add.at(count, (runs.machine[is_within], start[is_within] // interval_ms), 1)
    np.add.at(count, (runs.machine[is_within], np.maximum(-(-end // interval_ms), start // interval_ms + 1)[is_within]),
              -1)
    is_in_use |= count.cumsum(axis=1)[:, :n_intervals] > 0
    overall = np.zeros(is_in_use.shape)
    for d, weight in enumerate(rule.weights):
        overall += weight * used[:, :, d] / capacity[d] if capacity[d] > 0 else 0.0
    is_above = (used > capacity).any(axis=2)
    is_over = is_above | (overall > rule.threshold)
    n_in_use = is_in_use.sum(axis=0)
    whole = np.maximum(n_in_use, 1)
    served = np.minimum(used, capacity).sum(axis=0)
    series = pd.DataFrame({
        "time_s": np.arange(n_intervals, dtype=np.int64) * workload.interval_s,
        **{name: 100 * served[:, d] / (whole * capacity[d]) for d, name in enumerate(("cpu_pct", "mem_pct"))},
        "n_machines": n_in_use.astype(np.float64), "most_machines": n_in_use.astype(np.int64),
        "overloaded_pct": 100 * is_over.sum(axis=0) / whole, "above_capacity_pct": 100 * is_above.sum(axis=0) / whole,
        "n_pending": 0.0})
    total = max(int(n_in_use.sum()), 1)
    share = 100 * served.sum(axis=0) / (total * capacity)
    hours = float(n_in_use.sum()) * workload.interval_s / 3600
    return MixedResult(
        series, float(share[0]), float(share[1]), float(n_in_use.mean()), int(n_in_use.max(initial=0)), 0, (hours,),
        hours * machine_type.price_per_h, float(100 * is_over.sum() / total), float(100 * is_above.sum() / total),
        np.where(services.last < n_intervals, OUTCOMES.index("ended"), OUTCOMES.index("running")),
        *_of_requests(len(workload.batch), runs, horizon_ms))


def _of_services(workload: MixedWorkload) -> tuple[np.ndarray, np.ndarray]:
    """Use by services on each machine, float64 (n_machines, n_intervals, 2), and whether any is."""
    services = workload.services
    used = np.zeros((workload.n_machines, services.n_intervals, 2))
    is_there = np.zeros(used.shape[:2], bool)
    interval = np.arange(services.n_intervals)
    for k, machine in enumerate(services.machine.tolist()):
        is_running = (interval >= services.first[k]) & (interval < services.last[k])
        used[machine, is_running] += services.used[k, is_running]
        is_there[machine] |= is_running
    return used, is_there


def _mean_use(runs: RecordedRuns, start: np.ndarray, end: np.ndarray, shape: tuple[int, ...],
              interval_ms: int) -> np.ndarray:
    """Mean use of the runs in each interval, (n_machines, n_intervals, 2)."""
    part, step = np.zeros((shape[0], shape[1] + 1, 2)), np.zeros((shape[0], shape[1] + 2, 2))
    for time, sign in ((start, 1.0), (end, -1.0)):
        at = time // interval_ms
        np.add.at(part, (runs.machine, at), sign * runs.used * ((at + 1) * interval_ms - time)[:, None])
        np.add.at(step, (runs.machine, at + 1), sign * runs.used)
    return np.asarray(part[:, :shape[1]] / interval_ms + step.cumsum(axis=1)[:, :shape[1]])


def _of_requests(n: int, runs: RecordedRuns, horizon_ms: int) -> tuple[np.ndarray, ...]:
    """Outcome, host, last start, end, evictions and cost of each batch request."""
    outcome, host = np.full(n, OUTCOMES.index("waiting")), np.full(n, -1)
    started, ended = np.full(n, -1), np.full(n, -1)
    n_evicted, cost = np.zeros(n, np.int64), np.zeros(n, np.int64)
    is_next = np.append(np.diff(runs.request) == 0, False)
    is_within = runs.start_ms < horizon_ms
    last = np.flatnonzero(~is_next & is_within)
    request = runs.request[last]
    is_ended = (runs.end_ms[last] >= 0) & (runs.end_ms[last] <= horizon_ms)
    outcome[request] = np.where(is_ended, OUTCOMES.index("ended"), OUTCOMES.index("running"))
    host[request] = np.where(is_ended, -1, runs.machine[last])
    started[request], ended[request] = runs.start_ms[last], np.where(is_ended, runs.end_ms[last], -1)
    lost = np.flatnonzero(is_next)
    np.add.at(n_evicted, runs.request[lost], 1)
    np.add.at(cost, runs.request[lost], runs.start_ms[lost + 1] - runs.start_ms[lost])
    return outcome, host, started, ended, n_evicted, cost
