"""From encoded features to lifetime curves: one forest walk for all uptimes of a request."""

from __future__ import annotations

import math

import numpy as np

from sojourn.serving.answers.first_answer import FirstAnswer
from sojourn.serving.bundle import Schema
from sojourn.serving.curves import IS_COMPILED, KERNELS, Curve, HazardCurve, recalibrated
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import BoundRows, MaskWalk, check_stepwise, read_forest, varying_walk
from sojourn.serving.runtime import OnnxForest


class CurveBuilder:
    """Turns a request's encoded features into its lifetime curve, by a bundle's model.

    Uses the compiled walk where numba is installed, else ONNX Runtime; both give the same bits. BundleError
    where the model is not what the schema says.
    """

    def __init__(self, schema: Schema, model: bytes, is_compiled: bool = IS_COMPILED) -> None:
        self.schema = schema
        self.forest = read_forest(model, schema.n_features)
        kind, numbers = schema.curves, schema.numbers
        if kind.is_varying:
            try:
                check_stepwise(self.forest, numbers.age_features)
            except ValueError as error:
                raise BundleError(f"model.onnx: {error}") from error
        kind.check_forest(self.forest)
        self.is_compiled = is_compiled and IS_COMPILED
        self._onnx = OnnxForest(model, schema.n_features)
        self.grid = kind.grid(numbers, self.forest)
        self.thresholds = tuple(self.grid[:-1].tolist())
        self._is_varying = kind.is_varying
        walked = self.forest if kind.is_varying else self.forest.with_spare()
        self._walk = varying_walk(walked, self.grid, numbers.age_features) if self.is_compiled else None
        self.curve_of, self._curve_of_scores = kind.made(numbers, self.grid, KERNELS if self.is_compiled else None)
        """The curve of the numbers that `FirstAnswer.answer` gives; more may follow them."""
        self._unread = [0.0] * (len(numbers.age_features) + 1)
        self._bound = BoundRows(self._onnx, self.grid, numbers.age_features, schema.n_features)
        self.curve([math.nan] * len(schema.encoder.feature_names()))  # loads compiled code now, not at the first call

    def load_recalibration(self, factors: np.ndarray) -> None:
        """Load the compiled code of recalibrated curves now, not at the first one. factors: any."""
        curve = self.curve([math.nan] * len(self.schema.encoder.feature_names()))
        if isinstance(curve, HazardCurve):
            recalibrated(curve, factors)

    @property
    def walk(self) -> str:
        """How the forest is scored: "leaf masks", "range walk" or "ONNX Runtime"."""
        if self._walk is None:
            return "ONNX Runtime"
        return "leaf masks" if isinstance(self._walk, MaskWalk) else "range walk"

    def first_answer(self) -> FirstAnswer | None:
        """The way from a request's numbers and history slots to its curve in one call, where this model has it."""
        return FirstAnswer(self.schema, self._walk) if isinstance(self._walk, MaskWalk) else None

    def scores(self, features: list[float]) -> np.ndarray:
        """Raw scores on the grid of the varying feature: (J,) intervals, (K + 1,) uptime steps, or (1,)."""
        if self._walk is not None:
            answers: np.ndarray = self._walk.scores(np.array([[*features, *self._unread]]))[0]
            return answers
        return self._bound.scores(features) if self._is_varying else self._onnx.scores(np.array([features]))

    def curve(self, features: list[float]) -> Curve:
        """The lifetime curve of one request."""
        return self._curve_of_scores(self.scores(features), features)
