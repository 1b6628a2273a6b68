"""Slow twin of LAVA: states, classes, residuals and deadlines of hosts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from naive import HOUR

if TYPE_CHECKING:
    from naive_replay import Replay
    from naive_scores import Host

CLASS_BOUNDS = [HOUR, 10 * HOUR, 100 * HOUR]
DEADLINES = [11 * hours * HOUR // 10 for hours in (1, 10, 100, 1000)]


def came(replay: Replay, i: int, host: Host) -> None:
    """Open an empty host; recycle an open one above 90 %."""
    if host.state == "empty":
        host.state, host.opened = "open", replay.now
        set_class(replay, host, class_of(replay, i))
    full = Fraction(95 if replay.policy == "lava-95" else 90, 100)
    is_full = any(Fraction(room - free, room) > full
                  for room, free in zip(host.capacity, replay.free(host), strict=True) if room)
    if host.state == "open" and is_full:
        host.state, host.residuals = "recycling", set(host.running)
        if replay.policy != "lava-from-opening":
            set_class(replay, host, host.lifetime_class)


def left(replay: Replay, i: int, host: Host) -> None:
    """The last residual makes the others residuals, of a host one class lower."""
    if host.state != "recycling" or i not in host.residuals:
        return
    host.residuals.remove(i)
    if host.residuals or not host.running:
        return
    host.residuals = set(host.running)
    if replay.policy != "lava-no-class-down":
        set_class(replay, host, max(host.lifetime_class - 1, 1))


def emptied(host: Host) -> None:
    """As at the start."""
    host.state, host.lifetime_class, host.deadline, host.residuals = "empty", 0, math.inf, set()


def pass_deadline(replay: Replay, host: Host) -> None:
    """One class higher, and all are residuals."""
    host.state, host.residuals = "recycling", set(host.running)
    set_class(replay, host, min(host.lifetime_class + (replay.policy != "lava-no-class-up"), 4))
    from_opening = host.opened + DEADLINES[host.lifetime_class - 1]
    if replay.policy == "lava-from-opening" and from_opening > replay.now:
        host.deadline = from_opening


def set_class(replay: Replay, host: Host, lifetime_class: int) -> None:
    """The class, and its deadline from now."""
    host.lifetime_class, host.deadline = lifetime_class, replay.now + DEADLINES[lifetime_class - 1]


def class_of(replay: Replay, i: int) -> int:
    """Lifetime class 1 to 4 of the remaining time."""
    return 1 + sum(replay.exit_of(i) - replay.now >= bound for bound in CLASS_BOUNDS)


def class_preference(replay: Replay, i: int, host: Host) -> int:
    """Recycling hosts of higher class by nearness, open ones of the same, others in use, empty ones."""
    if host.is_empty:
        return 3 if replay.policy.startswith("lava-soft") else 5
    higher = host.lifetime_class - class_of(replay, i)
    if host.state == "recycling" and higher > 0:
        return 0 if replay.policy == "lava-any-class" else higher - 1
    if replay.policy.startswith("lava-soft"):
        return 3
    return 3 if host.state == "open" and higher == 0 else 4
