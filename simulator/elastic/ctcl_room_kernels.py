"""Which hosts have room for a request, and the one it gets, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

from sojourn.simulator.elastic.ctcl_state import READY, Rules, World
from sojourn.simulator.elastic.least_requested_kernels import requested_share
from sojourn.simulator.jit import inner


@inner
def predicted(world: World, rules: Rules, service: int, until: int, d: int) -> int:
    """What a service needs at most from now until `until`: as predicted for this interval and the next, and for later
    ones as it was predicted for the same time of the day before, since later predictions are not known yet."""
    interval = world.counts[0].interval
    if world.ahead[service, interval, d] < 0:
        return world.services[service].reserved[d]
    most = world.need[service, interval, d]
    last = min(until // rules.interval, interval + rules.day)
    for k in range(interval + 2, last + 1):
        if k - rules.day >= 0:
            most = max(most, world.ahead[service, k - rules.day, d])
    return min(most, world.services[service].reserved[d])


@inner
def is_long_room(world: World, rules: Rules, host: int, request: int, now: int) -> bool:
    """Whether a rescheduled request has room for the longest time that requests like it took. Needs of later intervals
    only add to those of this one and the next, which had room."""
    until = now + world.batch[request - len(world.services)].longest
    for d in range(2):
        room = world.hosts[host].limit[d] - world.hosts[host].batch_demand[d]
        service = world.hosts[host].first_service
        while service >= 0:
            room -= predicted(world, rules, service, until, d)
            if world.demand[request, d] > room:
                return False
            service = world.requests[service].after
        world.room[d] = room
    return True


@inner
def is_room(world: World, rules: Rules, host: int, request: int, now: int) -> bool:
    """Whether the host passes the filter for the request; `World.room` is what is available to it."""
    n = len(world.services)
    is_service = request < n
    limit = world.hosts[host].capacity if is_service else world.hosts[host].limit
    is_again = not is_service and not rules.by_use and world.batch[request - n].n_evicted > 0
    for d in range(2):
        if is_service and not rules.by_need:
            room = limit[d] - world.hosts[host].reserved[d] - world.hosts[host].batch_demand[d]
        elif rules.by_use and not is_service:
            room = limit[d] - world.hosts[host].used[d]
        else:
            room = limit[d] - world.hosts[host].need[d] - world.hosts[host].batch_demand[d]
        if world.demand[request, d] > room:
            return False
        world.room[d] = room
    if rules.is_long and is_again:
        if (now + world.batch[request - n].longest) // rules.interval >= world.counts[0].interval + 2:
            return is_long_room(world, rules, host, request, now)  # last: it looks at every service of the host
    if is_service or not rules.by_use:
        return True
    overall = 0.0
    for d in range(2):
        if world.hosts[host].capacity[d] > 0:
            used = world.hosts[host].used[d] + world.demand[request, d]
            overall += world.weights[d] * used / world.hosts[host].capacity[d]
    return overall <= rules.threshold


@inner
def host_for(world: World, rules: Rules, request: int, now: int) -> int:
    best, least = -1, 0.0
    for host in range(world.counts[0].n_slots):
        if world.hosts[host].state != READY or world.hosts[host].serial == world.requests[request].not_on:
            continue
        if not is_room(world, rules, host, request, now):
            continue
        if rules.is_first_fit:
            return host
        share = requested_share(world.room, world.hosts[host].capacity, world.weights)
        if best < 0 or share < least:
            best, least = host, share
    return best
