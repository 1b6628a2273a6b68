"""Ordering, opening and releasing the machines of an elastic pool, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.elastic.autoscaler_kernels import scale_out
from sojourn.simulator.elastic.ctcl_host_kernels import bind, unbind
from sojourn.simulator.elastic.ctcl_request_kernels import place
from sojourn.simulator.elastic.ctcl_room_kernels import is_room
from sojourn.simulator.elastic.ctcl_state import (
    BOOTING,
    MACHINE,
    NONE,
    ORDER,
    READY,
    ROWS,
    SIZES,
    SLOT_OF,
    TYPE_OF,
    Rules,
    World,
)
from sojourn.simulator.jit import inner


@inner
def order_machine(world: World, rules: Rules, kind: int, now: int) -> int:
    """The slot of a new machine, or -1 where there is none left."""
    for host in range(len(world.hosts)):
        if world.hosts[host].state != NONE:
            continue
        counts = world.counts
        counts[0].n_slots = max(counts[0].n_slots, host + 1)
        world.hosts[host].state, world.hosts[host].kind, world.hosts[host].serial = BOOTING, kind, counts[0].n_serials
        counts[0].n_serials += 1
        world.hosts[host].ready = now + world.lags[counts[0].n_lags % len(world.lags)]
        counts[0].n_lags += 1
        counts[0].next_ready = min(counts[0].next_ready, world.hosts[host].ready)
        for d in range(2):
            world.hosts[host].capacity[d], world.hosts[host].limit[d] = world.capacities[kind, d], world.limits[kind, d]
            world.hosts[host].bound[d] = 0
        return host
    world.counts[0].n_short_of_slots += 1
    return -1


@inner
def open_machine(world: World, host: int, now: int) -> None:
    world.hosts[host].state = READY
    world.counts[0].n_ready += 1
    world.n_of_type[world.hosts[host].kind] += 1
    world.counts[0].is_freed = 1
    world.hosts[host].idle_since = now
    for d in range(2):
        world.totals[2 + d] += world.hosts[host].capacity[d]


@inner
def open_ready(world: World, rules: Rules, now: int) -> None:
    """Machines that have booted take the requests bound to them."""
    counts = world.counts
    if counts[0].next_ready > now:
        return
    counts[0].next_ready = NEVER
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != BOOTING:
            continue
        if world.hosts[host].ready > now:
            counts[0].next_ready = min(counts[0].next_ready, world.hosts[host].ready)
            continue
        open_machine(world, host, now)
        counts[0].next_release = min(counts[0].next_release, now + rules.idle_release)
        counts[0].n_services_pending = take_bound(world, rules, host, world.service_queue,
                                                  counts[0].n_services_pending, now)
        counts[0].n_pending = take_bound(world, rules, host, world.queue, counts[0].n_pending, now)


@inner
def take_bound(world: World, rules: Rules, host: int, queue: np.ndarray, n: int, now: int) -> int:
    """Length of the queue after the host took what is bound to it, as far as it fits."""
    kept = 0
    for k in range(n):
        request = queue[k]
        if world.requests[request].bound == host:
            if is_room(world, rules, host, request, now):
                place(world, rules, host, request)
                continue
            unbind(world, request)
        queue[kept] = request
        kept += 1
    return kept


@inner
def release_idle(world: World, rules: Rules, now: int) -> None:
    counts = world.counts
    if counts[0].next_release > now:
        return
    counts[0].next_release = NEVER
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != READY or world.hosts[host].n_services + world.hosts[host].n_batch > 0:
            continue
        at = world.hosts[host].idle_since + rules.idle_release
        if at > now:
            counts[0].next_release = min(counts[0].next_release, at)
            continue
        world.hosts[host].state = NONE
        counts[0].is_freed = 1  # a slot
        counts[0].n_ready -= 1
        world.n_of_type[world.hosts[host].kind] -= 1
        for d in range(2):
            world.totals[2 + d] -= world.hosts[host].capacity[d]


@inner
def bind_to_ordered(world: World, request: int, is_service: bool) -> bool:
    """Whether a machine that is booting has room for the request; it is bound to the first."""
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != BOOTING:
            continue
        limit = world.hosts[host].capacity if is_service else world.hosts[host].limit
        if (world.hosts[host].bound[0] + world.demand[request, 0] <= limit[0]
                and world.hosts[host].bound[1] + world.demand[request, 1] <= limit[1]):
            bind(world, request, host)
            return True
    return False


@inner
def grow(world: World, rules: Rules, queue: np.ndarray, n: int, is_service: bool, most: int, now: int) -> int:
    """How many machines are ordered for the first n of the queue, as far as they are bound to none."""
    n_left = 0
    capacities = world.capacities if is_service else world.limits
    for k in range(n):
        request = queue[k]
        if world.requests[request].bound >= 0 or bind_to_ordered(world, request, is_service):
            continue
        world.scratch[ROWS, n_left] = request
        size = 0.0
        for d in range(2):
            if capacities[0, d] > 0:
                size += world.weights[d] * world.demand[request, d] / capacities[0, d]
        world.scores[SIZES, n_left] = size
        n_left += 1
    if n_left == 0 or most == 0:
        return 0
    largest_first(world, n_left)
    n_new = scale_out(world.demand, world.scratch[ORDER], n_left, capacities, world.prices, world.weights,
                      min(most, n_left), world.scratch[MACHINE], world.scratch[TYPE_OF], world.two)
    n_ordered = 0
    for k in range(n_new):
        world.scratch[SLOT_OF, k] = order_machine(world, rules, world.scratch[TYPE_OF, k], now)
        n_ordered += int(world.scratch[SLOT_OF, k] >= 0)
    for k in range(n_left):
        if world.scratch[MACHINE, k] >= 0 and world.scratch[SLOT_OF, world.scratch[MACHINE, k]] >= 0:
            bind(world, world.scratch[ORDER, k], world.scratch[SLOT_OF, world.scratch[MACHINE, k]])
    return n_ordered


@inner
def largest_first(world: World, n: int) -> None:
    """`order` becomes `rows[:n]` by falling `sizes`, equal ones in their order: a merge sort from the bottom up, with
    `machine` as scratch for positions."""
    for k in range(n):
        world.scratch[ORDER, k] = k
    width = 1
    while width < n:
        low = 0
        while low < n:
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                is_left = i < middle
                if is_left and j < high:
                    left, right = world.scratch[ORDER, i], world.scratch[ORDER, j]
                    is_left = world.scores[SIZES, left] >= world.scores[SIZES, right]
                if is_left:
                    world.scratch[MACHINE, k] = world.scratch[ORDER, i]
                    i += 1
                else:
                    world.scratch[MACHINE, k] = world.scratch[ORDER, j]
                    j += 1
            low += 2 * width
        for k in range(n):
            world.scratch[ORDER, k] = world.scratch[MACHINE, k]
        width *= 2
    for k in range(n):
        world.scratch[ORDER, k] = world.scratch[ROWS, world.scratch[ORDER, k]]
