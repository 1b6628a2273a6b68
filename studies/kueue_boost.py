"""What a priority boost by the cost of an eviction brings in a queue that preempts as Kueue does.

    python -m studies kueue-boost [--trace PATH] [--reader NAME] [--load L] [--n-seeds N]

One ClusterQueue without cohort, `withinClusterQueue: LowerPriority` and `BestEffortFIFO`: workloads that wait are tried
by priority, then by arrival. One that does not fit evicts running ones of a lower priority, the lowest first, of these
the latest admitted, if that makes room
(https://kueue.sigs.k8s.io/docs/concepts/preemption/#classic-preemption). An evicted workload begins anew.
A random tenth of the jobs has a class 8 above the others. Boosts are written each 5 min to running workloads, and taken
from evicted ones in the next round, as `sojourn serve costs` does; hysteresis is left out."""

from __future__ import annotations

import argparse
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sojourn.features.readers import read_trace
from sojourn.flows.placement.workloads import t_half_width
from sojourn.serving.kubernetes.costs import LEVELS, Cost, cost_level

ROUND_S = 300
CLASS = 8
HIGH_SHARE = 0.1
N_EVICTED_MAX = 20_000
"""A replay ends after so many evictions: its queue evicts in a circle."""
BEFORE = LEVELS[0]
"""The least boost that was written before: running workloads then rank below those that wait."""
_ARRIVAL, _END, _ROUND = range(3)


@dataclass(slots=True)
class Job:
    """A workload. started_s: of its present run, or None while it waits. n_runs: how often it was admitted."""

    arrival_s: float
    lifetime_s: float
    cores: float
    priority: int = 0
    boost: int = 0
    started_s: float | None = None
    n_runs: int = 0
    waited_s: float = 0.0


class Outcome(NamedTuple):
    """n_evicted: evictions. lost_core_h: what evicted workloads had run for. wait_h: mean from arrival to the end, less
    the lifetime; waits of workloads that have not ended are not in it. n_ended: workloads."""

    n_evicted: int
    lost_core_h: float
    wait_h: float
    n_ended: int


def by_uptime(job: Job, uptime_s: float) -> Cost:
    """The cost without a bundle."""
    return Cost(uptime_s, math.inf)


def by_oracle(job: Job, uptime_s: float) -> Cost:
    """The cost with a perfect prediction."""
    return Cost(uptime_s, job.lifetime_s - uptime_s)


def replay(jobs: Sequence[Job], n_cores: float, cost: Callable[[Job, float], Cost] | None, least: int = 0) -> Outcome:
    """Run all jobs, which it changes. cost: None = no boosts. least: the boost of the lowest level.

    >>> replay([Job(0.0, 3_600.0, 1.0), Job(600.0, 60.0, 1.0)], 1.0, by_uptime)  # equal classes: nobody is evicted
    Outcome(n_evicted=0, lost_core_h=0.0, wait_h=0.4166666666666667, n_ended=2)
    """
    events = [(job.arrival_s, _ARRIVAL, idx, 0) for idx, job in enumerate(jobs)]
    if cost is not None:
        events.append((events[0][0], _ROUND, 0, 0))
    heapq.heapify(events)
    waiting: set[int] = set()
    running: set[int] = set()
    free, n_evicted, lost_s, n_ended = n_cores, 0, 0.0, 0

    def rank(idx: int) -> int:
        return jobs[idx].priority + jobs[idx].boost

    def begin(idx: int, now_s: float) -> None:
        job = jobs[idx]
        job.started_s = now_s
        job.n_runs += 1
        waiting.discard(idx)
        running.add(idx)
        heapq.heappush(events, (now_s + job.lifetime_s, _END, idx, job.n_runs))

    while events and n_evicted < N_EVICTED_MAX:
        now_s, kind, idx, run = heapq.heappop(events)
        job = jobs[idx]
        if kind == _ARRIVAL:
            waiting.add(idx)
        elif kind == _END:
            if job.started_s is None or job.n_runs != run:
                continue  # it was evicted before
            job.waited_s = now_s - job.arrival_s - job.lifetime_s
            free, n_ended = free + job.cores, n_ended + 1
            running.discard(idx)
        elif cost is not None:
            for each in waiting:
                jobs[each].boost = 0
            for each in running:
                uptime_s = now_s - (jobs[each].started_s or 0.0)
                jobs[each].boost = cost_level(cost(jobs[each], uptime_s).ratio) - LEVELS[0] + least
            if n_ended < len(jobs):
                heapq.heappush(events, (now_s + ROUND_S, _ROUND, 0, 0))
        lowest = min(map(rank, running), default=0)
        for head in sorted(waiting, key=lambda each: (-rank(each), jobs[each].arrival_s, each)):
            need = jobs[head].cores
            victims: list[int] = []
            if free < need and rank(head) <= lowest:
                continue
            if free < need:
                lower = [each for each in running if rank(each) < rank(head)]
                for each in sorted(lower, key=lambda each: (rank(each), -(jobs[each].started_s or 0.0), each)):
                    if free + sum(jobs[one].cores for one in victims) >= need:
                        break
                    victims.append(each)
                for each in reversed(victims.copy()):  # whoever need not go stays
                    if free + sum(jobs[one].cores for one in victims) - jobs[each].cores >= need:
                        victims.remove(each)
            room = free + sum(jobs[one].cores for one in victims)
            if room < need:
                continue
            for each in victims:
                lost_s += jobs[each].cores * (now_s - (jobs[each].started_s or 0.0))
                jobs[each].started_s = None
                running.discard(each)
                waiting.add(each)
            n_evicted += len(victims)
            free = room - need
            begin(head, now_s)
            lowest = min(map(rank, running))
    waits_s = [job.waited_s for job in jobs if job.started_s is not None and job.waited_s > 0.0]
    return Outcome(n_evicted, lost_s / 3_600, sum(waits_s) / max(n_ended, 1) / 3_600, n_ended)


def jobs_of(path: Path, reader: str, n_cores: float, load: float, seed: int) -> list[Job]:
    """Jobs of a trace, whose arrivals are moved together until they ask for this share of the cores; each seed draws
    another tenth that has the high class."""
    rows = read_trace(reader, path)[0].requests.dropna(subset=["departure_s"]).sort_values("arrival_s")
    arrivals_s = rows["arrival_s"].to_numpy(np.float64)
    lifetimes_s = rows["departure_s"].to_numpy(np.float64) - arrivals_s
    cores = np.minimum(rows["cpu_cores"].to_numpy(np.float64), n_cores)
    factor = float((lifetimes_s * cores).sum() / (n_cores * np.ptp(arrivals_s)) / load)
    is_high = np.random.default_rng(seed).random(len(rows)) < HIGH_SHARE
    return [Job(float(arrival_s - arrivals_s[0]) * factor, float(lifetime_s), float(own), CLASS * int(high))
            for arrival_s, lifetime_s, own, high in zip(arrivals_s, lifetimes_s, cores, is_high, strict=True)]


def main() -> None:
    """Print a row per way of boosting: means over seeds, and paired differences to no boost."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--trace", type=Path, default=Path("examples/nasa-ipsc-1993.swf.gz"))
    parser.add_argument("--reader", default="swf")
    parser.add_argument("--cores", type=float, default=128.0)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--n-seeds", type=int, default=5)
    options = parser.parse_args()
    ways = (("none", None, 0), ("uptime", by_uptime, 0), ("oracle", by_oracle, 0),
            ("uptime, from -4", by_uptime, BEFORE))
    base: list[Outcome] = []
    for name, cost, least in ways:
        own = [replay(jobs_of(options.trace, options.reader, options.cores, options.load, seed), options.cores, cost,
                      least) for seed in range(options.n_seeds)]
        base = base or own
        cells = []
        for field in Outcome._fields:
            values = np.array([getattr(one, field) for one in own], np.float64)
            gains = values - [getattr(one, field) for one in base]
            half = float(t_half_width(gains[:, None])[0])
            cells.append(f"{field} {values.mean():,.2f} ({gains.mean():+,.2f} ± {half:,.2f})")
        print(f"{name:<16} {', '.join(cells)}", flush=True)
