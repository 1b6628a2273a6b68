"""waste-min against best-fit on 8 replicas: empty hosts and stranding, paired 95 % intervals, percentage points.

    python -m studies waste-min [READER=FOLDER ...] [--policies NAME ...]

READER is openb, azure-flavors or dlrm; without any, the synthetic recipe. openb-gpu=FOLDER: openb with its GPUs, in
place of replicas on 6 draws of nodes and copies (seeds 3 to 8; the order of open-fgd's scores was chosen on 0 to 2).
--policies: in place of waste-min; those that use predictions have perfect ones. Of this study alone are open-fgd's
scores after NILAS's buckets (`buckets-fgd`), and with these after the step of fragmentation (`fgd-buckets`).
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from scipy.stats import t

import sojourn.simulator as sim
from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.workloads import replica
from sojourn.simulator.measures import interval_text, signed_text
from sojourn.simulator.policies.fgd import OPEN_FGD
from sojourn.simulator.policies.nilas import expected_cost

N_REPLICAS = 8
SEEDS = range(3, 9)
"""Draws of openb-gpu that no choice used."""
_OPENS, _STEP, *_REST = OPEN_FGD.scorers
JOINED = {policy.name: policy for policy in (
    replace(OPEN_FGD, name="buckets-fgd", scorers=(expected_cost, *OPEN_FGD.scorers), predictions="current"),
    replace(OPEN_FGD, name="fgd-buckets", scorers=(_OPENS, _STEP, expected_cost, *_REST), predictions="current"))}
"""FGD joined with lifetimes."""


def measured(workload: sim.Workload, policy: str, seed: int) -> dict[str, float]:
    """Empty hosts and stranding of one replay, percent."""
    result = sim.simulate(workload, JOINED.get(policy, policy), sim.Oracle(workload))
    stranded = sim.stranding(workload, result, seed=seed).columns()
    return {"empty_hosts_pct": result.metrics.empty_hosts_pct, "rejected_pct": result.metrics.rejected_pct, **stranded}


def arrangements(name: str, folder: str) -> list[sim.Workload]:
    """The workloads of a trace that are compared in pairs."""
    if name == "openb-gpu":
        trace = read_trace("openb", folder)[0]
        return [sim.build_workload(name, trace, seed=seed) for seed in SEEDS]
    workload = sim.build_workload(name, read_trace(name, folder)[0] if folder else synthesize(60_000, seed=0))
    return [replica(workload, seed) for seed in range(N_REPLICAS)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="READER=FOLDER",
                        help="openb, azure-flavors or dlrm, and its folder; without any, the synthetic recipe")
    parser.add_argument("--policies", nargs="+", default=["waste-min"], metavar="NAME")
    options = parser.parse_args()
    for entry in options.traces or ["synthetic"]:
        name, _, folder = entry.partition("=")
        moved = arrangements(name, folder)
        print(moved[0].description)
        theirs = [measured(own, "best-fit", seed) for seed, own in enumerate(moved)]
        for policy in options.policies:
            print(f"  {policy}")
            ours = [measured(own, policy, seed) for seed, own in enumerate(moved)]
            for column in ours[0]:
                gain = np.array([a[column] - b[column] for a, b in zip(ours, theirs, strict=True)])
                half = t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain))
                print(f"    {column:<38}{signed_text(gain.mean())} "
                      f"[{interval_text(gain.mean() - half, gain.mean() + half, between=', ')}]")


if __name__ == "__main__":
    main()
