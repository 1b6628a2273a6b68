"""Slow twins of the forest walks: one row, one tree and one value at a time, in plain Python."""

from __future__ import annotations

import math

import numpy as np

from sojourn.serving.forest import MEMBER, ZERO, Forest


def forest_score(forest: Forest, row: list[float]) -> float:
    """The raw score of one row: leaves added in tree order."""
    total = 0.0
    for root in forest.roots.tolist():
        node = root
        while node >= 0:
            node = int(forest.on_true[node] if _goes_true(forest, node, row) else forest.on_false[node])
        total += float(forest.leaves[~node])
    return total


def range_scores(forest: Forest, grid: np.ndarray, row: list[float]) -> list[float]:
    """The raw scores of one row, its last feature set to each value of the grid."""
    return [forest_score(forest, [*row[:-1], value]) for value in grid.tolist()]


def _goes_true(forest: Forest, node: int, row: list[float]) -> bool:
    feature = int(forest.feature[node])
    value = row[feature]
    if forest.is_zero_missing[feature] and abs(value) <= ZERO:
        value = math.nan
    if math.isnan(value):
        return bool(forest.is_nan_true[node])
    if forest.mode[node] == MEMBER:
        start, stop = forest.member_start[node], forest.member_start[node + 1]
        return value in forest.members[start:stop].tolist()
    return bool(value <= forest.split[node])
