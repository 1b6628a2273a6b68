"""A forest's leaf masks as the tables that `serving/c/core/forest.h` reads, for exported C and for the extension.

The fields of `MaskTables` stand in the order of the C's `SJ_FOREST_FIELDS`, with its types.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.serving.forest.forest import Forest
from sojourn.serving.forest.leaf_masks import (
    N_VARYING_MAX,
    NO_AGE_FEATURES,
    AgeFeatures,
    age_bins,
    leaf_masks,
    leaf_steps,
)


class MaskTables(NamedTuple):
    """Tables of a forest with T trees and L leaves for C: F features, then m set against the age, then what varies.

    shape: int32, the numbers T, F, m, steps K and rows of masks R. masks: uint64 (R + 1, T), thresholds, leaves,
    starts, leaf_starts, is_zero_missing: see `LeafMasks`. turns, turn_starts, turn_rows, sources: see `AgeBins`.
    step_rows: int32 (K,), the row of masks at each step of what varies. leaf_lows, leaf_highs: int32 (L,), the first
    step at which what varies lets a leaf be reached, and the first after. Arrays are contiguous.
    """

    shape: np.ndarray
    masks: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray
    turns: np.ndarray
    starts: np.ndarray
    leaf_starts: np.ndarray
    turn_starts: np.ndarray
    turn_rows: np.ndarray
    sources: np.ndarray
    step_rows: np.ndarray
    leaf_lows: np.ndarray
    leaf_highs: np.ndarray
    is_zero_missing: np.ndarray


def mask_tables(forest: Forest, grid: np.ndarray, age_features: AgeFeatures = NO_AGE_FEATURES) -> MaskTables | None:
    """The tables of a forest; None if leaf masks cannot take it, see `leaf_masks`.

    grid: the values of the forest's last feature, float64 (K,), rising. age_features: see `varying_walk`. A forest
    in which nothing varies gets a spare last feature first (`Forest.with_spare`).
    """
    masks = leaf_masks(forest, age_features) if len(age_features) < N_VARYING_MAX else None
    if masks is None:
        return None
    varying, n_trees = forest.n_features - 1, len(masks.leaf_starts)
    n_fixed = varying - len(age_features)
    bins = age_bins(masks, age_features, n_fixed)
    lows, highs = leaf_steps(masks, grid)
    step_rows = masks.first_row(varying) + np.searchsorted(masks.thresholds_of(varying), grid)
    shape = [n_trees, n_fixed, len(age_features), len(grid), len(masks.masks) - 1]
    whole = (shape, masks.starts, masks.leaf_starts, bins.turn_starts, bins.rows, bins.sources, step_rows, lows, highs)
    shapes, starts, leaf_starts, turn_starts, turn_rows, sources, steps, leaf_lows, leaf_highs = (
        np.ascontiguousarray(values, np.int32) for values in whole)
    return MaskTables(shapes, masks.masks, masks.thresholds, masks.leaves, bins.turns, starts, leaf_starts,
                      turn_starts, turn_rows, sources, steps, leaf_lows, leaf_highs,
                      masks.is_zero_missing.astype(np.uint8))
