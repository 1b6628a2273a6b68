"""The event loop; `engine/composition.py` composes it with a policy's `choose` and hooks.

Events are ordered by (time, kind, sequence). Kinds at one time: departure 0, end of a migration 1,
host events and deadlines 2, arrival 3. Before arrivals, and before time goes on, waiting requests
and then migrations use the room that became free. A breakpoint is no event: a host's predicted exit
has a time until which it holds, and is brought up to date before it is read.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator.cluster import NEVER
from sojourn.simulator.jit import inlined, inner
from sojourn.simulator.loop.exits import next_slot, schedule
from sojourn.simulator.loop.host_events import RECTIFY, apply_host_event, give_up, serve_queue, wait
from sojourn.simulator.loop.migration import defragment, migrate, stop_migrating
from sojourn.simulator.loop.migration_order import begin_plan, insert
from sojourn.simulator.loop.occupancy import pass_time, shortage
from sojourn.simulator.loop.placement import admit, at_deadline, depart, give_back, remind
from sojourn.simulator.loop.state import (
    ALL_CAME,
    BAD_DEADLINE,
    BAD_SCORE,
    EMPTY_HOSTS,
    LOG_FULL,
    NOT_PLACED,
    OPEN,
    PAUSED,
    Timeline,
    World,
)

HAS_AGENDA, HAS_UPKEEP = True, True
"""Whether there are other events than arrivals and departures, and others than deadlines; the
compiled loop leaves out those that can't happen."""


@inlined
def note_state(world: World, timeline: Timeline, now: int) -> None:
    """Sample a policy's state of hosts, if the policy names an array."""


@inlined
def checked(world: World) -> int:
    """0, or a negative code; `migration_order.violation` replaces it if every event is checked."""
    return 0


@inner
def use_room(world: World, now: int) -> int:
    """After the events at `now`: place waiting requests, then plan and begin migrations."""
    if world.settings[0].is_queueing == 1 and serve_queue(world, now) == BAD_SCORE:
        return BAD_SCORE
    if world.level[EMPTY_HOSTS] < world.settings[0].min_empty:
        defragment(world, now)
    if world.counts[0].plan_from == world.counts[0].plan_to:
        return NOT_PLACED
    return migrate(world, now)


def replay(world: World, timeline: Timeline, idx_departing: np.ndarray, host_events: np.ndarray) -> int:
    """Run all events up to the last mark; 0, a code of a pause, or a negative code of an error.

    idx_departing: int64 (n,), requests by departure, then by row. PAUSED: migrations are to be
    planned. LOG_FULL: the log is to be emptied. ALL_CAME: more requests are to be put in the tables.
    Called again, the loop continues. BAD_SCORE: the chain gave one, for counts.last_row. BAD_DEADLINE: a hook gave one,
    for counts.last_host. Below that: an invariant does not hold (see migration_order.VIOLATIONS).
    """
    settings, counts, requests = world.settings[0], world.counts[0], world.requests
    n, horizon = len(requests), timeline.mark_s[-1]
    first_migration, first_host_event = settings.first_migration, settings.first_host_event
    first_deadline = settings.first_deadline
    idx_arrival, idx_departure = counts.idx_arrival, counts.idx_departure
    has_room = counts.has_room == 1  # room that waiting requests and migrations have not tried yet
    while True:
        if HAS_UPKEEP and 2 * counts.n_logged > len(world.migration_log):
            counts.idx_arrival, counts.idx_departure, counts.has_room = idx_arrival, idx_departure, has_room
            return LOG_FULL
        if idx_arrival == n and settings.has_more == 1:
            counts.idx_arrival, counts.idx_departure, counts.has_room = idx_arrival, idx_departure, has_room
            return ALL_CAME
        next_arrival = requests[idx_arrival].arrival_s if idx_arrival < n else NEVER
        now, departing = NEVER, -1
        while idx_departure < n:
            row = idx_departing[idx_departure]
            if HAS_UPKEEP and first_migration > 0 and world.slots[row].time != NEVER:
                idx_departure += 1  # it was placed late, and departs by the agenda
            elif requests[row].host == NOT_PLACED and requests[row].departure_s <= next_arrival:
                idx_departure += 1  # rejected, lost or waiting: no departure
            else:
                if requests[row].departure_s <= next_arrival:
                    now, departing = requests[row].departure_s, row
                break
        if departing < 0:
            now = next_arrival
        slot = -1
        if HAS_AGENDA:
            slot = next_slot(world)
            if slot >= 0:
                due = world.slots[slot].time
                if due < now or (due == now and (departing < 0 or (slot < first_migration and slot < departing))):
                    now = due
                else:
                    slot = -1
            if HAS_UPKEEP and has_room and (now > counts.time_s or (slot < 0 and departing < 0)):
                has_room = False
                if use_room(world, counts.time_s) == BAD_SCORE:
                    return BAD_SCORE
                continue
        if now > horizon:
            break
        if now > counts.time_s:
            note_state(world, timeline, now)
            pass_time(world, timeline, now)

        if slot < first_migration and (slot >= 0 or departing >= 0):
            if HAS_UPKEEP and slot >= 0:
                departing = slot
                schedule(world, slot, NEVER)
            else:
                idx_departure += 1
            host = requests[departing].host
            if host != NOT_PLACED:  # else it waits after a failure, and its time is over
                counts.n_events += 1
                if HAS_UPKEEP and requests[departing].from_host >= 0:
                    stop_migrating(world, departing, now)
                depart(world, departing, now)
                give_back(world, departing, host, now)
            has_room = True
        elif slot < 0:
            if idx_arrival == settings.stop_row:
                return 0
            row = idx_arrival
            idx_arrival += 1
            counts.n_events += 1
            host = admit(world, row, now)
            if host == BAD_SCORE:
                return BAD_SCORE
            if host == NOT_PLACED:
                requests[row].reason = shortage(world, row)
                if HAS_UPKEEP and settings.is_queueing == 1:
                    wait(world, row)
            has_room = has_room or settings.min_empty > 0 or settings.n_a_day < NEVER  # another day may have begun
        elif HAS_AGENDA:
            schedule(world, slot, NEVER)
            has_room = True
            if slot >= first_deadline:
                at_deadline(world, slot - first_deadline, now)
                remind(world, slot - first_deadline)
                if world.slots[slot].time <= now:
                    return BAD_DEADLINE
            elif HAS_UPKEEP and slot >= first_host_event:
                entry = host_events[slot - first_host_event]
                if entry.what == RECTIFY:
                    counts.idx_arrival, counts.idx_departure, counts.has_room = idx_arrival, idx_departure, 1
                    return PAUSED
                if apply_host_event(world, entry.what, entry.host, now) == BAD_SCORE:
                    return BAD_SCORE
            elif HAS_UPKEEP:
                row = slot - first_migration
                stop_migrating(world, row, now)
                if world.cluster.closed[requests[row].host] != OPEN:
                    insert(world, row, begin_plan(world))
        code = checked(world)
        if code != 0:
            return code
    note_state(world, timeline, horizon + 1)
    pass_time(world, timeline, horizon + 1)
    if HAS_UPKEEP and settings.is_queueing == 1:
        give_up(world, horizon)
    return 0
