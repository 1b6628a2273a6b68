"""Compiled walks over a Forest, one tree at a time; imported only if numba is installed.

Slow twin: tests/naive_forest.py.
"""

from __future__ import annotations

import numpy as np

from sojourn.serving.forest.leaf_masks import AgeScales, WalkedForest
from sojourn.serving.kernel import kernel


@kernel
def goes_true(value, split, mode, is_nan_true, members, start, stop):
    """Whether a value goes to the true child of a node."""
    if np.isnan(value):
        return is_nan_true
    if mode == 0:
        return value <= split
    for idx in range(start, stop):
        if members[idx] == value:
            return True
    return False


@kernel
def fill_age_values(row, scales, values):
    """Write a row's age features at every age to values, float64 (m, K); see `AgeFeatures`."""
    sources, is_log, ages_s, log_ages = scales
    for position in range(len(sources)):
        for idx in range(len(ages_s)):
            if is_log[position]:
                values[position, idx] = row[sources[position]] - log_ages[idx]
            else:
                values[position, idx] = row[sources[position]] / ages_s[idx]


@kernel
def first_other(values, split, low, high):
    """The first position in [low, high) that goes to another child than `low` at a split; `high` if none does.

    values: rising or falling; a negative number of seconds over the age rises.
    """
    is_true = values[low] <= split
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if (values[middle] <= split) != is_true:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def range_walk(forest, row, age_values, scores, stack):
    """Add the raw scores of one row for every value of the varying feature, one walk per tree.

    forest: see `WalkedForest`. age_values: float64 (m, K), rising or falling in K, of the m features before the
    varying one.
    scores: float64 (K,), zeros on entry; stack: int64 (depth + 2, 3), scratch.
    """
    roots, feature, split, leaves = forest.roots, forest.feature, forest.split, forest.leaves
    on_true, on_false, is_nan_true, mode = forest.on_true, forest.on_false, forest.is_nan_true, forest.mode
    member_start, members = forest.member_start, forest.members
    varying, cut = forest.varying, forest.cut
    n_grid = len(scores)
    first_aged = varying - len(age_values)
    for tree in range(len(roots)):
        stack[0, 0], stack[0, 1], stack[0, 2] = roots[tree], 0, n_grid
        top = 0
        while top >= 0:
            node, low, high = stack[top, 0], stack[top, 1], stack[top, 2]
            top -= 1
            while node >= 0:
                if feature[node] == varying:
                    middle = cut[node]
                    if middle >= high:
                        node = on_true[node]
                    elif middle <= low:
                        node = on_false[node]
                    else:
                        top += 1
                        stack[top, 0], stack[top, 1], stack[top, 2] = on_false[node], middle, high
                        node, high = on_true[node], middle
                elif feature[node] >= first_aged:
                    values = age_values[feature[node] - first_aged]
                    if np.isnan(values[low]):
                        node = on_true[node] if is_nan_true[node] else on_false[node]
                        continue
                    middle = first_other(values, split[node], low, high)
                    is_true = values[low] <= split[node]
                    if middle < high:
                        top += 1
                        stack[top, 0] = on_false[node] if is_true else on_true[node]
                        stack[top, 1], stack[top, 2] = middle, high
                        high = middle
                    node = on_true[node] if is_true else on_false[node]
                elif goes_true(row[feature[node]], split[node], mode[node], is_nan_true[node], members,
                               member_start[node], member_start[node + 1]):
                    node = on_true[node]
                else:
                    node = on_false[node]
            leaf = leaves[~node]
            for idx in range(low, high):
                scores[idx] += leaf


@kernel
def range_walk_rows(forest_parts, scales_parts, rows, scores, stack):
    """`range_walk` for each row of a matrix; scores: float64 (n, K).

    The forest and scales are plain tuples, which Python passes in half the time.
    """
    forest, scales = WalkedForest(*forest_parts), AgeScales(*scales_parts)
    age_values = np.empty((len(scales.sources), len(scales.ages_s)))
    for idx in range(len(rows)):
        fill_age_values(rows[idx], scales, age_values)
        range_walk(forest, rows[idx], age_values, scores[idx], stack)
