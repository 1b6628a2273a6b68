"""The synthetic jobs of COSPiS, section 5.4, in both readings of "a predefined distribution"."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from sojourn.simulator.planning.job import Instance, Job

Reading = Literal["one-for-all", "per-job"]
FLEXIBILITIES = (20, 30, 80, 120)
N_RUNS = 50


def synthetic_day(n: int, rng: np.random.Generator, *, reading: Reading = "one-for-all", makespan: int | None = None,
                  tightness: float | None = None) -> tuple[Instance, tuple[Job, ...]]:
    """A day with the runs that a planner sees, and its jobs with as many that are held out, 50 of each job.

    Durations are uniform in [10, 30] s and usage in [5, 10] cores, whole numbers: `one-for-all` draws all runs of all
    jobs so, `per-job` draws each job's own range within these first. Requested starts are uniform in a makespan of 50 s
    a job, flexibilities of 20, 30, 80 or 120 s, up to three parents so that the longest runs stay feasible. The
    deadline is q + f + max D, which never binds; tightness, 0 to 1, takes that share of f away again, but leaves every
    job feasible with its longest runs.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n!r}")
    if reading not in get_args(Reading):
        raise ValueError(f"reading must be one of {', '.join(get_args(Reading))}, got {reading!r}")
    if tightness is not None and not 0 <= tightness <= 1:
        raise ValueError(f"tightness must be from 0 to 1, got {tightness!r}")
    span = 50 * n if makespan is None else makespan
    jobs: list[Job] = []
    held_out: list[Job] = []
    requested = np.sort(rng.integers(0, span, n))
    earliest = np.zeros(n, np.int64)
    longest = np.zeros(n, np.int64)
    for row in range(n):
        low_d, high_d, low_r, high_r = 10, 30, 5, 10
        if reading == "per-job":
            low_d, high_d = np.sort(rng.integers(10, 31, 2)).tolist()
            low_r, high_r = np.sort(rng.integers(5, 11, 2)).tolist()
        durations = rng.integers(low_d, high_d + 1, 2 * N_RUNS)
        usage = rng.integers(low_r, high_r + 1, 2 * N_RUNS).astype(np.float64)
        flexibility = int(rng.choice(FLEXIBILITIES))
        latest = int(requested[row]) + flexibility
        able = np.flatnonzero(earliest[:row] + longest[:row] <= latest)
        parents = rng.choice(able, min(int(rng.integers(0, 4)), len(able)), replace=False)
        longest[row] = durations[:N_RUNS].max()
        earliest[row] = max([int(requested[row]), *(earliest[parents] + longest[parents]).tolist()])
        slack = flexibility if tightness is None else latest - int(earliest[row])
        deadline = latest + int(longest[row]) - (0 if tightness is None else int(tightness * slack))
        job = Job(f"job {row}", int(requested[row]), flexibility, deadline, durations[:N_RUNS], usage[:N_RUNS],
                  tuple(f"job {parent}" for parent in sorted(parents.tolist())))
        jobs.append(job)
        held_out.append(replace(job, durations=durations[N_RUNS:], usage=usage[N_RUNS:]))
    return Instance(tuple(jobs)), tuple(held_out)
