"""Replay a workload under a policy: validate, prepare arrays, run the compiled loop, measure."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator._compile import compiled_loop, is_packing_last
from sojourn.simulator._loop import CURRENT, INITIAL, NO_PREDICTIONS
from sojourn.simulator._ranking import ranking
from sojourn.simulator._state import EXPIRED, NEVER, NOT_PLACED, Arrivals, Decisions, Ledger, Ranking, Timeline
from sojourn.simulator.amounts import shares
from sojourn.simulator.cluster import Cluster
from sojourn.simulator.lifetimes import Curves, LifetimeSource, one_step
from sojourn.simulator.metrics import Metrics, fewest_hosts, integral_at, reason_names
from sojourn.simulator.policies import POLICIES, Policy
from sojourn.simulator.workload import Workload

_N_BINS = 500
_PREDICTIONS = {"none": NO_PREDICTIONS, "initial": INITIAL, "current": CURRENT}


@dataclass(frozen=True, slots=True)
class Result:
    """One replay.

    policy: its name.
    host: int64 (n_requests,), row in the workload's hosts, or -1 for a rejected request.
    metrics: see Metrics; warm-up left out.
    bound_empty_hosts_pct: empty hosts if at each time the fewest hosts that total demand needs were in use;
        no policy that places every request can have more.
    series: over bins of equal length from 0 to the horizon, warm-up included: `time_s` (start of the bin),
        `empty_hosts_pct` and `bound_empty_hosts_pct` (means over the bin).
    elapsed_s: time of the loop alone; compile_s: of getting it compiled or out of the cache.
    """

    policy: str
    host: np.ndarray
    metrics: Metrics
    bound_empty_hosts_pct: float
    series: pd.DataFrame
    elapsed_s: float
    compile_s: float

    @property
    def events_per_s(self) -> float:
        """Arrivals and departures per second of the loop."""
        return self.metrics.n_events / max(self.elapsed_s, 1e-9)


def simulate(
    workload: Workload,
    policy: str | Policy = "best-fit",
    source: LifetimeSource | None = None,
    *,
    is_ranked: bool | None = None,
) -> Result:
    """The outcome of replaying `workload` under `policy` with the predictions of `source`.

    policy: a name in POLICIES, or a policy of one's own.
    source: needed by the policies that use predictions, not asked by the others.
    is_ranked: False scans all hosts in order of index; None keeps the hosts sorted by packing score where
        the policy ends in it and the hosts have one shape. The decisions are the same.

    Refused with ValueError: an unknown policy, a missing source, curves that are not one per request.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2, 3], "arrival_s": [0, 0, 50], "departure_s": [40, 100, 90],
    ...                       "cpu_cores": [6.0, 2.0, 4.0], "mem_gib": [8.0, 8.0, 8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32, n_hosts=2)
    >>> result = simulate(workload, "best-fit")
    >>> result.host.tolist(), result.metrics.empty_hosts_pct
    ([0, 0, 0], 50.0)
    """
    chosen = named_policy(policy)
    predictions = _PREDICTIONS[chosen.predictions]
    curves = _asked(workload, chosen, source)
    arrivals = Arrivals(workload.placed_s, workload.departure_s, workload.need,
                        np.argsort(workload.departure_s, kind="stable"))
    n, (n_hosts, n_resources) = len(workload.placed_s), workload.capacity.shape
    order = None
    if is_ranked is not False and is_packing_last(chosen):
        order = ranking(workload.capacity, workload.need)
    if is_ranked and order is None:
        raise ValueError(f"is_ranked must be False or None for policy {chosen.name!r} on these hosts, got True")
    loop = compiled_loop(chosen, n_resources, order is not None)
    if order is None:
        none = np.zeros(0, np.int64)
        order = Ranking(none, none, none, np.zeros(1, np.int64))
    cluster = Cluster(workload.capacity.copy(), workload.capacity.copy(), np.zeros(n_hosts, np.int64),
                      np.full(n_hosts, EXPIRED))
    mark_s, edges = _marks(workload)
    timeline = Timeline(mark_s, np.zeros((len(mark_s), 1 + 2 * n_resources), np.int64))
    decisions = Decisions(np.full(n, NOT_PLACED), np.zeros(n, np.int64), np.zeros(1, np.int64))
    ledger = _ledger(workload, curves)

    started = time.perf_counter()
    loop.replay(arrivals, cluster, ledger, order, timeline, decisions, predictions)
    elapsed_s = time.perf_counter() - started

    n_empty_bound = integral_at(workload.demand.time_s, _most_empty(workload), mark_s)
    return Result(
        chosen.name,
        decisions.host,
        _metrics(workload, timeline, decisions, int(ledger.n_rescores[0])),
        _mean_pct(n_empty_bound, mark_s, workload),
        _series(workload, edges, timeline, n_empty_bound),
        elapsed_s,
        loop.compile_s,
    )


def named_policy(policy: str | Policy) -> Policy:
    """The policy of that name, or the policy itself; ValueError lists the known names.

    >>> named_policy("worst")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: policy must be one of best-fit, first-fit, la, la-binary, ..., got 'worst'
    """
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(sorted(POLICIES))}, got {policy!r}")
    return POLICIES[policy]


def _asked(workload: Workload, policy: Policy, source: LifetimeSource | None) -> Curves:
    if policy.predictions == "none":
        return one_step(np.zeros(len(workload.placed_s), np.int64))
    if source is None:
        raise ValueError(f"source must be given for policy {policy.name!r}, which uses predictions; got None")
    curves = source.curves(workload.trace.requests)
    if len(curves) != len(workload.placed_s):
        raise ValueError(f"curves must be one per request ({len(workload.placed_s)}), got {len(curves)}")
    return curves


def _ledger(workload: Workload, curves: Curves) -> Ledger:
    n, n_hosts = len(workload.placed_s), len(workload.capacity)
    curve = curves.curve_of()
    return Ledger(
        valid_until_s=np.full(n_hosts, NEVER), first=np.full(n_hosts, -1), start_s=workload.start_s,
        next=np.full(n, -1), previous=np.full(n, -1),
        segment=curves.offsets[curve], curve_start=curves.offsets[curve], curve_end=curves.offsets[curve + 1],
        exit_s=np.zeros(n, np.int64), change_s=np.zeros(n, np.int64),
        uptime_s=curves.uptime_s, total_s=curves.total_s,
        overhang_s=np.zeros(0, np.int64) if curves.overhang_s is None else curves.overhang_s,
        n_rescores=np.zeros(1, np.int64),
    )


def _marks(workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    """Times at which integrals are read, and the bins' edges among them."""
    horizon = workload.trace.horizon_s
    edges = np.unique(np.linspace(0, horizon, min(_N_BINS, horizon) + 1).astype(np.int64))
    return np.union1d(edges, [workload.warmup_s]).astype(np.int64), edges


def _most_empty(workload: Workload) -> np.ndarray:
    return len(workload.capacity) - fewest_hosts(workload.demand, workload.capacity)


def _after_warmup(integral: np.ndarray, mark_s: np.ndarray, workload: Workload) -> np.ndarray:
    """Integrals from the end of the warm-up to the horizon."""
    return np.asarray(integral[-1] - integral[np.searchsorted(mark_s, workload.warmup_s)])


def _mean_pct(n_empty: np.ndarray, mark_s: np.ndarray, workload: Workload) -> float:
    span = workload.trace.horizon_s - workload.warmup_s
    return float(100 * _after_warmup(n_empty, mark_s, workload) / (span * len(workload.capacity)))


def _metrics(workload: Workload, timeline: Timeline, decisions: Decisions, n_rescores: int) -> Metrics:
    n_resources = workload.capacity.shape[1]
    span = workload.trace.horizon_s - workload.warmup_s
    whole = _after_warmup(timeline.integral, timeline.mark_s, workload)
    allocated, in_use = whole[1:1 + n_resources], whole[1 + n_resources:]
    utilisation = 100 * shares(allocated, workload.capacity.sum(axis=0) * span)
    cpu = workload.resources.index("cpu_cores")
    is_counted = workload.placed_s >= workload.warmup_s
    is_rejected = is_counted & (decisions.host == NOT_PLACED)
    n_requests, n_rejected = int(is_counted.sum()), int(is_rejected.sum())
    return Metrics(
        empty_hosts_pct=_mean_pct(timeline.integral[:, 0], timeline.mark_s, workload),
        packing_density_pct=float(100 * shares(allocated, in_use)[cpu]),
        utilisation_pct={name: float(utilisation[d]) for d, name in enumerate(workload.resources)},
        n_requests=n_requests,
        n_rejected=n_rejected,
        rejected_pct=100 * n_rejected / max(n_requests, 1),
        rejections=reason_names(decisions.reason[is_rejected], workload.resources),
        n_rescores=n_rescores,
        n_events=int(decisions.n_events[0]),
    )


def _series(workload: Workload, edges: np.ndarray, timeline: Timeline, n_empty_bound: np.ndarray) -> pd.DataFrame:
    k = np.searchsorted(timeline.mark_s, edges)
    room = np.diff(edges) * len(workload.capacity)
    return pd.DataFrame({
        "time_s": edges[:-1],
        "empty_hosts_pct": 100 * np.diff(timeline.integral[k, 0]) / room,
        "bound_empty_hosts_pct": 100 * np.diff(n_empty_bound[k]) / room,
    })
