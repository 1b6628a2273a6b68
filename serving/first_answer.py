"""The first answer in one compiled call: from a request's numbers and history slots to its lifetime curve.

For hazard models whose forest fits into leaf masks. Other models, and installations without numba, go the long way
(`Encoder.encode`, `CurveBuilder.curve`), which gives the same bits.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from sojourn.serving import _mask_kernels
from sojourn.serving.bundle import Schema
from sojourn.serving.forest import Forest
from sojourn.serving.history_rows import HistoryRows
from sojourn.serving.leaf_masks import age_bins, leaf_masks
from sojourn.serving.varying_walk import N_VARYING_MAX, interval_masks


class FirstAnswer:
    """Answers requests by one bundle's hazard model; not for several threads at once.

    Everything the call reads that does not change stands in one array of whole numbers and one of floats, part by
    part, because each array costs 0.1 us to hand over.
    """

    def __init__(self, schema: Schema, forest: Forest) -> None:
        masks = leaf_masks(forest, schema.age_features)
        if schema.kind != "hazard" or masks is None or len(schema.age_features) >= N_VARYING_MAX:
            raise ValueError("forest must fit into leaf masks")
        encoder, ages, history = schema.encoder, schema.age_features, schema.encoder.history
        n_features, n_grid = len(encoder.feature_names()), len(schema.offsets)
        turns, turn_starts, self._turn_rows = age_bins(masks, ages, n_features)
        interval = n_features + len(ages)
        at = interval_masks(masks, np.arange(n_grid), interval)
        ints = [
            np.array([encoder.phase_s, history.batch_gap_s, history.window]),
            np.array([key.kind == "owner" for key in history.keys], np.int64), masks.starts,
            masks.is_zero_missing.astype(np.int64), np.array(ages.sources, np.int64), turn_starts, masks.leaf_starts,
            at.ravel(),
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
        self._n_answer = 4 * len(schema.edges) + n_features

    def answer(self, numbers: Sequence[float], slots: Sequence[int], now_s: int, overall: float,
               rows: HistoryRows) -> np.ndarray:
        """The curve's numbers, 4 x (J + 1) as `fill_hazard` writes them, then the encoder's features; float64.

        numbers: the request's, in the encoder's order. slots: of its history keys, in `rows`. overall: mean of log10
        lifetimes of all that ended.
        """
        self._pack(self._bytes, 0, now_s, overall, *numbers, *slots)
        answer = np.empty(self._n_answer)
        _mask_kernels.hazard_answer(self._ints, self._floats, self._masks, self._turn_rows, rows.values, self._asked,
                                    answer)
        return answer
