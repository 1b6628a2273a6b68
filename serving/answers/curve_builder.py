"""From encoded features to lifetime curves: one forest walk for all uptimes of a request.

If the extension is built and the forest fits into leaf masks, a first answer is one call in C from the request to its
curve (`CurveBuilder.first`). Other models, and installations without a C compiler, use `Encoder.encode` and
`CurveBuilder.curve`, with the same bits.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.serving.bundle import RefreshModel, Schema
from sojourn.serving.curves import IS_COMPILED, Axis, Curve
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import (
    BoundRows,
    Forest,
    MaskWalk,
    OnnxForest,
    check_stepwise,
    mask_tables,
    read_forest,
    varying_walk,
)
from sojourn.serving.inputs import SIZES, Encoder
from sojourn.serving.native import NATIVE


class CurveBuilder:
    """Turns a request's encoded features into its lifetime curve, by a bundle's model.

    Uses the extension, else numba, else ONNX Runtime; all give the same bits. is_compiled: False = ONNX Runtime.
    rare: columns that a request may lack without being named. BundleError if the model does not match the schema.
    """

    def __init__(self, schema: Schema, model: bytes, is_compiled: bool = True, rare: Collection[str] = ()) -> None:
        self.schema = schema
        self.forest = read_forest(model, schema.n_features)
        kind, numbers = schema.curves, schema.numbers
        if kind.is_varying:
            try:
                check_stepwise(self.forest, numbers.age_features)
            except ValueError as error:
                raise BundleError(f"model.onnx: {error}") from error
        kind.check_forest(self.forest)
        self._onnx = OnnxForest(model, schema.n_features)
        self.grid = kind.grid(numbers, self.forest)
        self.thresholds = tuple(self.grid[:-1].tolist())
        self._is_varying = kind.is_varying
        axis, self.n_numbers, self.curve_of, self._curve_of_scores = kind.made(numbers, self.grid)
        """The curve from the numbers of `first`, which may be followed by others."""
        walked = self.forest if kind.is_varying else self.forest.with_spare()
        self.first: Any = None
        """The extension's model, if it has one; not for several threads at once, but for `of_features` and `scores`."""
        if is_compiled and NATIVE is not None:
            self.first = _native_model(schema, walked, self.grid, axis, self.n_numbers, rare)
        self.n_before = 0 if self.first is None else self.n_numbers
        """How many numbers of the curve stand before the features of an encoded request."""
        self.gives_curves = self.first is not None and kind.is_varying
        """Whether `first` gives the curve itself, with the features behind its numbers."""
        self._walk = None
        if self.first is None and is_compiled and IS_COMPILED:
            self._walk = varying_walk(walked, self.grid, numbers.age_features)
        self._unread = [0.0] * (len(numbers.age_features) + 1)
        self._bound = BoundRows(self._onnx, self.grid, numbers.age_features, schema.n_features)
        self.curve([math.nan] * len(schema.encoder.feature_names()))  # loads compiled code now, not at the first call

    @property
    def is_compiled(self) -> bool:
        """Whether the forest is scored by compiled code."""
        return self.first is not None or self._walk is not None

    @property
    def walk(self) -> str:
        """How the forest is scored: "leaf masks", "range walk" or "ONNX Runtime"."""
        if self.first is not None or isinstance(self._walk, MaskWalk):
            return "leaf masks"
        return "ONNX Runtime" if self._walk is None else "range walk"

    def scores(self, features: list[float]) -> np.ndarray:
        """Raw scores on the grid of the varying feature: (J,) intervals, (K + 1,) uptime steps, or (1,)."""
        if self.first is not None:
            return np.frombuffer(self.first.scores(np.array(features)))
        if self._walk is not None:
            answers: np.ndarray = self._walk.scores(np.array([[*features, *self._unread]]))[0]
            return answers
        return self._bound.scores(features) if self._is_varying else self._onnx.scores(np.array([features]))

    def curve(self, features: list[float]) -> Curve:
        """The lifetime curve of one request."""
        if self.first is not None:
            return self.curve_of(self.first.of_features(np.array(features)))
        return self._curve_of_scores(self.scores(features), features)


def _native_model(schema: Schema, forest: Forest, grid: np.ndarray, axis: Axis, n_numbers: int,
                  rare: Collection[str]) -> Any:
    """The extension's model; None if leaf masks cannot take the forest. See `serving/native/model.h`."""
    encoder, history, numbers, lookup = schema.encoder, schema.encoder.history, schema.numbers, schema.numbers.lookup
    tables = mask_tables(forest, grid, numbers.age_features)
    if tables is None or NATIVE.TABLES.split() != [*tables._fields]:  # it was built from another version of the source
        return None
    pool = {column: idx for idx, column in enumerate((*encoder.names, *encoder.numbers))}
    flags = bytes([column in SIZES for column in encoder.numbers] + [key.kind == "owner" for key in history.keys])
    weights, known = ((), np.empty(0)) if lookup is None else (lookup.weights, lookup.hazards.ravel())
    arrays = (np.array(part, np.float64) for part in (numbers.offsets, numbers.edges, numbers.shares, weights, known))
    whole = (schema.curves.code, len(encoder.numbers), encoder.n_numbers, len(history.keys),
             len(encoder.feature_names()), n_numbers, len(grid), max(len(numbers.edges) - 1, 0),
             max(len(numbers.shares) - 1, 0), 0 if lookup is None else len(lookup.hazards), encoder.limit_place,
             -1 if lookup is None else lookup.place, encoder.phase_s)
    real = (history.batch_gap_s, history.window, history.prior_strength, numbers.tail_s)
    curve_type = schema.curves.curve_type
    return NATIVE.Model(
        encoder.columns(), tuple(tuple(pool[column] for column in key.columns) for key in history.keys),
        tuple(key.history_name for key in history.keys),
        tuple(None if column in rare else column for column in encoder.columns()), flags,
        None if encoder.lookup is None else encoder.lookup.row, np.float64, (*tables, *arrays), axis,
        curve_type if issubclass(curve_type, (NATIVE.Hazard, NATIVE.Steps)) else NATIVE.Numbers, whole, real)


@dataclass(frozen=True, slots=True)
class Refresher:
    """The second model of a bundle, which predicts running requests anew, ready to answer.

    encoder: that of the bundle, without the row of a lookup table. ages_s: ages at which a new prediction helps,
    rising.
    """

    encoder: Encoder
    builder: CurveBuilder
    ages_s: tuple[int, ...]

    @classmethod
    def of(cls, model: RefreshModel) -> Refresher:
        """The model, its compiled code loaded; BundleError if it does not match its schema."""
        return cls(model.schema.encoder, CurveBuilder(model.schema, model.model), model.ages_s)

    def next_s(self, uptime_s: float) -> float:
        """The first of the ages after an uptime, s; infinity after the last."""
        position = bisect_right(self.ages_s, uptime_s)
        return float(self.ages_s[position]) if position < len(self.ages_s) else math.inf
