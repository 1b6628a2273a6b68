"""Requests that wait for room."""

from __future__ import annotations

from sojourn.simulator.jit import inner
from sojourn.simulator.loop.agenda import schedule
from sojourn.simulator.loop.migration import log_migration
from sojourn.simulator.loop.placement import admit
from sojourn.simulator.loop.state import BAD_SCORE, FAILED, NOT_PLACED, World


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
    """Count as lost those waiting that were broken off and are past their end."""
    row = world.counts[0].first_waiting
    while row >= 0:
        own = world.requests[row]
        world.counts[0].n_lost += own.first_host != NOT_PLACED and own.ends_s <= now
        row = own.next_waiting
