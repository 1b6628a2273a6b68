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
