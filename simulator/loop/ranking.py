"""Hosts kept sorted by the packing score within each shape, so that a scan can stop at the first good host.

Among hosts of one capacity the free share left after a placement orders hosts as their free amounts do, for
every request alike. Shape, emptiness, free amounts and host index therefore make one integer per host. Pools of a fixed
size are ranked only where all hosts have one shape, elastic ones for each of their types apart.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import NEVER, Cluster
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.state import Ranking

_KEY_BITS = 63


def ranking(capacity: np.ndarray, need: np.ndarray) -> Ranking | None:
    """The ranking of all hosts empty; None where hosts differ or a key would not fit into 63 bits."""
    if (capacity != capacity[0]).any():
        return None
    order = _layout(capacity[:1], need, len(capacity))
    if order is None:
        return None
    empty = 1
    for width, amount in zip(order.bits, capacity[0] >> order.shift, strict=True):
        empty = (empty << int(width)) | int(amount)
    order.key[:] = (np.int64(empty) << order.host_bits[0]) | np.arange(len(capacity))
    return order


def pool_ranking(shapes: np.ndarray, need: np.ndarray, n_places: int) -> Ranking | None:
    """The ranking of an elastic pool with no host on; None where a key would not fit into 63 bits.

    shapes: int64 (n_types, n_resources), capacities of the types. need: int64 (n_requests, n_resources).
    """
    return _layout(shapes, need, n_places)


def no_ranking(n_resources: int) -> Ranking:
    """What a world holds whose hosts are not ranked."""
    none, amounts = np.zeros(0, np.int64), np.zeros(n_resources, np.int64)
    return Ranking(none, none, amounts, amounts, np.zeros(1, np.int64))


def _layout(shapes: np.ndarray, need: np.ndarray, n_hosts: int) -> Ranking | None:
    """Widths of the parts of a key; all keys are NEVER, and all hosts of the first shape."""
    amounts = np.bitwise_or.reduce(need, axis=0, initial=0) | np.bitwise_or.reduce(shapes, axis=0)
    shift = np.array([_trailing_zeros(int(value)) for value in amounts], np.int64)
    bits = np.array([int(value).bit_length() for value in shapes.max(axis=0) >> shift], np.int64)
    host_bits = max(int(n_hosts - 1).bit_length(), 1)
    if int(len(shapes) - 1).bit_length() + 1 + int(bits.sum()) + host_bits > _KEY_BITS:
        return None
    return Ranking(np.full(n_hosts, NEVER), np.zeros(n_hosts, np.int64), bits, shift, np.array([host_bits]))


@inner
def key_of(cluster: Cluster, order: Ranking, host: int) -> int:
    """The packed key of a host's present state."""
    key = (order.kind[host] << 1) | (1 if cluster.n_running[host] == 0 else 0)
    for dimension in range(len(order.bits)):
        key = (key << order.bits[dimension]) | (cluster.free[host, dimension] >> order.shift[dimension])
    return (key << order.host_bits[0]) | host


@inner
def first_position(order: Ranking, need: np.ndarray, kind: int) -> int:
    """Position of the shape's first host in use whose free amount in dimension 0 suffices, or of its first empty one.

    need: must not exceed the shape.
    """
    key = kind << 1
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
