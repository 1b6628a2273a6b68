"""Pools by hand: hosts of 8 cores and 64 GiB, and requests with an oracle's predictions or curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.simulator.rectification import PoolView, edges_s
from sojourn.simulator.rectification.value import chances

HOUR = 3_600


def pool_of(requests: list[tuple[Any, ...]], n_hosts: int, **given: Any) -> PoolView:
    """Requests as (host, cores, hours that are left), and with a fourth entry "fixed" if they can't migrate.

    given: fields in place of what follows from that.
    """
    host = np.array([row[0] for row in requests], np.int64)
    need = np.array([[row[1], 1] for row in requests], np.int64).reshape(-1, 2)
    total_s = np.array([round(row[2] * HOUR) for row in requests], np.int64)
    n, none = len(requests), np.zeros(0, np.int64)
    used = np.stack([np.bincount(host, need[:, d], n_hosts) for d in range(2)], axis=1).astype(np.int64)
    capacity = np.tile(np.array([8, 64]), (n_hosts, 1))
    fields: dict[str, Any] = {
        "capacity": capacity, "free": capacity - used, "cpu": 0, "is_open": np.ones(n_hosts, bool),
        "n_holding": np.bincount(host, minlength=n_hosts), "host_kind": np.zeros(n_hosts, np.int64), "host": host,
        "need": need, "uptime_s": np.zeros(n, np.int64),
        "is_fixed": np.array([len(row) > 3 for row in requests], bool), "kind": np.full(n, -1),
        "group": np.full(n, -1), "curve_start": np.arange(n), "curve_end": np.arange(n) + 1,
        "breakpoint_s": np.zeros(n, np.int64), "total_s": total_s, "overhang_s": none}
    return PoolView(**{**fields, **given})


def curve_view(seed: int, n_hosts: int) -> PoolView:
    """Drawn requests with drawn curves of four breakpoints, some of them without a whole distribution."""
    rng = np.random.default_rng(seed)
    requests, free = [], np.full(n_hosts, 8)
    for _ in range(4 * n_hosts):
        host, cores = int(rng.integers(n_hosts)), int(rng.integers(1, 4))
        if free[host] >= cores:
            free[host] -= cores
            requests.append((host, cores, 0, *(["fixed"] * (rng.random() < 0.2))))
    n, m = len(requests), 4
    uptimes = np.concatenate([[0, *np.sort(rng.choice(np.arange(1, 200), m - 1, replace=False)) * HOUR]
                              for _ in range(n)]).astype(np.int64)
    following = np.append(uptimes[1:], 0)
    totals = np.maximum(uptimes, following) + rng.integers(0, 300, n * m) * HOUR
    overhang = np.sort(rng.integers(0, 200 * HOUR, (n, m)), axis=1)[:, ::-1].reshape(-1)
    starts = np.arange(n) * m
    return pool_of(requests, n_hosts, curve_start=starts, curve_end=starts + m, breakpoint_s=uptimes, total_s=totals,
                   overhang_s=overhang if rng.random() < 0.7 else np.zeros(0, np.int64),
                   uptime_s=rng.integers(0, 300, n) * HOUR)


def worth_of(view: PoolView, moved: dict[int, int]) -> float:
    """Host-seconds that migrations gain, as things would be if all were done: requests by their targets."""
    ended, weight_s = chances(view), np.diff(edges_s())

    def empty_s(host: np.ndarray) -> np.ndarray:
        return np.array([float((weight_s * ended[host == at].prod(axis=0)).sum()) for at in range(len(view.capacity))])

    after = view.host.copy()
    for request, target in moved.items():
        after[request] = target
    gained = empty_s(after) - empty_s(view.host)
    return float(gained[np.unique(np.append(view.host, 0))].sum())  # a host that was empty is not freed
