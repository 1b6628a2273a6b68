"""The event loop of an elastic pool; `engine/composition.py` composes it with a policy's `choose`
and hooks.

Events are ordered by (time, kind, row or place): departures, then events of hosts (booted, empty
long enough, to be checked, drained), then deadlines of a policy's hooks, then arrivals.
"""

from __future__ import annotations

from typing import Any

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.consolidation import (
    booting_with_room,
    check,
    close_host,
    end_drain,
    note_log,
    open_host,
    watch,
)
from sojourn.simulator.loop.exits import next_slot, schedule
from sojourn.simulator.loop.placement import admit, asked, at_deadline, depart, give_back, remind, settle
from sojourn.simulator.loop.state import BAD_DEADLINE, BAD_SCORE, BOOTED, BOOTING, DRAINING, NOT_PLACED, OFF, OPEN


@inner
def arrive(world: Any, row: int, now: int) -> int:
    """Place a request on a host that is on, on one that boots, or on a new one; the host,
    NOT_PLACED or BAD_SCORE.

    On a booting host it begins when the host is ready. For a request that ran before the replay a
    new host is on at once.
    """
    record = world.requests[row]
    host = admit(world, row, now)
    if host == NOT_PLACED:
        host = booting_with_room(world, row)
        if host == NOT_PLACED:
            host = open_host(world, row, now, 0 if record.start_s < now else world.pool[0].boot_s)
        if host == NOT_PLACED:
            return host
        wait_s = max(world.nodes[host].ready_s - now, 0)
        record.start_s += wait_s
        record.ends_s += wait_s
        settle(world, asked(world, row, now), host, now)
        record.first_host, record.wait_s = host, wait_s
    if host >= 0:
        schedule(world, row, record.ends_s)
        watch(world, host, now)
    return host


@inner
def leave_pool(world: Any, row: int, now: int) -> None:
    """A request ends; if it migrates, it frees its room on both hosts."""
    record = world.requests[row]
    host, source = record.host, record.from_host
    record.from_host = NOT_PLACED
    depart(world, row, now)
    give_back(world, row, host, now)
    watch(world, host, now)
    if source >= 0:
        give_back(world, row, source, now)


@inner
def at_host(world: Any, host: int, now: int) -> int:
    """Handle the event that is due at a host; NOT_PLACED, or BAD_SCORE of a chain."""
    closed = world.cluster.closed[host]
    if closed == BOOTING:
        world.cluster.closed[host] = OPEN
        world.pool[0].n_booting -= 1
        note_log(world, BOOTED, host, now)
        watch(world, host, now)
    elif closed == DRAINING:
        end_drain(world, host, now)
    elif world.cluster.n_running[host] == 0:
        close_host(world, host, now)
    else:
        return check(world, host, now)
    return NOT_PLACED


@inner
def pass_pool_time(world: Any, now: int) -> None:
    """Add the allocated amounts up to `now` to the totals."""
    for q in range(len(world.level)):
        world.total[q] += world.level[q] * (now - world.counts[0].time_s)
    world.counts[0].time_s = now


def replay(world: Any, horizon_s: int) -> int:
    """Run all events up to the horizon; 0, BAD_SCORE for counts.last_row, or BAD_DEADLINE for counts.last_host."""
    settings, counts, requests = world.settings[0], world.counts[0], world.requests
    idx_arrival = 0
    while True:
        slot = next_slot(world)
        now = world.slots[slot].time if slot >= 0 else NEVER
        if idx_arrival < len(requests) and requests[idx_arrival].arrival_s < now:
            now, slot = requests[idx_arrival].arrival_s, -1
        if now > horizon_s:
            break
        if now > counts.time_s:
            pass_pool_time(world, now)
        if slot < 0:
            if idx_arrival == settings.stop_row:
                return 0
            counts.n_events += 1
            if arrive(world, idx_arrival, now) == BAD_SCORE:
                return BAD_SCORE
            idx_arrival += 1
            continue
        schedule(world, slot, NEVER)
        if slot < settings.first_host_event:
            counts.n_events += 1
            leave_pool(world, slot, now)
        elif slot < settings.first_deadline:
            if at_host(world, slot - settings.first_host_event, now) == BAD_SCORE:
                return BAD_SCORE
        else:
            host = slot - settings.first_deadline
            at_deadline(world, host, now)
            remind(world, host)
            if world.slots[slot].time <= now:
                return BAD_DEADLINE
    pass_pool_time(world, horizon_s)
    for place in range(len(world.nodes)):
        if world.cluster.closed[place] != OFF:
            world.types[world.nodes[place].kind].host_s += horizon_s - world.nodes[place].opened_s
    return 0
