"""Events that come of decisions: a binary heap over fixed slots, one time per slot, which can be moved or struck off.

Slots stand in order of kind: late departures by row, ends of migrations by row, what happens to hosts, deadlines of
hosts; so (time, slot) is the order of events. World.slots holds each slot's time and its position in the heap (or -1),
and beside them the heap of slots; the heap's size is in World.counts.
"""

from __future__ import annotations

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.state import World


@inner
def next_slot(world: World) -> int:
    """The slot that is due first, or -1."""
    return world.slots[0].heap if world.counts[0].heap_size > 0 else -1


@inner
def schedule(world: World, slot: int, time: int) -> None:
    """Set a slot's time; NEVER strikes it off."""
    slots = world.slots
    at = slots[slot].position
    if slots[slot].time_s == time:
        return
    slots[slot].time_s = time
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
    time, other_time = world.slots[slot].time_s, world.slots[other].time_s
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
