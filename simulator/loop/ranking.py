"""Hosts of one shape kept sorted by the packing score, so that a scan can stop at the first good host.

With one capacity for all, the free share left after a placement orders hosts as their free amounts do, for
every request alike. Emptiness, free amounts and host index therefore make one integer per host.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import Cluster
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.state import Ranking

_KEY_BITS = 63


def ranking(capacity: np.ndarray, need: np.ndarray) -> Ranking | None:
    """The ranking of all hosts empty; None where hosts differ or a key would not fit into 63 bits."""
    if (capacity != capacity[0]).any():
        return None
    amounts = np.bitwise_or.reduce(need, axis=0, initial=0) | capacity[0]
    shift = np.array([_trailing_zeros(int(value)) for value in amounts], np.int64)
    bits = np.array([int(value).bit_length() for value in capacity[0] >> shift], np.int64)
    host_bits = max(int(len(capacity) - 1).bit_length(), 1)
    if 1 + int(bits.sum()) + host_bits > _KEY_BITS:
        return None
    empty = 1
    for width, amount in zip(bits, capacity[0] >> shift, strict=True):
        empty = (empty << int(width)) | int(amount)
    key = (np.int64(empty) << host_bits) | np.arange(len(capacity))
    return Ranking(key, bits, shift, np.array([host_bits]))


@inner
def key_of(cluster: Cluster, order: Ranking, host: int) -> int:
    """The packed key of a host's present state."""
    key = 1 if cluster.n_running[host] == 0 else 0
    for dimension in range(len(order.bits)):
        key = (key << order.bits[dimension]) | (cluster.free[host, dimension] >> order.shift[dimension])
    return (key << order.host_bits[0]) | host


@inner
def first_position(order: Ranking, need: np.ndarray) -> int:
    """Position of the first host in use whose free amount in dimension 0 suffices, or of the first empty one."""
    key = 0
    for dimension in range(len(order.bits)):
        amount = need[0] >> order.shift[0] if dimension == 0 else 0
        key = (key << order.bits[dimension]) | amount
    return _position(order.key, key << order.host_bits[0])


@inner
def move(order: Ranking, old_key: int, new_key: int) -> None:
    """Put a host whose key has changed back into its place."""
    # Ends known beforehand and unsigned positions (signed ones might count from the end) let the loops move whole
    # vectors: four times as fast at 10,000 hosts.
    key, one = order.key, np.uint64(1)
    k, to = np.uint64(_position(key, old_key)), np.uint64(_position(key, new_key))
    if to > k:
        to -= one
        for i in range(k, to):
            key[i] = key[i + one]
    else:
        for j in range(k - to):
            above = k - np.uint64(j)
            key[above] = key[above - one]
    key[to] = new_key


@inner
def _position(key: np.ndarray, wanted: int) -> int:
    low, high = 0, len(key)
    while low < high:
        middle = (low + high) >> 1
        if key[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else 0
