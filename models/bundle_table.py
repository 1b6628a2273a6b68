"""The curve table of a bundle's model, for many encoded rows at once."""

from __future__ import annotations

import numpy as np

from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.serving.bundle import Schema
from sojourn.serving.curve_builder import varying_grid
from sojourn.serving.forest import Forest
from sojourn.serving.row_scores import row_scores
from sojourn.serving.varying_walk import varying_walk


def table_of(schema: Schema, forest: Forest, features: np.ndarray) -> CurveTable:
    """Lifetime curves of encoded rows, float64 (n, number of the encoder's features)."""
    grid = varying_grid(schema, forest)
    if schema.kind == "once":
        return OnceTable(row_scores(forest)(features), schema.smearing, np.array(schema.residuals))
    unread = np.zeros((len(features), len(schema.age_features) + 1))
    scores = varying_walk(forest, grid, schema.age_features).scores(np.column_stack([features, unread]))
    if schema.kind == "uptime":
        return PointTable(grid[:-1], scores, schema.smearing, np.array(schema.residuals))
    return HazardTable.from_scores(np.array(schema.edges), scores, np.array(schema.offsets), schema.tail_s,
                                   np.array(schema.grid))
