"""What a rectifier with one migration a day loses because it spends it on the first that pays.

    python -m studies reserve-price [synthetic:SEED | READER=PATH ...] [--n-seeds 3] [--share 1.0]

`value` plans every hour, a migration a day at most; nilas-expected places the later part, with km. First-come: the
first migration that pays is begun. The day's best: what was worth most at any hour of the day, by the predictions.
Hindsight: a second replay waits each day for a migration that is expected to free `--share` of that best (in the last
hour it takes what there is); its own pool differs from the first, so it is no bound. Empty hosts, percent, without
migrations, first-come and in hindsight; migrations; host-hours expected of them, and freed within the day.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest

import sojourn.simulator as sim
from sojourn.simulator.engine import upkeep
from sojourn.simulator.measures.hosts import migration_figures
from sojourn.simulator.rectification import MigrationGroup, PoolView
from sojourn.simulator.rectification.value import value
from studies.later_parts import later_parts, of_name

A_DAY = 24


@dataclass(slots=True)
class Spender:
    """A planner that keeps what each day's best was worth. least: by day, below which it waits; host-seconds.

    best: by day, of all hours. spent: by day, what was begun first."""

    least: dict[int, float]
    best: dict[int, float] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)
    n_asked: int = 0

    def __call__(self, view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
        """The best single migration of this hour, if the day has one left and it is worth the price."""
        day, hour = divmod(self.n_asked, A_DAY)
        self.n_asked += 1
        groups = value(view, 1, long_s)
        if not groups:
            return []
        gain_s = groups[0].gain_s
        self.best[day] = max(self.best.get(day, 0.0), gain_s)
        if budget <= 0 or (hour < A_DAY - 1 and gain_s < self.least.get(day, 0.0)):
            return []
        self.spent.setdefault(day, gain_s)
        return groups


def replayed(workload: sim.Workload, source: sim.LifetimeSource, spender: Spender, seed: int) -> list[float]:
    """Empty hosts, migrations, host-hours expected of each day's first and freed within the day."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(upkeep, "RECTIFIERS", MappingProxyType({"value": spender}))
        result = sim.simulate(workload, "nilas-expected", source,
                              rectify=sim.Rectify("value", 1, every_s=3_600, seed=seed))
    return [result.metrics.empty_hosts_pct, result.metrics.n_migrations, sum(spender.spent.values()) / 3_600,
            migration_figures(workload, result)["moved_freed_h"]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", default=["synthetic:30"])
    parser.add_argument("--n-seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    for name in given.traces:
        rows = []
        config, trace = of_name(name)
        for seed, (workload, source) in enumerate(later_parts(config, trace, range(given.n_seeds), "km")):
            without = sim.simulate(workload, "nilas-expected", source).metrics.empty_hosts_pct
            first = Spender({})
            come = replayed(workload, source, first, seed)
            best_h = sum(gain for day, gain in first.best.items() if day in first.spent) / 3_600
            second = Spender({day: given.share * gain for day, gain in first.best.items()})
            rows.append([without, *come, best_h, *replayed(workload, source, second, seed)])
        none, empty, n, spent_h, freed_h, best_h, empty_later, n_later, later_h, freed_later = np.mean(rows, axis=0)
        print(f"{name}: empty {none:.2f} %, first-come {empty:.2f} %, hindsight {empty_later:.2f} %; migrations "
              f"{n:.0f} and {n_later:.0f}; expected {spent_h:.0f} of {best_h:.0f} h that the days' best had, and "
              f"{later_h:.0f}; freed {freed_h:.0f} and {freed_later:.0f} h", flush=True)


if __name__ == "__main__":
    main()
