"""Admission of jobs, slow and plain: one core and one job at a time. And a check of any schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sojourn.simulator.admission import AdmissionJobs, Decisions

Answer = tuple[int, int, tuple[int, ...]]
"""Start (-1 = rejected), earliest deadline offered (-1 = none, or accepted), cores."""


@dataclass
class Core:
    """free_s: when its last job ends. turn: when that was set; later ones stand behind those with the same free_s."""

    number: int
    free_s: int
    turn: int


def naive_ends(jobs: AdmissionJobs, n_cores: int, allocation: str,
               factors: Sequence[float] = ()) -> list[Answer]:
    """Admission at the ends of cores. factors: of the threshold, for the last cores in descending order of load."""
    cores = [Core(number, 0, number) for number in range(n_cores)]
    turn = n_cores
    found: dict[int, Answer] = {}
    for row in jobs.order().tolist():
        r, p, c, d = (int(values[row]) for values in (jobs.submission_s, jobs.processing_s, jobs.cores,
                                                      jobs.deadline_s))
        cores.sort(key=lambda core: (-core.free_s, core.turn))
        if c > n_cores:
            found[row] = (-1, -1, ())
            continue
        counted = cores[n_cores - len(factors):] if len(factors) else []
        limit = max((r + max(core.free_s - r, 0) * factor for core, factor in zip(counted, factors, strict=True)),
                    default=float(r))
        windows = [cores[k:k + c] for k in range(n_cores - c + 1)]
        starts = [max(r, *(core.free_s for core in window)) for window in windows]
        good = [k for k, start in enumerate(starts) if start + p <= d]
        if not good or d < limit:
            found[row] = (-1, max(min(starts) + p, math.ceil(limit)), ())
            continue
        if allocation == "balanced":
            chosen = good[-1]
        elif allocation == "best-fit":
            chosen = good[0]
        else:
            chosen = min(good, key=lambda k: (sum(starts[k] - max(core.free_s, r) for core in windows[k]), k))
        for core in windows[chosen]:
            core.free_s, core.turn = starts[chosen] + p, turn
            turn += 1
        found[row] = (starts[chosen], -1, tuple(core.number for core in windows[chosen]))
    return [found[row] for row in range(len(jobs))]


def answers(decisions: Decisions) -> list[Answer]:
    """Decisions in the form of the slow twins."""
    return [(int(decisions.start_s[row]), int(decisions.offer_s[row]),
             tuple(int(core) for core in decisions.cores_of(row))) for row in range(len(decisions))]


def faults(jobs: AdmissionJobs, decisions: Decisions, n_cores: int,
           power: Sequence[tuple[int, int, int]] = ()) -> list[str]:
    """What is wrong with a schedule. power: (from, to, cores that are on), core k being on where that is above k;
    nothing is on outside. Empty: all are on always."""
    wrong: list[str] = []
    runs: dict[int, list[tuple[int, int, int]]] = {}
    for row in range(len(jobs)):
        if not decisions.is_accepted[row]:
            if decisions.start_s[row] != -1 or len(decisions.cores_of(row)):
                wrong.append(f"job {row} was rejected and has a place")
            continue
        start, cores = int(decisions.start_s[row]), [int(core) for core in decisions.cores_of(row)]
        end = start + int(jobs.processing_s[row])
        if start < jobs.submission_s[row]:
            wrong.append(f"job {row} starts before its submission")
        if end > jobs.deadline_s[row]:
            wrong.append(f"job {row} ends after its deadline")
        if len(set(cores)) != jobs.cores[row] or not all(0 <= core < n_cores for core in cores):
            wrong.append(f"job {row} must have {jobs.cores[row]} different cores, got {cores}")
        for core in cores:
            runs.setdefault(core, []).append((start, end, row))
    for core, placed in runs.items():
        placed.sort()
        wrong += [f"jobs {one[2]} and {other[2]} overlap on core {core}"
                  for one, other in pairwise(placed) if one[1] > other[0]]
        for start, end, row in placed if power else ():
            on = sum(max(min(to, end) - max(begin, start), 0) for begin, to, n_on in power if n_on > core)
            if on != end - start:
                wrong.append(f"job {row} runs on core {core} without power")
    return wrong


@dataclass
class Free:
    """A free interval. turn: when it came to be; later ones stand before those with the same start. since: when its
    core was turned on."""

    start: int
    end: int
    core: int
    is_last: bool
    since: int
    turn: int


def naive_free(jobs: AdmissionJobs, n_cores: int, allocation: str, is_backfilling: bool,
               power: Sequence[tuple[int, int, int]] = ()) -> list[Answer]:
    """Admission into free intervals; nothing of the past is thrown away. power: as in `faults`."""
    turns = iter(range(10**9))
    free = [Free(0, 10**15, core, True, 0, next(turns)) for core in range(n_cores)] if not power else [
        Free(start, end, core, True, start, next(turns))
        for core in range(n_cores) for start, end in _on_times(power, core)]
    found: dict[int, Answer] = {}
    for row in jobs.order().tolist():
        r, p, c, d = (int(values[row]) for values in (jobs.submission_s, jobs.processing_s, jobs.cores,
                                                      jobs.deadline_s))
        free.sort(key=lambda each: (-each.start, each.turn))  # the most loaded first
        if c > n_cores:
            found[row] = (-1, -1, ())
            continue
        now = [each for each in free if each.end > r]
        lasts = [each for each in now if each.is_last]
        is_open = [each for each in lasts if each.since <= r]
        every = now if is_backfilling else lasts
        place = _earliest([each for each in now if not each.is_last], r, p, c, d) if is_backfilling else None
        place = place or _by_allocation(is_open, r, p, c, d, allocation) or _earliest(every, r, p, c, d)
        if place is None:
            later = _earliest(every, r, p, c, 10**14)
            found[row] = (-1, later[0] + p if later else -1, ())
            continue
        start, taken = place
        for each in taken:
            free.remove(each)
            if each.end > start + p:
                free.append(Free(start + p, each.end, each.core, each.is_last, each.since, next(turns)))
            if is_backfilling and max(each.start, r) < start:
                free.append(Free(each.start, start, each.core, False, each.since, each.turn))
        found[row] = (start, -1, tuple(each.core for each in taken))
    return [found[row] for row in range(len(jobs))]


def _on_times(power: Sequence[tuple[int, int, int]], core: int) -> list[tuple[int, int]]:
    """When a core is on, neighbouring times joined."""
    times: list[tuple[int, int]] = []
    for start, end, n_on in power:
        if n_on > core:
            if times and times[-1][1] == start:
                times[-1] = (times[-1][0], end)
            else:
                times.append((start, end))
    return times


def _holding(free: Sequence[Free], start: int, p: int) -> list[Free]:
    return [each for each in free if each.start <= start and each.end >= start + p]


def _earliest(free: Sequence[Free], r: int, p: int, c: int, d: int) -> tuple[int, list[Free]] | None:
    """The earliest start, on those that are idle shortest before it."""
    for start in sorted({max(each.start, r) for each in free}):
        if start + p <= d and len(_holding(free, start, p)) >= c:
            return start, _holding(free, start, p)[:c]
    return None


def _by_allocation(free: Sequence[Free], r: int, p: int, c: int, d: int,
                   allocation: str) -> tuple[int, list[Free]] | None:
    places = []
    for k, each in enumerate(free):
        start = max(each.start, r)
        taken = _holding(free[k:], start, p)[:c]
        if start + p <= d and each.end >= start + p and len(taken) == c:
            places.append((start, taken))
    if not places:
        return None
    if allocation == "balanced":
        start = places[-1][0]
        return start, _holding(free, start, p)[-c:]
    if allocation == "best-fit" or c == 1:
        return places[0]
    return min(places, key=lambda place: sum(place[0] - max(each.start, r) for each in place[1]))


@dataclass
class Run:
    """An accepted job. planned_s: what was taken for its processing time."""

    row: int
    cores: list[int]
    start: int
    end: int
    planned_s: int


def naive_predicted(jobs: AdmissionJobs, planned: Sequence[int], n_cores: int,
                    allocation: str) -> list[tuple[int, int]]:
    """Real start and end of each job, -1 = rejected; everything that was accepted is planned anew at each job."""
    runs: list[Run] = []
    order = list(range(n_cores))
    found: dict[int, tuple[int, int]] = {}
    for row in jobs.order().tolist():
        r, p, c, d = (int(values[row]) for values in (jobs.submission_s, jobs.processing_s, jobs.cores,
                                                      jobs.deadline_s))
        expected, real = [0] * n_cores, [0] * n_cores
        for run in runs:
            if run.end <= r:
                end = run.end
            elif run.start <= r:
                length = run.planned_s
                while run.start + length <= r:
                    length *= 2
                end = run.start + length
            else:
                end = max(r, *(expected[core] for core in run.cores)) + run.planned_s
            for core in run.cores:
                expected[core], real[core] = end, run.end
        order.sort(key=lambda core: -expected[core])  # stable: as it was before, where equal
        found[row] = (-1, -1)
        windows = [order[k:k + c] for k in range(n_cores - c + 1)]
        starts = [max(r, *(expected[core] for core in window)) for window in windows]
        good = [k for k, start in enumerate(starts) if start + planned[row] <= d]
        if not good:
            continue
        idle = [sum(start - max(expected[core], r) for core in window)
                for start, window in zip(starts, windows, strict=True)]
        chosen = {"balanced": good[-1], "best-fit": good[0], "min-idle": min(good, key=lambda k: (idle[k], k))}
        window = windows[chosen[allocation]]
        begin = max(r, *(real[core] for core in window))
        runs.append(Run(row, window, begin, begin + p, planned[row]))
        found[row] = (begin, begin + p)
    return [found[row] for row in range(len(jobs))]
