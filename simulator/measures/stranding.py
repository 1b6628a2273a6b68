"""Stranded resources: the free room of a cluster filled with more of its own mix (inflation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.cluster import Cluster
from sojourn.simulator.engine import Result
from sojourn.simulator.loop import Ranking, ranking
from sojourn.simulator.measures._stranding_kernels import inflate, rank
from sojourn.simulator.measures.measure import Column, Measure
from sojourn.simulator.workloads import Workload, shares


@dataclass(frozen=True, slots=True)
class Stranding:
    """Free share of the cluster's capacity after inflation at k times, percent; lower is better.

    time_s: int64 (k,). at_misfit_pct, when_full_pct: float64 (k, n_resources), when a draw first
    fits on no host, and when no draw fits; resources: their order.

    >>> Stranding(np.array([5]), np.array([[40.0]]), np.array([[25.0]]), ("mem_gib",)).columns()
    {'stranded_mem_gib_pct': 25.0, 'stranded_mem_gib_at_misfit_pct': 40.0}
    """

    time_s: np.ndarray
    at_misfit_pct: np.ndarray
    when_full_pct: np.ndarray
    resources: tuple[str, ...]

    def columns(self) -> Mapping[str, float]:
        """Means over the times, by their names in a comparison; `stranded_cpu_cores_pct` is when no
        draw fits."""
        means = {"": self.when_full_pct.mean(axis=0), "_at_misfit": self.at_misfit_pct.mean(axis=0)}
        return {f"stranded_{name}{when}_pct": float(mean[self.resources.index(name)])
                for when, mean in means.items() for name in sorted(self.resources)}


def stranding(workload: Workload, result: Result, *, seed: int = 0, n_moments: int = 8) -> Stranding:
    """The room that no request could use if the cluster were filled with its own mix (LAVA, section
    2.3).

    It starts from the hosts at each of `n_moments` of the result's samples, evenly from the end of
    the warm-up on. The requests that had arrived by then are placed again and again in a random
    order, by best fit. A shape that fits nowhere is dropped; the filling ends when none is left.
    The order depends on the seed and the time, and is the same for every policy. Rules besides room
    and closed hosts are ignored.

    Refused with ValueError: n_moments below 1, a result of another workload.

    >>> import pandas as pd
    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 0], "departure_s": [90, 90],
    ...                       "cpu_cores": [4.0, 3.0], "mem_gib": [4.0, 4.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=1)
    >>> stranding(workload, sim.simulate(workload), n_moments=1).columns()["stranded_mem_gib_pct"]
    75.0
    """
    if n_moments < 1:
        raise ValueError(f"n_moments must be at least 1, got {n_moments!r}")
    samples = result.samples
    if samples.free.shape[1:] != workload.capacity.shape or len(result.host) != len(workload.placed_s):
        raise ValueError(f"result must be of this workload, got {samples.free.shape[1]} hosts and "
                         f"{len(result.host)} requests")
    last = len(samples.time_s) - 1
    first = min(int(np.searchsorted(samples.time_s, workload.warmup_s)), last)
    idx_samples = np.unique(np.linspace(first, last, n_moments).round().astype(np.int64))
    left = left_when_filled(workload, [
        (int(samples.time_s[moment]), samples.free[moment], samples.n_running[moment], [seed, moment])
        for moment in idx_samples.tolist()])
    left[:, :, ~workload.need.any(axis=0)] = np.nan  # no request needs it, so it is not stranded
    return Stranding(samples.time_s[idx_samples], 100 * left[:, 0], 100 * left[:, 1], workload.resources)


def left_when_filled(workload: Workload,
                     moments: Sequence[tuple[int, np.ndarray, np.ndarray, Sequence[int]]]) -> np.ndarray:
    """Free shares of the cluster after inflation, at the first misfit and when nothing fits, float64 (k, 2,
    n_resources).

    moments: of each the time, the free amounts int64 (n_hosts, n_resources), the running requests of each host, and the
    seed of the order in which the requests that had arrived by then are drawn.
    """
    order, total = ranking(workload.capacity, workload.need), workload.capacity.sum(axis=0)
    shapes, shape_of = np.unique(workload.need, axis=0, return_inverse=True)
    left = np.zeros((len(moments), 2, workload.capacity.shape[1]))
    for k, (time_s, free, n_running, seed) in enumerate(moments):
        arrived = shape_of.reshape(-1)[workload.placed_s <= time_s]
        drawn = np.random.default_rng(seed).permutation(
            arrived[shapes[arrived].any(axis=1)])  # a request without needs always fits
        left[k] = shares(inflated(workload.capacity, free, n_running, order, shapes, drawn), total)
    return left


STRANDING = Measure(lambda workload, result: stranding(workload, result).columns(), {
    "stranded_cpu_cores_pct": Column(
        "stranded CPU", "%", "lower", 1, table="further", text_digits=2,
        words="Stranded: free CPU or memory, % of all, once the hosts are filled with more requests of the same mix "
              "until none fits (lower = better). At misfit: when a request fits nowhere for the first time."),
    "stranded_cpu_cores_at_misfit_pct": Column("stranded CPU at misfit", "%", "lower", 1, table="further",
                                               text_digits=2),
    "stranded_mem_gib_pct": Column("stranded memory", "%", "lower", 1, table="further", text_digits=2),
    "stranded_mem_gib_at_misfit_pct": Column("stranded memory at misfit", "%", "lower", 1, table="further",
                                             text_digits=2),
})


def inflated(capacity: np.ndarray, free: np.ndarray, n_running: np.ndarray, order: Ranking | None, shapes: np.ndarray,
             drawn: np.ndarray) -> np.ndarray:
    """Free amounts over all hosts at the first misfit and when nothing fits, int64 (2,
    n_resources); copies the state.

    capacity, free: int64 (n_hosts, n_resources). n_running: (n_hosts,). order: see Ranking, or
    None. shapes: int64 (n_shapes, n_resources), none of the drawn ones all 0. drawn: indices of
    shapes, in the repeated order.

    >>> state = np.array([[8, 8]]), np.array([[5, 8]]), np.array([1]), None
    >>> inflated(*state, np.array([[4, 2], [1, 1]]), np.array([0, 1, 0])).tolist()
    [[0, 5], [0, 5]]
    """
    none = np.zeros(0, np.int64)
    cluster = Cluster(capacity, free.copy(), n_running.copy(), none)
    ranked = Ranking(none, none, none, none, none)
    if order is not None:
        ranked = order._replace(key=np.zeros_like(order.key))
        rank(cluster, ranked)
        ranked.key.sort()
    is_gone = np.ones(len(shapes), bool)
    is_gone[drawn] = False
    left = np.zeros((2, free.shape[1]), np.int64)
    inflate(cluster, ranked, shapes, drawn, is_gone, left)
    return left


