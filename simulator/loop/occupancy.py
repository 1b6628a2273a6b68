"""The room of hosts: what is free, totals and samples over time, the ranking of hosts, and reasons
of a rejection.

The ranking keeps hosts sorted by the packing score within each shape, so that a scan can stop at
the first good host. Among hosts of one capacity the free share after a placement orders hosts as
their free amounts do, for every request. So shape, emptiness, free amounts and host index make one
integer per host. Pools of a fixed size are ranked only if all hosts have one shape, elastic ones
within each type.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import NEVER, WHOLE_GPU, Cluster
from sojourn.simulator.jit import inlined, inner, kernel
from sojourn.simulator.loop.state import (
    ALLOCATED,
    DRAINED,
    EMPTY_HOSTS,
    FILTERED,
    FRAGMENTED,
    N_TOGETHER,
    OPEN,
    RULED_OUT,
    Ranking,
    Timeline,
    World,
)


@inlined
def occupy(world: World, request: int, host: int, sign: int, gpu: int = -1) -> None:
    """Subtract a request's need from a host's free room (sign 1) or add it (-1).

    gpu: which one a share of a GPU gets; -1 = the fullest with room.
    """
    cluster, level = world.cluster, world.level
    is_ranked = len(world.order.key) > 0
    old_key = key_of(cluster, world.order, host) if is_ranked else 0
    n_resources = world.need.shape[1]
    was_empty = cluster.n_running[host] == 0
    cluster.n_running[host] += sign
    is_empty = cluster.n_running[host] == 0
    for d in range(n_resources):
        amount = sign * world.need[request, d]
        cluster.free[host, d] -= amount
        level[ALLOCATED + d] += amount
    if cluster.gpu_free.shape[1] > 0:
        hold_gpus(cluster, request, host, world.need[request, cluster.gpu_dimension[0]], sign, gpu)
    if was_empty != is_empty:
        if cluster.closed[host] < DRAINED:  # a drained or failed host does not count as empty
            level[EMPTY_HOSTS] -= sign
        for d in range(n_resources):
            level[ALLOCATED + n_resources + d] += sign * cluster.capacity[host, d]
    if is_ranked:
        move(world.order, old_key, key_of(cluster, world.order, host))


@inner
def pass_time(world: World, timeline: Timeline, now: int) -> None:
    """Add the levels up to `now` to the totals, and fill the timeline at the marks before it."""
    level, total, counts = world.level, world.total, world.counts[0]
    time, mark = counts.time_s, counts.mark
    while mark < len(timeline.mark_s) and timeline.mark_s[mark] < now:
        for q in range(len(level)):
            total[q] += level[q] * (timeline.mark_s[mark] - time)
            timeline.integral[mark, q] = total[q]
        time = timeline.mark_s[mark]
        timeline.counts[mark] = counts
        if timeline.sample[mark] >= 0:
            _take_sample(world, timeline, timeline.sample[mark], timeline.mark_s[mark])
        mark += 1
    for q in range(len(level)):
        total[q] += level[q] * (now - time)
    counts.time_s, counts.mark = now, mark


@inner
def _take_sample(world: World, timeline: Timeline, k: int, now: int) -> None:
    cluster, settings = world.cluster, world.settings[0]
    for host in range(len(cluster.n_running)):
        timeline.n_running[k, host] = cluster.n_running[host]
        for d in range(cluster.free.shape[1]):
            timeline.free[k, host, d] = cluster.free[host, d]
        row = world.hosts[host].first
        while row >= 0:
            record = world.requests[row]
            timeline.last_end_s[k, host] = max(timeline.last_end_s[k, host], record.ends_s)
            if record.ends_s - now > settings.long_s:
                timeline.n_long[k, host] += 1
                timeline.long_cpu[k, host] += world.need[row, settings.cpu]
            if record.owner >= 0:
                timeline.of_owner[record.owner] += 1
            row = record.next
        if len(timeline.of_owner) > 0:
            _count_exposed(world, timeline, k, host)


@inner
def _count_exposed(world: World, timeline: Timeline, k: int, host: int) -> None:
    row = world.hosts[host].first
    while row >= 0:
        owner = world.requests[row].owner
        if owner >= 0:
            timeline.n_owned[k, host] += 1
            timeline.n_exposed[k, host] += timeline.of_owner[owner] > N_TOGETHER
        row = world.requests[row].next
    row = world.hosts[host].first
    while row >= 0:
        if world.requests[row].owner >= 0:
            timeline.of_owner[world.requests[row].owner] = 0
        row = world.requests[row].next


@inner
def sample_state(world: World, timeline: Timeline, state: np.ndarray, now: int) -> None:
    """Copy a policy's state of each host into the samples before `now` that are still to come."""
    mark = world.counts[0].mark
    while mark < len(timeline.mark_s) and timeline.mark_s[mark] < now:
        if timeline.sample[mark] >= 0:
            for host in range(len(state)):
                timeline.state[timeline.sample[mark], host] = state[host]
        mark += 1


_KEY_BITS = 63


def ranking(capacity: np.ndarray, need: np.ndarray) -> Ranking | None:
    """The ranking of all hosts, empty; None if hosts differ or a key would not fit into 63 bits."""
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
    """The ranking of an elastic pool with no host on; None if a key would not fit into 63 bits.

    shapes: int64 (n_types, n_resources), capacities of the types. need: int64 (n_requests, n_resources).
    """
    return _layout(shapes, need, n_places)


def no_ranking(n_resources: int) -> Ranking:
    """The empty ranking of a world whose hosts are not ranked."""
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
    """The packed key of a host's state."""
    key = (order.kind[host] << 1) | (1 if cluster.n_running[host] == 0 else 0)
    for dimension in range(len(order.bits)):
        key = (key << order.bits[dimension]) | (cluster.free[host, dimension] >> order.shift[dimension])
    return (key << order.host_bits[0]) | host


@inner
def first_position(order: Ranking, need: np.ndarray, kind: int) -> int:
    """Position of the shape's first host in use with enough free in dimension 0, or of its first
    empty one.

    need: must not exceed the shape.
    """
    key = kind << 1
    for dimension in range(len(order.bits)):
        amount = need[0] >> order.shift[0] if dimension == 0 else 0
        key = (key << order.bits[dimension]) | amount
    return _position(order.key, key << order.host_bits[0])


@inner
def move(order: Ranking, old_key: int, new_key: int) -> None:
    """Move a host whose key has changed to its new place."""
    # Known ends and unsigned positions (signed ones might count from the end) let the loops move whole vectors: four
    # times as fast at 10,000 hosts.
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


@inlined
def fits(cluster: Cluster, host: int, need: np.ndarray) -> bool:
    """Whether the host's free amounts cover the need in every dimension."""
    for dimension in range(len(need)):
        if cluster.free[host, dimension] < need[dimension]:
            return False
    return cluster.gpu_free.shape[1] == 0 or gpus_fit(cluster, host, need[cluster.gpu_dimension[0]])


@kernel
def gpus_fit(cluster: Cluster, host: int, milli: int) -> bool:
    """Whether one of the host's GPUs has room for a share, or enough of them are wholly free."""
    n_left, each = (milli + WHOLE_GPU - 1) // WHOLE_GPU, min(milli, WHOLE_GPU)
    for gpu in range(cluster.gpu_free.shape[1]):
        n_left -= cluster.gpu_free[host, gpu] >= each
    return n_left <= 0


@inner
def hold_gpus(cluster: Cluster, request: int, host: int, milli: int, sign: int, chosen: int) -> None:
    """Give a request its GPUs on a host (sign 1), or take them back (-1); milli: whole GPUs, or a share of one."""
    free, held, each = cluster.gpu_free, cluster.gpu_held, min(milli, WHOLE_GPU)
    is_first_held = held[request, 1] != 0
    slot = 0 if (not is_first_held if sign > 0 else is_first_held and held[request, 0] == host) else 2
    bits = held[request, slot + 1] if sign < 0 else 0
    if sign > 0 and 0 < milli < WHOLE_GPU:
        if chosen < 0:
            for gpu in range(free.shape[1]):
                if free[host, gpu] >= milli and (chosen < 0 or free[host, gpu] < free[host, chosen]):
                    chosen = gpu
        bits = 1 << chosen
    elif sign > 0:
        n_left = milli // WHOLE_GPU
        for gpu in range(free.shape[1]):
            if n_left > 0 and free[host, gpu] == WHOLE_GPU:
                bits |= 1 << gpu
                n_left -= 1
    for gpu in range(free.shape[1]):
        free[host, gpu] -= sign * each * ((bits >> gpu) & 1)
    held[request, slot], held[request, slot + 1] = host, bits if sign > 0 else 0


@kernel
def takes_kind(kind: int, host_kind: int) -> bool:
    """Whether a request of a kind may run on a host of a kind; see `ConstraintArrays`."""
    return kind == -1 or kind == host_kind or (kind < -1 and ((-2 - kind) >> host_kind) & 1 == 1)


@inner
def is_allowed(world: World, host: int, request: int) -> bool:
    """Whether the host is open and the rules allow the request on it, room aside."""
    if world.cluster.closed[host] != OPEN:
        return False
    if world.settings[0].has_kinds == 1:
        kind = world.requests[request].kind
        if not takes_kind(kind, world.hosts[host].kind):
            return False
    if world.settings[0].has_groups == 1:
        group = world.requests[request].group
        other = world.hosts[host].first if group >= 0 else -1
        while other >= 0:
            if world.requests[other].group == group and other != request:
                return False
            other = world.requests[other].next
    return True


@inner
def shortage(world: World, request: int) -> int:
    """Why no host was chosen: bit mask of the resources short on every open host, else one of these
    reasons.

    FRAGMENTED: each resource is free on some host, but never all on one. RULED_OUT: hosts had room,
    but a rule excludes them. FILTERED: an allowed host had room, but the policy's filter excluded
    it.
    """
    cluster, need = world.cluster, world.need[request]
    mask = 0
    for dimension in range(len(need)):
        is_short = True
        for host in range(len(cluster.n_running)):
            if cluster.closed[host] == OPEN and cluster.free[host, dimension] >= need[dimension]:
                is_short = False
                break
        if is_short:
            mask |= 1 << dimension
    if mask:
        return mask
    reason = FRAGMENTED
    for host in range(len(cluster.n_running)):
        if cluster.closed[host] == OPEN and fits(cluster, host, need):
            if is_allowed(world, host, request):
                return FILTERED
            reason = RULED_OUT
    return reason
