"""Planned migrations begin and end; defragmentation closes hosts to empty them (LAVA, section
4.4)."""

from __future__ import annotations

from sojourn.simulator.cluster import DAY_S, NEVER, Request
from sojourn.simulator.jit import inlined, inner
from sojourn.simulator.loop.exits import schedule
from sojourn.simulator.loop.migration_order import begin_plan, least_work, plan
from sojourn.simulator.loop.occupancy import fits, is_allowed
from sojourn.simulator.loop.placement import asked, choose, depart, give_back, settle
from sojourn.simulator.loop.state import BAD_SCORE, DEFRAGMENTED, NOT_PLACED, World


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
            elif world.cluster.closed[source] > DEFRAGMENTED or left_of_day(world, now) > 0:
                request = asked(world, row, now)
                counts.last_row, counts.last_s = row, now
                target = entry.target
                if target < 0:
                    target = choose(world, request, now)
                    if target == BAD_SCORE:
                        return BAD_SCORE
                elif not still_takes(world, target, request):
                    give_way(world, k)
                    target = NOT_PLACED
                if target != NOT_PLACED:
                    depart(world, row, now)
                    settle(world, request, target, now)
                    world.requests[row].from_host = source
                    counts.n_under_way += 1
                    counts.n_begun += 1
                    if counts.day != now // DAY_S:
                        counts.day, counts.n_of_day = now // DAY_S, 0
                    counts.n_of_day += 1
                    if world.settings[0].mem >= 0:
                        counts.migrated += world.need[row, world.settings[0].mem]
                    schedule(world, world.settings[0].first_migration + row, now + world.settings[0].duration_s)
                    log_migration(world, row, source, target, entry.planner, entry.planned_s)
                    entry.row = -1
        if entry.row < 0 and k == counts.plan_from:
            counts.plan_from += 1
        k += 1
    return NOT_PLACED


@inner
def left_of_day(world: World, now: int) -> int:
    """How many migrations may still begin on this day; all that began on it count. The cap holds
    back only those of a rectifier and of a batch."""
    counts = world.counts[0]
    return world.settings[0].n_a_day - (counts.n_of_day if counts.day == now // DAY_S else 0)


@inner
def left_to_plan(world: World, now: int) -> int:
    """How many of the day's migrations are left, less those planned that have not begun."""
    n_left = left_of_day(world, now)
    if world.settings[0].n_a_day < NEVER:
        for k in range(world.counts[0].plan_from, world.counts[0].plan_to):
            row = world.plan[k].row
            n_left -= row >= 0 and world.requests[row].host == world.plan[k].host
    return n_left


@inner
def n_residents(world: World, host: int) -> int:
    """Requests that run on a host."""
    n, row = 0, world.hosts[host].first
    while row >= 0:
        n += 1
        row = world.requests[row].next
    return n


@inner
def log_migration(world: World, row: int, source: int, target: int, planner: int, planned_s: int) -> None:
    """Log a migration or restart of a request; see MIGRATION_LOG."""
    counts = world.counts[0]
    entry = world.migration_log[counts.n_logged]
    entry.row, entry.from_host, entry.to_host, entry.at_s = world.requests[row].row, source, target, counts.time_s
    entry.planner, entry.planned_s = planner, planned_s
    counts.n_logged += 1


@inner
def still_takes(world: World, target: int, request: Request) -> bool:
    """Whether the planned target of a request is still in use and open, and has room."""
    return (world.cluster.n_running[target] > 0 and fits(world.cluster, target, request.need)
            and is_allowed(world, target, request.place))


@inner
def give_way(world: World, k: int) -> None:
    """Remove a migration from the plan, and later ones from the same host: alone they would not
    free it."""
    counts, planned = world.counts[0], world.plan
    host = planned[k].host
    for j in range(k, counts.plan_to):
        if planned[j].row >= 0 and planned[j].host == host and planned[j].target >= 0:
            planned[j].row = -1
            counts.n_spared += 1


@inlined
def end_migration(world: World, row: int) -> int:
    """End a request's migration; its source, on which it still holds room."""
    source = world.requests[row].from_host
    world.requests[row].from_host = NOT_PLACED
    schedule(world, world.settings[0].first_migration + row, NEVER)
    world.counts[0].n_under_way -= 1
    return source


@inner
def stop_migrating(world: World, row: int, now: int) -> None:
    """End a request's migration and free its room on the source."""
    give_back(world, row, end_migration(world, row), now)


@inner
def defragment(world: World, now: int) -> None:
    """Close a batch of hosts to empty them, unless the last batch still runs; as many as the day's
    cap leaves migrations for."""
    closed = world.cluster.closed
    for host in range(len(closed)):
        if closed[host] == DEFRAGMENTED:
            return
    first = begin_plan(world)
    n_left = left_to_plan(world, now)
    for k in range(world.settings[0].batch_hosts):
        host = least_work(world, False)
        if host < 0 or n_residents(world, host) > n_left:
            break
        n_left -= n_residents(world, host)
        closed[host] = DEFRAGMENTED
        world.counts[0].n_batches += k == 0
        plan(world, host, first if world.settings[0].is_across == 1 else world.counts[0].plan_to, now)
