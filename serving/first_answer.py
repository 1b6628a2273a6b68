"""The first answer in one compiled call: from a request's numbers and history slots to its lifetime curve.

For hazard models whose forest fits into leaf masks. Other models, and installations without numba, go the long way
(`Encoder.encode`, `CurveBuilder.curve`), which gives the same bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from sojourn.serving.bundle import Schema
from sojourn.serving.history_rows import UNKNOWN, HistoryRows
from sojourn.serving.varying_walk import MaskWalk, VaryingWalk


def first_answer(schema: Schema, walk: VaryingWalk | None) -> FirstAnswer | None:
    """The compiled first answer of a model; None where it is no hazard model or is not walked by leaf masks."""
    return FirstAnswer(schema, walk) if schema.kind == "hazard" and isinstance(walk, MaskWalk) else None


class FirstAnswer:
    """Answers requests by one bundle's hazard model; not for several threads at once.

    Everything the call reads that does not change stands in one array of whole numbers and one of floats, part by
    part, because each array costs 0.1 us to hand over.
    """

    def __init__(self, schema: Schema, walk: MaskWalk) -> None:
        from sojourn.serving import _mask_kernels

        self._answer = _mask_kernels.hazard_answer
        encoder, ages, history = schema.encoder, schema.age_features, schema.encoder.history
        n_features, n_grid = len(encoder.feature_names()), len(schema.offsets)
        masks = walk.masks
        turns, turn_starts, self._turn_rows = walk.turns
        ints = [
            np.array([encoder.phase_s, history.batch_gap_s, history.window]),
            np.array([key.kind == "owner" for key in history.keys], np.int64), masks.starts,
            masks.is_zero_missing.astype(np.int64), np.array(ages.sources, np.int64), turn_starts, masks.leaf_starts,
            walk.at.ravel(),
        ]  # fmt: skip
        floats = [masks.thresholds, turns, masks.leaves, np.array(schema.offsets), np.array(schema.edges),
                  np.array([history.prior_strength, schema.tail_s])]  # fmt: skip
        sizes = np.array([len(encoder.numbers), len(history.keys), n_features, n_grid])
        n_head = len(sizes) + len(ints) + 1 + len(floats) + 1
        int_bounds = n_head + np.cumsum([0, *map(len, ints)])
        float_bounds = np.cumsum([0, *map(len, floats)])
        self._ints = np.concatenate([sizes, int_bounds, float_bounds, *ints]).astype(np.int64)
        self._floats = np.concatenate(floats)
        self._masks = masks.masks
        self._asked = np.zeros(2 + len(encoder.numbers) + len(history.keys))
        self._bytes = memoryview(self._asked).cast("B")  # type: ignore[arg-type]
        self._pack = struct.Struct(f"={len(self._asked)}d").pack_into
        self.n_numbers = 4 * len(schema.edges)
        self._n_answer = self.n_numbers + n_features
        nothing = HistoryRows()  # loads compiled code now, not at the first request
        self.answer([math.nan] * len(encoder.numbers), [UNKNOWN] * len(history.keys), 0, math.nan, nothing)

    def answer(self, numbers: Sequence[float], slots: Sequence[int], now_s: int, overall: float,
               rows: HistoryRows) -> np.ndarray:
        """The curve's `n_numbers`, 4 x (J + 1) as `fill_hazard` writes them, then the encoder's features; float64.

        numbers: the request's, in the encoder's order. slots: of its history keys, in `rows`. overall: mean of log10
        lifetimes of all that ended.
        """
        self._pack(self._bytes, 0, now_s, overall, *numbers, *slots)
        answer = np.empty(self._n_answer)
        self._answer(self._ints, self._floats, self._masks, self._turn_rows, rows.values, self._asked, answer)
        return answer
