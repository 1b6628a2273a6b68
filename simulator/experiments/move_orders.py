"""What the order of migrations is worth by itself: the same batches, moved in one order or another (LAVA, section 5.1).

In a replay with migrations each order changes what later batches find. Here the batches are taken from a replay without
any, each an experiment of its own, so that orders differ in nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.engine import Migration, Result
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.workloads import Workload


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests to be moved off some hosts.

    at_s: when. rows: int64 (n,), the requests in the trace's order. position: int64 (n,), which of the batch's hosts
    each is on, 0 = the one with least in use.
    """

    at_s: int
    rows: np.ndarray
    position: np.ndarray


def batches(workload: Workload, result: Result, *, n_hosts: int = 3, every_s: int = 6 * 3600) -> Iterator[Batch]:
    """From the end of the warm-up each `every_s` the hosts in use that have the least in use: of the binding resource,
    then of the others, then the fewest requests, then the lowest index.

    result: of a replay of the workload without migrations, failures or queues.
    """
    for at_s in range(workload.warmup_s, workload.trace.horizon_s, every_s):
        is_there = (result.host >= 0) & (workload.placed_s <= at_s) & (workload.departure_s > at_s)
        rows = np.flatnonzero(is_there)
        used = np.zeros((len(workload.hosts), workload.need.shape[1] + 1), np.int64)
        np.add.at(used, result.host[rows], np.column_stack([workload.need[rows], np.ones(len(rows), np.int64)]))
        in_use = np.flatnonzero(used[:, -1])
        chosen = in_use[np.lexsort(used[in_use].T[::-1])][:n_hosts]
        position = np.full(len(workload.hosts), -1)
        position[chosen] = np.arange(len(chosen))
        rows = rows[position[result.host[rows]] >= 0]
        yield Batch(at_s, rows, position[result.host[rows]])


def n_carried_out(batch: Batch, ends_s: np.ndarray, expected_s: np.ndarray, migration: Migration) -> int:
    """How many of a batch's migrations are begun before their request ends; the others are spared.

    ends_s, expected_s: int64 (n,), when each of the batch's requests leaves, and when it is expected to. A slot is
    free again when its migration is done or its request has left. Batches stand alone: n_a_day is not asked.

    >>> two = Batch(0, np.array([4, 7]), np.array([0, 0]))
    >>> ends_s = np.array([900, 5000])
    >>> [n_carried_out(two, ends_s, ends_s, Migration(order, n_at_once=1)) for order in ("trace", "longest-first")]
    [2, 1]
    """
    if migration.order == "random":
        key = np.random.default_rng([migration.seed, batch.at_s]).permutation(len(batch.rows))
    else:
        key = expected_s * {"longest-first": -1, "shortest-first": 1, "trace": 0}[migration.order]
    position = batch.position if not migration.is_across else np.zeros_like(batch.position)
    free_s, n_begun = [batch.at_s] * migration.n_at_once, 0
    for k in np.lexsort((batch.rows, key, position)).tolist():
        if ends_s[k] > free_s[0]:
            heapq.heapreplace(free_s, int(min(free_s[0] + migration.duration_s, ends_s[k])))
            n_begun += 1
    return n_begun


def expected_exits(workload: Workload, source: LifetimeSource, batch: Batch) -> np.ndarray:
    """When each of a batch's requests is expected to leave, as predicted at its age then, int64 (n,)."""
    curves = source.curves(workload.trace.requests.iloc[batch.rows])
    start_s = workload.start_s[batch.rows].tolist()
    return np.array([start + curves.total_at(i, batch.at_s - start) for i, start in enumerate(start_s)], np.int64)
