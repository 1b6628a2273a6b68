"""Placement by use over time: the least increase of violations above a virtual capacity, or of squared load."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sojourn.simulator.colocation._colocation_kernels import place_block, score_products, score_violations
from sojourn.simulator.colocation.colocation import UNITS, Colocation

_MOST_BLOCK = 64
"""Requests a block; see the kernels. A block never has more than a 32nd of the hosts."""


def period_aware(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least increase of aggregate violation severity (period-aware placement, Algorithm 1).

    increase(i) = sum over t of max(0, L_i(t) + f(t) - C(t)) - max(0, L_i(t) - C(t)), with the virtual capacity C(t) =
    the sum of f_k(t) of all requests so far and this one, over the number of hosts. The paper prints 1/m over the
    requests: see `period_aware_per_request`.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> period_aware(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "hosts")


def period_aware_per_request(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `period_aware`, with C(t) = the mean use of a request, as the paper prints it.

    With several requests a host nearly all load is above that line, the increase is nearly the request's whole use on
    every host, and what remains is noise.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> period_aware_per_request(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "requests")


def squares(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least increase of the sum over time of squared load; ours.

    increase(i) = sum over t of 2 L_i(t) f(t) + f(t)^2; the last term is the same for every host. It needs no capacity.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> squares(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "squares")


def violation_fit(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least increase of violations above the real capacity; ties go to the host with the greatest load.

    increase(i) = sum over t of max(0, L_i(t) + f(t) - c) - max(0, L_i(t) - c). Most hosts tie at 0; the fullest of them
    takes the request, so that hosts stay empty for requests that come later and need most of one.

    >>> day = np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 0.0], [4.0, 0.0]])
    >>> violation_fit(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 0, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "capacity")


def oracle_series(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `squares`, by the real use: what a greedy policy gains if its model is perfect.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> blind = Colocation(day, 2, 4.0, model=np.full((4, 1), 4.0))
    >>> oracle_series(blind, np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.used, colocation.n_hosts, order, "squares")


def _greedy(series: np.ndarray, n_hosts: int, order: np.ndarray,
            by: Literal["hosts", "requests", "squares", "capacity"]) -> np.ndarray:
    """series: int32 (n, n_columns), in units of a host's capacity."""
    n_columns = series.shape[1]
    loads = np.zeros((n_hosts, n_columns), np.int32)
    sums, is_changed = np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.bool_)
    total = np.zeros(n_columns, np.int64)
    hosts = np.empty(len(order), np.int64)
    n_block = min(max(n_hosts // 32, 1), _MOST_BLOCK)
    for start in range(0, len(order), n_block):
        rows = order[start:start + n_block]
        use = series[rows]
        room = np.empty((0, n_columns), np.int32)
        scores = np.zeros((len(rows), n_hosts), np.int64)
        if by == "squares":
            score_products(loads, use, scores)
        else:
            if by == "capacity":
                room = np.int32(UNITS) - use
            else:
                sofar = total + np.cumsum(use, axis=0, dtype=np.int64)
                total = sofar[-1]
                among = np.int64(n_hosts) if by == "hosts" else np.arange(start + 1, start + len(rows) + 1)[:, None]
                room = (sofar // among - use).astype(np.int32)
            score_violations(loads, use, room, scores)
        chosen = np.empty(len(rows), np.int64)
        place_block(loads, sums, use, room, scores, is_changed, np.empty(len(rows), np.int64), by == "capacity",
                    chosen)
        hosts[rows] = chosen
    return hosts
