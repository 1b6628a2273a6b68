"""Slow twin of the baselines of MinUsageTime packing: Move To Front, classes by departure, the Hybrid Algorithm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from naive import HOUR

if TYPE_CHECKING:
    from naive_replay import Replay
    from naive_scores import Host

POLICIES = ("move-to-front", "classify-departure", "hybrid")


def came(replay: Replay, i: int, host: Host) -> None:
    """What the host's first request opens it for; with any, it is at the front."""
    replay.fronts.append(host.index)
    found, interval = type_of(replay, i)
    if host.opened_for is None and replay.policy == "classify-departure":
        host.opened_for = max(replay.exit_of(i), replay.now) // (6 * HOUR)
    if host.opened_for is None and replay.policy == "hybrid":
        host.opened_for = type_of(replay, i) if is_of_own(replay, i) else "general"
    replay.latest[found] = max(interval, replay.latest.get(found, interval))


def emptied(host: Host) -> None:
    """As at the start."""
    host.opened_for = None


def score(replay: Replay, i: int, host: Host) -> int:
    """The number that the policy compares."""
    if replay.policy == "move-to-front":
        n_placed = len(replay.fronts)
        if host.is_empty:
            return n_placed + 1
        return next(k for k in range(n_placed) if replay.fronts[n_placed - 1 - k] == host.index)
    if host.is_empty:
        return 1
    wanted: Any = max(replay.exit_of(i), replay.now) // (6 * HOUR)
    if replay.policy == "hybrid":
        wanted = type_of(replay, i) if is_of_own(replay, i) else "general"
    return 0 if host.opened_for == wanted else 2


def type_of(replay: Replay, i: int) -> tuple[int, int]:
    """Class of the predicted lifetime, and the interval in which it began."""
    lifetime, found = replay.exit_of(i) - replay.begins[i], 1
    while lifetime > 60 * 2**found:
        found += 1
    return found, replay.begins[i] // (60 * 2**found)


def is_of_own(replay: Replay, i: int) -> bool:
    """Whether there is a host of its type, or those of its type on general hosts would be too much with it."""
    own = type_of(replay, i)
    # of the first host; on an elastic pool of the one at the first place, which has no room while it is off
    room = next((host.capacity[0] for host in replay.hosts if host.index == 0), 0)
    if own[1] < replay.latest.get(own[0], own[1]):  # it migrates, and others of its class have come since
        return 2 * math.sqrt(own[0]) * replay.need[i][0] > room
    if any(host.opened_for == own for host in replay.hosts):
        return True
    general = [r for host in replay.hosts if host.opened_for == "general" for r in host.running if r != i]
    load = sum(replay.need[r][0] for r in general if type_of(replay, r) == own) + replay.need[i][0]
    return 2 * math.sqrt(own[0]) * load > room
