"""Cells of time to come over which chances are told, and what an hour in each counts for."""

from __future__ import annotations

import numpy as np

MIGRATION_S = 1_200
"""A migration takes so long if nothing else is said, and holds room on both hosts (LAVA, section 4.4). Cells begin
here: what is freed before counts for nothing."""
N_AT_ONCE = 3
"""Migrations at a time if nothing else is said (LAVA, section 4.4), in the order of the plan."""
HORIZON_S = 86_400
"""What is freed later than this counts for nothing: by then the pool is another, and migrations are planned anew.
Chosen on four synthetic seeds and openb (docs/simulator/rectification.md)."""
N_CELLS = 24


def edges_s() -> np.ndarray:
    """Edges of the cells, seconds from now, int64 (N_CELLS + 1,): from MIGRATION_S to the horizon, each by the same
    factor longer.

    >>> edges_s()[[0, 1, -1]].tolist()
    [1200, 1434, 86400]
    """
    return np.rint(np.geomspace(MIGRATION_S, HORIZON_S, N_CELLS + 1)).astype(np.int64)


def knots_s() -> np.ndarray:
    """Seconds after a host became empty at which it is asked whether it is empty, int64 (N_CELLS + 2,): 0 and the
    edges."""
    return np.append(0, edges_s())


def share_after(time_s: int) -> np.ndarray:
    """The share of each cell that is after a time, float64 (N_CELLS,)."""
    edges = edges_s()
    return np.asarray(np.clip((edges[1:] - time_s) / np.diff(edges), 0.0, 1.0))
