"""A forest's arrays in the form that the compiled walk over a grid reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.serving.forest.forest import Forest


class WalkedForest(NamedTuple):
    """Trees of N nodes, of whose features one varies over a grid.

    roots: int64 (T,). feature, on_true, on_false: int64 (N,); a child c < 0 is the leaf ~c. split: float64 (N,).
    mode: uint8 (N,). is_nan_true: bool (N,). leaves: float64 (L,). member_start: int64 (N + 1,), members: float64: see
    `Forest`. varying: the feature that varies, the last. cut: int64 (N,), of a node on it, how many of the grid's
    values go to the true child.
    """

    roots: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    mode: np.ndarray
    on_true: np.ndarray
    on_false: np.ndarray
    is_nan_true: np.ndarray
    leaves: np.ndarray
    member_start: np.ndarray
    members: np.ndarray
    varying: int
    cut: np.ndarray

    @classmethod
    def of(cls, forest: Forest, grid: np.ndarray) -> WalkedForest:
        """Of a forest whose last feature takes the values of a grid, float64 (K,), rising."""
        cut = np.searchsorted(grid, forest.split, side="right").astype(np.int64)
        return cls(forest.roots, forest.feature, forest.split, forest.mode, forest.on_true, forest.on_false,
                   forest.is_nan_true, forest.leaves, forest.member_start, forest.members, forest.n_features - 1, cut)
