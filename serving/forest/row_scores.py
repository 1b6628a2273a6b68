"""Raw scores of many whole rows, compiled: by leaf masks where a forest fits into them, else walked. Needs numba."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sojourn.serving.forest.forest import Forest
from sojourn.serving.forest.leaf_masks import leaf_masks
from sojourn.serving.forest.varying_walk import RangeWalk


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
