"""A compiled loop with its world, ready for one run, and the error if the run fails.

If a scorer fails, it is called again in plain Python, host by host, so that the error names it.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.simulator.cluster import NEVER, WHOLE_GPU, Cluster, Request
from sojourn.simulator.engine.compilation import Loop, compiled_loop, is_walked, state_of
from sojourn.simulator.engine.composition import HOOKS, Extent, plain_function
from sojourn.simulator.engine.metrics import MigrationRecord
from sojourn.simulator.engine.pieces import PIECE, Pieces, columns_of, hosts_of, records_of
from sojourn.simulator.engine.policy_check import policy_functions
from sojourn.simulator.engine.upkeep import (
    ORDERS,
    Failure,
    Migration,
    Upkeep,
    defragmentation_of,
    host_events_of,
    plan_migrations,
)
from sojourn.simulator.loop import (
    ALL_CAME,
    BAD_DEADLINE,
    BAD_SCORE,
    COUNTS,
    CURRENT,
    EXPIRED,
    HOST_EVENTS,
    INITIAL,
    LOG_FULL,
    MIGRATION_LOG,
    NO_PREDICTIONS,
    OPEN,
    PAUSED,
    PLAN,
    RECTIFY,
    REQUESTS,
    SETTINGS,
    SLOTS,
    VIOLATIONS,
    PythonScores,
    Timeline,
    World,
    no_ranking,
    ranking,
    read_only,
)
from sojourn.simulator.policies import Policy
from sojourn.simulator.predictions import Curves, LifetimeSource, asked_curves, one_step
from sojourn.simulator.rectification import Rectify, non_migratable
from sojourn.simulator.workloads import NO_CONSTRAINTS, Workload, long_lived


@dataclass(slots=True)
class Run:
    """Everything that one run of a compiled loop reads and fills.

    world: `loop.World` or `PoolWorld`. arguments: the loop's other arguments. host_ids: ids of the
    world's hosts, for errors.
    """

    workload: Workload
    policy: Policy
    loop: Loop
    world: Any
    arguments: tuple[Any, ...]
    host_ids: Sequence[Any]

    def run(self) -> float:
        """Seconds that the loop and planners took; ValueError if the policy, the source or an invariant fails."""
        elapsed_s, code, python = 0.0, PAUSED, None
        while True:
            if self.policy.host_scores is not None:
                python = PythonScores(self.policy.host_scores, self.world)
            started = time.perf_counter()
            code = self._go_on()
            while self.resumes(code):
                code = self._go_on()
            elapsed_s += time.perf_counter() - started
            if code != ALL_CAME:
                break
            self.take_next()
        if python is not None and python.raised is not None:
            raised = python.raised
            if not isinstance(raised, Exception):
                raise raised
            raise ValueError(f"{self._culprit()} must not raise, got {type(raised).__name__}: {raised}") from raised
        if code == BAD_SCORE:
            fault = self._fault()
            raise ValueError(f"{self._culprit()} must score 0 or more, got less, infinity or NaN"
                             f"{f': {fault}' if fault else ''}")
        if code == BAD_DEADLINE:
            raise ValueError(f"policy {self.policy.name!r} must put a later deadline, or NEVER, when one has come; it "
                             f"did not for host {self._host_id()!r} at {self.world.counts['time_s'][0]} s")
        if code != 0:
            raise ValueError(f"{VIOLATIONS[code]}; it did not after event {self.world.counts['n_events'][0]} "
                             f"under policy {self.policy.name!r}")
        return elapsed_s

    def resumes(self, code: int) -> bool:
        """Whether the loop goes on with the same tables, after a pause that is over now."""
        return False

    def take_next(self) -> None:
        """Put further requests in the tables."""

    def _go_on(self) -> int:
        """The loop's code at its end, or at a pause."""
        try:
            return self.loop.replay(self.world, *self.arguments)
        except IndexError as error:  # functions of users are compiled with bounds checks
            rule = "must read arrays within their bounds"
            raise ValueError(f"{self._culprit()} {rule}, got {self._fault() or f'IndexError: {error}'}") from error
        except Exception as error:
            raise ValueError(f"{self._culprit()} must not raise, got {type(error).__name__}: {error}") from error

    def _culprit(self) -> str:
        counts = self.world.counts[0]
        places = []
        if counts["last_row"] >= 0:
            row = self.world.requests["row"][counts["last_row"]]
            places.append(f"request {self.workload.request_ids[[row]].tolist()[0]!r}")
        action = "asked about"
        if counts["hook"] > 0:
            action = f"in hook {list(HOOKS)[counts['hook'] - 1]!r} of"
            places.append(f"host {self._host_id()!r}")
        return f"policy {self.policy.name!r}, {action} {' and '.join(places)} at {counts['last_s']} s,"

    def _fault(self) -> str:
        return scorer_fault(self.policy, self.world, self.host_ids)

    def _host_id(self) -> Any:
        return self.host_ids[self.world.counts["last_host"][0]]


MOST_GPUS = 62
"""The bits of `Cluster.gpu_held`."""
N_BINS = 500
N_SAMPLES = 96
PREDICTIONS = {"none": NO_PREDICTIONS, "initial": INITIAL, "current": CURRENT}
"""The loop's codes of `Policy.predictions`."""


@dataclass(slots=True)
class Prepared(Run):
    """A run on a fixed pool. record: its migrations; None without upkeep and without a rectifier."""

    timeline: Timeline
    pieces: Pieces
    record: MigrationRecord | None
    rectify: Rectify | None

    def resumes(self, code: int) -> bool:
        """Empty the log of migrations; plan the day's migrations if the loop paused for them."""
        if self.record is None or code not in (PAUSED, LOG_FULL, ALL_CAME):
            return False
        self.record.take_over(self.world)
        if code == PAUSED and self.rectify is not None:
            plan_migrations(self.world, self.rectify, self.workload.resources.index("cpu_cores"), self.record,
                            self.pieces.held)
        return code != ALL_CAME

    def take_next(self) -> None:
        """Put the next piece's requests in the tables, and take out those that have ended."""
        self.world = self.pieces.shortened(self.world)
        self.world = self.pieces.lengthened(self.world)
        timeline, _, host_events = self.arguments
        self.arguments = (timeline, _by_departure(self.world), host_events)


def prepared(workload: Workload, policy: Policy, source: LifetimeSource | None, *, is_ranked: bool | None,
             upkeep: Sequence[Upkeep], migration: Migration, is_checked: bool, stop_row: int,
             rectify: Rectify | None = None) -> Prepared:
    """A run with its world at time 0, nothing placed; it refuses what `simulate` refuses."""
    n, (n_hosts, n_resources) = len(workload.placed_s), workload.capacity.shape
    host_events = host_events_of(upkeep, n_hosts, workload.trace.horizon_s)
    is_emptying = any(not isinstance(entry, Failure) for entry in upkeep)
    is_migrating = is_emptying or rectify is not None
    if rectify is not None:
        host_events = _with_rectifying(host_events, rectify.times_s(workload.trace.horizon_s))
    predictions = PREDICTIONS[policy.predictions]
    if predictions == NO_PREDICTIONS and is_emptying and migration.is_predicting:
        predictions = CURRENT  # for the order of migrations, though the chain uses none
    min_empty, batch_hosts = defragmentation_of(upkeep, n_hosts)
    is_predicted = predictions != NO_PREDICTIONS or rectify is not None
    columns = columns_of(workload, None if rectify is None else non_migratable(workload, rectify))
    order = None
    if is_ranked is not False and is_walked(policy):
        order = ranking(workload.capacity, workload.need)
    if is_ranked and order is None:
        raise ValueError(f"is_ranked must be False or None for policy {policy.name!r} on these hosts, got True")
    is_full = is_migrating or bool(upkeep) or policy.is_queueing or workload.constraints != NO_CONSTRAINTS
    extent: Extent = "full" if is_full else "hooks" if policy.hooks is not None else "plain"
    _check_source(policy, source, is_predicted)
    loop = compiled_loop(policy, n_resources, is_ranked=order is not None, extent=extent, is_checked=is_checked)
    cpu = workload.resources.index("cpu_cores")
    settings = _record(
        SETTINGS, predictions=predictions, is_queueing=policy.is_queueing,
        has_kinds=workload.constraints.host_type is not None, has_groups=workload.constraints.apart_by is not None,
        stop_row=-1, first_deadline=len(host_events), n_at_once=migration.n_at_once,
        duration_s=migration.duration_s, n_a_day=NEVER if migration.n_a_day is None else migration.n_a_day,
        min_empty=min_empty, batch_hosts=batch_hosts,
        move_order=ORDERS[migration.order], is_across=migration.is_across, seed=migration.seed,
        long_s=long_lived(workload).threshold_s, cpu=cpu,
        mem=workload.resources.index("mem_gib") if "mem_gib" in workload.resources else -1)  # fmt: skip
    none = np.zeros(0, np.int64)
    levels = np.zeros((2, 1 + 2 * n_resources), np.int64)
    levels[0, 0] = n_hosts
    world = World(
        Cluster(workload.capacity.copy(), workload.capacity.copy(), np.zeros(n_hosts, np.int64),
                np.full(n_hosts, EXPIRED), np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.int64),
                state_of(policy, n_hosts, n, workload.resources.index("cpu_cores")), *gpus_of(workload)),
        np.zeros(0, REQUESTS), hosts_of(workload), workload.need[:0], none, none, none,
        no_ranking(n_resources) if order is None else order,
        _slots(len(host_events) + (n_hosts if policy.hooks else 0), host_events), np.zeros(0, PLAN),
        np.zeros(0, MIGRATION_LOG), levels[0], levels[1], settings,
        _record(COUNTS, first_waiting=-1, last_waiting=-1, heap_size=len(host_events)),
    )  # fmt: skip
    timeline = _timeline(workload, policy, int(np.max(columns["owner"], initial=-1)) + 1)
    is_logging = bool(upkeep) or rectify is not None
    record = None
    if is_logging:
        record = MigrationRecord(None if rectify is None else rectify.planner, host_events, migration.duration_s)
    has_residents = policy.hooks is not None and "resident" in policy.hooks.given()
    is_asked_once = predictions == CURRENT and extent != "full" and not has_residents and stop_row < 0
    pieces = Pieces(columns, workload.need, functools.partial(curves_for, workload, policy, source, is_predicted),
                    workload.warmup_s, policy.is_queueing, is_migrating, is_logging, is_asked_once,
                    rectify is not None, stop_row, PIECE)
    run = Prepared(workload, policy, loop, world, (timeline, none, host_events), workload.hosts["host_id"].tolist(),
                   timeline, pieces, record, rectify)
    run.take_next()
    return run


def _by_departure(world: World) -> np.ndarray:
    return np.argsort(world.requests["departure_s"], kind="stable")


def curves_for(workload: Workload, policy: Policy, source: LifetimeSource | None, is_needed: bool, first: int = 0,
               end: int | None = None) -> Curves:
    """The source's curves of the rows from `first` up to `end` (None = all); placeholders if they are not needed.

    ValueError if a needed source is None.
    """
    _check_source(policy, source, is_needed)
    if not is_needed or source is None:
        return one_step(np.zeros((len(workload.placed_s) if end is None else end) - first, np.int64))
    return asked_curves(workload, policy.name, source, first, end)


def _check_source(policy: Policy, source: LifetimeSource | None, is_needed: bool) -> None:
    if is_needed and source is None:
        user = "which uses" if policy.predictions != "none" else "whose migrations are ordered by"
        raise ValueError(f"source must be given for policy {policy.name!r}, {user} predictions; got None")


def tables_of(workload: Workload, curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """The tables of hosts and of all requests before the first event."""
    return hosts_of(workload), records_of(columns_of(workload), curves, 0, len(workload.placed_s))


def gpus_of(workload: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The GPUs of empty hosts for `Cluster`: gpu_free, gpu_held of no request, and gpu_dimension.

    No columns unless each host has whole GPUs, up to MOST_GPUS, and each request asks for whole ones or a part of one.
    """
    if "gpu" in workload.resources:
        d = workload.resources.index("gpu")
        of_host, of_request = workload.capacity[:, d], workload.need[:, d]
        is_whole = (of_host % WHOLE_GPU == 0).all() and of_host.max(initial=0) <= MOST_GPUS * WHOLE_GPU
        if is_whole and ((of_request < WHOLE_GPU) | (of_request % WHOLE_GPU == 0)).all():
            number = np.arange(of_host.max(initial=0) // WHOLE_GPU)
            return (np.where(number < of_host[:, None] // WHOLE_GPU, WHOLE_GPU, 0),
                    np.zeros((0, 4), np.int64), np.array([d]))
    return np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64), np.zeros(0, np.int64)


def _with_rectifying(host_events: np.ndarray, times_s: list[int]) -> np.ndarray:
    """Host events with the times at which a rectifier plans, each after the other events of its second."""
    planning = np.array([(time_s, RECTIFY, 0) for time_s in times_s], HOST_EVENTS)
    whole = np.concatenate([host_events, planning])
    return np.asarray(whole[np.argsort(whole["time_s"], kind="stable")])


def _slots(n_slots: int, host_events: np.ndarray) -> np.ndarray:
    """The agenda with the host events; in order of time they are a heap already."""
    slots = np.zeros(n_slots, SLOTS)
    slots["time"], slots["position"] = NEVER, -1
    idx = np.arange(len(host_events))
    slots["time"][idx] = host_events["time_s"]
    slots["position"][idx] = slots["heap"][idx] = idx
    return slots


def _timeline(workload: Workload, policy: Policy, n_owners: int) -> Timeline:
    """Marks at which integrals are read, the edges of bins among them; samples at the start of some bins."""
    n_hosts, n_resources = workload.capacity.shape
    edges = bin_edges(workload.trace.horizon_s)
    last = len(edges) - 2
    samples = edges[np.unique(np.linspace(0, last, min(N_SAMPLES, last + 1)).astype(np.int64))]
    # integrals are read at the warm-up's end, counts after the second before it
    mark_s = np.union1d(edges, [max(workload.warmup_s - 1, 0), workload.warmup_s]).astype(np.int64)
    sample = np.full(len(mark_s), -1)
    sample[np.searchsorted(mark_s, samples)] = np.arange(len(samples))
    shape = (len(samples), n_hosts)
    is_state_sampled = policy.hooks is not None and bool(policy.hooks.sampled)
    n_running, last_end_s, n_long, long_cpu, n_owned, n_exposed = (np.zeros(shape, np.int64) for _ in range(6))
    return Timeline(mark_s, np.zeros((len(mark_s), 1 + 2 * n_resources), np.int64), np.zeros(len(mark_s), COUNTS),
                    sample, np.zeros((*shape, n_resources), np.int64), n_running, last_end_s, n_long,
                    long_cpu, n_owned, n_exposed, np.zeros(n_owners, np.int64),
                    np.zeros(shape if is_state_sampled else (0, n_hosts), np.int64))


def bin_edges(horizon_s: int) -> np.ndarray:
    """Edges of the bins of a series, int64, from 0 to the horizon."""
    return np.unique(np.linspace(0, horizon_s, min(N_BINS, horizon_s) + 1).astype(np.int64))


def _record(kind: np.dtype[Any], **values: int) -> np.ndarray:
    record = np.zeros(1, kind)
    for name, value in values.items():
        record[name] = value
    return record


def scorer_fault(policy: Policy, world: World, host_ids: Sequence[Any]) -> str:
    """The failing scorer, its result or exception, and the host; "" if none fails or no decision failed."""
    counts = world.counts[0]
    row, now = int(counts["last_row"]), int(counts["last_s"])
    if row < 0 or counts["hook"] > 0 or policy.host_scores is not None:
        return ""
    request, cluster = _request(world, row, now), world.cluster
    is_scored = (cluster.free >= world.need[row]).all(axis=1) & (cluster.closed == OPEN)
    n_resources = world.need.shape[1]
    for host in np.flatnonzero(is_scored).tolist():
        for kind, function in policy_functions(policy):
            lasts = {"scorer": [now], "filter": [now], "scorer per resource": range(n_resources)}.get(kind, [])
            for last in lasts:
                fault = _fault_of(plain_function(function), _read_only(cluster), host, request, last, kind == "filter")
                if fault:
                    return f"{fault} from {kind.split()[0]} {function.__name__!r} for host {host_ids[host]!r}"
    return ""


def _fault_of(plain: Any, cluster: Cluster, host: int, request: Request, last: int, is_filter: bool) -> str:
    """The function's exception or wrong score, or ""."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            score = plain(cluster, host, request, last)
        except Exception as error:  # any of them: it becomes the message
            return f"{type(error).__name__}: {error}"
    return "" if is_filter or 0 <= score < np.inf else str(score)


def _request(world: World, row: int, now: int) -> Request:
    """The request as the chain saw it."""
    record = world.requests[row]
    curve = slice(int(record["curve_start"]), int(record["curve_end"]))
    return Request(int(record["row"]), read_only(world.need[row]), int(record["exit_s"]), now - int(record["start_s"]),
                   read_only(world.uptime_s[curve]), read_only(world.overhang_s[curve]), row)


def _read_only(cluster: Cluster) -> Cluster:
    state = cluster.state
    arrays_of_state = read_only(state) if isinstance(state, np.ndarray) else type(state)(*map(read_only, state))
    arrays = {name: read_only(array) for name, array in cluster._asdict().items() if name != "state"}
    return Cluster(**arrays, state=arrays_of_state)
