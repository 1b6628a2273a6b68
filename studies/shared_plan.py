"""A rectifier beside defragmentation, on one plan of migrations.

    python -m studies shared-plan [READER=PATH] [--n-seeds 5] [--budget 5] [--batch 1] [--pinned 0.4] [--cap N]

Of the trace the earlier part is learnt from (km) and the later one placed by nilas-expected. Defragmentation begins
below the median of the empty hosts that the policy has without migrations. What can't be migrated is the same in all
replays of a seed. Gains in empty hosts over no migrations, and over the rectifier alone, percentage points, with 95 %
t-intervals over the seeds; then, over all seeds: migrations a day by planner, and host-hours in use that each migration
saved in the whole replay; of the rectifier's own, hours expected and freed within the day.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.flows.settings.retrain import load_config
from sojourn.simulator.measures import debt, interval_text, signed_text
from sojourn.simulator.measures.hosts import migration_figures
from studies.later_parts import later_parts, of_file

POLICY = "nilas-expected"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--n-seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--pinned", type=float, default=0.4)
    parser.add_argument("--cap", type=int)
    given = parser.parse_args()
    if given.file:
        config, trace = of_file(given.file)
    else:
        config, trace = load_config(n_requests=60_000), synthesize(60_000, seed=0)
    seeds = range(given.n_seeds)
    found: dict[str, list[dict[str, float]]] = {}
    for seed, (workload, source) in zip(seeds, later_parts(config, trace, seeds, "km"), strict=True):
        for name, figures in replays(workload, source, seed, given).items():
            found.setdefault(name, []).append(figures)
    alone = np.array([row["gain"] for row in found[f"value:{given.budget}"]])
    for name, rows in found.items():
        print(f"{name}: {told(rows, alone)}", flush=True)


def replays(workload: sim.Workload, source: sim.LifetimeSource, seed: int,
            given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Figures of a seed's replays by name."""
    none, own = (sim.Rectify("value", budget, non_migratable_share=given.pinned, seed=seed)
                 for budget in (0, given.budget))
    still = sim.simulate(workload, POLICY, source, rectify=none)
    is_counted = still.series["time_s"] >= workload.warmup_s
    median = float(still.series.loc[is_counted, "empty_hosts_pct"].median())
    upkeep = (sim.Defragmentation(median, given.batch),) if median > 0 else ()
    runs: dict[str, tuple[tuple[sim.Defragmentation, ...], sim.Rectify, int | None]] = {
        "defragmentation": (upkeep, none, None), f"value:{given.budget}": ((), own, None), "both": (upkeep, own, None)}
    if given.cap is not None:
        runs |= {f"defragmentation, at most {given.cap} a day": (upkeep, none, given.cap),
                 f"both, at most {given.cap} a day": (upkeep, own, given.cap)}
    figures = {}
    for name, (chosen, rectify, cap) in runs.items():
        result = sim.simulate(workload, POLICY, source, upkeep=chosen, rectify=rectify,
                              migration=sim.Migration(n_a_day=cap))
        figures[name] = compared(workload, still, result)
    return figures


def compared(workload: sim.Workload, still: sim.Result, result: sim.Result) -> dict[str, float]:
    """Figures of one replay beside that without migrations."""
    assert result.migrations is not None
    days = (workload.trace.horizon_s - workload.warmup_s) / 86_400
    begun = result.migrations[result.migrations["begun_s"] >= workload.warmup_s]
    own = migration_figures(workload, result)
    return {
        "gain": result.metrics.empty_hosts_pct - still.metrics.empty_hosts_pct,
        "rejected": result.metrics.rejected_pct - still.metrics.rejected_pct,
        "days": days, "n_hosts": float(len(workload.hosts)),
        "rectifier": float((begun["planner"] == "value").sum()),
        "defragmentation": float((begun["planner"] == "defragmentation").sum()),
        "saved_h": debt(workload, still).host_h - debt(workload, result).host_h,
        "expected_h": own["moved_expected_h"], "freed_h": own["moved_freed_h"],
        "own_begun": own["n_freed_host"] + own["n_freed_none"],
    }  # fmt: skip


def interval(values: np.ndarray) -> str:
    """Mean and t-interval."""
    n = len(values)
    half = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    mean = values.mean()
    return f"{signed_text(mean)} [{interval_text(mean - half, mean + half, between=', ')}] pp"


def told(rows: list[dict[str, float]], alone: np.ndarray) -> str:
    """A line of all seeds' figures. alone: the gains of the rectifier alone."""
    each = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    total = {name: float(values.sum()) for name, values in each.items()}
    n_all, n_own = total["rectifier"] + total["defragmentation"], total["own_begun"]
    return (f"{each['n_hosts'].min():.0f}-{each['n_hosts'].max():.0f} hosts, {interval(each['gain'])} empty, "
            f"{interval(each['gain'] - alone)} over the rectifier alone, "
            f"{signed_text(each['rejected'].mean())} pp rejected; "
            f"a day {total['rectifier'] / total['days']:.1f} rectifier's, "
            f"{total['defragmentation'] / total['days']:.1f} defragmentation's; "
            f"{total['saved_h'] / max(n_all, 1):.1f} h saved each; rectifier's own "
            f"{total['expected_h'] / max(n_own, 1):.1f} h expected, {total['freed_h'] / max(n_own, 1):.1f} h freed "
            "within the day")


if __name__ == "__main__":
    main()
