"""What a request's coming to a host and its leaving do; `choose` and the hooks are a policy's to replace.

The modules of `parts.PARTS` are one module once they are composed with a policy, so that what is called by its
name here is what the policy gives.
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
    """First fit, as an example; each policy's composed chain takes its place."""
    for host in range(len(world.hosts)):
        if fits(world.cluster, host, request.need) and is_allowed(world, host, request.row):
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
    """A policy's hook: nothing holds room on the host any more."""


@inlined
def at_deadline(world: World, host: int, now: int) -> None:
    """A policy's hook: the host's deadline has come."""


@inlined
def resident(world: World, host: int, request: Request, now: int) -> None:
    """A policy's hook: the request is on a host whose deadline has come."""


@inlined
def remind(world: World, host: int) -> None:
    """Keep in the agenda when the policy wants to hear of the host."""


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
    placed(world, host, request, now)
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
    departed(world, host, row, now)
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
    emptied(world, host, now)
    remind(world, host)


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
