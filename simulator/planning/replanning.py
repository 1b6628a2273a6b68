"""Planning again during the day: what has ended is out, what runs stays, what waits gets a new start."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sojourn.simulator.planning.job import MAX_TIME, Instance, Job


@dataclass(frozen=True, slots=True)
class DayState:
    """now: a step. started, ended: float64 (n,), whole steps, below 0 before the day's begin, NaN where a job has not
    started or ended yet."""

    now: int
    started: np.ndarray
    ended: np.ndarray


@dataclass(frozen=True, slots=True)
class RestOfDay:
    """instance: of the jobs that have not ended. rows: int64, theirs in the whole day. is_running: bool, of them.
    requested: int64, their requested starts in the whole day, steps: in `instance` nothing waiting starts before now.
    n_before: int64, steps that each has run before the day's begin; in `instance` it starts at 0, so much shorter.
    notes: deadlines that can no longer be met, histories that are outlived, and jobs that did not wait for a parent, a
    sentence each."""

    instance: Instance
    rows: np.ndarray
    is_running: np.ndarray
    requested: np.ndarray
    n_before: np.ndarray
    notes: tuple[str, ...]


def rest_of_day(instance: Instance, state: DayState) -> RestOfDay:
    """The day that is left at `now`; any planner plans it.

    A running job keeps its start, and its history is what is possible after the time that it has run: pairs with a
    longer duration. Where none is longer, it has outlived its history: it is taken to run as long again, with the usage
    of its longest run. A waiting job starts at `now` or later, within its flexibility; where that has passed, at once.
    A start that was planned for it and has passed is now. Parents that have ended are dropped. A deadline that the
    shortest runs break is moved to the earliest end, and said.

    Refused with ValueError: times after `now`, an end without a start or not after it, a day in which all have ended.

    >>> day = Instance((Job("a", 0, 5, 60, np.array([10, 30]), np.array([2.0, 3.0])),
    ...                 Job("b", 0, 50, 99, np.array([5]), np.array([1.0]), ("a",))))
    >>> rest = rest_of_day(day, DayState(20, np.array([0, np.nan]), np.full(2, np.nan)))
    >>> [(job.requested_start, job.flexibility, job.durations.tolist()) for job in rest.instance.jobs]
    [(0, 0, [30]), (20, 30, [5])]
    """
    _check(instance, state)
    notes = [f"job {instance.jobs[row].name!r} started before its parent {instance.jobs[parent].name!r} ended"
             for row in np.flatnonzero(~np.isnan(state.started)).tolist() for parent in instance.parents[row]
             if not state.ended[parent] <= state.started[row]]
    rows = np.flatnonzero(np.isnan(state.ended))
    if not len(rows):
        raise ValueError(f"jobs must not all have ended at {state.now}, got {len(instance)} that have")
    left: dict[int, Job] = {}
    earliest_end: dict[int, int] = {}
    for row in (row for row in instance.order.tolist() if np.isnan(state.ended[row])):
        job = instance.jobs[row]
        if not np.isnan(state.started[row]):
            job = _running(job, int(state.started[row]), state.now, notes)
            start = job.requested_start
        else:
            waits_for = [parent for parent in instance.parents[row] if np.isnan(state.ended[parent])]
            begin = max(job.requested_start, state.now)
            start = max([begin, *(earliest_end[parent] for parent in waits_for)])
            latest = job.requested_start + job.flexibility
            if start > latest:
                notes.append(f"job {job.name!r} can no longer start by {latest}: it may start until {start}")
            planned = None if job.planned_start is None else max(job.planned_start, begin)
            job = replace(job, requested_start=begin, flexibility=max(latest, start) - begin, planned_start=planned,
                          parents=tuple(instance.jobs[parent].name for parent in waits_for))
        earliest_end[row] = start + int(job.durations.min())
        if earliest_end[row] > job.deadline:
            notes.append(f"job {job.name!r} can no longer end by {job.deadline}: its deadline is now "
                         f"{earliest_end[row]}")
            job = replace(job, deadline=earliest_end[row])
        left[row] = job
    rest = replace(instance, jobs=tuple(left[row] for row in rows.tolist()))
    begun = np.nan_to_num(np.minimum(state.started[rows], 0)).astype(np.int64)
    return RestOfDay(rest, rows, ~np.isnan(state.started[rows]), np.minimum(instance.requested[rows], np.where(
        begun < 0, begun, MAX_TIME)), -begun, tuple(notes))


def _running(job: Job, started: int, now: int, notes: list[str]) -> Job:
    is_longer = job.durations > now - started
    durations, usage = job.durations[is_longer], job.usage[is_longer]
    if not is_longer.any():
        longest = int(job.durations.argmax())
        durations, usage = np.array([max(2 * (now - started), 1)]), job.usage[longest:longest + 1]
        notes.append(f"job {job.name!r} has run for {now - started}, longer than all of its past runs: it is taken to "
                     "run as long again")
    begin = max(started, 0)  # usage before the day's begin is nothing that a plan could change
    return Job(job.name, begin, 0, job.deadline, durations - (begin - started), usage)


def _check(instance: Instance, state: DayState) -> None:
    if state.now < 0:
        raise ValueError(f"now must be at least 0, got {state.now!r}")
    for name, times in (("started", state.started), ("ended", state.ended)):
        if times.shape != (len(instance),):
            raise ValueError(f"{name} must have a time for each of the {len(instance)} jobs, got {times.shape}")
        late = np.flatnonzero(times > state.now)
        if len(late):
            raise ValueError(f"{name} of job {instance.jobs[late[0]].name!r} must not lie after {state.now}, got "
                             f"{times[late[0]]:g}")
    odd = np.flatnonzero(~np.isnan(state.ended) & ~(state.ended > state.started))
    if len(odd):
        raise ValueError(f"ended of job {instance.jobs[odd[0]].name!r} must lie after its start "
                         f"{state.started[odd[0]]:g}, got {state.ended[odd[0]]:g}")
