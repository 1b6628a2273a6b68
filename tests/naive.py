"""Slow twins of the kernels: plain Python, one idea per function, meant to be read and believed."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

HOUR = 3600
NILAS_BUCKETS = [0, 1800, 3600, 5400, 7200, 3 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 168 * HOUR]


def total_at(breakpoints: list[tuple[int, int]], uptime: int) -> int:
    """Predicted total at an uptime, from (uptime, total) pairs."""
    total = [t for u, t in breakpoints if u <= uptime][-1]
    total = max(total, 1)
    while total <= uptime:
        total = 2 * total
    return total


def host_exit(running: list[tuple[int, list[tuple[int, int]]]], now: int) -> int:
    """Predicted exit of a host from its requests' (start, breakpoints): the last of theirs, all asked anew."""
    return max(start + total_at(breakpoints, now - start) for start, breakpoints in running)


@dataclass
class Host:
    """One host and what runs on it."""

    capacity: list[int]
    running: list[int] = field(default_factory=list)


@dataclass
class Replay:
    """A whole replay that recomputes everything at every decision.

    start, departure: per request; need: per request, per resource, binding resource first; breakpoints: per
    request, (uptime, total) pairs.
    """

    start: list[int]
    departure: list[int]
    need: list[list[int]]
    capacity: list[list[int]]
    breakpoints: list[list[tuple[int, int]]]
    horizon: int
    overhang: list[list[int]] | None = None

    def run(self, policy: str) -> tuple[list[int], list[int]]:
        """The host of each request (-1 = rejected), and (host, time) integrals: empty host-seconds."""
        hosts = [Host(capacity) for capacity in self.capacity]
        placed = [-1] * len(self.start)
        self.hosts, self.placed = hosts, placed
        events = [(max(self.start[i], 0), 3, i) for i in range(len(self.start))]
        heapq.heapify(events)
        self.empty_seconds, time = 0, 0
        while events:
            now, kind, i = heapq.heappop(events)
            if now > self.horizon:
                break
            self.empty_seconds += (now - time) * sum(not host.running for host in hosts)
            time = now
            if kind == 0:
                hosts[placed[i]].running.remove(i)
                continue
            fitting = [h for h in range(len(hosts)) if self.fits(i, hosts[h])]
            if fitting:
                placed[i] = min(fitting, key=lambda h: (*self.score(policy, i, hosts[h], now), h))
                hosts[placed[i]].running.append(i)
                heapq.heappush(events, (self.departure[i], 0, i))
        self.empty_seconds += (self.horizon - time) * sum(not host.running for host in hosts)
        return placed, [host_index for host_index, host in enumerate(hosts) if host.running]

    def free(self, host: Host) -> list[int]:
        """What is left of each resource."""
        return [room - sum(self.need[r][d] for r in host.running) for d, room in enumerate(host.capacity)]

    def fits(self, i: int, host: Host) -> bool:
        """Whether request i has room on the host."""
        return all(need <= free for need, free in zip(self.need[i], self.free(host), strict=True))

    def score(self, policy: str, i: int, host: Host, now: int) -> tuple[Any, ...]:
        """The host's score vector; lower is better."""
        if policy == "first-fit":
            return ()
        if policy == "best-fit":
            return self.packing(i, host)
        if policy == "worst-fit":
            return tuple(1 - share for share in self.packing(i, host)[1:])
        if policy == "waste-min":
            return (not host.running, self.added_waste(i, host), *self.packing(i, host))
        if policy == "random":
            return (mixed(i, next(h for h, other in enumerate(self.hosts) if other is host)),)
        if policy == "la-binary":
            return (self.class_order(i, host, now, [2 * HOUR]), *self.packing(i, host))
        if policy == "la":
            return (self.class_order(i, host, now, [2**power * HOUR for power in range(1, 60)]),
                    *self.packing(i, host))  # fmt: skip
        if policy == "nilas":
            return (self.temporal_cost(i, host, now), *self.packing(i, host))
        if policy == "nilas-expected":
            return (self.expected_cost(i, host, now), *self.packing(i, host))
        raise ValueError(policy)

    def packing(self, i: int, host: Host) -> tuple[Any, ...]:
        """Non-empty first, then least free share left, resource by resource."""
        left = [free - need for free, need in zip(self.free(host), self.need[i], strict=True)]
        shares = [Fraction(amount, room) if room else 0 for amount, room in zip(left, host.capacity, strict=True)]
        return (not host.running, *shares)

    def added_waste(self, i: int, host: Host) -> float:
        """Room that becomes useless to the mean shape of all requests placed so far, in fiftieths of the host."""
        mix = [sum(self.need[r][d] for r, h in enumerate(self.placed) if h >= 0) for d in range(len(host.capacity))]

        def waste(free: list[int]) -> float:
            n_mixes = min((own / part for own, part in zip(free, mix, strict=True) if part), default=None)
            if n_mixes is None:
                return 0.0
            return max(0.0, *((own - n_mixes * part) / room
                              for own, part, room in zip(free, mix, host.capacity, strict=True) if room))

        left = [own - asked for own, asked in zip(self.free(host), self.need[i], strict=True)]
        return round(50 * (1.0 + (waste(left) - waste(self.free(host)))))

    def class_order(self, i: int, host: Host, now: int, bounds: list[int]) -> int:
        """Same class, then another class, then an empty host. bounds: s, upper bounds of all classes but the last."""
        if not host.running:
            return 2

        def left(r: int) -> int:
            return max(self.start[r] + self.breakpoints[r][0][1] - now, 0)

        def class_of(remaining: int) -> int:
            return sum(remaining >= bound for bound in bounds)

        return int(class_of(left(i)) != class_of(max(left(r) for r in host.running)))

    def temporal_cost(self, i: int, host: Host, now: int) -> int:
        """Index of the bucket of the time by which the request outstays the host."""
        predicted = total_at(self.breakpoints[i], now - self.start[i]) - (now - self.start[i])
        remaining = 0
        if host.running:
            remaining = host_exit([(self.start[r], self.breakpoints[r]) for r in host.running], now) - now
        extension = max(predicted - remaining, 0)
        return max(k for k, edge in enumerate(NILAS_BUCKETS) if extension >= edge)


    def expected_cost(self, i: int, host: Host, now: int) -> int:
        """The same of the expected extension, where the predictor tells whole distributions."""
        if self.overhang is None:
            return self.temporal_cost(i, host, now)
        age, uptimes = now - self.start[i], [uptime for uptime, _ in self.breakpoints[i]]
        left = total_at(self.breakpoints[i], age) - age
        remaining = 0
        if host.running:
            remaining = host_exit([(self.start[r], self.breakpoints[r]) for r in host.running], now) - now
        extension = overhang_at(uptimes, self.overhang[i], age + remaining)
        if age:
            reached = overhang_at(uptimes, self.overhang[i], age)
            extension = extension * (left / reached) if reached > 0 else max(left - remaining, 0)
        return max(k for k, edge in enumerate(NILAS_BUCKETS) if extension >= edge)


def overhang_at(uptimes: list[int], overhang: list[int], uptime: int) -> float:
    """Linear between the points, geometric beyond the last two."""
    for k in range(len(uptimes) - 1):
        if uptimes[k] <= uptime < uptimes[k + 1]:
            share = (uptime - uptimes[k]) / (uptimes[k + 1] - uptimes[k])
            return overhang[k] - (overhang[k] - overhang[k + 1]) * share
    beyond = uptime - uptimes[-1]
    if len(uptimes) == 1:
        return max(overhang[0] - beyond, 0)
    if overhang[-1] in (0, overhang[-2]):
        return overhang[-1]
    return overhang[-1] * math.exp(math.log(overhang[-1] / overhang[-2]) * (beyond / (uptimes[-1] - uptimes[-2])))


def mixed(i: int, host: int) -> int:
    """Two rounds of SplitMix64's finaliser, the first with the request's row and the host; its 53 highest bits."""
    word = i * 0x9E3779B97F4A7C15
    for addend in (host, 0):
        word = (word + addend) % 2**64
        word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) % 2**64
        word = ((word ^ word >> 27) * 0x94D049BB133111EB) % 2**64
        word ^= word >> 31
    return word >> 11


def kaplan_meier(total: list[int], is_event: list[bool], entry: list[int]) -> dict[int, Fraction]:
    """Survival just after each event time, by counting who is at risk."""
    survival, out = Fraction(1), {}
    for time in sorted({t for t, event in zip(total, is_event, strict=True) if event}):
        rows = list(zip(total, is_event, entry, strict=True))
        at_risk = sum(e < time <= t for t, _, e in rows)
        died = sum(t == time and event for t, event, _ in rows)
        survival *= 1 - Fraction(died, at_risk)
        out[time] = survival
    return out


def fewest_hosts(demand: list[int], capacity: list[list[int]]) -> int:
    """Take the largest hosts one by one until each resource suffices; the resource that needs most counts."""
    most = 0
    for d, wanted in enumerate(demand):
        sizes, n = sorted((host[d] for host in capacity), reverse=True), 0
        while sum(sizes[:n]) < wanted and n < len(sizes):
            n += 1
        most = max(most, n)
    return most


def inflated(free: list[list[int]], capacity: list[list[int]], n_running: list[int], shapes: list[list[int]],
             drawn: list[int]) -> list[list[int]]:
    """Free amounts over all hosts at the first misfit and once nothing fits, by best fit with all hosts looked at."""
    free, n_running, at_misfit = [list(own) for own in free], list(n_running), None
    wanted = set(drawn)
    for shape in itertools.cycle(drawn):
        if not wanted:
            break
        if shape not in wanted:
            continue
        need = shapes[shape]
        fitting = [h for h, own in enumerate(free) if all(a <= b for a, b in zip(need, own, strict=True))]
        if not fitting:
            at_misfit = at_misfit or [sum(amounts) for amounts in zip(*free, strict=True)]
            wanted.remove(shape)
            continue
        scores = [(n_running[h] == 0, [Fraction(own - asked, room) if room else Fraction(0) for own, asked, room in
                                       zip(free[h], need, capacity[h], strict=True)], h) for h in fitting]
        best = min(scores)[2]
        free[best] = [own - asked for own, asked in zip(free[best], need, strict=True)]
        n_running[best] += 1
    left = [sum(amounts) for amounts in zip(*free, strict=True)]
    return [at_misfit or left, left]


def trace_of(rows: list[tuple[Any, Any, float, float]], horizon: int) -> Any:
    """A Trace from (arrival, departure, cores, GiB) rows."""
    from sojourn.features.trace import Trace

    table = pd.DataFrame({
        "request_id": np.arange(len(rows)),
        "arrival_s": pd.array([row[0] for row in rows], "Int64"),
        "departure_s": pd.array([row[1] for row in rows], "Int64"),
        "cpu_cores": [row[2] for row in rows],
        "mem_gib": [row[3] for row in rows],
    })
    return Trace(table, horizon)
