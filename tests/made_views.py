"""Pools by hand: hosts of 8 cores and 64 GiB, and requests with an oracle's predictions or curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.simulator.rectification import PoolView

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
