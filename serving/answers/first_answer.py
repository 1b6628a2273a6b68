"""The first answer in one compiled call: from a request's numbers and history slots to its lifetime curve.

For models whose forest fits into leaf masks. Other models, and installations without numba, go the long way
(`Encoder.encode`, `CurveBuilder.curve`), which gives the same bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from sojourn.serving.bundle import Schema
from sojourn.serving.curves import PackedModel, n_asked
from sojourn.serving.forest import MaskWalk
from sojourn.serving.inputs import UNKNOWN, HistoryRows, Parsed


class FirstAnswer:
    """Answers requests by one bundle's model; not for several threads at once.

    Everything the call reads that does not change stands in a `PackedModel`, because each array costs 0.1 us to hand
    over, and twice that in a named tuple.
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
        numbers: the request's, in the encoder's order. slots: of its history keys, in `rows`. overall: mean of log10
        lifetimes of all that ended.
        """
        self._pack(self._bytes, 0, now_s, overall, *numbers, *slots)
        answer = np.empty(self._n_answer)
        self._answer(*self._model, rows.values, self._asked, answer)
        return answer

    def remaining(self, parsed: Sequence[Parsed], slots: Sequence[Sequence[int]], now_s: int, overall: float,
                  rows: HistoryRows, uptimes_s: Sequence[float]) -> list[float]:
        """What the curve of each request says of `remaining` at its uptime, whole seconds; the same bits."""
        asked = np.empty((len(parsed), len(self._asked)))
        bytes_of, width = memoryview(asked).cast("B"), asked.strides[0]  # type: ignore[arg-type]
        for idx, (one, own) in enumerate(zip(parsed, slots, strict=True)):
            self._pack(bytes_of, idx * width, now_s, overall, *one.numbers, *own)
        remaining_s, answer = np.empty(len(parsed)), np.empty(self._n_answer)
        self._rows(self._model, rows.values, asked, np.array(uptimes_s), remaining_s, answer)
        answers_s = remaining_s.tolist()
        return answers_s if self._finish is None else self._finish(answers_s, uptimes_s)
