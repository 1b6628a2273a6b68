"""Jobs that run again and again, each with a requested start, a deadline, past runs; their day."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

MAX_TIME = 1 << 40
"""The latest step; sums of times stay whole numbers up to it."""
_MAX_UNITS = 1e9
"""The most units of one job's usage; sums of work stay whole numbers up to it."""


@dataclass(frozen=True, slots=True)
class RecurringJob:
    """One job of the day (COSPiS, section 3.1); times are whole steps, their length is the
    instance's `step_s`.

    name: not empty. requested_start: q; the job never starts earlier. flexibility: f; how much
        later it may start.
    deadline: u; its latest end. durations: int64 (n_runs,), steps of past runs, at least 1.
    usage: float64 (n_runs, n_resources), usage of the same runs, 0 or more; (n_runs,) for one
        resource. parents: names of the jobs that must end before this one starts.
    planned_start: its start in an earlier plan, None = no plan; a new plan keeps it if it can.

    Refused with ValueError, naming the job and the value: an empty history, durations and usage of
    unequal length, durations below 1, negative or not finite usage, negative times, a job that is
    its own parent.

    >>> RecurringJob("nightly", 0, 3600, 7200, np.array([600, 900]), np.array([4.0, 8.0])).usage.tolist()
    [[4.0], [8.0]]
    """

    name: str
    requested_start: int
    flexibility: int
    deadline: int
    durations: np.ndarray
    usage: np.ndarray
    parents: tuple[str, ...] = ()
    planned_start: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name of a job must be a text that is not empty, got {self.name!r}")
        for title in ("requested_start", "flexibility", "deadline"):
            object.__setattr__(self, title, self._whole(title, getattr(self, title)))
        if self.planned_start is not None:
            object.__setattr__(self, "planned_start", self._whole("planned_start", self.planned_start))
        durations = np.asarray(self.durations)
        usage = np.asarray(self.usage, np.float64)
        usage = usage[:, None] if usage.ndim == 1 else usage
        if durations.ndim != 1 or usage.ndim != 2 or len(durations) == 0:
            raise ValueError(f"history of job {self.name!r} must have at least one run, got durations of shape "
                             f"{durations.shape} and usage of shape {usage.shape}")
        if len(durations) != len(usage):
            raise ValueError(f"history of job {self.name!r} must have as many durations as usages, got "
                             f"{len(durations)} and {len(usage)}")
        whole = durations.astype(np.float64)
        is_bad = ~((whole >= 1) & (whole <= MAX_TIME) & (whole == np.floor(whole)))
        if is_bad.any():
            raise ValueError(f"durations of job {self.name!r} must be whole steps, at least 1, got "
                             f"{durations[is_bad].tolist()[0]!r}")
        is_bad = ~(np.isfinite(usage) & (usage >= 0))
        if is_bad.any():
            raise ValueError(f"usage of job {self.name!r} must be finite and at least 0, got "
                             f"{float(usage[is_bad][0])!r}")
        if self.name in self.parents:
            raise ValueError(f"parents of job {self.name!r} must be other jobs, got the job itself")
        if len(set(self.parents)) != len(self.parents):
            raise ValueError(f"parents of job {self.name!r} must be named once each, got {self.parents!r}")
        object.__setattr__(self, "durations", durations.astype(np.int64))
        object.__setattr__(self, "usage", usage)

    def _whole(self, title: str, value: float) -> int:
        if not (0 <= value <= MAX_TIME) or value != int(value):
            raise ValueError(f"{title} of job {self.name!r} must be a whole number of steps from 0 to {MAX_TIME}, got "
                             f"{value!r}")
        return int(value)


@dataclass(frozen=True, slots=True)
class Instance:
    """The jobs of one day (the problem COS of COSPiS, section 3.2).

    jobs: at least one, with different names. step_s: seconds per step; times of jobs, schedules and
    results are whole steps, so a long day needs coarser steps. resources: names of the columns of
    `usage`. capacity: float64 (n_resources,) or None: capacity of the machines. A job that never
    fits is refused; a plan
        may exceed the capacity, see `Schedule.peak`.

    Derived: order, int64 (n,): parents before children, else by requested start. parents: rows of
    each job's parents.
    unit: float64 (n_resources,): plans round usage up to whole units: of 1 if all usage is whole,
        else of 1/1,000 of the largest usage, but at most 1/10 of the median job's largest usage, so
        that one very large job does not make all others equal.
    earliest: int64 (n,), the start by the shortest durations of all ancestors.

    Refused with ValueError, naming the job: parents that do not exist, cycles, a deadline before
    the earliest end, parents whose shortest runs end after the latest start, another number of
    resources, wider than the capacity.

    >>> run = np.array([10]), np.array([2.0])
    >>> day = Instance((RecurringJob("a", 0, 5, 20, *run), RecurringJob("b", 0, 30, 60, *run, ("a",))))
    >>> day.order.tolist(), day.earliest.tolist()
    ([0, 1], [0, 10])
    """

    jobs: tuple[RecurringJob, ...]
    step_s: float = 1.0
    resources: tuple[str, ...] = ("cpu_cores",)
    capacity: np.ndarray | None = None
    order: np.ndarray = field(init=False, repr=False)
    parents: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    unit: np.ndarray = field(init=False, repr=False)
    earliest: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.jobs:
            raise ValueError("jobs must hold at least one job, got none")
        if not (np.isfinite(self.step_s) and self.step_s > 0):
            raise ValueError(f"step_s must be finite and above 0, got {self.step_s!r}")
        rows: dict[str, int] = {}
        for row, job in enumerate(self.jobs):
            if job.name in rows:
                raise ValueError(f"names of jobs must differ, got {job.name!r} twice")
            rows[job.name] = row
            if job.usage.shape[1] != len(self.resources):
                raise ValueError(f"usage of job {job.name!r} must have {len(self.resources)} resources "
                                 f"({', '.join(self.resources)}), got {job.usage.shape[1]}")
        object.__setattr__(self, "parents", tuple(self._parents(job, rows) for job in self.jobs))
        object.__setattr__(self, "order", self._order())
        self._check_capacity()
        object.__setattr__(self, "earliest", self._earliest())
        most = np.stack([job.usage.max(axis=0) for job in self.jobs])
        largest = most.max(axis=0)
        is_whole = np.all([(job.usage == np.floor(job.usage)).all(axis=0) for job in self.jobs], axis=0)
        typical = np.array([np.median(peaks[peaks > 0]) if (peaks > 0).any() else 0.0 for peaks in most.T])
        parts = np.maximum(np.minimum(largest / 1e3, typical / 10), np.maximum(largest, 1e-9) / _MAX_UNITS)
        object.__setattr__(self, "unit", np.where(is_whole & (largest <= _MAX_UNITS), 1.0, parts))

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def requested(self) -> np.ndarray:
        """Requested starts, int64 (n,)."""
        return np.array([job.requested_start for job in self.jobs], np.int64)

    @property
    def is_planned(self) -> bool:
        """Whether some job has a start in an earlier plan."""
        return any(job.planned_start is not None for job in self.jobs)

    @property
    def baseline(self) -> np.ndarray:
        """Starts without this plan, int64 (n,): the planned ones, within the flexibility; else the requested ones."""
        planned = [job.requested_start if job.planned_start is None else job.planned_start for job in self.jobs]
        return np.clip(np.array(planned, np.int64), self.requested, np.maximum(self.latest, self.requested))

    @property
    def deadlines(self) -> np.ndarray:
        """Deadlines, int64 (n,)."""
        return np.array([job.deadline for job in self.jobs], np.int64)

    @property
    def latest(self) -> np.ndarray:
        """Latest starts, int64 (n,): the requested start and the flexibility, at most the deadline (section 4.1)."""
        return np.array([min(job.requested_start + job.flexibility, job.deadline) for job in self.jobs], np.int64)

    def _parents(self, job: RecurringJob, rows: dict[str, int]) -> tuple[int, ...]:
        for parent in job.parents:
            if parent not in rows:
                raise ValueError(f"parents of job {job.name!r} must be jobs of the instance, got {parent!r}")
        return tuple(rows[parent] for parent in job.parents)

    def _order(self) -> np.ndarray:
        from heapq import heapify, heappop, heappush

        children: list[list[int]] = [[] for _ in self.jobs]
        missing = [len(rows) for rows in self.parents]
        for child, rows in enumerate(self.parents):
            for parent in rows:
                children[parent].append(child)
        ready = [(job.requested_start, row) for row, job in enumerate(self.jobs) if not missing[row]]
        heapify(ready)
        order: list[int] = []
        while ready:
            _, row = heappop(ready)
            order.append(row)
            for child in children[row]:
                missing[child] -= 1
                if not missing[child]:
                    heappush(ready, (self.jobs[child].requested_start, child))
        if len(order) < len(self.jobs):
            raise ValueError(f"parents must not form a cycle, got one through job {self._in_cycle(set(order))!r}")
        return np.array(order, np.int64)

    def _in_cycle(self, ordered: set[int]) -> str:
        """The name of a job that is its own ancestor: a walk up from a job outside the order ends
        there."""
        row = next(each for each in range(len(self.jobs)) if each not in ordered)
        seen: set[int] = set()
        while row not in seen:
            seen.add(row)
            row = next(parent for parent in self.parents[row] if parent not in ordered)
        return self.jobs[row].name

    def _check_capacity(self) -> None:
        if self.capacity is None:
            return
        room = np.atleast_1d(np.asarray(self.capacity, np.float64))
        if room.shape != (len(self.resources),) or not (np.isfinite(room) & (room > 0)).all():
            raise ValueError(f"capacity must be {len(self.resources)} finite number(s) above 0, one a resource, got "
                             f"{room.tolist()!r}")
        for job in self.jobs:
            over = job.usage.max(axis=0) - room
            if (over > 0).any():
                worst = int(over.argmax())
                raise ValueError(f"usage of job {job.name!r} must fit the capacity of {room[worst]:g} "
                                 f"{self.resources[worst]}, got {job.usage[:, worst].max():g}")
        object.__setattr__(self, "capacity", room)

    def _earliest(self) -> np.ndarray:
        earliest = self.requested
        shortest = [int(job.durations.min()) for job in self.jobs]
        for row in self.order.tolist():
            job = self.jobs[row]
            for parent in self.parents[row]:
                earliest[row] = max(earliest[row], earliest[parent] + shortest[parent])
            if earliest[row] + shortest[row] > job.deadline:
                raise ValueError(f"deadline of job {job.name!r} must not lie before its earliest end "
                                 f"{earliest[row] + shortest[row]}, got {job.deadline}")
            if earliest[row] > job.requested_start + job.flexibility:
                raise ValueError(f"flexibility of job {job.name!r} must let it start after its parents' shortest runs, "
                                 f"which end at {earliest[row]}, got latest start "
                                 f"{job.requested_start + job.flexibility}")
        return earliest
