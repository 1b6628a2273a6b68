"""From encoded features to lifetime curves: one forest walk for all uptimes of a request."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sojourn.serving._onnx_reader import read_forest
from sojourn.serving.bound_rows import BoundRows
from sojourn.serving.bundle import Schema
from sojourn.serving.curve import HazardCurve, OnceCurve, PointCurve, interval_hazard
from sojourn.serving.errors import BundleError
from sojourn.serving.first_answer import FirstAnswer
from sojourn.serving.forest import LARGEST, Forest
from sojourn.serving.runtime import OnnxForest
from sojourn.serving.varying_walk import MaskWalk, check_stepwise, varying_walk

try:
    from sojourn.serving import _kernels as _compiled
except ImportError:  # numba is optional: `sojourn[fast]`
    _compiled = None  # type: ignore[assignment]

_kernels: Any = _compiled
IS_COMPILED = _kernels is not None
"""True where numba is installed and the compiled walk is used instead of ONNX Runtime."""

Curve = HazardCurve | PointCurve | OnceCurve
N_STEPS_MAX = 4_096
"""Thresholds on the uptime; LightGBM's default bins give 254 at most. Each handle carries a score for every step."""


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
            self._check_steps()
        self.is_compiled = is_compiled and IS_COMPILED
        self._onnx = OnnxForest(model, schema.n_features)
        self.grid = varying_grid(schema, self.forest)
        self.thresholds = tuple(self.grid[:-1].tolist())
        self._edges, self._offsets = np.array(schema.edges), np.array(schema.offsets)
        self._bounds = (*schema.edges, math.inf)
        walked = self.forest.with_spare() if schema.kind == "once" else self.forest
        self._walk = varying_walk(walked, self.grid, schema.age_features) if self.is_compiled else None
        made: dict[str, Callable[[np.ndarray], Curve]] = {
            "hazard": self._hazard_curve, "uptime": self._point_curve, "once": self._once_curve}  # fmt: skip
        self.curve_of = made[schema.kind]
        """The curve of the numbers that `FirstAnswer.answer` gives; more may follow them."""
        self._unread = [0.0] * (len(schema.age_features) + 1)
        self._bound = BoundRows(self._onnx, self.grid, schema.age_features, schema.n_features)
        self.curve([math.nan] * len(schema.encoder.feature_names()))  # loads compiled code now, not at the first call

    @property
    def walk(self) -> str:
        """How the forest is scored: "leaf masks", "range walk" or "ONNX Runtime"."""
        if self._walk is None:
            return "ONNX Runtime"
        return "leaf masks" if isinstance(self._walk, MaskWalk) else "range walk"

    def first_answer(self) -> FirstAnswer | None:
        """The way from a request's numbers and history slots to its curve in one call, where this model has it."""
        return FirstAnswer(self.schema, self._walk) if isinstance(self._walk, MaskWalk) else None

    def _check_steps(self) -> None:
        if self.schema.kind != "uptime":
            return
        steps = self.forest.splits_on(self.forest.n_features - 1)
        if len(steps) > N_STEPS_MAX or (np.abs(steps) > LARGEST).any():
            raise BundleError(f"model.onnx: uptime steps must be at most {N_STEPS_MAX}, within {LARGEST:g} s, "
                              f"got {len(steps)}")

    def scores(self, features: list[float]) -> np.ndarray:
        """Raw scores on the grid of the varying feature: (J,) intervals, (K + 1,) uptime steps, or (1,)."""
        if self._walk is not None:
            answers: np.ndarray = self._walk.scores(np.array([[*features, *self._unread]]))[0]
            return answers
        if self.schema.kind == "once":
            return self._onnx.scores(np.array([features]))
        return self._bound.scores(features)

    def curve(self, features: list[float]) -> Curve:
        """The lifetime curve of one request."""
        scores = self.scores(features)
        schema = self.schema
        if schema.kind != "hazard":
            return self.curve_of(scores)
        if self.is_compiled:
            return self.curve_of(_kernels.hazard_numbers(scores, self._offsets, self._edges, schema.tail_s))
        hazards = [interval_hazard(score, offset)
                   for score, offset in zip(scores.tolist(), schema.offsets, strict=True)]
        return HazardCurve.from_hazards(schema.edges, hazards, schema.tail_s, schema.grid)

    def _hazard_curve(self, numbers: np.ndarray) -> HazardCurve:
        """Of what `fill_hazard` wrote, 4 (J + 1) numbers; ready to be asked at uptime 0."""
        edges, number = self.schema.edges, numbers.item
        steps: list[Any] = [None] * len(self._bounds)
        steps[1] = (edges[1], number(0), number(3 * len(edges)), number(2 * len(edges)))
        return HazardCurve(edges, self._bounds, self.schema.grid, numbers, steps)

    def _point_curve(self, scores: np.ndarray) -> PointCurve:
        schema = self.schema
        curve = PointCurve(self.thresholds, scores, {}, schema.smearing, schema.residuals)
        curve.fill_step(0)
        return curve

    def _once_curve(self, scores: np.ndarray) -> OnceCurve:
        return OnceCurve.from_score(scores.item(0), self.schema.smearing, self.schema.residuals)


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
