"""What a rectifier's migrations were expected to free, and what they freed.

    python -m studies freed-hours [READER=PATH ...] [--n-requests 60000] [--n-seeds 5] [--budget 5]

Of each trace the earlier part is learnt from (km) and the later one placed by nilas-expected, with pdre and value. On
the synthetic trace a seed is another trace. In files it is another draw of what can't be migrated, and where the recipe
draws, another arrangement. Sums over the seeds, a migration: host-hours expected and freed within the day (see
`Result.migrations`), and freed in the whole replay.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

import sojourn.simulator as sim
from sojourn.features import Trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.settings.retrain import RetrainConfig, load_config
from sojourn.simulator.measures import debt
from sojourn.simulator.measures.hosts import migration_figures
from studies.later_parts import later_parts, of_file


def placed(trace: Trace, config: RetrainConfig,
           seeds: Sequence[int]) -> Iterator[tuple[int, sim.Workload, sim.LifetimeSource]]:
    """Each seed, and the later part of a trace with it, with the predictions of km."""
    for seed, (workload, source) in zip(seeds, later_parts(config, trace, seeds, "km"), strict=True):
        yield seed, workload, source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--n-requests", type=int, default=60_000)
    parser.add_argument("--n-seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5)
    given = parser.parse_args()
    seeds = range(given.n_seeds)
    traces: dict[str, Iterator[tuple[int, sim.Workload, sim.LifetimeSource]]] = {}
    traces["synthetic"] = (each for seed in seeds for each in placed(
        synthesize(given.n_requests, seed=seed), load_config(n_requests=given.n_requests, seed=seed), [seed]))
    for spec in given.files:
        config, trace = of_file(spec)
        traces[str(config.trace)] = placed(trace, config, seeds)
    for name, cases in traces.items():
        sums: dict[str, list[tuple[float, ...]]] = {}
        for seed, workload, source in cases:
            whole_h = debt(workload, sim.simulate(workload, "nilas-expected", source)).host_h
            for planner in ("pdre", "value"):
                result = sim.simulate(workload, "nilas-expected", source,
                                      rectify=sim.Rectify(planner, given.budget, seed=seed))
                figures = migration_figures(workload, result)
                sums.setdefault(planner, []).append((
                    figures["n_freed_host"], figures["n_freed_none"], figures["moved_expected_h"],
                    figures["moved_freed_h"], whole_h - debt(workload, result).host_h))
        for planner, rows in sums.items():
            n_freed, n_none, *hours = np.array(rows).sum(axis=0)
            expected, freed, whole = (each / max(n_freed + n_none, 1.0) for each in hours)
            print(f"{name}, {planner}:{given.budget}: {n_freed + n_none:.0f} migrations, {n_freed:.0f} freed their "
                  f"host; each expected {expected:.1f} h, freed {freed:.1f} h in the day, {whole:.1f} h in all",
                  flush=True)


if __name__ == "__main__":
    main()
