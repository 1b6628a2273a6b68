"""Peaks of usage, exact, from the starts and ends of jobs."""

from __future__ import annotations

import numpy as np


def peaks(starts: np.ndarray, durations: np.ndarray, usage: np.ndarray) -> np.ndarray:
    """The most that is used at once in each sample, of each resource: (n_samples, n_resources), in the unit of `usage`.

    starts: int (n,) or (n_samples, n), steps. durations: (n_samples, n). usage: (n_samples, n, n_resources).
    A job that ends when another starts does not overlap it.

    >>> peaks(np.array([0, 2]), np.array([[2, 1], [3, 1]]), np.array([[[4], [5]], [[4], [5]]])).tolist()
    [[5], [9]]
    """
    from_ = np.broadcast_to(starts, durations.shape)
    times = np.concatenate((from_ + durations, from_), axis=1) * 2
    times[:, durations.shape[1]:] += 1  # ends come before starts of the same time
    order = np.argsort(times, axis=1, kind="stable")
    steps = np.concatenate((-usage, usage), axis=1)
    running = np.cumsum(np.take_along_axis(steps, order[:, :, None], axis=1), axis=1)
    return np.asarray(running.max(axis=1))


def usage_profile(starts: np.ndarray, durations: np.ndarray, usage: np.ndarray, times: np.ndarray) -> np.ndarray:
    """What is used at each of `times` in each sample, of one resource: (n_samples, n_times).

    starts: (n,) or (n_samples, n). durations, usage: (n_samples, n). times: int (n_times,), rising.

    >>> usage_profile(np.array([0, 2]), np.array([[3, 2]]), np.array([[4, 5]]), np.arange(5)).tolist()
    [[4, 4, 9, 5, 0]]
    """
    from_ = np.broadcast_to(starts, durations.shape)
    found = np.zeros((len(durations), len(times)), usage.dtype)
    for row in range(len(durations)):
        change = np.zeros(len(times) + 1, usage.dtype)
        np.add.at(change, np.searchsorted(times, from_[row]), usage[row])
        np.subtract.at(change, np.searchsorted(times, from_[row] + durations[row]), usage[row])
        found[row] = np.cumsum(change)[:-1]
    return found
