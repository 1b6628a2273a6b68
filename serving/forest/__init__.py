"""From feature rows to raw scores: the forest as flat arrays, read from our ONNX file, and its walks.

The kernel files need numba and are imported only if it is installed. May import: `inputs` and what
lies below it.
"""

from sojourn.serving.forest.forest import LARGEST, LEQ, MEMBER, ZERO, Forest, read_forest
from sojourn.serving.forest.leaf_masks import N_VARYING_MAX, NO_AGE_FEATURES, AgeBins, AgeFeatures, LeafMasks
from sojourn.serving.forest.mask_tables import MaskTables, mask_tables, n_scratch_words
from sojourn.serving.forest.runtime import OnnxForest
from sojourn.serving.forest.walks import BoundRows, MaskWalk, RangeWalk, check_stepwise, row_scores, varying_walk

__all__ = [
    "LARGEST", "LEQ", "MEMBER", "NO_AGE_FEATURES", "N_VARYING_MAX", "ZERO", "AgeBins", "AgeFeatures", "BoundRows",
    "Forest", "LeafMasks", "MaskTables", "MaskWalk", "OnnxForest", "RangeWalk", "check_stepwise", "mask_tables",
    "n_scratch_words", "read_forest", "row_scores", "varying_walk",
]  # fmt: skip
