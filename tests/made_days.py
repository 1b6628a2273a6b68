"""Made use by slots: day workers, night workers and flat requests, some with a rare peak."""

from __future__ import annotations

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import DayClock

STEP_S = 900


def made_grid(n: int = 24, n_days: int = 4, seed: int = 0) -> UsageGrid:
    """Row i is a day worker (i % 3 = 0), a night worker (1) or flat (2); memory is half of the CPU."""
    rng = np.random.default_rng(seed)
    slot = np.arange(n_days * 96) % 96
    shapes = np.stack([np.where((slot >= 36) & (slot < 80), 0.7, 0.1), np.where(slot < 24, 0.6, 0.05),
                       np.full(len(slot), 0.3)])
    cpu = shapes[np.arange(n) % 3] + rng.uniform(0.0, 0.05, (n, len(slot)))
    return UsageGrid(np.arange(n), cpu.astype(np.float32), (cpu / 2).astype(np.float32), np.ones(n), np.ones(n), 0,
                     STEP_S, DayClock())
