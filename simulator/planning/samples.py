"""Samples of a day: one duration and one usage of each job, drawn in pairs or estimated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.simulator.planning.job import Instance


@dataclass(frozen=True, slots=True)
class Samples:
    """durations: int64 (n_samples, n), steps. usage: int64 (n_samples, n, n_resources), in the instance's units."""

    durations: np.ndarray
    usage: np.ndarray

    def __len__(self) -> int:
        return len(self.durations)


def in_units(instance: Instance, usage: np.ndarray) -> np.ndarray:
    """Usage in whole units, rounded up, so that no plan understates it; int64."""
    return np.ceil(np.asarray(usage, np.float64) / instance.unit - 1e-9).astype(np.int64)


def drawn_pairs(instance: Instance, n_samples: int, rng: np.random.Generator) -> Samples:
    """Pairs of duration and usage, each pair of one past run, drawn with equal chance (COSPiS, section 4.2).

    Where a job has at least `n_samples` runs none of them is drawn twice; else each is drawn about equally often.

    >>> from sojourn.simulator.planning.job import Job
    >>> day = Instance((Job("a", 0, 0, 9, np.array([2, 3]), np.array([1.0, 5.0])),))
    >>> pairs = drawn_pairs(day, 4, np.random.default_rng(0))
    >>> sorted(zip(pairs.durations[:, 0].tolist(), pairs.usage[:, 0, 0].tolist()))
    [(2, 1), (2, 1), (3, 5), (3, 5)]
    """
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")
    durations = np.empty((n_samples, len(instance)), np.int64)
    usage = np.empty((n_samples, len(instance), len(instance.resources)), np.int64)
    for row, job in enumerate(instance.jobs):
        n_runs = len(job.durations)
        runs = np.concatenate([rng.permutation(n_runs) for _ in range(-(-n_samples // n_runs))])[:n_samples]
        runs = rng.permutation(runs)  # else the first samples of all jobs would hold each run once
        durations[:, row] = job.durations[runs]
        usage[:, row] = in_units(instance, job.usage[runs])
    return Samples(durations, usage)


def _quantile(share: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.quantile(values, share, axis=0, method="inverted_cdf")


def _mode(values: np.ndarray) -> np.ndarray:
    """The value that stands most often, the lowest of equals."""
    columns = values.reshape(len(values), -1).T
    found = []
    for column in columns:
        distinct, counts = np.unique(column, return_counts=True)
        found.append(distinct[counts.argmax()])
    return np.array(found).reshape(values.shape[1:])


ESTIMATORS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = MappingProxyType({
    "p50": _quantile(0.5), "p75": _quantile(0.75), "p100": _quantile(1.0), "mode": _mode})
"""By name, the estimator of section 4.1: from values (n_runs, ...) to one of them, over the runs."""


def estimated(instance: Instance, estimator: str) -> Samples:
    """One sample: durations and usage by an estimator, each for itself.

    >>> from sojourn.simulator.planning.job import Job
    >>> day = Instance((Job("a", 0, 0, 9, np.array([2, 3, 9]), np.array([1.0, 5.0, 5.0])),))
    >>> [(int(s.durations[0, 0]), int(s.usage[0, 0, 0])) for s in (estimated(day, e) for e in ESTIMATORS)]
    [(3, 5), (9, 5), (9, 5), (2, 5)]
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    of = ESTIMATORS[estimator]
    durations = np.array([[int(of(job.durations)) for job in instance.jobs]], np.int64)
    usage = np.array([[of(job.usage) for job in instance.jobs]], np.float64)
    return Samples(durations, in_units(instance, usage))
