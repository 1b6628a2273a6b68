"""An elastic pool: hosts open when a request fits on none, and close when empty or emptied.

Any placement policy chooses among the hosts that are on, with any predictor. Defaults of
consolidation are those of today's autoscalers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from sojourn.simulator.cluster import NEVER, Cluster
from sojourn.simulator.engine import (
    PREDICTIONS,
    Loop,
    Run,
    check_form,
    compiled_source,
    composed,
    curves_for,
    is_packing_last,
    named_policy,
    state_of,
    tables_of,
)
from sojourn.simulator.loop import (
    ALLOCATED,
    BALANCED,
    BOOTED,
    CHEAPEST,
    COUNTS,
    DRAINED_BY_CHOICE,
    EFFICIENT,
    EXPIRED,
    HOSTS,
    LOG,
    MOVES,
    NO_PREDICTIONS,
    NO_RELEASE,
    NODES,
    NOT_PLACED,
    OFF,
    OPENED,
    PLAN,
    POOL,
    POOL_PARTS,
    PREDICTED,
    REGRET,
    RELEASE_EMPTY,
    RELEASED,
    REQUESTS,
    SETTINGS,
    SLOTS,
    TIMER,
    TYPES,
    UNIFORM,
    UPTIME,
    PoolWorld,
    no_ranking,
    pool_ranking,
)
from sojourn.simulator.policies import Policy, is_outdated
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.whole_numbers import check_setting, is_whole
from sojourn.simulator.workloads import NO_CONSTRAINTS, UNITS_PER, Workload, shares

_MODES = {"none": NO_RELEASE, "empty": RELEASE_EMPTY, "timer": TIMER, "regret": REGRET,
          "balanced": BALANCED}
_COSTS = {"uniform": UNIFORM, "uptime": UPTIME, "predicted": PREDICTED}


def pool_run(workload: Workload, prices: np.ndarray, policy: Policy, source: LifetimeSource | None, *, n_places: int,
             boot_s: int, idle_release_s: int, type_choice: int, consolidation: Consolidation) -> Run:
    """A pool with no host on, at time 0.

    workload: its hosts are one of each type. prices: float64 (n_types,), per hour. n_places: most
    hosts at once.
    """
    n, (n_types, n_resources) = len(workload.placed_s), workload.capacity.shape
    predictions = PREDICTIONS[policy.predictions]
    is_predicted = {"regret": True, "balanced": consolidation.cost == "predicted"}.get(consolidation.mode, False)
    needs_curves = predictions != NO_PREDICTIONS or is_predicted
    if is_predicted and source is None and predictions == NO_PREDICTIONS:
        raise ValueError(f"source must be given for consolidation by {consolidation.mode}, which uses predictions; "
                         "got None")
    curves = curves_for(workload, policy, source, needs_curves)
    hosts, requests = tables_of(workload, curves)
    hosts = np.repeat(hosts[:1], n_places)
    order = None
    if is_packing_last(policy) and is_outdated not in policy.scorers:
        order = pool_ranking(workload.capacity, workload.need, n_places)
    loop = compiled_pool_loop(policy, n_resources, is_ranked=order is not None)
    n_slots = n + n_places + (n_places if policy.hooks else 0)
    slots = np.zeros(n_slots, SLOTS)
    slots["time"], slots["position"] = NEVER, -1
    none = np.zeros(0, np.int64)
    row = functools.partial(np.zeros, dtype=np.int64)
    types = np.zeros(n_types, TYPES)
    types["price"] = prices
    nodes = np.zeros(n_places, NODES)
    nodes["first_moving"] = -1
    levels = row((2, 1 + 2 * n_resources))
    world = PoolWorld(
        Cluster(row((n_places, n_resources)), row((n_places, n_resources)), row(n_places), np.full(n_places, EXPIRED),
                np.full(n_places, OFF), row(n_places),
                state_of(policy, n_places, n, workload.resources.index("cpu_cores"))),
        requests, hosts, workload.need, curves.uptime_s, curves.total_s,
        none if curves.overhang_s is None else curves.overhang_s, order or no_ranking(n_resources), slots,
        np.zeros(0, PLAN), levels[0], levels[1],
        _record(SETTINGS, predictions=predictions, stop_row=-1, first_migration=n, first_host_event=n,
                first_deadline=n + n_places, cpu=workload.resources.index("cpu_cores")),
        _record(COUNTS, first_waiting=-1, last_waiting=-1),
        nodes, types,
        _record(POOL, boot_s=boot_s, idle_release_s=idle_release_s, type_choice=type_choice,
                mode=_MODES[consolidation.mode], is_restarting=consolidation.moving == "restart",
                is_reset_by_events=consolidation.is_reset_by_events, after_s=consolidation.after_s,
                recheck_s=consolidation.recheck_s, move_s=consolidation.move_s,
                move_cost_s=consolidation.move_cost_s,
                room_weight=consolidation.room_weight, trust=consolidation.trust,
                utilisation_max=consolidation.utilisation_max, k=consolidation.k,
                cost=_COSTS[consolidation.cost], cost_unit_s=consolidation.cost_unit_s),
        np.zeros(n, MOVES), np.zeros(4 * n, LOG), row(n_places + 1), workload.capacity)  # fmt: skip
    return Run(workload, policy, loop, world, (workload.trace.horizon_s,), [str(k) for k in range(n_places)])


@functools.cache
def compiled_pool_loop(policy: Policy, n_resources: int, *, is_ranked: bool) -> Loop:
    """The loop of an elastic pool with this policy's chain and hooks."""
    check_form(policy)
    text, names = composed(policy, n_resources, is_ranked=is_ranked, extent="pool", is_checked=False, parts=POOL_PARTS)
    row = functools.partial(np.zeros, dtype=np.int64)
    levels = row((2, 1 + 2 * n_resources))
    order = no_ranking(n_resources)
    nothing = PoolWorld(
        Cluster(row((1, n_resources)), row((1, n_resources)), row(1), row(1), np.full(1, OFF), row(1),
                state_of(policy, 1, 0)),
        np.zeros(0, REQUESTS), np.zeros(1, HOSTS), row((0, n_resources)), row(0), row(0), row(0),
        order, np.zeros(0, SLOTS), np.zeros(0, PLAN), levels[0], levels[1], np.zeros(1, SETTINGS), np.zeros(1, COUNTS),
        np.zeros(1, NODES), np.zeros(1, TYPES), np.zeros(1, POOL), np.zeros(0, MOVES), np.zeros(0, LOG),
        row(2), row((1, n_resources)))  # fmt: skip
    return compiled_source(policy, text, names, (nothing, 0))


def _record(kind: np.dtype[Any], **values: float) -> np.ndarray:
    record = np.zeros(1, kind)
    for name, value in values.items():
        record[name] = value
    return record


_LOG_WORDS = {OPENED: "opened", BOOTED: "booted", DRAINED_BY_CHOICE: "drained", RELEASED: "released"}


@dataclass(frozen=True, slots=True)
class PoolResult:
    """One replay on an elastic pool, from 0 to the horizon.

    host_h: hours of hosts that were on, booting and drained ones included; price: their cost. Lower
        is better. host_h_by_type: hours by type.
    bound_host_h: for each resource, the hours of hosts that total demand would fill completely, on
        the type with the most of it; no pool needs less.
    utilisation_pct: amounts in use, of the hosts that were on, per resource; higher is better.
    most_hosts: on at once. n_opened: times that a host was opened. n_drained: hosts emptied by
        choice.
    n_moves: requests that left such hosts: migrations, or evictions if they start over; lower is
        better.
    lost_core_h: core-hours that evicted requests had run for; lower is better.
    n_requests, n_rejected: those that came, and those for which a full pool had no room.
    mean_wait_s, wait_p50_s, wait_p95_s: from arrival to begin, of those placed; lower is better.
    wait_s: int64 (n_requests,), -1 = rejected. host: int64 (n_requests,), place of each request's
        first host, or -1.
    log: `time_s`, `what` (opened, booted, drained, released), `host` (its place), `type`, in order.
    n_checks: checks of hosts for consolidation. n_events: arrivals and departures.
    elapsed_s: time of the loop alone; compile_s: time to compile it or to load it from the cache.
    """

    host_h: float
    price: float
    host_h_by_type: Mapping[str, float]
    bound_host_h: Mapping[str, float]
    utilisation_pct: Mapping[str, float]
    most_hosts: int
    n_opened: int
    n_drained: int
    n_moves: int
    lost_core_h: float
    n_requests: int
    n_rejected: int
    mean_wait_s: float
    wait_p50_s: float
    wait_p95_s: float
    wait_s: np.ndarray
    host: np.ndarray
    log: pd.DataFrame
    n_checks: int
    n_events: int
    elapsed_s: float
    compile_s: float

    @property
    def events_per_s(self) -> float:
        """Arrivals and departures per second of the loop."""
        return self.n_events / max(self.elapsed_s, 1e-9)

    def hosts_over_time(self) -> pd.DataFrame:
        """How many hosts are on from each `time_s` on, `n_on`; one row per time at which it changes."""
        step = self.log["what"].map({"opened": 1, "released": -1}).fillna(0).astype(np.int64)
        change = step.groupby(self.log["time_s"]).sum()
        change = change[change != 0]
        return pd.DataFrame({"time_s": change.index.to_numpy(np.int64), "n_on": change.cumsum().to_numpy(np.int64)})


def pool_result(run: Run, type_names: Sequence[str], elapsed_s: float) -> PoolResult:
    """The figures of a finished run."""
    workload, world = run.workload, run.world
    pool, requests, host_s = world.pool[0], world.requests, world.types["host_s"]
    names, n_resources = workload.resources, len(workload.resources)
    provided = (host_s[:, None].astype(np.float64) * workload.capacity).sum(axis=0)
    used = shares(world.total[ALLOCATED:ALLOCATED + n_resources], provided)
    wait_s = requests["wait_s"].astype(np.int64)
    waits = wait_s[wait_s >= 0]
    p50, p95 = np.quantile(waits, [0.5, 0.95]) if len(waits) else (0.0, 0.0)
    log = world.log[:pool["n_logged"]]
    return PoolResult(
        host_h=float(host_s.sum() / 3600),
        price=float((host_s * world.types["price"]).sum() / 3600),
        host_h_by_type={name: float(on_s / 3600) for name, on_s in zip(type_names, host_s.tolist(), strict=True)},
        bound_host_h={name: float(amount) for name, amount in zip(names, _bound_h(workload), strict=True)},
        utilisation_pct={name: float(100 * share) for name, share in zip(names, used, strict=True)},
        most_hosts=int(pool["most_on"]),
        n_opened=int(pool["n_opened"]),
        n_drained=int(pool["n_drained"]),
        n_moves=int(pool["n_moves"]),
        lost_core_h=float(pool["lost"] / UNITS_PER["cpu_cores"] / 3600),
        n_requests=len(requests),
        n_rejected=int((requests["first_host"] == NOT_PLACED).sum()),
        mean_wait_s=float(waits.mean()) if len(waits) else 0.0,
        wait_p50_s=float(p50),
        wait_p95_s=float(p95),
        wait_s=wait_s,
        host=requests["first_host"].astype(np.int64),
        log=pd.DataFrame({"time_s": log["time_s"], "what": pd.Series(log["what"]).map(_LOG_WORDS),
                          "host": log["host"], "type": [type_names[k] for k in log["kind"]]}),
        n_checks=int(pool["n_checks"]),
        n_events=int(world.counts["n_events"][0]),
        elapsed_s=elapsed_s,
        compile_s=run.loop.compile_s,
    )


def _bound_h(workload: Workload) -> list[float]:
    """Demand over time in hours of the host with the most of each resource; 0 if no host has it."""
    lasts_s = np.diff(np.append(workload.demand.time_s, workload.trace.horizon_s))
    amount = (workload.demand.amount * lasts_s[:, None].astype(np.float64)).sum(axis=0)
    return [float(hours) for hours in shares(amount, workload.capacity.max(axis=0)) / 3600]


@dataclass(frozen=True, slots=True)
class BootLag:
    """Seconds from a machine's order to its first request: normal, redrawn outside low_s..high_s.

    The defaults follow the CTCL paper (table III: "4-7 min", "generated under a normal
    distribution"). It gives no mean and no spread: the mean is the middle, and 99.7 % of the draws
    lie within.

    >>> BootLag().drawn_s(np.random.default_rng(0), 3).round(1).tolist()
    [333.8, 326.0, 349.2]
    """

    mean_s: float = 330.0
    sd_s: float = 30.0
    low_s: float = 240.0
    high_s: float = 420.0

    def __post_init__(self) -> None:
        if not 0 <= self.low_s <= self.mean_s <= self.high_s < math.inf:
            raise ValueError(f"low_s, mean_s and high_s must be 0 or more, finite and in this order, got "
                             f"{self.low_s!r}, {self.mean_s!r} and {self.high_s!r}")
        if not 0 <= self.sd_s < math.inf or (self.sd_s > 0 and self.low_s == self.high_s):
            raise ValueError(f"sd_s must be 0 or more, finite, and 0 where low_s is high_s, got {self.sd_s!r}")

    def drawn_s(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n lags, float64 (n,)."""
        lag_s = rng.normal(self.mean_s, self.sd_s, n)
        while (is_bad := (lag_s < self.low_s) | (lag_s > self.high_s)).any():
            lag_s[is_bad] = rng.normal(self.mean_s, self.sd_s, int(is_bad.sum()))
        return lag_s


@dataclass(frozen=True, slots=True)
class MachineType:
    """capacities: by resource, in a trace's units (`cpu_cores`, `mem_gib`, ...). price_per_h: in any one currency.

    >>> MachineType("small", {"cpu_cores": 2, "mem_gib": 8}, 0.1).capacities["mem_gib"]
    8
    """

    name: str
    capacities: Mapping[str, float]
    price_per_h: float
    boot_lag: BootLag = field(default=BootLag())

    def __post_init__(self) -> None:
        bad = [name for name, amount in self.capacities.items() if not 0 <= amount < math.inf]
        if bad or not any(self.capacities.values()):
            raise ValueError(f"capacities of {self.name} must be 0 or more, finite, and not all 0, got "
                             f"{dict(self.capacities)!r}")
        if not 0 <= self.price_per_h < math.inf:
            raise ValueError(f"price_per_h of {self.name} must be 0 or more and finite, got {self.price_per_h!r}")


MEM_UNIT_GIB = 384.0
"""The paper's normalised unit of memory; its default type, ecs.ebmg5s.24xlarge, has 4 a core."""
_TABLE_II = (("ecs.ebmc5s.24xlarge", 0.5, 0.885), ("ecs.ebmg5s.24xlarge", 1.0, 1.0), ("ecs.ebmr5s.24xlarge", 2.0, 1.31))
MACHINE_TYPES: Mapping[str, MachineType] = MappingProxyType({
    name: MachineType(name, MappingProxyType({"cpu_cores": 96.0, "mem_gib": units * MEM_UNIT_GIB}), price)
    for name, units, price in _TABLE_II})
"""Table II of the CTCL paper. It gives no prices: these are relative to the default type, as is
common for list prices of types with 2, 4 and 8 GiB per core. Set your own prices if they matter."""
DEFAULT_TYPE = MACHINE_TYPES["ecs.ebmg5s.24xlarge"]


def type_capacities(types: Sequence[MachineType], resources: Sequence[str]) -> np.ndarray:
    """int64 (n_types, n_resources): milli-cores, MiB, milli-GPU, thousandths of others; else 0.

    Refused with ValueError: no type, and two of one name.

    >>> type_capacities([DEFAULT_TYPE], ("cpu_cores", "mem_gib", "gpu")).tolist()
    [[96000, 393216, 0]]
    """
    names = [each.name for each in types]
    if not names:
        raise ValueError("types must hold at least one machine type, got none")
    if len(set(names)) < len(names):
        raise ValueError(f"types must have different names, got {names!r}")
    return np.array([[round(each.capacities.get(name, 0.0) * UNITS_PER.get(name, 1000)) for name in resources]
                     for each in types], np.int64)


def fits_a_type(demand: np.ndarray, capacities: np.ndarray) -> np.ndarray:
    """Whether each demand fits on an empty machine of some type, bool (n,).

    demand: (n, n_resources). capacities: (n_types, n_resources), same units.

    >>> fits_a_type(np.array([[4, 1], [1, 4], [4, 4]]), np.array([[4, 2], [2, 4]])).tolist()
    [True, True, False]
    """
    return np.asarray(np.less_equal(demand[:, None, :], capacities[None, :, :]).all(axis=2).any(axis=-1))


Mode = Literal["none", "empty", "timer", "regret", "balanced"]
Cost = Literal["uniform", "uptime", "predicted"]
Moving = Literal["live", "restart"]


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Which hosts of an elastic pool are turned off, and how requests leave them.

    mode: `none` keeps every host that was opened; `empty` releases empty hosts; `timer` also
        empties a host that has been below `utilisation_max` for `after_s`, if all its requests fit
        on other hosts in use; `regret` does so only if it is also predicted to pay; `balanced` only
        if it is worth its evictions by Karpenter's rule: the host's share of the pool's price is at
        least 1/k of its share of the pool's cost, where a host costs 1 and what its requests cost.
    after_s: how long a host must have been below `utilisation_max` before it is checked (600 s: the
        cluster autoscaler's scale-down-unneeded-time; Karpenter's consolidateAfter).
    utilisation_max: the largest share in use of any resource of a host that is checked (0.5: the
        cluster autoscaler's scale-down-utilization-threshold); above 1 = any host.
    is_reset_by_events: whether each arrival or departure on a host restarts `after_s`, as Karpenter
        does; else it runs while the host stays below `utilisation_max`.
    recheck_s: time until a host that stayed on is checked again.
    moving: `live` migrates a request, which holds room on both hosts for `move_s` (1,200 s: LAVA,
        section 4.4); `restart` ends it and starts it over on the other host at once, so its
        progress is lost.
    move_cost_s: fixed cost of a move in `regret`, host-seconds.
    room_weight: how much of a restarted request's room on its target counts as a cost in `regret`,
        0..1: 0 if no other request would have used it, 1 if one would have needed a new host. Not
        used for live moves, whose saving ends when the room is needed.
    trust: share of the predicted saving that counts in `regret`, 0..1; for live moves also of the
        predicted extension of other hosts. The latest of several uncertain exits is predicted too
        late.
    k: Karpenter's consolidationThreshold (its policy Balanced has 2); higher = more hosts are emptied.
    cost: what an eviction costs in `balanced`: `uniform` 1; `uptime` uptime over `cost_unit_s`;
        `predicted` uptime over predicted remaining time, of which at most `cost_unit_s` count. The
        last two as a power of 2 from 1/16 to 8.

    >>> Consolidation("timer", after_s=-1)
    Traceback (most recent call last):
    ValueError: after_s must be a whole number, 0 or more, got -1
    """

    mode: Mode = "timer"
    after_s: int = 600
    utilisation_max: float = 0.5
    is_reset_by_events: bool = False
    recheck_s: int = 60
    moving: Moving = "live"
    move_s: int = 1_200
    move_cost_s: int = 0
    room_weight: float = 1.0
    trust: float = 1.0
    k: float = 2.0
    cost: Cost = "uniform"
    cost_unit_s: int = 21_600

    def __post_init__(self) -> None:
        for name, value, known in (("mode", self.mode, get_args(Mode)), ("moving", self.moving, get_args(Moving)),
                                   ("cost", self.cost, get_args(Cost))):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        for name, seconds, least in (("after_s", self.after_s, 0), ("recheck_s", self.recheck_s, 1),
                                     ("move_s", self.move_s, 1), ("move_cost_s", self.move_cost_s, 0),
                                     ("cost_unit_s", self.cost_unit_s, 1)):
            if not is_whole(seconds, least):
                raise ValueError(f"{name} must be a whole number, {least} or more, got {seconds!r}")
        for name, share in (("room_weight", self.room_weight), ("trust", self.trust)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name} must be in 0..1, got {share!r}")
        for name, number in (("utilisation_max", self.utilisation_max), ("k", self.k)):
            if not 0.0 < number < math.inf:
                raise ValueError(f"{name} must be finite and above 0, got {number!r}")


TypeChoice = Literal["cheapest", "efficient"]
_CHOICES = {"cheapest": CHEAPEST, "efficient": EFFICIENT}
_ROOM = 4
"""Places for hosts, as a multiple of the hosts that peak demand needs."""


@dataclass(frozen=True, slots=True)
class ElasticPool:
    """The types of hosts, and when hosts open and close.

    types: at least one. type_choice: the type of a new host, among those on which the request fits:
        `cheapest`, or `efficient`, the least price of the request's largest share of a resource;
        ties go to the type listed first.
    boot_s: from the opening of a host until it takes requests, for every type (the random
        `boot_lag` of types is not used); its time costs. A request that fits on no host that is on
        takes room on one that boots, or opens a new one, and begins when that is ready.
    idle_release_s: how long a host is empty before it is released. most_hosts: on at once, booting
    ones included; None = four times the hosts that peak demand needs. A
        request without room is then rejected.

    >>> from sojourn.simulator.pool.pool import DEFAULT_TYPE
    >>> ElasticPool((DEFAULT_TYPE,)).boot_s
    120
    """

    types: tuple[MachineType, ...]
    type_choice: TypeChoice = "efficient"
    boot_s: int = 120
    idle_release_s: int = 600
    most_hosts: int | None = None
    consolidation: Consolidation = field(default_factory=Consolidation)

    def __post_init__(self) -> None:
        if not self.types:
            raise ValueError("types must be at least one type of host, got none")
        if len({kind.name for kind in self.types}) < len(self.types):
            raise ValueError(f"types must have different names, got {', '.join(kind.name for kind in self.types)}")
        if self.type_choice not in get_args(TypeChoice):
            raise ValueError(f"type_choice must be one of {', '.join(get_args(TypeChoice))}, got {self.type_choice!r}")
        for name, seconds in (("boot_s", self.boot_s), ("idle_release_s", self.idle_release_s)):
            if not is_whole(seconds, 0):
                raise ValueError(f"{name} must be a whole number, 0 or more, got {seconds!r}")
        if self.most_hosts is not None:
            check_setting(self.most_hosts, 1, "most_hosts")


def simulate_pool(workload: Workload, pool: ElasticPool, policy: str | Policy = "best-fit",
                  source: LifetimeSource | None = None) -> PoolResult:
    """The outcome of replaying a workload's requests on an elastic pool, which begins with no host
    on.

    The workload's hosts are ignored. source: policies that use predictions, and `regret`, need one.
    Refused with ValueError: a request larger than every type, rules besides room, and all that
    `simulate` refuses.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 3600], "departure_s": [3600, 10800],
    ...                       "cpu_cores": [6.0, 2.0], "mem_gib": [8.0, 8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 14400), cpu_cores=8, mem_gib=32, n_hosts=1)
    >>> pool = ElasticPool((MachineType("h", {"cpu_cores": 8.0, "mem_gib": 32.0}, 1.0),), boot_s=0, idle_release_s=600)
    >>> simulate_pool(workload, pool).host_h  # on from 0 to 3 h, and 10 min empty
    3.1666666666666665
    """
    if workload.constraints != NO_CONSTRAINTS:
        raise ValueError(f"constraints must be none in an elastic pool, got {workload.constraints}")
    on_pool = replace(workload, hosts=_table(pool.types, workload.resources))
    n_places = min(pool.most_hosts or _places(on_pool), len(workload.placed_s))  # each host is opened by a request
    run = pool_run(on_pool, np.array([kind.price_per_h for kind in pool.types]), named_policy(policy), source,
                   n_places=n_places, boot_s=pool.boot_s, idle_release_s=pool.idle_release_s,
                   type_choice=_CHOICES[pool.type_choice], consolidation=pool.consolidation)
    elapsed_s = run.run()
    return pool_result(run, [kind.name for kind in pool.types], elapsed_s)


def _table(types: Sequence[MachineType], resources: Sequence[str]) -> pd.DataFrame:
    columns = {name: [float(kind.capacities.get(name, 0.0)) for kind in types] for name in sorted(resources)}
    return pd.DataFrame({"host_id": [kind.name for kind in types], **columns})


def _places(workload: Workload) -> int:
    """Places for hosts: `_ROOM` times the hosts of the smallest type at peak demand, and a few."""
    peak, most = workload.demand.peak(), 1
    for amount, rooms in zip(peak.tolist(), workload.capacity.T.tolist(), strict=True):
        least = min((room for room in rooms if room > 0), default=0)
        most = max(most, -(-amount // least) if least else 0)
    return int(_ROOM * most + 16)
