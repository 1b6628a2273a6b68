"""What A/B and pre/post on one pool report beside what is true, oracle NILAS, 12 seeds.

The table of docs/simulator/evaluations_pools.md, "A/B and pre/post on one pool".

    python -m studies ab-pool [--openb FOLDER] [--picture PATH.png]

Without a folder on the synthetic recipe. The picture is of the launch on the workload of seed 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import sojourn.simulator as sim
from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from studies.launches import ab_summary, pre_post, pre_post_figure, run_ab_pool
from studies.policies.switched import switched

SEEDS = range(100, 112)
"""Not those on which the regression's form was chosen."""


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openb", type=Path)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    pods = None if asked.openb is None else read_trace("openb", asked.openb)[0]

    def workload(seed: int) -> sim.Workload:
        if pods is None:
            return sim.build_workload("synthetic", synthesize(60_000, seed=seed), seed=seed)
        return sim.build_workload("openb", pods, seed=seed)

    print(ab_summary(run_ab_pool(workload, "nilas", sim.Oracle, SEEDS)).round(2).to_string())
    if asked.picture is not None:
        pool = workload(0)
        from_s = (pool.warmup_s + pool.trace.horizon_s) // 2
        launch = sim.simulate(pool, switched(sim.POLICIES["nilas"], from_s), sim.Oracle(pool)).series
        found = pre_post(launch, from_s, warmup_s=pool.warmup_s)
        truth = sim.simulate(pool).series.set_index("time_s").loc[found.time_s, "empty_hosts_pct"]
        title = f"{pool.name}: oracle NILAS launched on the whole pool"
        pre_post_figure(found, title, truth.to_numpy()).savefig(asked.picture, dpi=80)
        print(f"picture  {asked.picture}")


if __name__ == "__main__":
    main()
