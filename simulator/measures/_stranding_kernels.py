"""Compiled: fills a cluster until no draw fits. Slow twin:
tests/simulator/measures/test_stranding.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.jit import inner, kernel
from sojourn.simulator.loop import Ranking, first_position, fits, key_of, move
from sojourn.simulator.policies import free_share_left, opens_host


@kernel
def rank(cluster: Cluster, order: Ranking) -> None:
    for host in range(len(order.key)):
        order.key[host] = key_of(cluster, order, host)


@kernel
def inflate(cluster: Cluster, order: Ranking, shapes: np.ndarray, drawn: np.ndarray, is_gone: np.ndarray,
            left: np.ndarray) -> None:
    """Place until no shape is left; `left` holds the free amounts at the first misfit and at the end."""
    free = cluster.free
    n_left = 0
    for shape in range(len(shapes)):
        n_left += not is_gone[shape]
    is_misfit = False
    while n_left > 0:
        for k in range(len(drawn)):
            shape = drawn[k]
            if is_gone[shape]:
                continue
            need = shapes[shape]
            host = best_ranked_host(cluster, order, need) if len(order.key) > 0 else best_host(cluster, need)
            if host >= 0:
                old_key = key_of(cluster, order, host)
                cluster.n_running[host] += 1
                for d in range(len(need)):
                    free[host, d] -= need[d]
                if len(order.key) > 0:
                    move(order, old_key, key_of(cluster, order, host))
                continue
            if not is_misfit:
                sum_free(free, left[0])
            is_misfit = is_gone[shape] = True
            n_left -= 1
    sum_free(free, left[1])
    if not is_misfit:  # nothing was drawn
        sum_free(free, left[0])


@inner
def best_ranked_host(cluster: Cluster, order: Ranking, need: np.ndarray) -> int:
    """The first host with room in the order of the packing score, or -1."""
    host_mask = (1 << order.host_bits[0]) - 1
    for position in range(first_position(order, need, 0), len(order.key)):
        host = order.key[position] & host_mask
        if fits(cluster, host, need):
            return int(host)
        if cluster.n_running[host] == 0:
            break  # empty hosts are alike
    return -1


@inner
def best_host(cluster: Cluster, need: np.ndarray) -> int:
    """The host with room and the lowest packing score, or -1."""
    request = Request(0, need, 0, 0, need, need)
    best = -1
    for host in range(len(cluster.free)):
        if not fits(cluster, host, need):
            continue
        is_better = best < 0
        if not is_better:
            step = opens_host(cluster, host, request, 0) - opens_host(cluster, best, request, 0)
            for d in range(len(need)):
                if step == 0:
                    step = free_share_left(cluster, host, request, d) - free_share_left(cluster, best, request, d)
            is_better = step < 0
        if is_better:
            best = host
    return best


@inner
def sum_free(free: np.ndarray, total: np.ndarray) -> None:
    for host in range(len(free)):
        for d in range(len(total)):
            total[d] += free[host, d]
