"""A few migrations a day: planned once a day, or every hour under the same cap.

    python -m studies cadence [synthetic:SEED ...] [READER=PATH ...] [--n-seeds 5] [--budget 5] [--every 24,6,1]

The later part of each trace (the test window of `retrain`) is placed with `hazard`, learnt from the earlier part. A
seed is a small move of the trace, of openb another arrangement as well, and other requests that can't migrate. Gains in
empty hosts over best-fit without migrations, percentage points with 95 % t-intervals over the seeds; their share of
what `nilas` gains with perfect lifetimes and without migrations; what they are over DVLA's pair at the same cadence;
migrations a day; host-hours that each was expected to free, and freed within the day. `best-fit` with the simplest
planner, `pdre`, is the rival without a model of placement.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import sojourn.simulator as sim
from sojourn.flows.placement.workloads import replica
from studies.dvla_tables import interval, print_table
from studies.later_parts import later_parts, of_name

PAIRS = (("dapp", "pdre", False), ("best-fit", "pdre", False), ("best-fit", "value", False),
         ("nilas-expected", "value", False), ("joint-exact", "value", False), ("nilas", "value", True))
"""Policy, planner, and whether lifetimes are known; the first pair is DVLA's."""
DAY_S = 86_400


def rows_of(parts: Sequence[tuple[sim.Workload, Any]], budget: int, every_h: Sequence[float]) -> list[tuple[str, ...]]:
    """A line of the table for each pair and cadence."""
    still = [sim.simulate(workload, "best-fit").metrics.empty_hosts_pct for workload, _ in parts]
    best = np.array([sim.simulate(workload, "nilas", sim.Oracle(workload)).metrics.empty_hosts_pct
                     for workload, _ in parts]) - still
    rows: list[tuple[str, ...]] = [("nilas, perfect", "none", interval(best), "100 %", "-", "0", "-", "-")]
    of_dvla: dict[float, np.ndarray] = {}
    for policy, planner, is_perfect in PAIRS:
        for hours in every_h:
            found: list[tuple[float, ...]] = []
            for seed, (workload, source) in enumerate(parts):
                rectify = sim.Rectify(planner, budget, seed=seed, every_s=round(3_600 * hours))
                result = sim.simulate(workload, policy, sim.Oracle(workload) if is_perfect else source, rectify=rectify)
                assert result.migrations is not None
                begun = result.migrations[result.migrations["begun_s"].notna()]
                per_day = begun.groupby(begun["begun_s"] // DAY_S).size()
                assert per_day.max() <= budget if len(per_day) else True
                groups = begun.groupby("group").first()
                found.append((result.metrics.empty_hosts_pct, len(begun) / (workload.trace.horizon_s / DAY_S),
                              groups["expected_h"].sum(), groups["freed_h"].sum(), len(begun)))
            empty, moves, expected, freed, n = np.array(found).T
            gain = empty - still
            of_dvla.setdefault(hours, gain)
            rows.append((f"{policy}{', perfect' if is_perfect else ''}", f"{planner}:{budget}, {hours:g} h",
                         interval(gain), f"{100 * gain.mean() / best.mean():.0f} %",
                         interval(gain - of_dvla[hours]), f"{moves.mean():.1f}",
                         f"{expected.sum() / max(n.sum(), 1):.1f}", f"{freed.sum() / max(n.sum(), 1):.1f}"))
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--n-seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=5)
    parser.add_argument("--every", default="24,1", help="hours, by commas")
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.n_seeds)
    for name in given.traces:
        config, trace = of_name(name)
        parts = [(replica(drawn, seed), source)
                 for seed, (drawn, source) in zip(seeds, later_parts(config, trace, seeds), strict=True)]
        head = ("policy", "migrations", "empty hosts, pp", "share", "over DVLA, pp", "a day", "expected, h", "freed, h")
        print_table(name, head, rows_of(parts, given.budget, [*map(float, given.every.split(","))]))


if __name__ == "__main__":
    main()
