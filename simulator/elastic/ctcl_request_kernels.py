"""Placing, ending and evicting requests, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

from sojourn.simulator.elastic.ctcl_heap_kernels import push, remove
from sojourn.simulator.elastic.ctcl_host_kernels import change_use, link, unbind, unlink
from sojourn.simulator.elastic.ctcl_state import (
    CHOSEN,
    ENDED,
    LARGEST_EXCESS,
    MEMBERS,
    PENDING,
    RANDOM,
    RANKS,
    RUNNING,
    TOO_LARGE,
    Rules,
    World,
)
from sojourn.simulator.elastic.evictor_kernels import evict, is_overloaded
from sojourn.simulator.jit import inner


@inner
def place(world: World, rules: Rules, host: int, request: int) -> None:
    counts = world.counts
    n = len(world.services)
    counts[0].clock += rules.decision
    counts[0].n_placed += 1
    unbind(world, request)
    world.requests[request].status = RUNNING
    world.requests[request].not_on = -1
    if request < n:
        link(world, host, request)
        world.hosts[host].n_services += 1
        interval = counts[0].interval
        for d in range(2):
            world.services[request].counted[d] = world.need[request, interval, d]
            world.services[request].using[d] = world.service_use[request, interval, d]
            world.hosts[host].reserved[d] += world.services[request].reserved[d]
            world.hosts[host].need[d] += world.services[request].counted[d]
        change_use(world, rules, host, world.services[request].using[0], world.services[request].using[1])
        return
    batch = request - n
    link(world, host, request)
    world.hosts[host].n_batch += 1
    begin = counts[0].clock + rules.start
    world.batch[batch].started = begin
    world.batch[batch].level = 0
    if world.batch[batch].n_evicted > 0:
        world.batch[batch].cost += begin - world.batch[batch].evicted_at
    for d in range(2):
        world.hosts[host].batch_demand[d] += world.demand[request, d]
        world.batch[batch].seen[d] = max(world.batch[batch].seen[d], world.batch[batch].used[d])
    change_use(world, rules, host, world.batch[batch].used[0], world.batch[batch].used[1])
    push(world, batch, begin + min(world.batch[batch].peak_at, world.batch[batch].duration))


@inner
def leave(world: World, rules: Rules, batch: int, now: int) -> None:
    """A batch request gives its room back."""
    request = batch + len(world.services)
    host = world.requests[request].host
    world.hosts[host].n_batch -= 1
    for d in range(2):
        world.hosts[host].batch_demand[d] -= world.demand[request, d]
    use = world.batch[batch].peak if world.batch[batch].level else world.batch[batch].used
    change_use(world, rules, host, -use[0], -use[1])
    unlink(world, rules, request, now)


@inner
def batch_event(world: World, rules: Rules, batch: int) -> None:
    """The use of a batch request rises to its peak, or it ends."""
    now = world.batch[batch].event
    remove(world, batch)
    request = batch + len(world.services)
    end = world.batch[batch].started + world.batch[batch].duration
    if now < end and not world.batch[batch].level:
        world.batch[batch].level = 1
        world.counts[0].is_freed = 1
        for d in range(2):
            world.batch[batch].seen[d] = max(world.batch[batch].seen[d], world.batch[batch].peak[d])
        change_use(world, rules, world.requests[request].host, world.batch[batch].peak[0] - world.batch[batch].used[0],
                   world.batch[batch].peak[1] - world.batch[batch].used[1])
        push(world, batch, end)
        return
    leave(world, rules, batch, now)
    world.requests[request].status = ENDED
    world.batch[batch].ended = now


@inner
def fits_a_type(world: World, rules: Rules, request: int) -> bool:
    """Whether some type has room for what a request asks for, and, empty, is not overloaded by the most that a batch
    request was seen to use: else it would be evicted from every machine, again and again."""
    n = len(world.services)
    for kind in range(len(world.capacities)):
        limit = world.capacities[kind] if request < n else world.limits[kind]
        if world.demand[request, 0] > limit[0] or world.demand[request, 1] > limit[1]:
            continue
        if request < n or not is_overloaded(world.batch[request - n].seen, world.capacities[kind], world.weights,
                                            rules.threshold):
            return True
    return False


@inner
def enqueue(world: World, rules: Rules, request: int) -> None:
    if not fits_a_type(world, rules, request):
        world.requests[request].status = TOO_LARGE
        return
    world.requests[request].status = PENDING
    if request < len(world.services):
        world.service_queue[world.counts[0].n_services_pending] = request
        world.counts[0].n_services_pending += 1
    else:
        world.queue[world.counts[0].n_pending] = request
        world.counts[0].n_pending += 1


@inner
def relieve(world: World, rules: Rules, host: int, now: int) -> None:
    """Evict from an overloaded host until it is not."""
    n = len(world.services)
    k = 0
    request = world.hosts[host].first_batch
    while request >= 0:
        batch = request - n
        use = world.batch[batch].peak if world.batch[batch].level else world.batch[batch].used
        rank = float(now - world.batch[batch].started)
        if rules.order == LARGEST_EXCESS:
            rank = 0.0
            for d in range(2):
                if world.hosts[host].capacity[d] > 0:
                    over = max(use[d] - world.demand[request, d], 0)
                    rank -= world.weights[d] * over / world.hosts[host].capacity[d]
        elif rules.order == RANDOM:
            rank = float(world.batch[batch].drawn_rank)
        world.scratch[MEMBERS, k] = request
        world.scores[RANKS, k] = rank
        for d in range(2):
            world.member_use[k, d] = use[d]
        k += 1
        request = world.requests[request].after
    for d in range(2):
        world.two[d] = world.hosts[host].used[d]
    n_chosen = evict(world.member_use, world.scores[RANKS], k, world.two, world.hosts[host].capacity, world.weights,
                     rules.threshold, world.scratch[CHOSEN])
    for j in range(n_chosen):
        request = world.scratch[MEMBERS, world.scratch[CHOSEN, j]]
        batch = request - n
        remove(world, batch)
        leave(world, rules, batch, now)
        world.counts[0].clock += rules.eviction
        world.counts[0].n_evictions += 1
        world.batch[batch].n_evicted += 1
        world.batch[batch].evicted_at = now
        world.batch[batch].cost += max(now - world.batch[batch].started, 0)
        world.requests[request].not_on = world.hosts[host].serial
        if rules.is_raised:
            for d in range(2):
                world.demand[request, d] = world.batch[batch].seen[d]
        enqueue(world, rules, request)
