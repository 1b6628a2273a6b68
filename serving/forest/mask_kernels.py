"""Compiled walks over a forest's leaf masks; imported only if numba is installed. Slow twins: tests/naive_forest.py.

`forest` is a `LeafMasks`, `bins` an `AgeBins`. Kernels that Python calls for each request take
plain tuples, which are passed in half the time; functions that take a record in compiled code are
inlined. Sums run over the trees from first to last.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sojourn.serving.forest.forest import ZERO
from sojourn.serving.forest.leaf_masks import AgeBins, LeafMasks
from sojourn.serving.kernel import kernel, register_inlined


@intrinsic
def lowest_bit(typing_context, word):
    """The position of the lowest set bit of a word that has one: uint64, since the sign of a signed
    index is checked."""
    def code(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), code


@kernel
def n_below(values, start, stop, value):
    """How many of values[start:stop], rising, are below a value: by search, since there may be hundreds."""
    n = stop - start
    if n == 0:
        return 0
    base = start
    while n > 1:
        half = n >> 1
        base = base + half if values[np.uint64(base + half - 1)] < value else base
        n -= half
    return base - start + (1 if values[np.uint64(base)] < value else 0)


@register_inlined
def narrow(forest, row, n_features, words):
    """Write the AND of the masks of a row's first features to words, uint64 (T,): the leaves that can be reached."""
    masks, thresholds, starts, is_zero_missing = forest.masks, forest.thresholds, forest.starts, forest.is_zero_missing
    for tree in range(np.uint64(len(words))):
        words[tree] = masks[-1, tree]
    for feature in range(n_features):
        start, end = np.uint64(starts[feature]), np.uint64(starts[feature + 1])
        if start == end:
            continue
        value = row[feature]
        idx = np.uint64(2 * feature)
        if np.isnan(value) or (is_zero_missing[feature] and abs(value) <= ZERO):
            idx += end + np.uint64(1)
        else:
            idx += start
            for place in range(start, end):  # for so few, counting with vector instructions is faster than a search
                idx += np.uint64(thresholds[place] < value)
        for tree in range(np.uint64(len(words))):
            words[tree] &= masks[idx, tree]


@kernel
def score_rows(forest, rows, scores):
    """Raw scores float64 (n,) of whole rows (n, F)."""
    leaves, leaf_starts = forest.leaves, forest.leaf_starts
    words = np.empty(len(leaf_starts), np.uint64)
    for idx in range(len(rows)):
        narrow(forest, rows[idx], rows.shape[1], words)
        total = 0.0
        for tree in range(len(words)):
            total += leaves[np.uint64(leaf_starts[tree]) + lowest_bit(words[tree])]
        scores[idx] = total


@kernel
def step_scores(words, leaves, leaf_starts, lows, highs, scores):
    """Raw scores for every bin of one feature, added to scores (K,), zeros on entry.

    words: the AND of all other features, uint64 (T,), cleared on return. lows, highs: each leaf's bins.
    """
    for tree in range(len(words)):
        word = words[tree]
        while word != np.uint64(0):
            leaf = np.uint64(leaf_starts[tree]) + lowest_bit(word)
            word &= word - np.uint64(1)
            value = leaves[leaf]
            for idx in range(lows[leaf], highs[leaf]):
                scores[idx] += value


@register_inlined
def fill_age_rows(bins, row, at):
    """Write for each age feature the row of its masks at every age to at, int64 (8, K)."""
    turns, turn_starts, rows, sources = bins
    for position in range(len(sources)):
        start, stop = turn_starts[position], turn_starts[position + 1]
        value = row[sources[position]]
        n = stop - start + 1 if np.isnan(value) else n_below(turns, start, stop, value)
        at[position] = rows[start + 2 * position + n]


@kernel
def split_constant(masks, words, at, varying):
    """AND the masks that are equal at every age into words; write the rows of `at` that vary; return their number."""
    n_varying, n_ages = 0, at.shape[1]
    for feature in range(at.shape[0]):
        row = at[feature, 0]
        age = 1
        while age < n_ages and at[feature, age] == row:
            age += 1
        if age < n_ages:
            varying[n_varying] = feature
            n_varying += 1
        elif row < len(masks) - 1:  # the last row has all leaves
            mask = masks[row]
            for tree in range(len(words)):
                words[tree] &= mask[tree]
    return n_varying


@kernel
def meet(masks, words, at, varying, n_varying, met):
    """Write the leaves that can be reached at each age to met, uint64 (K, T): words AND the masks that vary.

    varying: longer than n_varying; it ends with the last row of `at`. Loops have few arrays, since
    the compiler makes no vector code for more.
    """
    n_grid, n_trees = np.uint64(met.shape[0]), np.uint64(met.shape[1])
    if n_varying <= 1:
        for idx in range(n_grid):
            row = np.uint64(at[varying[0], idx])
            for tree in range(n_trees):
                met[idx, tree] = words[tree] & masks[row, tree]
        return
    for idx in range(n_grid):
        row_0, row_1 = np.uint64(at[varying[0], idx]), np.uint64(at[varying[1], idx])
        row_2 = np.uint64(at[varying[2], idx])
        for tree in range(n_trees):
            met[idx, tree] = words[tree] & masks[row_0, tree] & masks[row_1, tree] & masks[row_2, tree]
    for position in range(3, n_varying, 4):
        last = max(n_varying - 1, position + 1)
        for idx in range(n_grid):
            row_0, row_1 = np.uint64(at[varying[position], idx]), np.uint64(at[varying[position + 1], idx])
            row_2 = np.uint64(at[varying[min(position + 2, last)], idx])
            row_3 = np.uint64(at[varying[min(position + 3, last)], idx])
            for tree in range(n_trees):
                met[idx, tree] &= masks[row_0, tree] & masks[row_1, tree] & masks[row_2, tree] & masks[row_3, tree]


@register_inlined
def interval_scores(forest, words, at, met, scores):
    """Raw scores (K,) of the intervals: words (T,) of the constant features AND the rows `at`, int64 (8, K).

    met: uint64 (K, T), scratch; words are scratch, too.
    """
    masks, leaves, leaf_starts = forest.masks, forest.leaves, forest.leaf_starts
    varying = np.full(9, at.shape[0] - 1)  # the same row twice changes nothing
    n_varying = split_constant(masks, words, at, varying)
    meet(masks, words, at, varying, n_varying, met)
    n_grid, n_trees = len(scores), np.uint64(len(words))
    for idx in range(0, n_grid - 3, 4):  # four at once, so that one sum does not wait for another
        sum_0 = sum_1 = sum_2 = sum_3 = 0.0
        for tree in range(n_trees):
            start = np.uint64(leaf_starts[tree])
            sum_0 += leaves[start + lowest_bit(met[idx, tree])]
            sum_1 += leaves[start + lowest_bit(met[idx + 1, tree])]
            sum_2 += leaves[start + lowest_bit(met[idx + 2, tree])]
            sum_3 += leaves[start + lowest_bit(met[idx + 3, tree])]
        scores[idx], scores[idx + 1], scores[idx + 2], scores[idx + 3] = sum_0, sum_1, sum_2, sum_3
    for idx in range(n_grid - n_grid % 4, n_grid):
        total = 0.0
        for tree in range(n_trees):
            total += leaves[np.uint64(leaf_starts[tree]) + lowest_bit(met[idx, tree])]
        scores[idx] = total


@kernel
def interval_rows(forest_parts, bins_parts, at, n_features, rows, scores):
    """`interval_scores` of each row of a matrix; scores: float64 (n, K). at: int64 (8, K), see `interval_masks`."""
    forest, bins = LeafMasks(*forest_parts), AgeBins(*bins_parts)
    at = at.copy()  # other threads use it, too
    scratch = np.empty((scores.shape[1] + 1, len(forest.leaf_starts)), np.uint64)
    met, words = scratch[:-1], scratch[-1]
    for idx in range(len(rows)):
        narrow(forest, rows[idx], n_features, words)
        fill_age_rows(bins, rows[idx], at)
        interval_scores(forest, words, at, met, scores[idx])


@kernel
def step_rows(forest_parts, lows, highs, n_features, rows, scores):
    """`step_scores` of each row of a matrix; scores: float64 (n, K), zeros on entry."""
    forest = LeafMasks(*forest_parts)
    words = np.empty(len(forest.leaf_starts), np.uint64)
    for idx in range(len(rows)):
        narrow(forest, rows[idx], n_features, words)
        step_scores(words, forest.leaves, forest.leaf_starts, lows, highs, scores[idx])
