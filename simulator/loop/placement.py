"""Requests come to a host and leave it; a policy replaces `choose` and the hooks.

The modules of `parts.PARTS` are joined into one module with a policy, so calls of these names reach
the policy's functions.
"""

from __future__ import annotations

from sojourn.simulator.cluster import Request
from sojourn.simulator.jit import inlined, inner
from sojourn.simulator.loop.exits import enter, leave, link, predict_first, predict_now, unlink
from sojourn.simulator.loop.occupancy import fits, is_allowed, occupy
from sojourn.simulator.loop.state import (
    CURRENT,
    DEFRAGMENTED,
    INITIAL,
    NO_PREDICTIONS,
    NOT_PLACED,
    OPEN,
    UPDATED,
    World,
)


@inner
def choose(world: World, request: Request, now: int) -> int:
    """First fit, as an example; the chain of a policy replaces it."""
    for host in range(len(world.hosts)):
        if fits(world.cluster, host, request.need) and is_allowed(world, host, request.place):
            return host
    return NOT_PLACED


@inlined
def placed(world: World, host: int, request: Request, now: int) -> None:
    """A policy's hook: the request is on the host."""


@inlined
def departed(world: World, host: int, row: int, now: int) -> None:
    """A policy's hook: the request has left the host, or has begun to migrate."""


@inlined
def emptied(world: World, host: int, now: int) -> None:
    """A policy's hook: no request holds room on the host any more."""


@inlined
def at_deadline(world: World, host: int, now: int) -> None:
    """A policy's hook: the host's deadline has come."""


@inlined
def resident(world: World, host: int, request: Request, now: int) -> None:
    """A policy's hook: the request is on a host whose deadline has come."""


@inlined
def remind(world: World, host: int) -> None:
    """Write the policy's deadline of the host to the agenda."""


@inlined
def touched(world: World, host: int) -> None:
    """A request has come to the host or left it; if exits are cached for a time, this host's
    expires."""


@inlined
def gpu_for(world: World, request: Request, host: int) -> int:
    """Which of the host's GPUs a share of one gets, by the policy; -1 = the fullest with room."""
    return -1


@inlined
def asked(world: World, row: int, now: int) -> Request:
    """The request that the chain gets, with its prediction now."""
    if world.settings[0].predictions == CURRENT:
        predict_now(world, row, now)
    elif world.settings[0].predictions == INITIAL:
        predict_first(world, row)
    record = world.requests[row]
    start, end = record.curve_start, record.curve_end
    return Request(record.row, world.need[row], record.exit_s, now - record.start_s, world.uptime_s[start:end],
                   world.overhang_s[start:end], row)


@inlined
def settle(world: World, request: Request, host: int, now: int) -> None:
    """Give a request room on a host and add it to its list."""
    occupy(world, request.place, host, 1, gpu_for(world, request, host))
    note(world, request, host, now)


@inlined
def note(world: World, request: Request, host: int, now: int) -> None:
    """Add a request to the list of a host on which it has room."""
    row = request.place
    if world.settings[0].predictions != NO_PREDICTIONS:
        enter(world, host, row, now)
        touched(world, host)
    else:
        link(world, host, row)
    world.requests[row].host = host
    placed(world, host, request, now)
    remind(world, host)


@inlined
def depart(world: World, row: int, now: int) -> None:
    """Remove a request from its host's list; `give_back` frees its room."""
    host = world.requests[row].host
    if world.settings[0].predictions != NO_PREDICTIONS:
        leave(world, host, row)
        touched(world, host)
    else:
        unlink(world, host, row)
    world.requests[row].host = NOT_PLACED
    departed(world, host, row, now)
    remind(world, host)


@inlined
def give_back(world: World, row: int, host: int, now: int) -> None:
    """Free a request's room on a host; an emptied host may open again."""
    cluster = world.cluster
    occupy(world, row, host, -1)
    if cluster.n_running[host] > 0:
        return
    if cluster.closed[host] == UPDATED:
        cluster.is_updated[host] = 1
    if cluster.closed[host] == UPDATED or cluster.closed[host] == DEFRAGMENTED:
        cluster.closed[host] = OPEN
    emptied(world, host, now)
    remind(world, host)


@inlined
def admit(world: World, row: int, now: int) -> int:
    """Place a request on the host that the chain chooses; the host, NOT_PLACED or BAD_SCORE."""
    request = asked(world, row, now)
    world.counts[0].last_row, world.counts[0].last_s = row, now
    host = choose(world, request, now)
    if host >= 0:
        settle(world, request, host, now)
        record = world.requests[row]
        if record.first_host == NOT_PLACED:
            record.first_host = host
            record.wait_s = now - record.arrival_s
    return host
