"""The curve table of a bundle's model, for many encoded rows at once."""

from __future__ import annotations

import numpy as np

from sojourn.models.curve_table import CurveTable
from sojourn.models.learnt_kinds import LEARNT_KINDS
from sojourn.serving.bundle import Schema
from sojourn.serving.forest import Forest, row_scores, varying_walk


def table_of(schema: Schema, forest: Forest, features: np.ndarray) -> CurveTable:
    """Lifetime curves of encoded rows, float64 (n, number of the encoder's features); see `Encoder.with_row`."""
    kind, model = schema.curves, schema.numbers
    grid = kind.grid(model, forest)
    if kind.is_varying:
        unread = np.zeros((len(features), len(model.age_features) + 1))
        scores = varying_walk(forest, grid, model.age_features).scores(np.column_stack([features, unread]))
    else:
        scores = row_scores(forest)(features)[:, None]
    return LEARNT_KINDS[schema.kind].table(model, grid, scores, features)
