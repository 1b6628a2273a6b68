"""Slow twins of the rectifiers: `_value_kernels.py`, one request and cell at a time, and `pdre` on a slow replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from naive import overhang_at

if TYPE_CHECKING:
    from naive_replay import Replay


def ended(view: Any, edge_s: list[int]) -> list[list[float]]:
    """The chance that each request has ended, as a mean over each cell."""
    rows = []
    for r, (uptime, left) in enumerate(zip(view.uptime_s.tolist(), view.remaining_s().tolist(), strict=True)):
        curve = slice(int(view.curve_start[r]), int(view.curve_end[r]))
        uptimes, overhang = view.breakpoint_s[curve].tolist(), view.overhang_s[curve].tolist()
        now = overhang_at(uptimes, overhang, uptime) if overhang else 0.0
        scale = left / now if now > 0.0 else 0.0
        lefts = [scale * overhang_at(uptimes, overhang, uptime + edge) if scale > 0.0 else float(max(left - edge, 0))
                 for edge in edge_s]
        row, most = [], 1.0
        for j in range(1, len(edge_s)):
            most = min(max((lefts[j - 1] - lefts[j]) / (edge_s[j] - edge_s[j - 1]), 0.0), most)
            row.append(1.0 - most)
        rows.append(row)
    return rows


def values(chances: np.ndarray, order: list[int], host: list[int], weight_s: list[float],
           n_hosts: int) -> tuple[list[float], np.ndarray]:
    """Expected empty seconds of a request's host without those before it in the order, and each host's chances now."""
    empty = np.ones((n_hosts, len(weight_s)))
    found = [0.0] * len(order)
    for place in reversed(range(len(order))):
        request = order[place]
        at = host[request]
        total = 0.0
        for j, weight in enumerate(weight_s):
            empty[at, j] *= chances[request, j]
            total += weight * empty[at, j]
        found[place] = total
    return found, empty


def empty_spells(stays: list[tuple[int, int, int]], now_s: int) -> list[tuple[int, int, int]]:
    """Host, begin and end of each spell in which a host that had been in use was empty. stays: host, from, to."""
    found = []
    for host in sorted({host for host, _, _ in stays}):
        held_to_s = None
        for _, from_s, to_s in sorted(stay for stay in stays if stay[0] == host):
            if held_to_s is not None and from_s > held_to_s:
                found.append((host, held_to_s, from_s))
            held_to_s = to_s if held_to_s is None else max(held_to_s, to_s)
        if held_to_s is not None and held_to_s < now_s:
            found.append((host, held_to_s, now_s))
    return found


def still(spells: list[tuple[int, int, int]], from_s: int, now_s: int, knots_s: list[int]) -> list[list[int]]:
    """Of hosts that became empty a day ago or earlier, how many were empty so much later, and how many there were."""
    asked = [(host, since) for host, since, _ in spells if from_s <= since <= now_s - 86_400]
    return [[sum(any(other == host and a <= since + knot and (since + knot < b or b == now_s) for other, a, b in spells)
                 for host, since in asked), len(asked)] for knot in knots_s]


def left(stays: list[tuple[int, int, int]], at_s: int, edges_s: list[int]) -> list[list[int]]:
    """Of hosts in use at a time, how many were empty when all who ran there had left, and how many there were."""
    found = [[0, 0] for _ in range((len(edges_s) - 1) // 4)]
    for host in {host for host, _, _ in stays}:
        own = [(a, b) for other, a, b in stays if other == host]
        there = [b for a, b in own if a <= at_s < b]
        if not there or max(there) > at_s + 86_400:
            continue
        last_s = max(there)
        cell = max([k for k in range(len(edges_s) - 1) if edges_s[k] <= last_s - at_s], default=0) // 4
        found[cell][0] += not any(at_s < a < last_s < b for a, b in own)
        found[cell][1] += 1
    return found


def pdre(replay: Replay, budget: int, long_s: int) -> list[tuple[int, int]]:
    """DVLA's list of moves (request, target), by docs/simulator/rectification.md."""
    cpu, free = replay.cpu, [replay.free(host) for host in replay.hosts]
    long_of = [[i for i in host.running if replay.exit_of(i) - replay.now > long_s] for host in replay.hosts]
    cores = [sum(replay.need[i][cpu] for i in own) for own in long_of]
    sources = [k for k, own in enumerate(long_of)
               if own and 2 * cores[k] < replay.capacity[k][cpu] and all(map(replay.can_migrate, own))]
    found: list[tuple[int, int]] = []
    left_behind: set[int] = set()
    for source in sorted(sources, key=lambda k: (len(long_of[k]), k)):
        if len(found) + len(long_of[source]) > budget:
            break
        if source in {target for _, target in found}:
            continue
        room, held, moves = [list(each) for each in free], list(cores), []
        for i in sorted(long_of[source], key=lambda i: (-replay.exit_of(i), i)):
            targets = [k for k, host in enumerate(replay.hosts)
                       if k != source and host.running and k not in left_behind and held[k] >= cores[source]
                       and all(need <= left for need, left in zip(replay.need[i], room[k], strict=True))]
            if not targets:
                break
            target = min(targets, key=lambda k: (-held[k], room[k][0] - replay.need[i][0], k))
            room[target] = [left - need for left, need in zip(room[target], replay.need[i], strict=True)]
            held[target] += replay.need[i][cpu]
            moves.append((i, target))
        if len(moves) == len(long_of[source]):
            free, cores, found = room, held, found + moves
            left_behind.add(source)
    return found
