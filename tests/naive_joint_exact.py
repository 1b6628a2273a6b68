"""Slow twin of joint-exact: what hosts are known to hold, and when that is found anew."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from naive import overhang_at

if TYPE_CHECKING:
    from naive_replay import Replay
    from naive_scores import Host

EDGES = [0, 900, 1800, 3600, 7200, 14_400, 28_800, 57_600, 115_200, 230_400, 460_800, 921_600, 3_686_400]


def came(replay: Replay, i: int, host: Host) -> None:
    """Known at once, as it is now."""
    host.known.append(logarithms(replay, i))
    host.deadline = min(host.deadline, replay.now + 900)


def left(replay: Replay, host: Host) -> None:
    """Known in a second."""
    host.deadline = replay.now + 1


def emptied(host: Host) -> None:
    """As at the start."""
    host.known = []


def pass_deadline(replay: Replay, host: Host) -> None:
    """All requests as they are now."""
    host.known = [logarithms(replay, i) for i in host.running]
    host.deadline = replay.now + 900


def after(replay: Replay, i: int, ahead: int) -> float:
    """Expected remaining time beyond a time ahead."""
    age, remaining = replay.now - replay.begins[i], replay.exit_of(i) - replay.now
    if replay.overhang is not None:
        uptimes = [uptime for uptime, _ in replay.breakpoints[i]]
        reached = overhang_at(uptimes, replay.overhang[i], age)
        if reached > 0:
            return overhang_at(uptimes, replay.overhang[i], age + ahead) / reached * remaining
    return max(remaining - ahead, 0)


def within(replay: Replay, i: int) -> list[float]:
    """Expected running time in each cell."""
    return [min(max(after(replay, i, begin) - after(replay, i, end), 0), end - begin)
            for begin, end in itertools.pairwise(EDGES)]


def logarithms(replay: Replay, i: int) -> list[int]:
    """Of each cell, minus the logarithm of the mean chance to have left, in millionths, at most 50."""
    found = []
    for begin, end in itertools.pairwise(EDGES):
        chance = 1 - min(max((after(replay, i, begin) - after(replay, i, end)) / (end - begin), 0), 1)
        found.append(min(round(-1e6 * math.log(chance)), 50_000_000) if chance > 0 else 50_000_000)
    return found


def exact_extension(replay: Replay, i: int, host: Host) -> float:
    """Own time in each cell by the chance that nothing else runs there."""
    total = 0.0
    for k, own in enumerate(within(replay, i)):
        total += own * (round(1e6 * math.exp(-sum(known[k] for known in host.known) / 1e6)) / 1e6)
    return total
