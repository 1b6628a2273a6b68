"""Peaks that no schedule goes below."""

from __future__ import annotations

import numpy as np

from sojourn.simulator.planning.problem import Problem
from sojourn.simulator.planning.windows import windows_of

_POINTS = 128
"""Ends of windows that are tried, of each kind; 128 x 128 windows take some milliseconds a sample."""


def energetic_bound(problem: Problem) -> np.ndarray:
    """The least peak of each resource, int64 (n_resources,): the work that must lie in a window over its length.

    A job that may start from low to high and runs for d lies within [a, b) for at least
    max(0, min(d, b - a, low + d - a, b - high)) steps, whenever it starts. Windows begin at earliest or latest starts
    and end at earliest or latest ends. Also the widest job alone.

    Deadlines and dependencies narrow the starts. A sample may break them, but no more than `n_ignored` samples do: of
    the bounds that hold where one sample is respected, all but the `n_ignored` highest hold at once.

    >>> from sojourn.simulator.planning.job import Instance, Job
    >>> from sojourn.simulator.planning.samples import estimated
    >>> three = Instance(tuple(Job(f"{k}", 0, 2, 9, np.array([4]), np.array([2.0])) for k in range(3)))
    >>> energetic_bound(Problem(three, estimated(three, "p50"))).tolist()
    [6]
    """
    samples = problem.samples
    least = samples.usage.max(axis=(0, 1))
    respected = np.empty((len(samples), len(least)), np.int64)
    for k, (durations, usage) in enumerate(zip(samples.durations, samples.usage, strict=True)):
        if problem.n_ignored:
            least = np.maximum(least, _window_bound(problem.low, problem.high, durations, usage))
        own = windows_of(problem, np.array([k]))
        respected[k] = _window_bound(own.low, own.high, durations, usage) if own.is_feasible else np.iinfo(np.int64).max
    if problem.n_ignored < len(samples):
        fallen = np.sort(respected, axis=0)[len(samples) - 1 - problem.n_ignored]
        least = np.where(fallen < np.iinfo(np.int64).max, np.maximum(least, fallen), least)
    return np.asarray(least)


def _window_bound(low: np.ndarray, high: np.ndarray, durations: np.ndarray, usage: np.ndarray) -> np.ndarray:
    """Of one sample with these windows of starts, int64 (n_resources,)."""
    bound = np.zeros(usage.shape[1], np.int64)
    begins = _spread(np.concatenate((low, high)))
    ends = _spread(np.concatenate((low + durations, high + durations)))
    for begin in begins.tolist():
        later = ends[ends > begin]
        if len(later):
            inside = np.minimum(np.minimum(durations, low + durations - begin)[:, None],
                                np.minimum((later - begin)[None, :], later[None, :] - high[:, None]))
            work = np.maximum(inside, 0).T @ usage
            bound = np.maximum(bound, (-(-work // (later - begin)[:, None])).max(axis=0))
    return bound


def _spread(times: np.ndarray) -> np.ndarray:
    distinct = np.unique(times)
    if len(distinct) <= _POINTS:
        return distinct
    return distinct[np.linspace(0, len(distinct) - 1, _POINTS).astype(np.int64)]
