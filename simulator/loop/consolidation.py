"""Hosts of an elastic pool open and close; consolidation empties hosts in use.

A host is emptied only if each of its requests fits on another host in use; the policy chooses them
one after another. In mode REGRET the saving until the host's predicted exit must also exceed the
cost of the moves; in mode BALANCED the host's price must be worth its evictions. Predicted exits
come from each request's curve at its present uptime, so nothing of the future enters.
"""

from __future__ import annotations

from typing import Any

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.exits import schedule
from sojourn.simulator.loop.occupancy import fits, key_of, move, occupy
from sojourn.simulator.loop.placement import asked, choose, depart, give_back, settle
from sojourn.simulator.loop.state import (
    BAD_SCORE,
    BALANCED,
    BOOTING,
    COST_LEAST,
    COST_MOST,
    DRAINED_BY_CHOICE,
    DRAINING,
    EFFICIENT,
    EXPIRED,
    NO_PREDICTIONS,
    NO_RELEASE,
    NOT_PLACED,
    OFF,
    OPEN,
    OPENED,
    PREDICTED,
    REGRET,
    RELEASED,
    TIMER,
    UNIFORM,
)


@inner
def exit_now(world: Any, row: int, now: int) -> int:
    """When a request is predicted to leave, by its curve at its present uptime, for any policy."""
    record = world.requests[row]
    uptime, k, last = now - record.start_s, record.segment, record.curve_end - 1
    while k < last and world.uptime_s[k + 1] <= uptime:
        k += 1
    total = max(world.total_s[k], 1)
    while total <= uptime:
        total *= 2
    return record.start_s + total


@inner
def host_exit_now(world: Any, host: int, now: int) -> int:
    """When the last of a host's requests is predicted to leave; EXPIRED if there is none."""
    exit_s, row = EXPIRED, world.hosts[host].first
    while row >= 0:
        exit_s = max(exit_s, exit_now(world, row, now))
        row = world.requests[row].next
    return exit_s


@inner
def share_of(world: Any, row: int, host: int) -> float:
    """The largest share of a host's resource that a request takes."""
    most = 0.0
    for d in range(world.need.shape[1]):
        if world.need[row, d] > 0:
            most = max(most, world.need[row, d] / world.cluster.capacity[host, d])
    return most


@inner
def saved_cost(world: Any, host: int, now: int) -> float:
    """What it saves to empty a host now, price x seconds, less a boot, as the room may be needed
    again.

    If requests start over, the saving lasts until the host's predicted release. If they move live,
    it lasts from their end to that release, but no longer than the time since the pool last grew to
    its present number of hosts: the pool is expected to need them again after as long.
    """
    pool = world.pool[0]
    price = world.types[world.nodes[host].kind].price
    left_s = host_exit_now(world, host, now) - now
    if pool.is_restarting == 1:
        return pool.trust * (left_s + pool.idle_release_s - pool.boot_s) * price
    stay_s = min(pool.trust * left_s + pool.idle_release_s, now - world.risen_s[pool.n_on])
    return (stay_s - pool.move_s - pool.boot_s) * price


@inner
def move_cost(world: Any, k: int, host: int, now: int) -> float:
    """The cost of the k-th move of a host's requests, price x seconds.

    It is the fixed cost, and the time by which the target is predicted to be in use longer; a live
    move weighs that by `trust`, as the saving is. If the request starts over, its lost work counts
    as well, and a share of its room on the target until it leaves, since new requests could have
    used it.
    """
    pool, entry = world.pool[0], world.moves[k]
    row, target = entry.row, entry.target
    price, target_price = (world.types[world.nodes[host].kind].price, world.types[world.nodes[target].kind].price)
    before = host_exit_now(world, target, now)
    for j in range(k):
        if world.moves[j].target == target:
            before = max(before, exit_now(world, world.moves[j].row, now))
    exit_s = exit_now(world, row, now)
    longer = max(exit_s - before, 0) * target_price
    cost = pool.move_cost_s * price
    if pool.is_restarting == 0:
        return cost + pool.trust * longer
    cost += share_of(world, row, host) * (now - entry.start_s) * price
    cost += pool.room_weight * share_of(world, row, target) * (exit_s - now) * target_price
    return cost + longer


@inner
def eviction_cost(world: Any, row: int, now: int) -> float:
    """What Karpenter would read as a request's cost: 1, or a power of 2 near its uptime over the unit, or over its
    predicted remaining time if that is shorter."""
    pool, record = world.pool[0], world.requests[row]
    if pool.cost == UNIFORM:
        return 1.0
    over_s = pool.cost_unit_s
    if pool.cost == PREDICTED:
        over_s = min(over_s, exit_now(world, row, now) - now)
    cost = COST_LEAST
    while cost < COST_MOST and now - record.start_s >= cost * over_s * 2**0.5:
        cost *= 2.0
    return cost


@inner
def host_cost(world: Any, host: int, now: int) -> float:
    """The cost of emptying a host: 1, and that of each of its requests (Karpenter's `computeNodePoolTotals`)."""
    cost, row = 1.0, world.hosts[host].first
    while row >= 0:
        cost += eviction_cost(world, row, now)
        row = world.requests[row].next
    return cost


@inner
def is_balanced(world: Any, host: int, now: int) -> bool:
    """Whether the share of the pool's price that is saved is at least 1/k of the share of its cost.

    The pool's totals are kept for `recheck_s`, as Karpenter keeps them for a round.
    """
    pool = world.pool[0]
    if pool.total_price == 0.0 or now - pool.totals_s >= pool.recheck_s:
        pool.totals_s, pool.total_price, pool.total_cost = now, 0.0, 0.0
        for place in range(pool.n_scanned):
            if world.cluster.closed[place] == OPEN:
                pool.total_price += world.types[world.nodes[place].kind].price
                pool.total_cost += host_cost(world, place, now)
    price = world.types[world.nodes[host].kind].price
    return pool.k * price * pool.total_cost >= host_cost(world, host, now) * pool.total_price


@inner
def gather(world: Any, host: int) -> int:
    """Write a host's requests to the moves, largest need first and then by row; how many, or -1 if one migrates."""
    n, row = 0, world.hosts[host].first
    while row >= 0:
        if world.requests[row].from_host >= 0:
            return -1
        k = n
        while k > 0:
            other = world.moves[k - 1].row
            need, other_need = world.need[row, 0], world.need[other, 0]
            if need < other_need or (need == other_need and row > other):
                break
            world.moves[k].row = other
            k -= 1
        world.moves[k].row = row
        n += 1
        row = world.requests[row].next
    return n


@inner
def begin_again(world: Any, row: int, now: int) -> None:
    """A request starts over: its whole lifetime from now on."""
    record = world.requests[row]
    record.ends_s = now + (record.ends_s - record.start_s)
    record.start_s = now
    record.segment = record.curve_start


@inner
def put_back(world: Any, entry: Any) -> None:
    """Restore a request's record from its move."""
    record = world.requests[entry.row]
    record.start_s, record.segment, record.ends_s = entry.start_s, entry.segment, entry.ends_s
    record.exit_s, record.change_s = entry.request_exit_s, entry.change_s


@inner
def check(world: Any, host: int, now: int) -> int:
    """Empty a host in use if all its requests fit on other hosts in use and, in modes REGRET and BALANCED, it
    pays; else check again later. NOT_PLACED, or BAD_SCORE of a chain."""
    pool, counts, cluster = world.pool[0], world.counts[0], world.cluster
    pool.n_checks += 1
    slot = world.settings[0].first_host_event + host
    budget = saved_cost(world, host, now) if pool.mode == REGRET else 0.0
    if (pool.mode == REGRET and budget <= 0.0) or (pool.mode == BALANCED and not is_balanced(world, host, now)):
        schedule(world, slot, now + pool.recheck_s)
        return NOT_PLACED
    n = gather(world, host)
    n_placed, is_worth = 0, n > 0
    cluster.closed[host] = DRAINING
    pool.is_consolidating = 1
    has_exits = world.settings[0].predictions != NO_PREDICTIONS
    while is_worth and n_placed < n:
        entry = world.moves[n_placed]
        row = entry.row
        record = world.requests[row]
        entry.start_s, entry.segment, entry.ends_s = record.start_s, record.segment, record.ends_s
        entry.request_exit_s, entry.change_s = record.exit_s, record.change_s
        if pool.is_restarting == 1:
            begin_again(world, row, now)
        request = asked(world, row, now)
        counts.last_row, counts.last_s = row, now
        target = choose(world, request, now)
        if target == BAD_SCORE:
            return BAD_SCORE
        if target == NOT_PLACED:
            is_worth = False
        else:
            entry.target = target
            if pool.mode == REGRET:
                budget -= move_cost(world, n_placed, host, now)
                is_worth = budget > 0.0
            entry.exit_s = cluster.exit_s[target]
            occupy(world, row, target, 1)
            if has_exits:
                cluster.exit_s[target] = max(cluster.exit_s[target], request.exit_s)
            n_placed += 1
        if target == NOT_PLACED and pool.is_restarting == 1:
            put_back(world, entry)
    for k in range(n_placed - 1, -1, -1):
        entry = world.moves[k]
        occupy(world, entry.row, entry.target, -1)
        cluster.exit_s[entry.target] = entry.exit_s
        if pool.is_restarting == 1:
            put_back(world, entry)
    cluster.closed[host] = OPEN
    pool.is_consolidating = 0
    if is_worth:
        drain(world, host, n, now)
    else:
        schedule(world, slot, now + pool.recheck_s)
    return NOT_PLACED


@inner
def drain(world: Any, host: int, n: int, now: int) -> None:
    """Carry out the moves. If requests start over, the host is off at once, else when the
    migrations end."""
    pool, node = world.pool[0], world.nodes[host]
    node.is_low = 0
    world.cluster.closed[host] = DRAINING
    pool.n_drained += 1
    pool.n_moves += n
    note_log(world, DRAINED_BY_CHOICE, host, now)
    for k in range(n):
        row, target = world.moves[k].row, world.moves[k].target
        record = world.requests[row]
        depart(world, row, now)
        if pool.is_restarting == 1:
            give_back(world, row, host, now)
            pool.lost += world.need[row, world.settings[0].cpu] * (now - record.start_s)
            begin_again(world, row, now)
            schedule(world, row, record.ends_s)
        else:
            record.from_host = host
            record.next_waiting = node.first_moving
            node.first_moving = row
        request = asked(world, row, now)
        settle(world, request, target, now)
        watch(world, target, now)
    if pool.is_restarting == 1:
        close_host(world, host, now)
    else:
        schedule(world, world.settings[0].first_host_event + host, now + pool.move_s)


@inner
def end_drain(world: Any, host: int, now: int) -> None:
    """Live migrations from a host are done: it is off."""
    row = world.nodes[host].first_moving
    while row >= 0:
        if world.requests[row].from_host == host:
            world.requests[row].from_host = NOT_PLACED
            give_back(world, row, host, now)
        row = world.requests[row].next_waiting
    close_host(world, host, now)


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
    """Open a host for a request, of the type that `type_choice` selects; its place, or NOT_PLACED
    if none is off."""
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
    """Turn an empty host off; its cost ends now."""
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
    """Set when a host that is on is next checked, after a request has come or gone."""
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
    """The first booting host with room for the request, or NOT_PLACED."""
    if world.pool[0].n_booting > 0:
        for host in range(world.pool[0].n_scanned):
            if world.cluster.closed[host] == BOOTING and fits(world.cluster, host, world.need[row]):
                return host
    return NOT_PLACED
