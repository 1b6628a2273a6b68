"""Windows of starts in which given samples break no deadline and no dependency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.simulator.planning.problem import Problem


@dataclass(frozen=True, slots=True)
class Windows:
    """kept: int64, the samples that are respected, none where alpha is 1. longest: int64 (n,), a job's longest duration
    in them, 0 where there are none. low, high: int64 (n,), starts that the jobs above and below allow."""

    kept: np.ndarray
    longest: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def is_feasible(self) -> bool:
        """Whether some schedule respects all kept samples at once."""
        return bool((self.low <= self.high).all())


def windows_of(problem: Problem, kept: np.ndarray) -> Windows:
    """The windows for the kept samples: constraints are differences of starts, so that bounds passed along the
    dependencies are exact."""
    instance = problem.instance
    longest = problem.samples.durations[kept].max(axis=0, initial=0)
    low, high = problem.low.copy(), np.minimum(problem.high, instance.deadlines - longest)
    for row in instance.order.tolist():
        for parent in instance.parents[row]:
            low[row] = max(low[row], low[parent] + longest[parent])
    for row in instance.order[::-1].tolist():
        for parent in instance.parents[row]:
            high[parent] = min(high[parent], high[row] - longest[parent])
    return Windows(kept, longest, low, high)


def easiest_windows(problem: Problem) -> Windows:
    """Windows for as many samples as must be kept: those with the most slack in their tightest job, each for itself.

    >>> from sojourn.simulator.planning.job import Instance, Job
    >>> from sojourn.simulator.planning.samples import Samples
    >>> day = Instance((Job("a", 0, 9, 9, np.array([2, 8]), np.array([1.0, 5.0])),))
    >>> found = easiest_windows(Problem(day, Samples(np.array([[8], [2]]), np.ones((2, 1, 1), int)), 1))
    >>> found.kept.tolist(), found.high.tolist()
    ([1], [7])
    """
    n_kept = len(problem.samples) - problem.n_ignored
    if problem.n_ignored == 0:
        return windows_of(problem, np.arange(n_kept))
    slack = [windows_of(problem, np.array([sample])) for sample in range(len(problem.samples))]
    tightest = np.array([int((own.high - own.low).min()) for own in slack])
    return windows_of(problem, np.sort(np.argsort(-tightest, kind="stable")[:n_kept]))
