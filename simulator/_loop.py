"""The event loop, in plain Python; `_compile.py` compiles it with a policy's own `choose` and hooks.

Events are ordered by (time, kind, sequence). Kinds at one time: departure 0, end of a migration 1, what happens to
hosts and deadlines 2, arrival 3; what room they made is used before arrivals and before time goes on, first by waiting
requests, then by migrations. A breakpoint is never an event of its own: a host's predicted exit carries the time until
which it holds and is brought up to date before it is read.
"""

from __future__ import annotations

import numpy as np

from sojourn.simulator._agenda import next_slot, schedule
from sojourn.simulator._exits import (  # noqa: F401
    enter,
    leave,
    link,
    predict_first,
    predict_now,
    refresh,
    refresh_until,
    unlink,
)
from sojourn.simulator._moves import begin_plan, insert, least_work, next_resident, plan, strike
from sojourn.simulator._numba import inlined, inner
from sojourn.simulator._place import occupy, pass_time, sample_state  # noqa: F401
from sojourn.simulator._python import ask_python, best_scored  # noqa: F401
from sojourn.simulator._ranking import first_position  # noqa: F401
from sojourn.simulator._room import fits, is_allowed, shortage
from sojourn.simulator._state import (
    BAD_DEADLINE,
    BAD_SCORE,
    CURRENT,
    DEFRAGMENTED,
    DRAINED,
    FAILED,
    INITIAL,
    NEVER,
    NO_PREDICTIONS,
    NOT_PLACED,
    OPEN,
    UPDATED,
    Timeline,
    World,
)
from sojourn.simulator.cluster import Cluster, Request

HAS_AGENDA, HAS_UPKEEP = True, True
"""Whether anything but arrivals and departures can happen, and whether it is more than deadlines; what can't is left
out of the compiled loop."""
FAIL, REPAIR, DRAIN, REOPEN, WAVE = range(5)
"""What may happen to a host, or with WAVE to so many of them."""


@inner
def choose(world: World, request: Request, now: int) -> int:
    """First fit, as an example; each policy's composed chain takes its place."""
    for host in range(len(world.hosts)):
        if fits(world.cluster, host, request.need) and is_allowed(world, host, request.row):
            return host
    return NOT_PLACED


@inlined
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """A policy's hook: the request is on the host."""


@inlined
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """A policy's hook: the request has left the host, or has begun to migrate."""


@inlined
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """A policy's hook: nothing holds room on the host any more."""


@inner
def at_deadline(cluster: Cluster, host: int, now: int) -> None:
    """A policy's hook: the host's deadline has come."""


@inlined
def remind(world: World, host: int) -> None:
    """Keep in the agenda when the policy wants to hear of the host."""


@inlined
def note_state(world: World, timeline: Timeline, now: int) -> None:
    """Sample what a policy keeps of hosts, where it names something."""


@inlined
def checked(world: World) -> int:
    """0, or a negative code; where every event is to be checked, `_checks.violation` takes its place."""
    return 0


@inlined
def touched(world: World, host: int) -> None:
    """A request has come to the host or left it; where hosts' exits are cached for a time, this one's is not good."""


@inlined
def asked(world: World, row: int, now: int) -> Request:
    """A request as the chain sees it now."""
    if world.settings[0].predictions == CURRENT:
        predict_now(world, row, now)
    elif world.settings[0].predictions == INITIAL:
        predict_first(world, row)
    own = world.requests[row]
    return Request(row, world.need[row], own.exit_s, now - own.start_s, world.uptime_s[own.curve_start:own.curve_end],
                   world.overhang_s[own.curve_start:own.curve_end])


@inlined
def settle(world: World, request: Request, host: int, now: int) -> None:
    """Give a request room on a host and note it there."""
    occupy(world, request.row, host, 1)
    note(world, request, host, now)


@inlined
def note(world: World, request: Request, host: int, now: int) -> None:
    """Note a request on the host where it has its room."""
    row = request.row
    if world.settings[0].predictions != NO_PREDICTIONS:
        enter(world, host, row, now)
        touched(world, host)
    else:
        link(world, host, row)
    world.requests[row].host = host
    placed(world.cluster, host, request, now)
    remind(world, host)


@inlined
def depart(world: World, row: int, now: int) -> None:
    """Take a request out of its host's list; its room is given back apart."""
    host = world.requests[row].host
    if world.settings[0].predictions != NO_PREDICTIONS:
        leave(world, host, row)
        touched(world, host)
    else:
        unlink(world, host, row)
    world.requests[row].host = NOT_PLACED
    departed(world.cluster, host, row, now)
    remind(world, host)


@inlined
def give_back(world: World, row: int, host: int, now: int) -> None:
    """Free a request's room on a host; an emptied host may be open again."""
    cluster = world.cluster
    occupy(world, row, host, -1)
    if cluster.n_running[host] > 0:
        return
    if cluster.closed[host] == UPDATED:
        cluster.is_updated[host] = 1
    if cluster.closed[host] == UPDATED or cluster.closed[host] == DEFRAGMENTED:
        cluster.closed[host] = OPEN
    emptied(cluster, host, now)
    remind(world, host)


@inlined
def end_migration(world: World, row: int) -> int:
    """A request migrates no more; the host that it comes from, where it still holds room."""
    source = world.requests[row].from_host
    world.requests[row].from_host = NOT_PLACED
    schedule(world, world.settings[0].first_migration + row, NEVER)
    world.counts[0].n_under_way -= 1
    return source


@inner
def stop_migrating(world: World, row: int, now: int) -> None:
    """Give back what a migrating request holds where it comes from, whether it is done or gone."""
    give_back(world, row, end_migration(world, row), now)


@inlined
def admit(world: World, row: int, now: int) -> int:
    """Place a request where the chain wants it: the host, NOT_PLACED or BAD_SCORE."""
    request = asked(world, row, now)
    world.counts[0].last_row, world.counts[0].last_s = row, now
    host = choose(world, request, now)
    if host >= 0:
        settle(world, request, host, now)
        own = world.requests[row]
        if own.first_host == NOT_PLACED:
            own.first_host = host
            own.wait_s = now - own.arrival_s
    return host


@inner
def migrate(world: World, now: int) -> int:
    """Begin as many planned migrations as may run at once; NOT_PLACED, or BAD_SCORE of a chain."""
    counts, k = world.counts[0], world.counts[0].plan_from
    while k < counts.plan_to and counts.n_under_way < world.settings[0].n_at_once:
        entry = world.plan[k]
        row, source = entry.row, entry.host
        if row >= 0:
            if world.requests[row].host != source:
                counts.n_spared += 1
                entry.row = -1
            else:
                request = asked(world, row, now)
                counts.last_row, counts.last_s = row, now
                target = choose(world, request, now)
                if target == BAD_SCORE:
                    return BAD_SCORE
                if target != NOT_PLACED:
                    depart(world, row, now)
                    settle(world, request, target, now)
                    world.requests[row].from_host = source
                    world.requests[row].n_moves += 1
                    counts.n_under_way += 1
                    counts.n_begun += 1
                    schedule(world, world.settings[0].first_migration + row, now + world.settings[0].duration_s)
                    entry.row = -1
        if entry.row < 0 and k == counts.plan_from:
            counts.plan_from += 1
        k += 1
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
    """Place each waiting request that fits now, first come first; NOT_PLACED, or BAD_SCORE of a chain.

    A stay begins when it is placed; one that a failure has broken off keeps its end, and is lost if that comes first.
    """
    counts = world.counts[0]
    before, row = -1, counts.first_waiting
    while row >= 0:
        own = world.requests[row]
        after = own.next_waiting
        is_begun = own.first_host != NOT_PLACED
        if not is_begun:
            shift_s = now - own.arrival_s - (own.ends_s - own.departure_s)
            own.start_s += shift_s
            own.ends_s += shift_s
        is_over = is_begun and own.ends_s <= now
        if is_over:
            counts.n_lost += 1
        else:
            host = admit(world, row, now)
            if host == BAD_SCORE:
                return host
            if host != NOT_PLACED:
                schedule(world, row, own.ends_s)
                counts.n_re_placed += is_begun
                if is_begun:
                    own.since_s = now
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
def break_off(world: World, row: int, now: int) -> None:
    """A failure voids what a request has run for since it last started."""
    own = world.requests[row]
    own.voided_s += now - max(own.start_s, own.since_s)
    own.since_s = now


@inner
def give_up(world: World, now: int) -> None:
    """Count as lost those waiting that were broken off and are past their end."""
    row = world.counts[0].first_waiting
    while row >= 0:
        own = world.requests[row]
        world.counts[0].n_lost += own.first_host != NOT_PLACED and own.ends_s <= now
        row = own.next_waiting


@inner
def fail(world: World, host: int, now: int) -> int:
    """A host fails: what it ran starts again elsewhere at once, in order of arrival, keeping its end; waits; or is
    lost.

    A request that was migrating out of it starts again on its target, one that was migrating to it stays.
    """
    cluster, requests, counts = world.cluster, world.requests, world.counts[0]
    if cluster.n_running[host] == 0 and cluster.closed[host] == OPEN:
        world.level[0] -= 1
    cluster.closed[host] = FAILED
    if counts.n_under_way > 0:
        for row in range(len(requests)):
            if requests[row].from_host == host:
                stop_migrating(world, row, now)
                break_off(world, row, now)
                counts.n_re_placed += 1
    row = next_resident(world, host, -1)
    while row >= 0:
        depart(world, row, now)
        give_back(world, row, host, now)
        if requests[row].from_host >= 0:
            source = end_migration(world, row)
            note(world, asked(world, row, now), source, now)
            if cluster.closed[source] != OPEN:
                insert(world, row, begin_plan(world))
        else:
            break_off(world, row, now)
            found = admit(world, row, now)
            if found == BAD_SCORE:
                return found
            if found >= 0:
                counts.n_re_placed += 1
            elif world.settings[0].is_queueing == 1:
                wait(world, row)
            else:
                counts.n_lost += 1
        row = next_resident(world, host, row)
    return NOT_PLACED


@inner
def happen(world: World, what: int, host: int, now: int) -> int:
    """Something befalls a host, or for a wave so many of them; NOT_PLACED, or BAD_SCORE of a chain."""
    cluster, hosts = world.cluster, world.hosts
    if what == FAIL:
        hosts[host].n_failures += 1
        if hosts[host].n_failures == 1:
            return fail(world, host, now)
    elif what == DRAIN:
        hosts[host].n_drains += 1
        if cluster.closed[host] == OPEN:
            if cluster.n_running[host] == 0:
                world.level[0] -= 1
            plan(world, host, begin_plan(world), now)
        if cluster.closed[host] != FAILED:
            cluster.closed[host] = DRAINED
    elif what == WAVE:
        first = begin_plan(world)
        for _ in range(host):
            chosen = least_work(world, True)
            if chosen < 0:
                break
            if cluster.n_running[chosen] == 0:
                cluster.is_updated[chosen] = 1
            else:
                cluster.closed[chosen] = UPDATED
                plan(world, chosen, first if world.settings[0].is_across == 1 else world.counts[0].plan_to, now)
    else:
        if what == REPAIR:
            hosts[host].n_failures -= 1
        else:
            hosts[host].n_drains -= 1
        if hosts[host].n_failures == 0 and hosts[host].n_drains == 0:
            cluster.closed[host] = OPEN
            strike(world, host)
            if cluster.n_running[host] == 0:
                world.level[0] += 1
        elif hosts[host].n_failures == 0:
            cluster.closed[host] = DRAINED
    return NOT_PLACED


@inner
def defragment(world: World, now: int) -> None:
    """Close a batch of hosts to be emptied, if too few are empty and the last batch is done."""
    closed = world.cluster.closed
    if world.level[0] >= world.settings[0].min_empty:
        return
    for host in range(len(closed)):
        if closed[host] == DEFRAGMENTED:
            return
    first = begin_plan(world)
    for k in range(world.settings[0].batch_hosts):
        host = least_work(world, False)
        if host < 0:
            break
        closed[host] = DEFRAGMENTED
        world.counts[0].n_batches += k == 0
        plan(world, host, first if world.settings[0].is_across == 1 else world.counts[0].plan_to, now)


@inner
def use_room(world: World, now: int) -> int:
    """After what has happened at `now`: serve who waits, then plan and begin migrations."""
    if world.settings[0].is_queueing == 1 and serve_queue(world, now) == BAD_SCORE:
        return BAD_SCORE
    if world.settings[0].min_empty > 0:
        defragment(world, now)
    return migrate(world, now)


def replay(world: World, timeline: Timeline, idx_departing: np.ndarray, happenings: np.ndarray) -> int:
    """Run all events up to the last mark; 0, or a negative code of what went wrong.

    idx_departing: int64 (n,), requests by departure, then by row.
    BAD_SCORE: the chain gave one, for counts.last_row. BAD_DEADLINE: a hook gave one, at counts.time_s. Below that: an
    invariant does not hold (see _checks).
    """
    settings, counts, requests = world.settings[0], world.counts[0], world.requests
    n, horizon = len(requests), timeline.mark_s[-1]
    first_migration, first_happening = settings.first_migration, settings.first_happening
    first_deadline = settings.first_deadline
    idx_arrival, idx_departure = 0, 0
    has_room = False  # since waiting requests and migrations were last looked at
    while True:
        next_arrival = requests[idx_arrival].arrival_s if idx_arrival < n else NEVER
        now, departing = NEVER, -1
        while idx_departure < n:
            row = idx_departing[idx_departure]
            if HAS_UPKEEP and first_migration > 0 and world.slots[row].time_s != NEVER:
                idx_departure += 1  # it was placed late, and departs by the agenda
            elif requests[row].host == NOT_PLACED and requests[row].departure_s <= next_arrival:
                idx_departure += 1  # rejected, lost or waiting, so nothing departs
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
                due = world.slots[slot].time_s
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
            has_room = has_room or settings.min_empty > 0
        elif HAS_AGENDA:
            schedule(world, slot, NEVER)
            has_room = True
            if slot >= first_deadline:
                at_deadline(world.cluster, slot - first_deadline, now)
                remind(world, slot - first_deadline)
                if world.slots[slot].time_s <= now:
                    return BAD_DEADLINE
            elif HAS_UPKEEP and slot >= first_happening:
                entry = happenings[slot - first_happening]
                if happen(world, entry.what, entry.host, now) == BAD_SCORE:
                    return BAD_SCORE
            elif HAS_UPKEEP:
                row = slot - first_migration
                stop_migrating(world, row, now)
                if world.cluster.closed[requests[row].host] != OPEN:
                    insert(world, row, begin_plan(world))
        found = checked(world)
        if found != 0:
            return found
    note_state(world, timeline, horizon + 1)
    pass_time(world, timeline, horizon + 1)
    if HAS_UPKEEP and settings.is_queueing == 1:
        give_up(world, horizon)
    return 0
