"""From encoded features to lifetime curves: one forest walk for all uptimes of a request.

`FirstAnswer` is one compiled call from a request's numbers and history slots to its lifetime curve,
for models whose forest fits into leaf masks. Other models, and installations without numba, use
`Encoder.encode` and `CurveBuilder.curve`, with the same bits.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.serving.bundle import RefreshModel, Schema
from sojourn.serving.curves import IS_COMPILED, KERNELS, Curve, HazardCurve, PackedModel, n_asked, recalibrated
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import BoundRows, MaskWalk, OnnxForest, check_stepwise, read_forest, varying_walk
from sojourn.serving.inputs import UNKNOWN, Encoder, HistoryRows, Parsed


class CurveBuilder:
    """Turns a request's encoded features into its lifetime curve, by a bundle's model.

    Uses the compiled walk if numba is installed, else ONNX Runtime; both give the same bits.
    BundleError if the model does not match the schema.
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
        """The curve from the numbers of `FirstAnswer.answer`, which may be followed by others."""
        self._unread = [0.0] * (len(numbers.age_features) + 1)
        self._bound = BoundRows(self._onnx, self.grid, numbers.age_features, schema.n_features)
        self.curve([math.nan] * len(schema.encoder.feature_names()))  # loads compiled code now, not at the first call

    def load_recalibration(self, factors: np.ndarray) -> None:
        """Load the compiled code of recalibrated curves now, not at the first one. factors: any of the right shape."""
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
        """The compiled call from a request's numbers and history slots to its curve; None if this model has none."""
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


class FirstAnswer:
    """Answers requests by one bundle's model; not for several threads at once.

    A `PackedModel` holds all constants of the call, because passing an array costs 0.1 us, and
    twice that in a named tuple.
    """

    def __init__(self, schema: Schema, walk: MaskWalk) -> None:
        encoder, history = schema.encoder, schema.encoder.history
        n_features = len(encoder.feature_names())
        way = schema.curves.first_way(schema.numbers, walk)
        self._answer, self._rows, self.n_numbers, self._finish = way.answer, way.rows, way.n_numbers, way.finish
        self._model = tuple(PackedModel.of(encoder, walk.masks, schema.numbers, way))
        self._asked = np.zeros(n_asked(encoder))
        self._bytes = memoryview(self._asked).cast("B")  # type: ignore[arg-type]
        self._pack = struct.Struct(f"={len(self._asked)}d").pack_into
        self._n_answer = self.n_numbers + n_features
        rows, n_keys = HistoryRows(), len(history.keys)  # loads compiled code now, not at the first request
        nothing = Parsed((math.nan,) * encoder.n_numbers, (None,) * n_keys, ())
        self.answer(nothing.numbers, [UNKNOWN] * n_keys, 0, math.nan, rows)
        self.remaining([nothing], [[UNKNOWN] * n_keys], 0, math.nan, rows, [0.0])

    def answer(self, numbers: Sequence[float], slots: Sequence[int], now_s: int, overall: float,
               rows: HistoryRows) -> np.ndarray:
        """The curve's `n_numbers`, then the encoder's features; float64.

        The numbers are 4 x (J + 1) as `fill_hazard` writes them, or the raw score at each step of the uptime.
        numbers: of the request, in the encoder's order. slots: of its history keys, in `rows`.
        overall: mean of log10 lifetimes of all ended requests.
        """
        self._pack(self._bytes, 0, now_s, overall, *numbers, *slots)
        answer = np.empty(self._n_answer)
        self._answer(*self._model, rows.values, self._asked, answer)
        return answer

    def remaining(self, parsed: Sequence[Parsed], slots: Sequence[Sequence[int]], now_s: int, overall: float,
                  rows: HistoryRows, uptimes_s: Sequence[float]) -> list[float]:
        """`remaining` of each request's curve at its uptime, whole seconds; the same bits."""
        calls = np.empty((len(parsed), len(self._asked)))
        bytes_of, width = memoryview(calls).cast("B"), calls.strides[0]  # type: ignore[arg-type]
        for idx, (one, key_slots) in enumerate(zip(parsed, slots, strict=True)):
            self._pack(bytes_of, idx * width, now_s, overall, *one.numbers, *key_slots)
        remaining_s, answer = np.empty(len(parsed)), np.empty(self._n_answer)
        self._rows(self._model, rows.values, calls, np.array(uptimes_s), remaining_s, answer)
        answers_s = remaining_s.tolist()
        return answers_s if self._finish is None else self._finish(answers_s, uptimes_s)


@dataclass(frozen=True, slots=True)
class Refresher:
    """The second model of a bundle, which predicts running requests anew, ready to answer.

    encoder: that of the bundle, without the row of a lookup table. first: the compiled call, if any;
    not for several threads at once. ages_s: ages at which a new prediction helps, rising.
    """

    encoder: Encoder
    builder: CurveBuilder
    first: FirstAnswer | None
    ages_s: tuple[int, ...]

    @classmethod
    def of(cls, model: RefreshModel) -> Refresher:
        """The model, its compiled code loaded; BundleError if it does not match its schema."""
        builder = CurveBuilder(model.schema, model.model)
        return cls(model.schema.encoder, builder, builder.first_answer(), model.ages_s)

    def next_s(self, uptime_s: float) -> float:
        """The first of the ages after an uptime, s; infinity after the last."""
        position = bisect_right(self.ages_s, uptime_s)
        return float(self.ages_s[position]) if position < len(self.ages_s) else math.inf
