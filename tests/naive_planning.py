"""Slow twins of planning: an independent check of schedules, kernels step by step, and optima by trying every start."""

from __future__ import annotations

import itertools

import numpy as np

from sojourn.simulator.planning import Instance, Schedule


def step_usage(starts: np.ndarray, durations: np.ndarray, usage: np.ndarray, n_steps: int) -> np.ndarray:
    """Usage at each step of one sample, one resource: float (n_steps,). durations, usage: (n,)."""
    found = np.zeros(n_steps)
    for start, length, amount in zip(starts.tolist(), durations.tolist(), usage.tolist(), strict=True):
        for time in range(start, start + length):
            found[time] += amount
    return found


def peak_by_steps(starts: np.ndarray, durations: np.ndarray, usage: np.ndarray) -> float:
    """The highest of `step_usage`."""
    return float(step_usage(starts, durations, usage, int((starts + durations).max())).max())


def problems_of(instance: Instance, starts: np.ndarray, durations: np.ndarray) -> list[str]:
    """What is wrong with starts where jobs take these durations, int (n,); nothing is taken from the planners."""
    rows = {job.name: row for row, job in enumerate(instance.jobs)}
    found = []
    for row, job in enumerate(instance.jobs):
        if not job.requested_start <= starts[row] <= job.requested_start + job.flexibility:
            found.append(f"{job.name} starts at {starts[row]}, outside its flexibility")
        if starts[row] + durations[row] > job.deadline:
            found.append(f"{job.name} ends after its deadline")
        found += [f"{job.name} starts before {parent} ends" for parent in job.parents
                  if starts[rows[parent]] + durations[rows[parent]] > starts[row]]
    return found


def check_schedule(instance: Instance, schedule: Schedule, durations: np.ndarray, usage: np.ndarray,
                   n_ignored: int) -> None:
    """Raise AssertionError unless the schedule is what it says on these samples, (n_samples, n) and (.., n, n_r)."""
    wrong = [problems_of(instance, schedule.starts, own) for own in durations]
    assert not [text for own in wrong for text in own if "flexibility" in text]
    n_broken = sum(bool(own) for own in wrong)
    if schedule.status != "requested":
        assert n_broken <= n_ignored, wrong
    assert abs(schedule.broken_pct - 100 * n_broken / len(durations)) < 1e-9
    for resource in range(usage.shape[2]):
        peak = max(peak_by_steps(schedule.starts, own, used[:, resource])
                   for own, used in zip(durations, usage, strict=True))
        assert abs(schedule.peak[resource] - peak * instance.unit[resource]) < 1e-9
    assert schedule.bound <= schedule.objective
    assert abs(schedule.gap_pct - 100 * (schedule.objective - schedule.bound) / max(schedule.objective, 1)) < 1e-9
    assert (schedule.status == "optimal") <= (schedule.gap_pct < 1e-9)


def least_peak(instance: Instance, durations: np.ndarray, usage: np.ndarray, n_ignored: int) -> float:
    """The least peak of one resource over every schedule; inf where there is none. usage: (n_samples, n)."""
    best = np.inf
    windows = [range(job.requested_start, min(job.requested_start + job.flexibility, job.deadline) + 1)
               for job in instance.jobs]
    for each in itertools.product(*windows):
        starts = np.array(each)
        if sum(bool(problems_of(instance, starts, own)) for own in durations) <= n_ignored:
            best = min(best, max(peak_by_steps(starts, own, used) for own, used in zip(durations, usage, strict=True)))
    return best


def added_excess(used: np.ndarray, lengths: np.ndarray, amounts: np.ndarray, lines: np.ndarray, low: int,
                 n_starts: int) -> list[int]:
    """What a job adds above the lines at each start. used: (n_samples, n_resources, n_times); lengths: (n_samples,);
    amounts, lines: (n_samples, n_resources)."""
    found = []
    for start in range(low, low + n_starts):
        total = 0
        for sample, resource in np.ndindex(*amounts.shape):
            for time in range(start, start + lengths[sample]):
                over = used[sample, resource, time] - lines[sample, resource]
                total += max(over + amounts[sample, resource], 0) - max(over, 0)
        found.append(int(total))
    return found
