"""A model packed for the compiled first answer: small arrays concatenated, with a name for each part.

Passing an array from Python costs 0.1 us, and twice that in a named tuple. So one array holds all
parts of integers, another all parts of floats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.serving.curves.curve_kind import FirstWay, ModelNumbers
from sojourn.serving.forest import AgeBins, LeafMasks
from sojourn.serving.inputs import Encoder
from sojourn.serving.kernel import register_jitable

(ENCODER, IS_OWNER, STARTS, IS_ZERO_MISSING, LEAF_STARTS, SOURCES, TURN_STARTS, AGE_ROWS, LEAF_LOWS,
 LEAF_HIGHS, LOOKUP) = range(11)  # fmt: skip
"""Parts of integers. ENCODER: see below. IS_OWNER: of each history key, 1 = of an owner, 0 = of a category.
STARTS, IS_ZERO_MISSING, LEAF_STARTS: see `LeafMasks`. For hazard models, else empty: SOURCES and
TURN_STARTS, see `AgeBins`; AGE_ROWS, `interval_masks` flat. For models with steps, else empty:
LEAF_LOWS and LEAF_HIGHS, for each leaf the first step at which it can be reached, and the first
after. For models with a lookup table, else empty: LOOKUP, the index of its row among the
features."""
N_WHOLE = LOOKUP + 1
THRESHOLDS, LEAVES, CONSTANTS, TURNS, OFFSETS, EDGES, STEPS, WEIGHTS, KNOWN, SHARES = range(10)
"""Parts of floats. THRESHOLDS, LEAVES: see `LeafMasks`. CONSTANTS: see below. For hazard models,
else empty: TURNS, see `AgeBins`; OFFSETS (J,), log-odds; EDGES (J + 1,), s. For models with steps,
else empty: STEPS, thresholds on the uptime, s. For models with a lookup table, else empty: WEIGHTS
(J,) and KNOWN, its hazards row by row; see `LookupTable`. For models with limit axis, else empty:
SHARES (K + 1,) of the limit."""
N_FLOATS = SHARES + 1
PHASE_S, BATCH_GAP_S, WINDOW, LIMIT_PLACE = range(4)
"""Positions in ENCODER; see `Encoder` and `HistoryDefinition`."""
PRIOR_STRENGTH, TAIL_S, SMEARING = range(3)
"""Positions in CONSTANTS; see `HistoryDefinition` and `ModelNumbers`."""
ASKED_S, OVERALL, ASKED_NUMBERS = range(3)
"""Positions in the kernels' inputs, float64: the time in s, the mean of all log10 lifetimes, and
the first of the request's numbers; the slot of each history key follows them."""


class PackedModel(NamedTuple):
    """whole: int64, the start of each of its parts, then those of `floats`, then its parts. floats: float64, parts.

    masks: uint64, see `LeafMasks`. turn_rows: int64, the rows of `AgeBins`.
    """

    whole: np.ndarray
    floats: np.ndarray
    masks: np.ndarray
    turn_rows: np.ndarray

    @classmethod
    def of(cls, encoder: Encoder, masks: LeafMasks, numbers: ModelNumbers, way: FirstWay) -> PackedModel:
        """For a model whose forest fits into leaf masks. way: with the parts of its kind; missing ones are empty."""
        history = encoder.history
        whole = {
            ENCODER: np.array([encoder.phase_s, history.batch_gap_s, history.window, encoder.limit_place]),
            IS_OWNER: np.array([key.kind == "owner" for key in history.keys], np.int64), STARTS: masks.starts,
            IS_ZERO_MISSING: masks.is_zero_missing, LEAF_STARTS: masks.leaf_starts, **way.whole,
        }  # fmt: skip
        floats = {THRESHOLDS: masks.thresholds, LEAVES: masks.leaves,
                  CONSTANTS: np.array([history.prior_strength, numbers.tail_s, numbers.smearing]), **way.floats}
        nothing = np.empty(0)
        whole_parts = [whole.get(part, nothing) for part in range(N_WHOLE)]
        float_parts = [floats.get(part, nothing) for part in range(N_FLOATS)]
        n_head = N_WHOLE + 1 + N_FLOATS + 1
        bounds = [n_head + np.cumsum([0, *map(len, whole_parts)]), np.cumsum([0, *map(len, float_parts)])]
        return cls(np.concatenate([*bounds, *whole_parts]).astype(np.int64), np.concatenate(float_parts), masks.masks,
                   way.turn_rows)


def n_asked(encoder: Encoder) -> int:
    """How many inputs the kernels take for a request."""
    return ASKED_NUMBERS + encoder.n_numbers + len(encoder.history.keys)


@register_jitable
def whole_part(model: PackedModel, part: int) -> np.ndarray:
    """A part of integers, int64."""
    return model.whole[model.whole[part]:model.whole[part + 1]]


@register_jitable
def float_part(model: PackedModel, part: int) -> np.ndarray:
    """A part of floats, float64."""
    at = N_WHOLE + 1 + part
    return model.floats[model.whole[at]:model.whole[at + 1]]


@register_jitable
def masks_of(model: PackedModel) -> LeafMasks:
    """The forest as leaf masks; is_zero_missing as integers."""
    return LeafMasks(model.masks, float_part(model, THRESHOLDS), whole_part(model, STARTS), float_part(model, LEAVES),
                     whole_part(model, LEAF_STARTS), whole_part(model, IS_ZERO_MISSING))


@register_jitable
def bins_of(model: PackedModel) -> AgeBins:
    """The bins of the age features."""
    return AgeBins(float_part(model, TURNS), whole_part(model, TURN_STARTS), model.turn_rows,
                   whole_part(model, SOURCES))
