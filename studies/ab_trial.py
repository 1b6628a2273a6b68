"""A/B in one pool (LAVA, section 5.2), and orders of migration on the same batches (section 5.1).

In an A/B hosts are split at random into two halves, one under another policy. In a replay with
migrations each order changes the hosts of later batches. So the batches come from a replay without
migrations, each a separate experiment, and orders differ in nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.trace import Trace
from sojourn.simulator import LifetimeSource, Migration, Policy, Result, Workload, simulate
from sojourn.simulator.experiments import BASELINE
from sojourn.simulator.workloads import fits_somewhere

SourceFor = Callable[[Workload], LifetimeSource | None]
"""Predictions for a workload: each half needs its own oracle."""


def halves(workload: Workload, rng: np.random.Generator) -> tuple[Workload, Workload]:
    """The pool as two pools, each with half of the hosts and a part of the requests, at random.

    Each request goes to a half with the probability of that half's share of the binding resource,
    for any policy and load, and stays there: if it does not fit, the other half is not tried. (One
    scheduler for both would send each request to its best score; then the halves would get
    different demand and could not be compared.) A request larger than every host of its half goes
    to the other.

    ValueError for a workload with constraints or fewer than 2 hosts, or a half without requests.

    >>> from sojourn.features.synthetic import synthesize
    >>> import sojourn.simulator as sim
    >>> workload = sim.build_workload("synthetic", synthesize(1_000, seed=0), n_hosts=9)
    >>> [len(half.hosts) for half in halves(workload, np.random.default_rng(0))]
    [5, 4]
    """
    n_hosts = len(workload.hosts)
    if n_hosts < 2:
        raise ValueError(f"hosts must be at least 2 to be split, got {n_hosts}")
    if workload.constraints.host_type is not None or workload.constraints.apart_by is not None:
        raise ValueError("workload must have no constraints on hosts to be split, got some")
    is_in_a = np.zeros(n_hosts, bool)
    is_in_a[rng.permutation(n_hosts)[:(n_hosts + 1) // 2]] = True
    room = workload.capacity[:, 0]
    goes_to_a = rng.random(len(workload.trace)) < room[is_in_a].sum() / room.sum()
    goes_to_a = np.where(fits_somewhere(workload.need, workload.capacity[is_in_a]), goes_to_a, False)
    goes_to_a = np.where(fits_somewhere(workload.need, workload.capacity[~is_in_a]), goes_to_a, True)
    return _part(workload, is_in_a, goes_to_a), _part(workload, ~is_in_a, ~goes_to_a)


def _part(workload: Workload, has_host: np.ndarray, has_request: np.ndarray) -> Workload:
    trace = workload.trace
    part = Trace(trace.requests.loc[has_request].reset_index(drop=True), trace.horizon_s, trace.roles, None, None,
                 trace.meta)
    hosts = workload.hosts.loc[has_host].reset_index(drop=True)
    return replace(workload, trace=part, hosts=hosts, total_s=workload.total_s[has_request],
                   job_of=None if workload.job_of is None else workload.job_of[has_request])


@dataclass(frozen=True, slots=True)
class Trial:
    """One A/B: both halves replayed, the first under the policy, the second under best-fit."""

    a: Result
    b: Result
    warmup_s: int

    @property
    def n_rejected(self) -> int:
        """Requests that fit nowhere in their half."""
        return self.a.metrics.n_rejected + self.b.metrics.n_rejected

    def by_block(self, n_blocks: int = 10, *, is_adjusted: bool = False) -> np.ndarray:
        """Empty hosts of the half under the policy less the other's, in blocks of equal length
        after the warm-up, pp, float64 (n_blocks,).

        is_adjusted: less each half's bound, which depends on its demand but not on its policy.
        """
        is_counted = (self.a.series["time_s"] >= self.warmup_s).to_numpy()
        ours, theirs = (half.series["empty_hosts_pct"] - is_adjusted * half.series["bound_empty_hosts_pct"]
                        for half in (self.a, self.b))
        return np.array([block.mean() for block in np.array_split((ours - theirs).to_numpy()[is_counted], n_blocks)])


def ab_trial(workload: Workload, policy: str | Policy, source_for: SourceFor, seed: int = 0) -> Trial:
    """One A/B on a pool split by the seed.

    >>> from sojourn.features.synthetic import synthesize
    >>> import sojourn.simulator as sim
    >>> workload = sim.build_workload("synthetic", synthesize(1_000, seed=0), n_hosts=9)
    >>> ab_trial(workload, "best-fit", lambda half: None).by_block(4).shape
    (4,)
    """
    a, b = halves(workload, np.random.default_rng(seed))
    return Trial(simulate(a, policy, source_for(a)), simulate(b, BASELINE), workload.warmup_s)


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests to move from some hosts.

    at_s: the time. rows: int64 (n,), the requests in the trace's order. position: int64 (n,), the
    place of each one's host among the batch's, 0 = the host with the least in use.
    """

    at_s: int
    rows: np.ndarray
    position: np.ndarray


def batches(workload: Workload, result: Result, *, n_hosts: int = 3, every_s: int = 6 * 3600) -> Iterator[Batch]:
    """From the end of the warm-up on, each `every_s` the hosts with the least in use: of the
    binding resource, then of the others, then the fewest requests, then the lowest index; no empty
    ones.

    result: of a replay of the workload without migrations, failures or queues.
    """
    for at_s in range(workload.warmup_s, workload.trace.horizon_s, every_s):
        is_there = (result.host >= 0) & (workload.placed_s <= at_s) & (workload.departure_s > at_s)
        rows = np.flatnonzero(is_there)
        used = np.zeros((len(workload.hosts), workload.need.shape[1] + 1), np.int64)
        np.add.at(used, result.host[rows], np.column_stack([workload.need[rows], np.ones(len(rows), np.int64)]))
        in_use = np.flatnonzero(used[:, -1])
        hosts = in_use[np.lexsort(used[in_use].T[::-1])][:n_hosts]
        position = np.full(len(workload.hosts), -1)
        position[hosts] = np.arange(len(hosts))
        rows = rows[position[result.host[rows]] >= 0]
        yield Batch(at_s, rows, position[result.host[rows]])


def n_carried_out(batch: Batch, ends_s: np.ndarray, expected_s: np.ndarray, migration: Migration) -> int:
    """How many of a batch's migrations begin before their request ends; the others are spared.

    ends_s, expected_s: int64 (n,), when each of the batch's requests leaves, and when it is
    expected to. A slot is free again when its migration ends or its request has left. Batches are
    separate: n_a_day is not used.

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
    """When each of a batch's requests is expected to leave, by the prediction at its age then,
    int64 (n,)."""
    curves = source.curves(workload.trace.requests.iloc[batch.rows])
    start_s = workload.start_s[batch.rows].tolist()
    return np.array([start + curves.total_at(i, batch.at_s - start) for i, start in enumerate(start_s)], np.int64)
