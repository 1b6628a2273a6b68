"""How much of the best plan's worth `value` brings: its greedy choice against a mixed-integer program.

    python -m studies greedy-share [--n-pools 100] [--budget 3]

Drawn pools of 8 hosts and 20 requests with whole curves, of which 40 % can't be migrated; all migrations begin at once.
Prints the share of the best worth, over the pools in which some plan frees at least LEAST_GAIN_S with each migration
and over all in which some plan gains.
"""

from __future__ import annotations

import argparse

import numpy as np
from benchmarks.rectification import made_curves

from sojourn.simulator.rectification import DAY_S, RECTIFIERS, PoolView, exact_plan
from sojourn.simulator.rectification.value import LEAST_GAIN_S

N_HOSTS, N_REQUESTS, CORES = 8, 20, 16


def drawn_pool(seed: int) -> PoolView:
    """Hosts of 16 cores and 64 GiB; requests of 1 to 4 cores, means of 1 h to 30 d."""
    rng = np.random.default_rng(seed)
    need = np.stack([rng.integers(1, 5, N_REQUESTS), rng.integers(1, 9, N_REQUESTS)], axis=1)
    capacity = np.tile(np.array([CORES, 64]), (N_HOSTS, 1))
    free, host = capacity.copy(), np.zeros(N_REQUESTS, np.int64)
    for request in range(N_REQUESTS):
        host[request] = rng.choice(np.flatnonzero((free >= need[request]).all(axis=1)))
        free[host[request]] -= need[request]
    curves = made_curves(rng.integers(0, 64, N_REQUESTS))
    none = np.full(N_REQUESTS, -1)
    return PoolView(capacity, free, 0, np.ones(N_HOSTS, bool), np.bincount(host, minlength=N_HOSTS),
                    np.zeros(N_HOSTS, np.int64), host, need, rng.integers(0, DAY_S, N_REQUESTS),
                    rng.random(N_REQUESTS) < 0.4, none, none, *curves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-pools", type=int, default=100)
    parser.add_argument("--budget", type=int, default=3, choices=(1, 2, 3))
    given = parser.parse_args()
    rows = []
    for seed in range(given.n_pools):
        view = drawn_pool(seed)
        best = exact_plan(view, given.budget)
        found = RECTIFIERS["value"](view, given.budget, DAY_S)
        worths = [sum(each.gain_s for each in groups) for groups in (found, best)]
        rows.append((*worths, worths[1] >= LEAST_GAIN_S * sum(map(len, best)), worths[1] > 60.0))
    table = np.array(rows)
    for name, is_told in (("where each migration of the best plan frees enough", table[:, 2] > 0),
                          ("where some plan gains", table[:, 3] > 0)):
        told = table[is_told]
        shares = told[:, 0] / told[:, 1]
        print(f"{name}: {len(told)} pools, mean share {shares.mean():.3f}, of the sum "
              f"{told[:, 0].sum() / told[:, 1].sum():.3f}, at the best {np.mean(shares > 1 - 1e-6):.2f} of them, "
              f"worst {shares.min():.2f}")


if __name__ == "__main__":
    main()
