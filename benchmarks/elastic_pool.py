"""Events per second of the replay on an elastic pool, one core: policies, ways of consolidation, sizes of the pool.

    python benchmarks/elastic_pool.py [PATH.json] [--hosts 1000 10000] [--runs 3] [--policy best-fit ...]

A day of the synthetic trace, repeated side by side until its peak needs about so many hosts. `ratio`: over the same
policy on a fixed pool of that size at 80 % load, which opens, closes and empties nothing. Compile time stands apart.
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
from sojourn.simulator.pool import DEFAULT_TYPE, MACHINE_TYPES, Consolidation, ElasticPool, simulate_pool

DAYS = 2.0
CONSOLIDATIONS = {
    "empty": Consolidation("empty"),
    "timer, live": Consolidation("timer"),
    "regret, live": Consolidation("regret"),
    "timer, restart": Consolidation("timer", moving="restart"),
    "regret, restart": Consolidation("regret", moving="restart"),
}
CELLS: tuple[tuple[str, str, str], ...] = (
    *(("best-fit", name, "one type") for name in CONSOLIDATIONS), ("best-fit", "regret, live", "three types"),
    ("nilas", "regret, live", "one type"), ("joint-fit", "regret, live", "one type"),
)  # fmt: skip
"""Policy, consolidation, types of hosts."""


def workload_of(n_hosts: int) -> sim.Workload:
    """Copies of a synthetic trace, each shifted by up to ten minutes, that need about `n_hosts` at their peak."""
    trace = synthesize(30_000, seed=0, days=DAYS).since_begin()
    small = sim.build_workload("synthetic", trace)
    rng = np.random.default_rng(0)
    tables = []
    for copy in range(max(round(n_hosts / len(small.hosts)), 1)):
        table = small.trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]]
        shift = pd.Series(rng.integers(0, 600, len(table)))
        arrival = (table["arrival_s"] + shift).clip(upper=trace.horizon_s - 1)
        departure = (table["departure_s"] + shift).clip(upper=trace.horizon_s)
        tables.append(table.assign(request_id=table["request_id"].astype(str) + f"#{copy}", arrival_s=arrival,
                                   departure_s=np.maximum(departure, arrival.fillna(0))))
    table = pd.concat(tables).sort_values("arrival_s", na_position="first", kind="stable", ignore_index=True)
    return sim.build_workload("synthetic", sim.Trace(table, trace.horizon_s))


def measured(workload: sim.Workload, policy: str, consolidation: str, types: str, n_runs: int) -> dict[str, Any]:
    """Median events/s of several replays."""
    kinds = (DEFAULT_TYPE,) if types == "one type" else tuple(MACHINE_TYPES.values())
    pool = ElasticPool(kinds, consolidation=CONSOLIDATIONS[consolidation])
    source = sim.Oracle(workload)
    results = [simulate_pool(workload, pool, policy, source) for _ in range(n_runs)]
    rates = [result.events_per_s for result in results]
    first = results[0]
    return {"most_hosts": first.most_hosts, "policy": policy, "consolidation": consolidation, "types": types,
            "events": first.n_events, "events_per_s": statistics.median(rates), "slowest": min(rates),
            "fastest": max(rates), "checks": first.n_checks, "moves": first.n_moves, "rejected": first.n_rejected,
            "compile_s": first.compile_s}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=Path(".sojourn/benchmarks/elastic_pool.json"))
    parser.add_argument("--hosts", nargs="+", type=int, default=[1_000, 10_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policy", nargs="+", help="only these")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for n_hosts in asked.hosts:
        workload = workload_of(n_hosts)
        print(f"{workload.description}", flush=True)
        fixed: dict[str, float] = {}
        for policy, consolidation, types in CELLS:
            if asked.policy and policy not in asked.policy:
                continue
            if policy not in fixed:
                fixed[policy] = statistics.median(
                    sim.simulate(workload, policy, sim.Oracle(workload)).events_per_s for _ in range(asked.runs))
            row = measured(workload, policy, consolidation, types, asked.runs)
            rows.append({"hosts": n_hosts, **row, "ratio": row["events_per_s"] / fixed[policy]})
            print(f"  {policy}, {consolidation}, {types}: {row['events_per_s']:,.0f} events/s", flush=True)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda value: f"{value:,.2f}"))
    asked.path.parent.mkdir(parents=True, exist_ok=True)
    asked.path.write_text(json.dumps({"python": platform.python_version(), "machine": platform.machine(),
                                      "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
