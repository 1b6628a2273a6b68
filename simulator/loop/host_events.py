"""Host events (failures and repairs, drains, waves of maintenance), and the queue of requests that
wait for room."""

from __future__ import annotations

from sojourn.simulator.jit import inner
from sojourn.simulator.loop.exits import schedule
from sojourn.simulator.loop.migration import end_migration, log_migration, stop_migrating
from sojourn.simulator.loop.migration_order import begin_plan, insert, least_work, next_resident, plan, strike
from sojourn.simulator.loop.placement import admit, asked, depart, give_back, note
from sojourn.simulator.loop.state import BAD_SCORE, DRAINED, EMPTY_HOSTS, FAILED, NOT_PLACED, OPEN, UPDATED, World

FAIL, REPAIR, DRAIN, REOPEN, WAVE, RECTIFY = range(6)
"""Host events; the `host` of a WAVE is a number of hosts. At RECTIFY the loop pauses, and a
rectifier plans."""


@inner
def break_off(world: World, row: int, now: int) -> None:
    """Count the core-seconds since a request last started as voided by a failure."""
    record = world.requests[row]
    world.counts[0].voided += world.need[row, world.settings[0].cpu] * (now - max(record.start_s, record.since_s))
    record.since_s = now


@inner
def fail(world: World, host: int, now: int) -> int:
    """A host fails: its requests start again elsewhere at once, in order of arrival, and keep their
    ends; or they wait, or are lost.

    A request that migrates from it starts again on its target; one that migrates to it stays on its
    source.
    """
    cluster, requests, counts = world.cluster, world.requests, world.counts[0]
    if cluster.n_running[host] == 0 and cluster.closed[host] == OPEN:
        world.level[EMPTY_HOSTS] -= 1
    cluster.closed[host] = FAILED
    if counts.n_under_way > 0:
        for row in range(len(requests)):
            if requests[row].from_host == host:
                stop_migrating(world, row, now)
                log_migration(world, row, host, requests[row].host, FAILED, now)
                break_off(world, row, now)
                counts.n_re_placed += 1
    row = next_resident(world, host, -1)
    while row >= 0:
        depart(world, row, now)
        give_back(world, row, host, now)
        if requests[row].from_host >= 0:
            source = end_migration(world, row)
            note(world, asked(world, row, now), source, now)
            log_migration(world, row, host, source, FAILED, now)
            if cluster.closed[source] != OPEN:
                insert(world, row, begin_plan(world))
        else:
            break_off(world, row, now)
            target = admit(world, row, now)
            if target == BAD_SCORE:
                return target
            log_migration(world, row, host, target, FAILED, now)
            if target >= 0:
                counts.n_re_placed += 1
            elif world.settings[0].is_queueing == 1:
                wait(world, row)
            else:
                counts.n_lost += 1
        row = next_resident(world, host, row)
    return NOT_PLACED


@inner
def apply_host_event(world: World, what: int, host: int, now: int) -> int:
    """Apply one host event to a host, or a wave to `host` hosts; NOT_PLACED, or BAD_SCORE of a
    chain."""
    cluster, hosts = world.cluster, world.hosts
    if what == FAIL:
        hosts[host].n_failures += 1
        if hosts[host].n_failures == 1:
            return fail(world, host, now)
    elif what == DRAIN:
        hosts[host].n_drains += 1
        was_open = cluster.closed[host] == OPEN
        if was_open and cluster.n_running[host] == 0:
            world.level[EMPTY_HOSTS] -= 1
        if cluster.closed[host] != FAILED:
            cluster.closed[host] = DRAINED
        if was_open:
            plan(world, host, begin_plan(world), now)
    elif what == WAVE:
        first = begin_plan(world)
        for _ in range(host):
            member = least_work(world, True)
            if member < 0:
                break
            if cluster.n_running[member] == 0:
                cluster.is_updated[member] = 1
            else:
                cluster.closed[member] = UPDATED
                plan(world, member, first if world.settings[0].is_across == 1 else world.counts[0].plan_to, now)
    else:
        if what == REPAIR:
            hosts[host].n_failures -= 1
        else:
            hosts[host].n_drains -= 1
        if hosts[host].n_failures == 0 and hosts[host].n_drains == 0:
            cluster.closed[host] = OPEN
            strike(world, host)
            if cluster.n_running[host] == 0:
                world.level[EMPTY_HOSTS] += 1
        elif hosts[host].n_failures == 0:
            cluster.closed[host] = DRAINED
    return NOT_PLACED


@inner
def wait(world: World, row: int) -> None:
    """Put a request at the end of the queue."""
    counts = world.counts[0]
    world.requests[row].next_waiting = -1
    if counts.last_waiting >= 0:
        world.requests[counts.last_waiting].next_waiting = row
    else:
        counts.first_waiting = row
    counts.last_waiting = row


@inner
def serve_queue(world: World, now: int) -> int:
    """Place each waiting request that fits now, in order of the queue; NOT_PLACED, or BAD_SCORE of
    a chain.

    A new request's lifetime begins when it is placed. A request that a failure interrupted keeps
    its end, and is lost if that comes first.
    """
    counts = world.counts[0]
    before, row = -1, counts.first_waiting
    while row >= 0:
        record = world.requests[row]
        after = record.next_waiting
        is_begun = record.first_host != NOT_PLACED
        if not is_begun:
            shift_s = now - record.arrival_s - (record.ends_s - record.departure_s)
            record.start_s += shift_s
            record.ends_s += shift_s
        is_over = is_begun and record.ends_s <= now
        if is_over:
            counts.n_lost += 1
        else:
            host = admit(world, row, now)
            if host == BAD_SCORE:
                return host
            if host != NOT_PLACED:
                schedule(world, row, record.ends_s)
                counts.n_re_placed += is_begun
                if is_begun:
                    record.since_s = now
                    log_migration(world, row, NOT_PLACED, host, FAILED, now)
                is_over = True
        if is_over:
            if before >= 0:
                world.requests[before].next_waiting = after
            else:
                counts.first_waiting = after
            if after < 0:
                counts.last_waiting = before
        else:
            before = row
        row = after
    return NOT_PLACED


@inner
def give_up(world: World, now: int) -> None:
    """Count as lost the waiting requests that a failure interrupted and that are past their end."""
    row = world.counts[0].first_waiting
    while row >= 0:
        record = world.requests[row]
        world.counts[0].n_lost += record.first_host != NOT_PLACED and record.ends_s <= now
        row = record.next_waiting
