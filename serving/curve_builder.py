"""From encoded features to lifetime curves: one forest walk for all uptimes of a request."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sojourn.serving._onnx_reader import read_forest
from sojourn.serving.age_features import NO_AGE_FEATURES, AgeFeatures
from sojourn.serving.bundle import Schema
from sojourn.serving.curve import HazardCurve, OnceCurve, PointCurve, interval_hazard
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import Forest
from sojourn.serving.runtime import OnnxForest

try:
    from sojourn.serving import _kernels as _compiled
except ImportError:  # numba is optional: `sojourn[fast]`
    _compiled = None  # type: ignore[assignment]

_kernels: Any = _compiled
IS_COMPILED = _kernels is not None
"""True where numba is installed and the compiled walk is used instead of ONNX Runtime."""


class RangeWalk:
    """Raw scores of rows for every value of the forest's last feature, in one walk per tree.

    grid: the values of the varying feature, float64 (K,), increasing. age_features: what is set against the age
    of each of them; those columns stand before the last. Needs numba. ValueError where a score is no step function
    of the last feature.
    """

    def __init__(self, forest: Forest, grid: np.ndarray, age_features: AgeFeatures = NO_AGE_FEATURES) -> None:
        varying = forest.n_features - 1
        check_stepwise(forest, age_features)
        cut = np.searchsorted(grid, forest.split, side="right").astype(np.int64)
        self._forest = forest
        self._n_grid = len(grid)
        self._stack = (forest.depth() + 2, 3)
        self._arrays = (
            forest.roots, forest.feature, forest.split, forest.mode, forest.on_true, forest.on_false,
            forest.is_nan_true, forest.leaves, forest.member_start, forest.members, varying, cut,
            *age_features.arrays(),
        )  # fmt: skip

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Raw scores float64 (n, K) of float64 rows (n, n_features); what varies is not read."""
        scores = np.zeros((len(rows), self._n_grid))
        _kernels.range_walk_rows(*self._arrays, self._forest.rows(rows), scores, np.empty(self._stack, np.int64))
        return scores


class CurveBuilder:
    """Turns a request's encoded features into its lifetime curve, by a bundle's model.

    Uses the compiled walk where numba is installed, else ONNX Runtime; both give the same bits. BundleError
    where the model is not what the schema says.
    """

    def __init__(self, schema: Schema, model: bytes, is_compiled: bool = IS_COMPILED) -> None:
        self.schema = schema
        self.forest = read_forest(model, schema.n_features)
        if schema.kind != "once":
            try:
                check_stepwise(self.forest, schema.age_features)
            except ValueError as error:
                raise BundleError(f"model.onnx: {error}") from error
        self.is_compiled = is_compiled and IS_COMPILED
        self._onnx = OnnxForest(model, schema.n_features)
        self.grid = varying_grid(schema, self.forest)
        self.thresholds = tuple(self.grid[:-1].tolist())
        self._edges, self._offsets = np.array(schema.edges), np.array(schema.offsets)
        self._bounds = (*schema.edges, math.inf)
        is_walked = self.is_compiled and schema.kind != "once"
        self._walk = RangeWalk(self.forest, self.grid, schema.age_features) if is_walked else None
        self._unread = [0.0] * (len(schema.age_features) + 1)
        self.curve([math.nan] * len(schema.encoder.feature_names()))  # loads compiled code now, not at the first call

    def scores(self, features: list[float]) -> np.ndarray:
        """Raw scores on the grid of the varying feature: (J,) intervals, (K + 1,) uptime steps, or (1,)."""
        if self.schema.kind == "once":
            return self._onnx.scores(np.array([features]))
        if self._walk is not None:
            answers: np.ndarray = self._walk.scores(np.array([[*features, *self._unread]]))[0]
            return answers
        repeated = np.tile(np.array(features, np.float64), (len(self.grid), 1))
        if len(self.schema.age_features):
            return self._onnx.scores(self.schema.age_features.rows(repeated, np.arange(len(self.grid))))
        return self._onnx.scores(np.column_stack([repeated, self.grid]))

    def curve(self, features: list[float]) -> HazardCurve | PointCurve | OnceCurve:
        """The lifetime curve of one request."""
        scores = self.scores(features)
        schema = self.schema
        if schema.kind == "once":
            return OnceCurve.from_score(float(scores[0]), schema.smearing, schema.residuals)
        if schema.kind == "hazard":
            if self.is_compiled:
                numbers = _kernels.hazard_numbers(scores, self._offsets, self._edges, schema.tail_s)
                rates, cumulative, after, gaps = numbers.tolist()
                return HazardCurve.from_numbers(schema.edges, self._bounds, rates, cumulative, after, gaps, schema.grid)
            hazards = [interval_hazard(score, offset)
                       for score, offset in zip(scores.tolist(), schema.offsets, strict=True)]
            return HazardCurve.from_hazards(schema.edges, hazards, schema.tail_s, schema.grid)
        if self.is_compiled:
            seconds = _kernels.point_seconds(scores, schema.smearing).tolist()
            return PointCurve(self.thresholds, scores.tolist(), seconds, schema.residuals)
        return PointCurve.from_scores(self.thresholds, scores.tolist(), schema.smearing, schema.residuals)


def check_stepwise(forest: Forest, age_features: AgeFeatures) -> None:
    """ValueError unless scores are steps of what varies, and what is set against the age is read as it is."""
    first = forest.n_features - 1 - len(age_features)
    if not all(map(forest.is_stepwise, range(first, forest.n_features))):
        raise ValueError("what varies with the age (the last features) must not be a category, nor its zeros missing")
    if forest.is_zero_missing[list(age_features.sources)].any():
        raise ValueError("zeros of what is set against the age must not be missing values")


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
