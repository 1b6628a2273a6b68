"""LightGBM (`lgb`) with waiting threads that sleep soon. All users of LightGBM import it from here.

Its OpenMP runtime reads `GOMP_SPINCOUNT` once, at the first import of `lightgbm` in a process. It is how long a thread
spins for others before it sleeps, by default some 300,000 rounds. That is very slow if other processes are busy: 60
trees on 60,000 rows took 0.7 s alone with either setting, and beside two busy processes on 2 cores 36 s by default, 2.3
s with this. A user's `GOMP_SPINCOUNT` or `OMP_WAIT_POLICY`, and an earlier import of LightGBM, keep their effect.
"""

from __future__ import annotations

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import lightgbm as lgb

__all__ = ["lgb"]
