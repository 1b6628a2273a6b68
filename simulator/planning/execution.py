"""What a schedule does on real days: runs that were held out from planning, parents first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.simulator.planning.job import Instance, Job
from sojourn.simulator.planning.peaks import peaks
from sojourn.simulator.planning.schedule import Schedule

N_RUNS = 50


@dataclass(frozen=True, slots=True)
class Runs:
    """durations: int64 (n_runs, n), steps. usage: float64 (n_runs, n, n_resources)."""

    durations: np.ndarray
    usage: np.ndarray

    def __len__(self) -> int:
        return len(self.durations)


def drawn_runs(held_out: Sequence[Job], rng: np.random.Generator, n_runs: int = N_RUNS) -> Runs:
    """Days with one pair of duration and usage a job, drawn from the histories of `held_out`: runs not planned with.

    >>> runs = drawn_runs([Job("a", 0, 0, 9, np.array([3]), np.array([2.0]))], np.random.default_rng(0), 2)
    >>> runs.durations.tolist(), runs.usage.tolist()
    ([[3], [3]], [[[2.0]], [[2.0]]])
    """
    if n_runs < 1:
        raise ValueError(f"n_runs must be at least 1, got {n_runs!r}")
    if not len(held_out):
        raise ValueError("held_out must hold at least one job, got none")
    durations = np.empty((n_runs, len(held_out)), np.int64)
    usage = np.empty((n_runs, len(held_out), held_out[0].usage.shape[1]))
    for row, job in enumerate(held_out):
        drawn = rng.integers(len(job.durations), size=n_runs)
        durations[:, row], usage[:, row] = job.durations[drawn], job.usage[drawn]
    return Runs(durations, usage)


def executed(instance: Instance, starts: np.ndarray, runs: Runs) -> np.ndarray:
    """Real starts, int64 (n_runs, n): as scheduled, or when the last parent ends, if that is later (section 4.2).

    >>> from sojourn.simulator.planning.job import Job
    >>> one = np.array([10]), np.array([2.0])
    >>> day = Instance((Job("a", 0, 5, 20, *one), Job("b", 0, 30, 60, *one, ("a",))))
    >>> executed(day, np.array([0, 10]), Runs(np.array([[8, 9], [14, 9]]), np.ones((2, 2, 1)))).tolist()
    [[0, 10], [0, 14]]
    """
    real = np.broadcast_to(starts, runs.durations.shape).copy()
    for row in instance.order.tolist():
        for parent in instance.parents[row]:
            real[:, row] = np.maximum(real[:, row], real[:, parent] + runs.durations[:, parent])
    return real


@dataclass(frozen=True, slots=True)
class Executed:
    """What was observed, one row a run (COSPiS, section 5.1).

    peak: (n_runs, n_resources). reduction_pct: below the peak of the requested starts in the same run (of those that
    an earlier plan gave, where it did), %; higher = better. under_pct: by how much the observed peak exceeds the
    planned one, % of the planned, 0 where it does not; over_pct: the reverse; lower = better. late_s: sum over jobs of
    the time that they ended after their deadline, seconds; late_pct: share of jobs that did; lower = better. Reductions
    and errors are of the first resource.
    """

    peak: np.ndarray
    reduction_pct: np.ndarray
    under_pct: np.ndarray
    over_pct: np.ndarray
    late_s: np.ndarray
    late_pct: np.ndarray


def execute(instance: Instance, schedule: Schedule, runs: Runs) -> Executed:
    """Run the schedule, and the baseline's starts, on the same days."""
    real = executed(instance, schedule.starts, runs)
    peak = peaks(real, runs.durations, runs.usage)
    manual = peaks(executed(instance, instance.baseline, runs), runs.durations, runs.usage)
    planned = max(float(schedule.peak[0]), 1e-12)
    late = np.maximum(real + runs.durations - instance.deadlines, 0)
    error = 100.0 * (peak[:, 0] - planned) / planned
    return Executed(
        peak, 100.0 * (1.0 - peak[:, 0] / np.maximum(manual[:, 0], 1e-12)), np.maximum(error, 0.0),
        np.maximum(-error, 0.0), late.sum(axis=1) * instance.step_s, 100.0 * (late > 0).mean(axis=1))
