"""Raw scores of whole rows, or of rows at every value of the varying feature; compiled walks need numba.

Forests that fit into leaf masks are ANDed, others walked; the bits are the same. Without numba,
`BoundRows` scores one request through ONNX Runtime. Each thread has its buffers, bound once, which
saves a third of a run's fixed cost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from sojourn.serving.forest.forest import Forest
from sojourn.serving.forest.leaf_masks import (
    N_VARYING_MAX,
    NO_AGE_FEATURES,
    AgeFeatures,
    LeafMasks,
    WalkedForest,
    age_bins,
    leaf_masks,
    leaf_steps,
)
from sojourn.serving.forest.runtime import OnnxForest
from sojourn.serving.kernel import in_blocks


def row_scores(forest: Forest) -> Callable[[np.ndarray], np.ndarray]:
    """A function from float64 rows (n, n_features) to their raw scores, float64 (n,); the bits are ONNX Runtime's."""
    from sojourn.serving.forest import mask_kernels

    masks = leaf_masks(forest)
    if masks is None:
        walk = RangeWalk(forest.with_spare(), np.array([0.0]))
        return lambda rows: walk.scores(np.column_stack([rows, np.zeros(len(rows))]))[:, 0]

    def scored(rows: np.ndarray) -> np.ndarray:
        scores = np.empty(len(rows))
        mask_kernels.score_rows(masks, np.ascontiguousarray(rows), scores)
        return scores

    return scored


class VaryingWalk(Protocol):
    """Scores rows at every value of a grid."""

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Raw scores float64 (n, K) of float64 rows (n, n_features); the varying column is not read."""
        ...


def varying_walk(forest: Forest, grid: np.ndarray, age_features: AgeFeatures = NO_AGE_FEATURES) -> VaryingWalk:
    """The fastest walk for this forest.

    grid: the values of the forest's last feature, float64 (K,), increasing. age_features: at these
    values; their columns come just before the last. ValueError if a score is no step function of
    the last feature.
    """
    check_stepwise(forest, age_features)
    masks = leaf_masks(forest, age_features) if len(age_features) < N_VARYING_MAX else None
    return RangeWalk(forest, grid, age_features) if masks is None else MaskWalk(masks, forest, grid, age_features)


class MaskWalk:
    """`VaryingWalk` by leaf masks; see `varying_walk` for the arguments.

    masks: of the forest. bins: from `age_bins`. at: see `interval_masks`.
    """

    def __init__(self, masks: LeafMasks, forest: Forest, grid: np.ndarray, age_features: AgeFeatures) -> None:
        from sojourn.serving.forest import mask_kernels

        varying = forest.n_features - 1
        n_fixed = varying - len(age_features)
        self.masks = masks
        self.bins = age_bins(masks, age_features, n_fixed)
        self.at = interval_masks(masks, grid, varying)
        self.grid = grid
        self._rows: Any
        self._arrays: tuple[Any, ...]
        if len(age_features):
            self._rows = mask_kernels.interval_rows
            self._arrays = (tuple(masks), tuple(self.bins), self.at, n_fixed)
        else:
            self._rows = mask_kernels.step_rows
            self._arrays = (tuple(masks), *self.leaf_steps(), n_fixed)

    def leaf_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """For each leaf the first step of the grid at which it can be reached, and the first after; int64 each."""
        return leaf_steps(self.masks, self.grid)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        scores = np.zeros((len(rows), len(self.grid)))
        in_blocks(len(rows), lambda block: self._rows(*self._arrays, rows[block], scores[block]))
        return scores


def interval_masks(masks: LeafMasks, grid: np.ndarray, varying: int) -> np.ndarray:
    """Rows of masks int64 (8, K): the last one of the varying feature, the others of all leaves, to be filled."""
    rows = np.full((N_VARYING_MAX, len(grid)), len(masks.masks) - 1)
    rows[-1] = masks.first_row(varying) + np.searchsorted(masks.thresholds_of(varying), grid)
    return rows


class RangeWalk:
    """`VaryingWalk` by one walk per tree, for all values of the grid at once; see `varying_walk` for the arguments."""

    def __init__(self, forest: Forest, grid: np.ndarray, age_features: AgeFeatures = NO_AGE_FEATURES) -> None:
        from sojourn.serving.forest import _walk_kernels

        check_stepwise(forest, age_features)
        self._forest = forest
        self._rows: Any = _walk_kernels.range_walk_rows
        self._n_grid = len(grid)
        self._stack = (forest.depth() + 2, 3)
        self._arrays = tuple(WalkedForest.of(forest, grid)), tuple(age_features.arrays())

    def scores(self, rows: np.ndarray) -> np.ndarray:
        scores, rows = np.zeros((len(rows), self._n_grid)), self._forest.rows(rows)
        in_blocks(len(rows), lambda block: self._rows(*self._arrays, rows[block], scores[block],
                                                      np.empty(self._stack, np.int64)))
        return scores


def check_stepwise(forest: Forest, age_features: AgeFeatures) -> None:
    """ValueError unless scores are steps of the varying features, and zeros of age features are not missing."""
    first = forest.n_features - 1 - len(age_features)
    if not all(map(forest.is_stepwise, range(first, forest.n_features))):
        raise ValueError("what varies with the age (the last features) must not be a category, nor its zeros missing")
    if forest.is_zero_missing[list(age_features.sources)].any():
        raise ValueError("zeros of what is set against the age must not be missing values")


class BoundRows:
    """Scores single requests on a grid; safe in several threads.

    forest: reads the encoder's features, then age features, then the grid's value. grid: float64
    (K,).
    """

    def __init__(self, forest: OnnxForest, grid: np.ndarray, age_features: AgeFeatures, n_features: int) -> None:
        self._forest = forest
        self._grid = grid
        self._n_fixed = n_features - 1 - len(age_features)
        self._sources = age_features.sources
        ages_s, log_ages = np.array(age_features.ages_s), np.array(age_features.log_ages)
        is_log = np.array(age_features.is_log, np.bool_)
        self._less = np.where(is_log, log_ages[:, None], 0.0)  # x - 0 and x / 1 are x, to the bit
        self._by = np.where(is_log, 1.0, ages_s[:, None])
        self._own = threading.local()

    def scores(self, features: Sequence[float]) -> np.ndarray:
        """Raw scores float64 (K,) of a request's encoded features."""
        local = self._own
        try:
            rows, run = local.rows, local.run
        except AttributeError:
            rows, run = local.rows, local.run = self._bound()
        rows[:, :self._n_fixed] = features
        if self._sources:
            with np.errstate(over="ignore"):  # infinity is where compiled code ends, too
                aged = np.array([features[source] for source in self._sources]) - self._less
                np.divide(aged, self._by, out=rows[:, self._n_fixed:-1])
        return run()

    def _bound(self) -> tuple[np.ndarray, Callable[[], np.ndarray]]:
        rows = np.empty((len(self._grid), self._n_fixed + len(self._sources) + 1))
        rows[:, -1] = self._grid
        return rows, self._forest.bound(rows)
