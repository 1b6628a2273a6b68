"""Seconds that placement by usage takes for one order, on one core: requests, hosts and slots as in the experiments.

The baseline is `borg-peak`, which looks at one number of a host. `numpy` is `squares` written as one product of the
matrix of loads and the request's use per request, in float32.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from sojourn.simulator.colocation import UNITS, Colocation, place

SIZES = ((100, 20, 288), (10_000, 2_000, 288), (10_000, 2_000, 8_640))
POLICIES = ("borg-peak", "best-fit", "period-aware", "squares", "violation-fit")
_LONG = 1_000
"""From so many slots on one run is enough, and numpy is left out."""


def made(n: int, n_hosts: int, n_slots: int) -> Colocation:
    """Pulse waves of 6, 12 and 24 h; hosts are used to half."""
    rng = np.random.default_rng(0)
    period, duty, peak = rng.choice((72, 144, 288), n), rng.uniform(0.1, 0.5, n), rng.uniform(0.5, 1.0, n)
    begin = rng.random(n) * period
    use = np.empty((n, n_slots), np.float32)
    for row in range(n):
        is_busy = (np.arange(n_slots) - begin[row]) % period[row] < duty[row] * period[row]
        use[row] = np.where(is_busy, peak[row], 0.1 * peak[row])
    return Colocation(use, n_hosts, float(use.mean(axis=1, dtype=np.float64).sum()) / n_hosts / 0.5)


def by_numpy(colocation: Colocation, order: np.ndarray) -> np.ndarray:
    """Hosts by squared load, one matrix-vector product a request."""
    use = colocation.used.astype(np.float32) / UNITS
    loads = np.zeros((colocation.n_hosts, use.shape[1]), np.float32)
    hosts = np.empty(len(order), np.int64)
    for request in order.tolist():
        host = int(np.argmin(loads @ use[request]))
        loads[host] += use[request]
        hosts[request] = host
    return hosts


def seconds(run: Callable[[], object], n_runs: int) -> float:
    """Median over runs, after one that compiles where there are several."""
    taken = []
    for _ in range(n_runs):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return median(taken)


def main() -> None:
    """Print a table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".sojourn/benchmarks/colocation.json"))
    out = parser.parse_args().out
    small = made(40, 4, 12)
    for policy in POLICIES:
        place(small, policy, np.arange(40))  # compiles
    rows = []
    print(f"{'requests':>9}{'hosts':>7}{'slots':>7}  {'policy':<15}{'seconds':>9}{'of borg-peak':>14}")
    for n, n_hosts, n_slots in SIZES:
        colocation, order = made(n, n_hosts, n_slots), np.random.default_rng(1).permutation(n)
        n_runs = 1 if n_slots >= _LONG else 3
        baseline_s = 0.0
        for policy in (*POLICIES, *(() if n_slots >= _LONG else ("numpy",))):
            is_numpy = policy == "numpy"
            run = partial(by_numpy, colocation, order) if is_numpy else partial(place, colocation, policy, order)
            took_s = seconds(run, 1 if is_numpy else n_runs)
            baseline_s = baseline_s or took_s
            rows.append({"n_requests": n, "n_hosts": n_hosts, "n_slots": n_slots, "policy": policy, "seconds": took_s,
                         "ratio": took_s / baseline_s})
            print(f"{n:>9,}{n_hosts:>7,}{n_slots:>7,}  {policy:<15}{took_s:>9.3f}{took_s / baseline_s:>14.1f}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
