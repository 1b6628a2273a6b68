"""What an elastic pool cost, and what its requests paid for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.simulator.engine import Run
from sojourn.simulator.loop import ALLOCATED, BOOTED, DRAINED_BY_CHOICE, NOT_PLACED, OPENED, RELEASED
from sojourn.simulator.workloads import UNITS_PER, Workload, shares

_SAID = {OPENED: "opened", BOOTED: "booted", DRAINED_BY_CHOICE: "drained", RELEASED: "released"}


@dataclass(frozen=True, slots=True)
class PoolResult:
    """One replay on an elastic pool, from 0 to the horizon.

    host_h: hours of hosts that were on, booting and drained ones included; lower is better. price: of these; lower is
        better. host_h_by_type: the same by type.
    bound_host_h: for each resource, the hours of hosts that the sum of demand would fill without a gap, on the type
        that has most of it; no pool needs less.
    utilisation_pct: amounts in use in those of the hosts that were on, per resource; higher is better.
    most_hosts: on at once. n_opened: times that a host was opened. n_drained: hosts emptied by choice.
    n_moves: requests that left such a host: migrations, or evictions where they start over; lower is better.
    lost_core_h: what they had run for and lost; lower is better.
    n_requests, n_rejected: those that came, and those that found no room in a pool at its most.
    mean_wait_s, wait_p50_s, wait_p95_s: from arrival until a request begins, of those placed; lower is better.
    wait_s: int64 (n_requests,), -1 = rejected. host: int64 (n_requests,), place of each request's first host, or -1.
    log: `time_s`, `what` (opened, booted, drained, released), `host` (its place), `type`, in order.
    n_checks: hosts looked at in consolidation. n_events: arrivals and departures.
    elapsed_s: time of the loop alone; compile_s: of getting it compiled or out of the cache.
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
    """The figures of a run that is over."""
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
        host_h_by_type={name: float(own / 3600) for name, own in zip(type_names, host_s.tolist(), strict=True)},
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
        log=pd.DataFrame({"time_s": log["time_s"], "what": pd.Series(log["what"]).map(_SAID),
                          "host": log["host"], "type": [type_names[k] for k in log["kind"]]}),
        n_checks=int(pool["n_checks"]),
        n_events=int(world.counts["n_events"][0]),
        elapsed_s=elapsed_s,
        compile_s=run.loop.compile_s,
    )


def _bound_h(workload: Workload) -> list[float]:
    """Demand over time in hours of the host that has most of each resource; what no host has, nothing needs."""
    lasts_s = np.diff(np.append(workload.demand.time_s, workload.trace.horizon_s))
    amount = (workload.demand.amount * lasts_s[:, None].astype(np.float64)).sum(axis=0)
    return [float(hours) for hours in shares(amount, workload.capacity.max(axis=0)) / 3600]
