"""Hosts of an elastic pool: opened and closed, and when each is next looked at."""

from __future__ import annotations

from typing import Any

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.agenda import schedule
from sojourn.simulator.loop.fit import fits
from sojourn.simulator.loop.pool_state import BOOTING, EFFICIENT, NO_RELEASE, OFF, OPENED, RELEASED, TIMER
from sojourn.simulator.loop.ranking import key_of, move
from sojourn.simulator.loop.state import NOT_PLACED, OPEN


@inner
def may_be_chosen(world: Any, host: int) -> bool:
    """Whether the host is on and open; while a host is to be emptied, only hosts in use may take its requests."""
    if world.cluster.closed[host] != OPEN:
        return False
    return world.pool[0].is_consolidating == 0 or world.cluster.n_running[host] > 0


@inner
def holds(world: Any, kind: int, need: Any) -> bool:
    """Whether an empty host of the type has room for the need."""
    for d in range(len(need)):
        if need[d] > world.shapes[kind, d]:
            return False
    return True


@inner
def note_log(world: Any, what: int, host: int, now: int) -> None:
    """Add a line to the log."""
    k = world.pool[0].n_logged
    line = world.log[k]
    line.time_s, line.what, line.host, line.kind = now, what, host, world.nodes[host].kind
    world.pool[0].n_logged = k + 1


@inner
def open_host(world: Any, row: int, now: int, boot_s: int) -> int:
    """A new host for a request, of the type that its settings choose; its place, or NOT_PLACED at the pool's most."""
    pool, need, cluster = world.pool[0], world.need[row], world.cluster
    place = pool.first_off
    while place < len(world.nodes) and cluster.closed[place] != OFF:
        place += 1
    pool.first_off = place
    if place == len(world.nodes):
        return NOT_PLACED
    best, best_score = -1, 0.0
    for kind in range(len(world.types)):
        if not holds(world, kind, need):
            continue
        share = 0.0
        for d in range(len(need)):
            if need[d] > 0:
                share = max(share, need[d] / world.shapes[kind, d])
        score = world.types[kind].price
        if pool.type_choice == EFFICIENT:
            score *= share
        if best < 0 or score < best_score:
            best, best_score = kind, score
    node = world.nodes[place]
    node.kind, node.opened_s, node.ready_s, node.is_low, node.first_moving = best, now, now + boot_s, 0, -1
    for d in range(len(need)):
        cluster.capacity[place, d] = world.shapes[best, d]
        cluster.free[place, d] = world.shapes[best, d]
    if len(world.order.key) > 0:
        world.order.kind[place] = best
        move(world.order, NEVER, key_of(cluster, world.order, place))
    world.types[best].n_on += 1
    pool.n_on += 1
    world.risen_s[pool.n_on] = now
    pool.n_opened += 1
    pool.most_on = max(pool.most_on, pool.n_on)
    pool.n_scanned = max(pool.n_scanned, place + 1)
    note_log(world, OPENED, place, now)
    if boot_s > 0:
        cluster.closed[place] = BOOTING
        pool.n_booting += 1
        schedule(world, world.settings[0].first_host_event + place, node.ready_s)
    else:
        cluster.closed[place] = OPEN
    return place


@inner
def close_host(world: Any, place: int, now: int) -> None:
    """Turn an empty host off; it is paid for until now."""
    pool, cluster, node = world.pool[0], world.cluster, world.nodes[place]
    note_log(world, RELEASED, place, now)
    if len(world.order.key) > 0:
        move(world.order, key_of(cluster, world.order, place), NEVER)
    cluster.closed[place] = OFF
    for d in range(cluster.capacity.shape[1]):
        cluster.capacity[place, d] = 0
        cluster.free[place, d] = 0
    world.types[node.kind].n_on -= 1
    world.types[node.kind].host_s += now - node.opened_s
    pool.n_on -= 1
    pool.first_off = min(pool.first_off, place)
    while pool.n_scanned > 0 and cluster.closed[pool.n_scanned - 1] == OFF:
        pool.n_scanned -= 1
    schedule(world, world.settings[0].first_host_event + place, NEVER)


@inner
def utilisation(world: Any, host: int) -> float:
    """The largest share of a resource that is in use on the host, 0..1."""
    cluster, most = world.cluster, 0.0
    for d in range(cluster.capacity.shape[1]):
        room = cluster.capacity[host, d]
        if room > 0:
            most = max(most, (room - cluster.free[host, d]) / room)
    return most


@inner
def watch(world: Any, host: int, now: int) -> None:
    """Set when a host that is on is next looked at, after a request has come or gone."""
    pool, node = world.pool[0], world.nodes[host]
    slot = world.settings[0].first_host_event + host
    if world.cluster.closed[host] != OPEN or pool.mode == NO_RELEASE:
        return
    if world.cluster.n_running[host] == 0:
        node.is_low = 0
        schedule(world, slot, now + pool.idle_release_s)
    elif pool.mode >= TIMER and utilisation(world, host) < pool.utilisation_max:
        if node.is_low == 0 or pool.is_reset_by_events == 1:
            node.is_low = 1
            schedule(world, slot, now + pool.after_s)
    else:
        node.is_low = 0
        schedule(world, slot, NEVER)


@inner
def booting_with_room(world: Any, row: int) -> int:
    """The first host that boots and still has room for the request, or NOT_PLACED."""
    if world.pool[0].n_booting > 0:
        for host in range(world.pool[0].n_scanned):
            if world.cluster.closed[host] == BOOTING and fits(world.cluster, host, world.need[row]):
                return host
    return NOT_PLACED
