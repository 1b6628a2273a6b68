"""waste-min against best-fit on 8 replicas: empty hosts and stranding, paired 95 % intervals, percentage points.

    python -m studies waste-min [READER=FOLDER ...]

READER is openb, azure-flavors or dlrm; without any, the synthetic recipe.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import t

import sojourn.simulator as sim
from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.workloads import replica
from sojourn.simulator.measures import interval_text, signed_text

N_REPLICAS = 8


def measured(workload: sim.Workload, policy: str, seed: int) -> dict[str, float]:
    """Empty hosts and stranding of one replay, percent."""
    result = sim.simulate(workload, policy)
    stranded = sim.stranding(workload, result, seed=seed).columns()
    return {"empty_hosts_pct": result.metrics.empty_hosts_pct, **stranded}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="READER=FOLDER",
                        help="openb, azure-flavors or dlrm, and its folder; without any, the synthetic recipe")
    traces = parser.parse_args().traces
    workloads = [sim.build_workload(name, read_trace(name, folder)[0])
                 for name, _, folder in (entry.partition("=") for entry in traces)]
    for workload in workloads or [sim.build_workload("synthetic", synthesize(60_000, seed=0))]:
        print(workload.description)
        moved = [replica(workload, seed) for seed in range(N_REPLICAS)]
        ours, theirs = ([measured(own, policy, seed) for seed, own in enumerate(moved)]
                        for policy in ("waste-min", "best-fit"))
        for name in ours[0]:
            gain = np.array([a[name] - b[name] for a, b in zip(ours, theirs, strict=True)])
            half = t.ppf(0.975, N_REPLICAS - 1) * gain.std(ddof=1) / np.sqrt(N_REPLICAS)
            print(f"  {name:<38}{signed_text(gain.mean())} "
                  f"[{interval_text(gain.mean() - half, gain.mean() + half, between=', ')}]")


if __name__ == "__main__":
    main()
