"""A made log of jobs, in the Standard Workload Format."""

from __future__ import annotations

from pathlib import Path

import numpy as np


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
