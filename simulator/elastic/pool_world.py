"""A world of an elastic pool made ready for one run of its loop, compiled with a policy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sojourn.simulator.cluster import NEVER, Cluster
from sojourn.simulator.elastic.consolidation import Consolidation
from sojourn.simulator.engine import (
    PREDICTIONS,
    Loop,
    Run,
    check_form,
    compiled_source,
    composed,
    curves_for,
    is_packing_last,
    state_of,
    tables_of,
)
from sojourn.simulator.loop import (
    COUNTS,
    EXPIRED,
    HOSTS,
    LOG,
    MOVES,
    NO_PREDICTIONS,
    NO_RELEASE,
    NODES,
    OFF,
    PLAN,
    POOL,
    POOL_PARTS,
    REGRET,
    RELEASE_EMPTY,
    REQUESTS,
    SETTINGS,
    SLOTS,
    TIMER,
    TYPES,
    PoolWorld,
    no_ranking,
    pool_ranking,
)
from sojourn.simulator.policies import Policy
from sojourn.simulator.policies.wrappers import is_outdated
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.workloads import Workload

_MODES = {"none": NO_RELEASE, "empty": RELEASE_EMPTY, "timer": TIMER, "regret": REGRET}


def pool_run(workload: Workload, prices: np.ndarray, policy: Policy, source: LifetimeSource | None, *, n_places: int,
             boot_s: int, idle_release_s: int, type_choice: int, consolidation: Consolidation) -> Run:
    """A pool with no host on, at time 0.

    workload: its hosts are one of each type. prices: float64 (n_types,), of an hour. n_places: most hosts at once.
    """
    n, (n_types, n_resources) = len(workload.placed_s), workload.capacity.shape
    predictions = PREDICTIONS[policy.predictions]
    is_asked = predictions != NO_PREDICTIONS or consolidation.mode == "regret"
    if is_asked and source is None and predictions == NO_PREDICTIONS:
        raise ValueError("source must be given for consolidation by regret, which uses predictions; got None")
    curves = curves_for(workload, policy, source, is_asked)
    hosts, requests = tables_of(workload, curves)
    hosts = np.repeat(hosts[:1], n_places)
    order = None
    if is_packing_last(policy) and is_outdated not in policy.scorers:
        order = pool_ranking(workload.capacity, workload.need, n_places)
    loop = compiled_pool_loop(policy, n_resources, is_ranked=order is not None)
    n_slots = n + n_places + (n_places if policy.hooks else 0)
    slots = np.zeros(n_slots, SLOTS)
    slots["time_s"], slots["position"] = NEVER, -1
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
                utilisation_max=consolidation.utilisation_max),
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
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = value
    return made
