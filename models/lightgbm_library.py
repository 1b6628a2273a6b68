"""LightGBM (`lgb`), whose waiting threads sleep soon. Everything that needs LightGBM imports it from here.

Its OpenMP runtime reads the setting once, when it is loaded: it must be set before the first import of `lightgbm` in a
process. `GOMP_SPINCOUNT` is how long a thread spins for the others before it sleeps. By default some 300,000 rounds,
which costs nothing alone and all where another process holds a core: 60 trees on 60,000 rows took 0.7 s alone with
either, and beside two busy processes on 2 cores 36 s by default, 2.3 s with this. A user's own `GOMP_SPINCOUNT` or
`OMP_WAIT_POLICY` is left alone. A process that has imported LightGBM itself before keeps what it began with.
"""

from __future__ import annotations

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import lightgbm as lgb

__all__ = ["lgb"]
