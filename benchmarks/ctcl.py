"""Batch requests per second of the replay of services and batch requests, one core, by scheduler.

    python benchmarks/ctcl.py [--out PATH.json] [--batch 60000] [--runs 3]

The baseline is the slow twin of the tests, plain Python, on a day with a hundred batch requests; `ratio` is how much
faster the compiled replay is on that same day. Both read own maxima as needs. Compile time stands apart.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from sojourn.simulator.mixed import SCHEDULERS, MixedScheduler, MixedWorkload, own_maximum, replay_mixed
from sojourn.simulator.mixed.mixed_replay import _world
from studies.mixes import MixParameters, fixed_pool, made_mix

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from naive_ctcl import NaiveMixed  # the twin stands with the tests

MOST_MACHINES = 200


def needs_of(workload: MixedWorkload, scheduler: MixedScheduler) -> np.ndarray | None:
    """Own maxima after 12 h, for a scheduler that reads needs."""
    return None if scheduler.needs == "none" else own_maximum(workload.services, 48)


def compiled(workload: MixedWorkload, name: str) -> Callable[[], int]:
    """A replay; it gives how many batch requests were rescheduled."""
    needs, n_machines = needs_of(workload, SCHEDULERS[name]), fixed_pool(workload)
    return lambda: replay_mixed(workload, name, needs, rng=np.random.default_rng(0), n_machines=n_machines,
                                most_machines=MOST_MACHINES).n_rescheduled


def plain(workload: MixedWorkload, name: str) -> Callable[[], int]:
    """The same by the slow twin."""
    scheduler = SCHEDULERS[name]
    needs = needs_of(workload, scheduler)
    n_slots = fixed_pool(workload) if scheduler.autoscaler is None else MOST_MACHINES

    def run() -> int:
        world = _world(workload, scheduler, needs, np.random.default_rng(0), n_slots)
        twin = NaiveMixed(workload, scheduler, world.need, world.ahead, world.capacities.tolist(),
                          world.limits.tolist(), world.lags.tolist(), world.batch["drawn_rank"].tolist(), n_slots)
        twin.run()
        return sum(count > 0 for count in twin.n_evicted)

    return run


def seconds(run: Callable[[], int], n_runs: int) -> tuple[float, int]:
    """Median over runs, and what they gave."""
    taken, given = [], 0
    for _ in range(n_runs):
        started = time.perf_counter()
        given = run()
        taken.append(time.perf_counter() - started)
    return median(taken), given


def main() -> None:
    """Print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".sojourn/benchmarks/ctcl.json"))
    parser.add_argument("--batch", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    large = made_mix(np.random.default_rng(0), MixParameters(n_services=max(given.batch // 250, 1),
                                                             n_batch=given.batch))
    small = made_mix(np.random.default_rng(0), MixParameters(n_services=20, n_batch=100, n_days=1))
    rows = []
    print(f"{'scheduler':<14}{'compile s':>10}{'requests/s':>12}{'evicted %':>11}{'a day: twin s':>15}{'ratio':>8}")
    for name in SCHEDULERS:
        compile_s, _ = seconds(compiled(small, name), 1)
        quick_s, quick_n = seconds(compiled(small, name), 5)
        slow_s, slow_n = seconds(plain(small, name), 1)
        if quick_n != slow_n:
            raise SystemExit(f"{name}: the twin must reschedule as many as the replay, got {slow_n} and {quick_n}")
        took_s, n_rescheduled = seconds(compiled(large, name), given.runs)
        row = {"scheduler": name, "compile_s": compile_s, "requests_per_s": given.batch / took_s,
               "rescheduled_pct": 100 * n_rescheduled / given.batch, "twin_day_s": slow_s, "day_s": quick_s,
               "ratio": slow_s / quick_s}
        rows.append(row)
        print(f"{name:<14}{compile_s:>10.1f}{row['requests_per_s']:>12,.0f}{row['rescheduled_pct']:>11.2f}"
              f"{slow_s:>15.2f}{row['ratio']:>8,.0f}", flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"python": platform.python_version(), "numpy": np.__version__,
                                     "n_batch": given.batch, "runs": given.runs, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
