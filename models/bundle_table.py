"""The curve table of a bundle's model, for many encoded rows at once."""

from __future__ import annotations

import numpy as np

from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.serving.bundle import Schema
from sojourn.serving.curve_builder import varying_grid
from sojourn.serving.forest import Forest
from sojourn.serving.varying_walk import varying_walk


def table_of(schema: Schema, forest: Forest, features: np.ndarray) -> CurveTable:
    """Lifetime curves of encoded rows, float64 (n, number of the encoder's features)."""
    grid = varying_grid(schema, forest)
    if schema.kind == "once":
        rows = np.column_stack([features, np.zeros(len(features))])  # the walk leaves its last column alone
        walk = varying_walk(_with_spare_feature(forest), grid)
        return OnceTable(walk.scores(rows)[:, 0], schema.smearing, np.array(schema.residuals))
    unread = np.zeros((len(features), len(schema.age_features) + 1))
    scores = varying_walk(forest, grid, schema.age_features).scores(np.column_stack([features, unread]))
    if schema.kind == "uptime":
        return PointTable(grid[:-1], scores, schema.smearing, np.array(schema.residuals))
    return HazardTable.from_scores(np.array(schema.edges), scores, np.array(schema.offsets), schema.tail_s,
                                   np.array(schema.grid))


def _with_spare_feature(forest: Forest) -> Forest:
    return Forest(
        forest.n_features + 1, forest.roots, forest.feature, forest.split, forest.mode, forest.on_true,
        forest.on_false, forest.is_nan_true, forest.leaves, forest.member_start, forest.members,
        np.append(forest.is_zero_missing, False),
    )  # fmt: skip
