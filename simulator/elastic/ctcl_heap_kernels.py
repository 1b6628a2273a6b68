"""A heap of the batch requests that run, by (next event, number), compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

from sojourn.simulator.elastic.ctcl_state import World
from sojourn.simulator.jit import inner


@inner
def is_sooner(world: World, a: int, b: int) -> bool:
    return world.batch[a].event < world.batch[b].event or (world.batch[a].event == world.batch[b].event and a < b)


@inner
def put(world: World, at: int, batch: int) -> None:
    world.batch[at].heap = batch
    world.batch[batch].position = at


@inner
def rise(world: World, at: int) -> int:
    batch = world.batch[at].heap
    while at > 0:
        parent = (at - 1) >> 1
        if not is_sooner(world, batch, world.batch[parent].heap):
            break
        put(world, at, world.batch[parent].heap)
        at = parent
    put(world, at, batch)
    return at


@inner
def sink(world: World, at: int) -> None:
    batch, n = world.batch[at].heap, world.counts[0].heap_size
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and is_sooner(world, world.batch[child + 1].heap, world.batch[child].heap):
            child += 1
        if not is_sooner(world, world.batch[child].heap, batch):
            break
        put(world, at, world.batch[child].heap)
        at = child
    put(world, at, batch)


@inner
def push(world: World, batch: int, time: int) -> None:
    world.batch[batch].event = time
    at = world.counts[0].heap_size
    world.counts[0].heap_size = at + 1
    put(world, at, batch)
    rise(world, at)


@inner
def remove(world: World, batch: int) -> None:
    at = world.batch[batch].position
    last = world.counts[0].heap_size - 1
    world.counts[0].heap_size = last
    world.batch[batch].position = -1
    if at != last:
        put(world, at, world.batch[last].heap)
        sink(world, rise(world, at))
