"""From encoded features to lifetime curves: one forest walk for all uptimes of a request."""

from __future__ import annotations

import numpy as np

from sojourn.serving._onnx_reader import read_forest
from sojourn.serving.bundle import Schema
from sojourn.serving.curve import HazardCurve, OnceCurve, PointCurve, interval_hazard
from sojourn.serving.forest import Forest
from sojourn.serving.runtime import OnnxForest

try:
    from sojourn.serving import _kernels
except ImportError:  # numba is optional: `sojourn[fast]`
    _kernels = None  # type: ignore[assignment]

IS_COMPILED = _kernels is not None
"""True where numba is installed and the compiled walk is used instead of ONNX Runtime."""


class RangeWalk:
    """Raw scores of rows for every value of the forest's last feature, in one walk per tree.

    grid: the values of the varying feature, float64 (K,), increasing. Needs numba.
    """

    def __init__(self, forest: Forest, grid: np.ndarray) -> None:
        varying = forest.n_features - 1
        cut = np.searchsorted(grid, forest.split, side="right").astype(np.int64)
        self._forest = forest
        self._n_grid = len(grid)
        depth = _depth(forest)
        self._stack = (depth + 2, 3)
        self._arrays = (
            forest.roots, forest.feature, forest.split, forest.mode, forest.on_true, forest.on_false,
            forest.is_nan_true, forest.leaves, forest.member_start, forest.members, varying, cut,
        )  # fmt: skip

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Raw scores float64 (n, K) of float64 rows (n, n_features); the last column is not read."""
        scores = np.zeros((len(rows), self._n_grid))
        _kernels.range_walk_rows(*self._arrays, self._forest.rows(rows), scores, np.empty(self._stack, np.int64))
        return scores


class CurveBuilder:
    """Turns a request's encoded features into its lifetime curve, by a bundle's model.

    Uses the compiled walk where numba is installed, else ONNX Runtime; both give the same bits.
    """

    def __init__(self, schema: Schema, model: bytes, is_compiled: bool = IS_COMPILED) -> None:
        self.schema = schema
        self.forest = read_forest(model, schema.n_features)
        self._onnx = OnnxForest(model, schema.n_features)
        self.grid = varying_grid(schema, self.forest)
        self.thresholds = tuple(self.grid[:-1].tolist())
        self._walk = RangeWalk(self.forest, self.grid) if is_compiled and IS_COMPILED else None

    def scores(self, features: list[float]) -> list[float]:
        """Raw scores on the grid of the varying feature: (J,) intervals, (K + 1,) uptime steps, or (1,)."""
        if self.schema.kind == "once":
            return self._onnx.scores(np.array([features])).tolist()  # type: ignore[no-any-return]
        if self._walk is not None:
            return self._walk.scores(np.array([[*features, 0.0]]))[0].tolist()  # type: ignore[no-any-return]
        rows = np.empty((len(self.grid), len(features) + 1))
        rows[:, :-1] = features
        rows[:, -1] = self.grid
        return self._onnx.scores(rows).tolist()  # type: ignore[no-any-return]

    def curve(self, features: list[float]) -> HazardCurve | PointCurve | OnceCurve:
        """The lifetime curve of one request."""
        scores = self.scores(features)
        schema = self.schema
        if schema.kind == "hazard":
            hazards = [interval_hazard(score, offset) for score, offset in zip(scores, schema.offsets, strict=True)]
            return HazardCurve.from_hazards(schema.edges, hazards, schema.tail_s, schema.grid)
        if schema.kind == "uptime":
            return PointCurve.from_scores(self.thresholds, scores, schema.smearing, schema.residuals)
        return OnceCurve.from_score(scores[0], schema.smearing, schema.residuals)


def varying_grid(schema: Schema, forest: Forest) -> np.ndarray:
    """Values of the varying feature that stand for all: interval numbers, or one uptime per step.

    An uptime step is stood for by its upper threshold, which the forest sends to the left; the last, which
    has none, by infinity.
    """
    if schema.kind == "hazard":
        return np.arange(len(schema.offsets), dtype=np.float64)
    if schema.kind == "once":
        return np.array([0.0])
    return np.append(forest.splits_on(forest.n_features - 1), np.inf)


def _depth(forest: Forest) -> int:
    depth = np.zeros(len(forest.feature), np.int64)
    for idx in range(len(depth)):  # children come after their parents
        for child in (forest.on_true[idx], forest.on_false[idx]):
            if child >= 0:
                depth[child] = max(depth[child], depth[idx] + 1)
    return int(depth.max(initial=0)) + 1
