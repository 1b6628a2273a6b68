"""Made jobs: a log in the Standard Workload Format, and submitted jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sojourn.flows.admission.runs import DAY_S, SubmittedJobs


def swf_log(path: Path, n: int, *, days: int = 2, widest: int = 4, seed: int = 0) -> Path:
    """n jobs of a minute to some hours over some days; a twentieth of them is shorter than a minute."""
    rng = np.random.default_rng(seed)
    submission = np.sort(rng.integers(0, days * 86_400, n))
    run = np.where(rng.random(n) < 0.05, 30, rng.integers(60, 9_000, n))
    cores, users = rng.integers(1, widest + 1, n), rng.integers(1, 5, n)
    lines = [f"{k + 1} {submission[k]} 10 {run[k]} {cores[k]} -1 -1 {cores[k]} {2 * run[k]} -1 1 {users[k]} 1 -1 1 "
             "-1 -1 -1" for k in range(n)]
    path.write_text("\n".join(["; UnixStartTime: 1000", *lines]) + "\n")
    return path


def made_jobs(seed: int = 0, n: int = 160, days: int = 3, widest: int = 40) -> SubmittedJobs:
    """n jobs over some days, of which two in five are sequential; estimates are true or three times too long."""
    rng = np.random.default_rng(seed)
    submission = np.sort(rng.integers(0, days * DAY_S, n))
    processing = rng.integers(60, 9_000, n)
    return SubmittedJobs(np.array([f"j{k}" for k in range(n)]), submission, processing,
                         np.where(rng.random(n) < 0.4, 1, rng.integers(1, widest + 1, n)),
                         processing * rng.choice([1.0, 3.0], n), np.arange(n))


def no_progress(done: int, total: int) -> None:
    """A report of progress that only checks its numbers."""
    assert 0 <= done <= total
