"""From rows of numbers to raw scores: the forest as flat arrays, read from our ONNX file, and its walks.

The kernel files need numba and are imported only where it is installed. May import: `inputs` and what lies below it.
"""

from sojourn.serving.forest.age_features import NO_AGE_FEATURES, AgeFeatures
from sojourn.serving.forest.bound_rows import BoundRows
from sojourn.serving.forest.forest import LARGEST, LEQ, MEMBER, ZERO, Forest
from sojourn.serving.forest.leaf_masks import N_VARYING_MAX, AgeBins, LeafMasks
from sojourn.serving.forest.onnx_reader import read_forest
from sojourn.serving.forest.row_scores import row_scores
from sojourn.serving.forest.varying_walk import MaskWalk, check_stepwise, varying_walk

__all__ = [
    "LARGEST", "LEQ", "MEMBER", "NO_AGE_FEATURES", "N_VARYING_MAX", "ZERO", "AgeBins", "AgeFeatures", "BoundRows",
    "Forest", "LeafMasks", "MaskWalk", "check_stepwise", "read_forest", "row_scores", "varying_walk",
]  # fmt: skip
