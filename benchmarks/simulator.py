"""Events per second of the replay at about 80 % load on the synthetic trace, one core, metrics on.

    python benchmarks/simulator.py [PATH.json] [--hosts 1000 10000] [--runs 5] [--policy nilas ...]

Compile time stands apart. `plain` scans every host for every request; `ratio` is ranked over plain.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.simulator import Cluster, Request
from sojourn.simulator.workloads.workload import LARGEST

PLAIN_UP_TO = 2_000
"""Hosts above which the plain scan is left out, and slow policies run once: it takes minutes."""
SLOW = ("lava", "fullest host in NumPy")


def workload_of(n_hosts: int) -> sim.Workload:
    """A week of the synthetic trace, repeated side by side until about `n_hosts` make a load of 80 %."""
    trace = synthesize(60_000, seed=0, days=7.0).since_begin()
    small = sim.build_workload("synthetic", trace)
    copies = max(round(n_hosts / len(small.hosts)), 1)
    rng = np.random.default_rng(0)
    tables = []
    for copy in range(copies):
        table = small.trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]]
        shift = pd.Series(rng.integers(0, 600, len(table)))
        arrival = (table["arrival_s"] + shift).clip(upper=trace.horizon_s - 1)
        departure = (table["departure_s"] + shift).clip(upper=trace.horizon_s)
        tables.append(table.assign(request_id=table["request_id"].astype(str) + f"#{copy}", arrival_s=arrival,
                                   departure_s=np.maximum(departure, arrival.fillna(0))))
    table = pd.concat(tables).sort_values("arrival_s", na_position="first", kind="stable", ignore_index=True)
    return sim.build_workload("synthetic", sim.Trace(table, trace.horizon_s))


def mean_left(workload: sim.Workload) -> sim.LifetimeSource:
    """E[T | T > u] of all lifetimes at 24 uptimes, with overhangs: one curve for all requests, repredicted often."""
    total = np.sort(workload.total_s)
    uptime = np.unique(np.append(0, np.quantile(total, np.linspace(0.04, 0.9999, 23)).astype(np.int64)))
    means = [int(total[total > u].mean()) for u in uptime]
    curve = sim.Curves(np.array([0, len(uptime)]), uptime, np.maximum(means, np.append(uptime[1:], 0)),
                       np.zeros(len(total), np.int64),
                       np.array([int(np.maximum(total - u, 0).mean()) for u in uptime]))
    return sim.Held(workload.request_ids, curve)


def fullest_host(cluster: Cluster, request: Request, now: int) -> np.ndarray:
    """What a user tries quickly: hosts in use first, then the least room left of the binding resource."""
    return cluster.free[:, 0] + LARGEST * (cluster.n_running == 0)


NUMPY = sim.Policy("fullest host in NumPy", host_scores=fullest_host)


def measured(workload: sim.Workload, policy: str | sim.Policy, predictor: str, is_ranked: bool | None,
             n_runs: int) -> dict[str, Any]:
    """Median events/s of several replays and the compile time of the first."""
    source = sim.Oracle(workload) if predictor == "oracle" else mean_left(workload)
    results = [sim.simulate(workload, policy, source, is_ranked=is_ranked) for _ in range(n_runs)]
    rates = [result.events_per_s for result in results]
    return {"hosts": len(workload.hosts), "policy": results[0].policy, "predictor": predictor,
            "scan": "plain" if is_ranked is False or policy is NUMPY else "ranked",
            "events": results[0].metrics.n_events, "events_per_s": statistics.median(rates),
            "slowest": min(rates), "fastest": max(rates), "compile_s": results[0].compile_s,
            "rescores_per_placement": results[0].metrics.n_rescores / results[0].metrics.n_requests}


CELLS: tuple[tuple[str | sim.Policy, str], ...] = (
    ("best-fit", "oracle"), ("la-binary", "oracle"), ("nilas", "oracle"), ("nilas", "mean left"),
    ("nilas-expected", "mean left"), ("lava", "oracle"), ("lava", "mean left"), (NUMPY, "oracle"),
)  # fmt: skip
"""Policies and predictors; the NumPy one scores all hosts, and has no ranked scan."""


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/simulator.json"))
    parser.add_argument("--hosts", nargs="+", type=int, default=[1_000, 10_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--policy", nargs="+", help="only these")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def note(row: dict[str, Any]) -> None:
        rows.append(row)
        print(f"  {row['policy']} ({row['predictor']}), {row['scan']}: {row['events_per_s']:,.0f} events/s", flush=True)

    for n_hosts in asked.hosts:
        workload = workload_of(n_hosts)
        print(f"{workload.description}, load {workload.load:.3f}")
        for policy, predictor in CELLS:
            name = policy if isinstance(policy, str) else policy.name
            if asked.policy and name not in asked.policy:
                continue
            n_runs = 1 if name in SLOW and n_hosts > PLAIN_UP_TO else asked.runs
            ranked = measured(workload, policy, predictor, None, n_runs)
            if n_hosts > PLAIN_UP_TO or policy is NUMPY:
                note(ranked | {"ratio": float("nan")})
                continue
            plain = measured(workload, policy, predictor, False, min(asked.runs, 2))
            note(ranked | {"ratio": ranked["events_per_s"] / plain["events_per_s"]})
            note(plain | {"ratio": 1.0})
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda value: f"{value:,.2f}"))
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(),
                                      "rows": rows}, indent=2) + "\n")
    print(f"written to {asked.path}")


if __name__ == "__main__":
    main()
