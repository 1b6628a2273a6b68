"""Predicted exits of requests and hosts, recomputed only when they can have changed; and the
agenda.

A request's predicted exit is constant until its next breakpoint. A host's exit is the maximum over
its requests. So it holds until the prediction of the last-leaving request changes, until another's
rises above it, or until a request comes or goes. Curves are known beforehand, so these times are,
too. (The earliest breakpoint of all requests is right as well, but with an oracle it recomputes a
host at each departure.) REQUESTS.exit_s may be out of date while it is below its host's exit; the
last-leaving request of a host is always up to date.

The agenda is a binary heap over fixed slots, one time per slot, which can be moved or removed.
Slots are ordered by kind: late departures by row, ends of migrations by row, host events, deadlines
of hosts. So (time, slot) is the order of events. World.slots holds each slot's time and its
position in the heap (or -1), and beside them the heap of slots; World.counts holds the heap's size.
"""

from __future__ import annotations

from typing import Any

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inlined, inner
from sojourn.simulator.loop.state import EXPIRED, World


@inlined
def predict_first(world: World, request: int) -> None:
    """Set a request's exit to its first prediction, for good."""
    record = world.requests[request]
    record.exit_s = record.start_s + world.total_s[record.curve_start]
    record.change_s = NEVER


@inlined
def predict_now(world: World, request: int, now: int) -> None:
    """Set a request's exit, and the time until which it holds, by its curve at `now`."""
    record = world.requests[request]
    start = record.start_s
    uptime = now - start
    k = record.segment
    last = record.curve_end - 1
    while k < last and world.uptime_s[k + 1] <= uptime:
        k += 1
    record.segment = k
    total = max(world.total_s[k], 1)
    while total <= uptime:
        total *= 2
    record.exit_s = start + total
    record.change_s = start + (world.uptime_s[k + 1] if k < last else total)


@inner
def overtakes_at(world: World, request: int, host_exit: int) -> int:
    """When a request next changes a host's exit: its next breakpoint if it leaves last, else the
    breakpoint at which its exit rises above the host's."""
    record = world.requests[request]
    time = record.change_s
    if record.exit_s >= host_exit or time == NEVER:
        return time
    start = record.start_s
    last = record.curve_end - 1
    k = record.segment
    total = record.exit_s - start
    while True:
        if k < last:
            k += 1
            total = max(world.total_s[k], 1)
        while total <= time - start:
            total *= 2
        if start + total > host_exit:
            return time
        time = start + (world.uptime_s[k + 1] if k < last else total)


@inner
def refresh(world: World, host: int, now: int) -> None:
    """Bring a non-empty host's exit up to `now`; counts as one re-score."""
    requests = world.requests
    exit_s, valid_until = EXPIRED, NEVER
    request = world.hosts[host].first
    while request >= 0:
        if requests[request].change_s <= now:
            predict_now(world, request, now)
        exit_s = max(exit_s, requests[request].exit_s)
        request = requests[request].next
    request = world.hosts[host].first
    while request >= 0:
        valid_until = min(valid_until, overtakes_at(world, request, exit_s))
        request = requests[request].next
    world.cluster.exit_s[host] = exit_s
    world.hosts[host].valid_until_s = valid_until
    world.counts[0].n_rescores += 1


@inner
def refresh_until(world: World, host: int, now: int, refresh_s: int) -> None:
    """As `refresh`, but the value holds for `refresh_s` seconds, or until that exit has passed."""
    refresh(world, host, now)
    world.hosts[host].valid_until_s = min(now + refresh_s, world.cluster.exit_s[host])


@inlined
def enter(world: World, host: int, request: int, now: int) -> None:
    """Add a request to a host's list and exit."""
    here, exits = world.hosts[host], world.cluster.exit_s
    exit_s = world.requests[request].exit_s
    is_first = here.first < 0
    link(world, host, request)
    if is_first:
        exits[host] = exit_s
        here.valid_until_s = world.requests[request].change_s
    elif here.valid_until_s > now:
        exits[host] = max(exits[host], exit_s)
        here.valid_until_s = min(here.valid_until_s, overtakes_at(world, request, exits[host]))


@inlined
def leave(world: World, host: int, request: int) -> None:
    """Remove a request from a host's list and exit.

    An expired exit stays as it is: it is recomputed before its next use anyway.
    """
    unlink(world, host, request)
    if world.hosts[host].first < 0:  # requests that still hold room here migrate: they are on other hosts' lists
        world.hosts[host].valid_until_s = NEVER
        world.cluster.exit_s[host] = EXPIRED
    elif world.requests[request].exit_s >= world.cluster.exit_s[host]:
        world.hosts[host].valid_until_s = EXPIRED


@inlined
def link(world: World, host: int, request: int) -> None:
    """Put a request at the head of a host's list."""
    head = world.hosts[host].first
    world.requests[request].next = head
    world.requests[request].previous = -1
    if head >= 0:
        world.requests[head].previous = request
    world.hosts[host].first = request


@inlined
def unlink(world: World, host: int, request: int) -> None:
    """Take a request out of a host's list."""
    before, after = world.requests[request].previous, world.requests[request].next
    if before >= 0:
        world.requests[before].next = after
    else:
        world.hosts[host].first = after
    if after >= 0:
        world.requests[after].previous = before


@inner
def next_slot(world: Any) -> int:
    """The slot that is due first, or -1."""
    return world.slots[0].heap if world.counts[0].heap_size > 0 else -1


@inner
def schedule(world: Any, slot: int, time: int) -> None:
    """Set a slot's time; NEVER removes it from the heap."""
    slots = world.slots
    at = slots[slot].position
    if slots[slot].time == time:
        return
    slots[slot].time = time
    if time == NEVER:
        last = world.counts[0].heap_size - 1
        world.counts[0].heap_size = last
        slots[slot].position = -1
        if at != last:
            _put(world, at, slots[last].heap)
            _sink(world, _rise(world, at))
        return
    if at < 0:
        at = world.counts[0].heap_size
        world.counts[0].heap_size = at + 1
        _put(world, at, slot)
    _sink(world, _rise(world, at))


@inner
def _put(world: World, at: int, slot: int) -> None:
    world.slots[at].heap = slot
    world.slots[slot].position = at


@inner
def _is_before(world: World, slot: int, other: int) -> bool:
    time, other_time = world.slots[slot].time, world.slots[other].time
    return time < other_time or (time == other_time and slot < other)


@inner
def _rise(world: World, at: int) -> int:
    slots = world.slots
    slot = slots[at].heap
    while at > 0:
        parent = (at - 1) >> 1
        if not _is_before(world, slot, slots[parent].heap):
            break
        _put(world, at, slots[parent].heap)
        at = parent
    _put(world, at, slot)
    return at


@inner
def _sink(world: World, at: int) -> None:
    slots = world.slots
    slot, n = slots[at].heap, world.counts[0].heap_size
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and _is_before(world, slots[child + 1].heap, slots[child].heap):
            child += 1
        if not _is_before(world, slots[child].heap, slot):
            break
        _put(world, at, slots[child].heap)
        at = child
    _put(world, at, slot)
