"""Book-keeping of hosts: time, use, the requests they hold or wait for, compiled. Slow twin: tests/naive_ctcl.py."""

from __future__ import annotations

from sojourn.simulator.elastic.ctcl_state import (
    CAPACITY,
    MOST_IN_USE,
    MOST_READY,
    N_ABOVE,
    N_IN_USE,
    N_OVERLOADED,
    N_PENDING,
    N_READY,
    USED,
    Rules,
    World,
)
from sojourn.simulator.elastic.evictor_kernels import is_overloaded
from sojourn.simulator.jit import inner


@inner
def pass_time(world: World, to: int) -> None:
    counts = world.counts[0]
    elapsed = to - counts.now
    if elapsed <= 0:
        return
    row = world.series[counts.interval]
    for d in range(2):
        row[USED + d] += world.totals[d] * elapsed
        row[CAPACITY + d] += world.totals[2 + d] * elapsed
    for kind in range(len(world.n_of_type)):
        world.type_ms[kind] += world.n_of_type[kind] * elapsed
    row[N_READY] += counts.n_ready * elapsed
    row[N_IN_USE] += counts.n_in_use * elapsed
    row[N_OVERLOADED] += counts.n_overloaded * elapsed
    row[N_ABOVE] += counts.n_above * elapsed
    row[N_PENDING] += (counts.n_pending + counts.n_services_pending) * elapsed
    row[MOST_READY] = max(row[MOST_READY], counts.n_ready)
    row[MOST_IN_USE] = max(row[MOST_IN_USE], counts.n_in_use)
    world.counts[0].now = to


@inner
def change_use(world: World, rules: Rules, host: int, cpu: int, mem: int) -> None:
    """The use of a host changes; what exceeds its capacity is not counted as used."""
    used, capacity = world.hosts[host].used, world.hosts[host].capacity
    is_above = False
    for d in range(2):
        world.totals[d] -= min(used[d], capacity[d])
        used[d] += cpu if d == 0 else mem
        world.totals[d] += min(used[d], capacity[d])
        is_above |= used[d] > capacity[d]
    is_over = is_overloaded(used, capacity, world.weights, rules.threshold)
    world.counts[0].n_overloaded += int(is_over) - world.hosts[host].is_over
    world.counts[0].n_above += int(is_above) - world.hosts[host].is_above
    world.hosts[host].is_over, world.hosts[host].is_above = int(is_over), int(is_above)
    if is_over:
        world.counts[0].is_checked = 0


@inner
def set_first(world: World, host: int, request: int, is_service: bool) -> None:
    if is_service:
        world.hosts[host].first_service = request
    else:
        world.hosts[host].first_batch = request


@inner
def link(world: World, host: int, request: int) -> None:
    is_service = request < len(world.services)
    old = world.hosts[host].first_service if is_service else world.hosts[host].first_batch
    world.requests[request].after, world.requests[request].before = old, -1
    if old >= 0:
        world.requests[old].before = request
    set_first(world, host, request, is_service)
    world.requests[request].host = host
    if world.hosts[host].n_services + world.hosts[host].n_batch == 0:
        world.counts[0].n_in_use += 1


@inner
def unlink(world: World, rules: Rules, request: int, now: int) -> None:
    host = world.requests[request].host
    after, before = world.requests[request].after, world.requests[request].before
    if before >= 0:
        world.requests[before].after = after
    else:
        set_first(world, host, after, request < len(world.services))
    if after >= 0:
        world.requests[after].before = before
    world.requests[request].host = -1
    world.counts[0].is_freed = 1
    if world.hosts[host].n_services + world.hosts[host].n_batch == 0:
        world.counts[0].n_in_use -= 1
        world.hosts[host].idle_since = now
        if rules.most_at_once > 0:
            world.counts[0].next_release = min(world.counts[0].next_release, now + rules.idle_release)


@inner
def bind(world: World, request: int, host: int) -> None:
    world.requests[request].bound = host
    for d in range(2):
        world.hosts[host].bound[d] += world.demand[request, d]


@inner
def unbind(world: World, request: int) -> None:
    host = world.requests[request].bound
    if host >= 0:
        for d in range(2):
            world.hosts[host].bound[d] -= world.demand[request, d]
        world.requests[request].bound = -1
