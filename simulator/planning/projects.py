"""Project scheduling with the same core: least makespan within given capacities (RCPSP), and files of the PSPLIB."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.planning._cp_sat import Limits, solve
from sojourn.simulator.planning.job import Instance, Job
from sojourn.simulator.planning.problem import Problem
from sojourn.simulator.planning.samples import estimated


@dataclass(frozen=True, slots=True)
class Project:
    """starts: int64 (n,). makespan: the last end. status: optimal (proved), feasible, infeasible or unknown (no
    starts). bound: no schedule is shorter."""

    starts: np.ndarray | None
    makespan: int
    status: str
    bound: float


def least_makespan(instance: Instance, limits: Limits) -> Project:
    """The shortest schedule within the instance's capacity; durations and usage are the longest runs of each job.

    >>> run = np.array([2]), np.array([3.0])
    >>> day = Instance((Job("a", 0, 9, 20, *run), Job("b", 0, 9, 20, *run)), capacity=np.array([5.0]))
    >>> least_makespan(day, Limits()).makespan
    4
    """
    if instance.capacity is None:
        raise ValueError("capacity must be given for a least makespan, got None")
    samples = estimated(instance, "p100")
    problem = Problem(instance, samples)
    room = np.floor(instance.capacity / instance.unit + 1e-9).astype(np.int64)
    found = solve(problem, limits, limits.limit_s, floor=np.zeros(len(room), np.int64), most=room, goal="makespan")
    makespan = -1 if found.starts is None else int((found.starts + samples.durations[0]).max())
    return Project(found.starts, makespan, found.status, found.bound)


def read_project(text: str) -> Instance:
    """A single-mode file of the PSPLIB (.sm): jobs, their successors, durations, requests and availabilities.

    Jobs without a duration (source, sink) are left out, and what they connect is connected directly. Windows of starts
    reach to the file's horizon. Refused with ValueError: a text without the sections of such a file.
    """
    sections = {title: [line.split() for line in body.splitlines()]
                for title, body in re.findall(r"^([A-Z/ ]+):\n(.*?)(?=^\*{20})", text, flags=re.M | re.S)}
    horizon_line = re.search(r"horizon +: +(\d+)", text)
    wanted = ("PRECEDENCE RELATIONS", "REQUESTS/DURATIONS", "RESOURCEAVAILABILITIES")
    missing = [title for title in wanted if title not in sections]
    if missing or horizon_line is None:
        raise ValueError(f"text must be a single-mode file of the PSPLIB, got none with {(*missing, 'horizon')[0]!r}")
    horizon = int(horizon_line[1])
    children = {row[0]: row[3:] for row in sections[wanted[0]] if row and row[0].isdigit()}
    numbers = {row[0]: [int(each) for each in row[2:]] for row in sections[wanted[1]] if row and row[0].isdigit()}
    capacity = np.array([float(each) for each in sections[wanted[2]][-1]])
    parents: dict[str, set[str]] = {name: set() for name in numbers}
    for name, own in children.items():
        for child in own:
            # jobs are numbered in an order of their dependencies, so that parents of a source are known
            parents[child] |= {name} if numbers[name][0] else parents[name]
    jobs = tuple(Job(name, 0, horizon - duration, horizon, np.array([duration]), np.array([usage], np.float64),
                     tuple(sorted(parents[name], key=int)))
                 for name, (duration, *usage) in numbers.items() if duration)
    return Instance(jobs, resources=tuple(f"R{k + 1}" for k in range(len(capacity))), capacity=capacity)
