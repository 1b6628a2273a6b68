"""How long a day's migrations take to plan: 10,000 hosts with 30 requests each, curves of a whole distribution.

    python benchmarks/rectification.py [--hosts 10000] [--json rectification.json]

Prints seconds per rectifier and budget, the best of 3, after compiling; and writes them as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from sojourn.simulator.rectification import RECTIFIERS, PoolView

PER_HOST, N_BREAKPOINTS, DAY_S = 30, 24, 86_400


def made_view(n_hosts: int, seed: int = 0) -> PoolView:
    """Hosts of 96 cores and 384 GiB, half of them with long requests; hyperexponential curves."""
    rng = np.random.default_rng(seed)
    n = n_hosts * PER_HOST
    host = np.repeat(np.arange(n_hosts), PER_HOST)
    need = np.stack([rng.integers(1, 4, n), rng.integers(1, 12, n)], axis=1)
    capacity = np.tile(np.array([96, 384]), (n_hosts, 1))
    used = np.stack([np.bincount(host, need[:, d], n_hosts) for d in range(2)], axis=1).astype(np.int64)
    curve = np.where(rng.random(n) < 0.02, rng.integers(48, 64, n), rng.integers(0, 8, n))
    return PoolView(capacity, capacity - used, 0, np.ones(n_hosts, bool), np.full(n_hosts, PER_HOST),
                    np.zeros(n_hosts, np.int64), host, need, rng.integers(0, 7_200, n), rng.random(n) < 0.4,
                    np.full(n, -1), np.full(n, -1), *made_curves(curve))


def made_curves(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A view's fields of curves, for requests with one of 64 exponential curves, int64 (n,): means of 1 h to 30 d."""
    grid_s = np.concatenate([[0], np.geomspace(600, 60 * DAY_S, N_BREAKPOINTS - 1)])
    means_s = np.geomspace(3_600, 30 * DAY_S, 64)  # E[max(T - u, 0)] = mean exp(-u / mean)
    overhang = np.rint(means_s[:, None] * np.exp(-grid_s / means_s[:, None])).astype(np.int64)
    uptimes = np.tile(np.rint(grid_s).astype(np.int64), 64)
    totals = (uptimes.reshape(64, -1) + np.rint(means_s)[:, None]).astype(np.int64)
    totals[:, :-1] = np.maximum(totals[:, :-1], uptimes.reshape(64, -1)[:, 1:])
    return curve * N_BREAKPOINTS, (curve + 1) * N_BREAKPOINTS, uptimes, totals.reshape(-1), overhang.reshape(-1)


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--json", type=Path, default=Path("build/rectification.json"))
    options = parser.parse_args()
    view, rows = made_view(options.hosts), []
    for name, planner in RECTIFIERS.items():
        planner(made_view(10), 5, DAY_S)  # compiles
        for budget in (5, 50, 500):
            times = []
            for _ in range(3):
                started = time.perf_counter()
                groups = planner(view, budget, DAY_S)
                times.append(time.perf_counter() - started)
            n_planned = sum(map(len, groups))
            rows.append({"rectifier": name, "budget": budget, "seconds": min(times), "n_planned": n_planned})
            print(f"{name:8s} budget {budget:4d}  {min(times):6.3f} s  {n_planned} migrations", flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    found = {"n_hosts": options.hosts, "n_requests": len(view.host), "rows": rows}
    options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
