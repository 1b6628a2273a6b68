"""Compiled walks over a forest's leaf masks; imported only where numba is installed. Slow twins: tests/naive_forest.py.

`starts` and `turn_starts` part the thresholds and turns by feature, `masks` has each feature's bins in `starts` order:
see `leaf_masks`. Sums run over the trees from the first to the last, as everywhere.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sojourn.serving.curve import fill_hazard, interval_hazard
from sojourn.serving.forest import ZERO
from sojourn.serving.history import CATEGORY_FEATURES
from sojourn.serving.history_rows import fill_category_features
from sojourn.serving.owner import OWNER_FEATURES, fill_owner_features

N_OWNER, N_CATEGORY = len(OWNER_FEATURES), len(CATEGORY_FEATURES)


@intrinsic
def lowest_bit(typing_context, word):
    """The place of the lowest set bit of a word that has one: int64."""
    def code(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


@njit(cache=True, nogil=True)
def n_below(values, start, stop, value):
    """How many of values[start:stop], rising, are below a value; without branches that depend on it."""
    n = stop - start
    if n == 0:
        return 0
    base = start
    while n > 1:
        half = n >> 1
        base = base + half if values[base + half - 1] < value else base
        n -= half
    return base - start + (1 if values[base] < value else 0)


@njit(cache=True, nogil=True)
def narrow(masks, thresholds, starts, is_zero_missing, row, first, stop, words):
    """AND the masks of a row's features from `first` to `stop` into words, uint64 (T,)."""
    for feature in range(first, stop):
        start, end = starts[feature], starts[feature + 1]
        if start == end:
            continue
        value = row[feature]
        if np.isnan(value) or (is_zero_missing[feature] and abs(value) <= ZERO):
            idx = end + 2 * feature + 1
        else:
            idx = start + 2 * feature + n_below(thresholds, start, end, value)
        mask = masks[idx]
        for tree in range(len(words)):
            words[tree] &= mask[tree]


@njit(cache=True, nogil=True)
def score_rows(masks, thresholds, starts, is_zero_missing, leaves, leaf_starts, rows, scores):
    """Raw scores float64 (n,) of whole rows (n, F)."""
    words = np.empty(len(leaf_starts), np.uint64)
    for idx in range(len(rows)):
        words[:] = masks[-1]
        narrow(masks, thresholds, starts, is_zero_missing, rows[idx], 0, rows.shape[1], words)
        total = 0.0
        for tree in range(len(words)):
            total += leaves[leaf_starts[tree] + lowest_bit(words[tree])]
        scores[idx] = total


@njit(cache=True, nogil=True)
def step_scores(words, leaves, leaf_starts, lows, highs, scores):
    """Raw scores for every bin of one feature, added to scores (K,), zeros on entry.

    words: what all other features leave, uint64 (T,), cleared on return. lows, highs: each leaf's bins.
    """
    for tree in range(len(words)):
        word = words[tree]
        while word != np.uint64(0):
            leaf = leaf_starts[tree] + lowest_bit(word)
            word &= word - np.uint64(1)
            value = leaves[leaf]
            for idx in range(lows[leaf], highs[leaf]):
                scores[idx] += value


@njit(cache=True, nogil=True)
def fill_age_rows(turns, turn_starts, turn_rows, sources, row, at):
    """For each age feature the row of its masks at every age, into at, int64 (8, K)."""
    for position in range(len(sources)):
        start, stop = turn_starts[position], turn_starts[position + 1]
        value = row[sources[position]]
        n = stop - start + 1 if np.isnan(value) else n_below(turns, start, stop, value)
        at[position] = turn_rows[start + 2 * position + n]


@njit(cache=True, nogil=True)
def interval_scores(masks, words, at, leaves, leaf_starts, pairs, scores):
    """Raw scores (K,) of the intervals: words (T,) of what does not vary, ANDed with the rows `at`, int64 (8, K).

    pairs: uint64 (4, T), scratch. Four intervals at once, so that one sum does not wait for another.
    """
    n_grid, n_trees = len(scores), len(words)
    for first in range(0, n_grid, 4):
        n = min(4, n_grid - first)
        for part in range(4):
            idx = first + min(part, n - 1)
            mask_0, mask_1, mask_2, mask_3 = masks[at[0, idx]], masks[at[1, idx]], masks[at[2, idx]], masks[at[3, idx]]
            mask_4, mask_5, mask_6, mask_7 = masks[at[4, idx]], masks[at[5, idx]], masks[at[6, idx]], masks[at[7, idx]]
            pair = pairs[part]
            for tree in range(n_trees):  # in two loops: of more arrays at once the compiler makes no vector code
                pair[tree] = words[tree] & mask_0[tree] & mask_1[tree] & mask_2[tree] & mask_3[tree]
            for tree in range(n_trees):
                pair[tree] &= mask_4[tree] & mask_5[tree] & mask_6[tree] & mask_7[tree]
        sum_0 = sum_1 = sum_2 = sum_3 = 0.0
        for tree in range(n_trees):
            start = leaf_starts[tree]
            sum_0 += leaves[start + lowest_bit(pairs[0, tree])]
            sum_1 += leaves[start + lowest_bit(pairs[1, tree])]
            sum_2 += leaves[start + lowest_bit(pairs[2, tree])]
            sum_3 += leaves[start + lowest_bit(pairs[3, tree])]
        scores[first] = sum_0
        if n > 1:
            scores[first + 1] = sum_1
        if n > 2:
            scores[first + 2] = sum_2
        if n > 3:
            scores[first + 3] = sum_3


@njit(cache=True, nogil=True)
def section(values, bounds, number):
    """One of the parts that an array is made of."""
    return values[bounds[number]:bounds[number + 1]]


@njit(cache=True, nogil=True)
def encode(asked, sizes, clock, is_owner, constants, history_rows, features):
    """The encoder's features of a request, into features; see `encoder.Encoder.encode`.

    asked: float64, the time in s, the overall mean, the numbers, then the slot of each history key.
    sizes: number of numbers, of keys. clock: phase in s, batch gap in s, window. constants[0]: the prior's strength.
    """
    n_numbers, n_keys = sizes[0], sizes[1]
    now_s, overall = asked[0], asked[1]
    for idx in range(n_numbers):
        features[idx] = asked[2 + idx]
    second = np.int64(now_s) + clock[0]
    features[n_numbers] = (second % 86_400) / 3_600.0
    features[n_numbers + 1] = float(second // 86_400 % 7)
    at = n_numbers + 2
    for idx in range(n_keys):
        row = history_rows[np.int64(asked[2 + n_numbers + idx])]
        if is_owner[idx]:
            fill_owner_features(row, now_s, float(clock[1]), features, at)
            at += N_OWNER
        else:
            fill_category_features(row, overall, constants[0], float(clock[2]), features, at)
            at += N_CATEGORY


@njit(cache=True, nogil=True)
def hazard_answer(ints, floats, masks, turn_rows, history_rows, asked, answer):
    """A hazard model's whole answer to one request: its curve's numbers, (4, K + 1), and its features, into answer.

    ints, floats: see `first_answer.FirstAnswer`. asked: see `encode`.
    """
    sizes = ints[:4]
    int_bounds, float_bounds = ints[4:13], ints[13:20]
    edges = section(floats, float_bounds, 4)
    n_edges = len(edges)
    n_grid, n_features, n_trees = n_edges - 1, sizes[2], masks.shape[1]
    features = answer[4 * n_edges:]
    constants = section(floats, float_bounds, 5)
    encode(asked, sizes, section(ints, int_bounds, 0), section(ints, int_bounds, 1), constants, history_rows, features)
    starts, is_zero_missing = section(ints, int_bounds, 2), section(ints, int_bounds, 3)
    sources, turn_starts = section(ints, int_bounds, 4), section(ints, int_bounds, 5)
    leaf_starts = section(ints, int_bounds, 6)
    scratch = np.empty((5, n_trees), np.uint64)
    words = scratch[4]
    words[:] = masks[-1]
    narrow(masks, section(floats, float_bounds, 0), starts, is_zero_missing, features, 0, n_features, words)
    at = section(ints, int_bounds, 7).copy().reshape(8, n_grid)
    fill_age_rows(section(floats, float_bounds, 1), turn_starts, turn_rows, sources, features, at)
    scores = np.empty(n_grid)
    interval_scores(masks, words, at, section(floats, float_bounds, 2), leaf_starts, scratch, scores)
    offsets = section(floats, float_bounds, 3)
    for idx in range(n_grid):
        scores[idx] = interval_hazard(scores[idx], offsets[idx])
    numbers = answer[:4 * n_edges].reshape(4, n_edges)
    fill_hazard(scores, edges, constants[1], numbers[0], numbers[1], numbers[2], numbers[3])


@njit(cache=True, nogil=True)
def interval_rows(masks, thresholds, starts, is_zero_missing, leaves, leaf_starts, turns, turn_starts, turn_rows,
                  sources, at, n_features, rows, scores):
    """`interval_scores` of each row of a matrix; scores: float64 (n, K). at: int64 (8, K), scratch but for its last."""
    scratch = np.empty((5, len(leaf_starts)), np.uint64)
    words = scratch[4]
    for idx in range(len(rows)):
        words[:] = masks[-1]
        narrow(masks, thresholds, starts, is_zero_missing, rows[idx], 0, n_features, words)
        fill_age_rows(turns, turn_starts, turn_rows, sources, rows[idx], at)
        interval_scores(masks, words, at, leaves, leaf_starts, scratch, scores[idx])


@njit(cache=True, nogil=True)
def step_rows(masks, thresholds, starts, is_zero_missing, leaves, leaf_starts, lows, highs, n_features, rows, scores):
    """`step_scores` of each row of a matrix; scores: float64 (n, K), zeros on entry."""
    words = np.empty(len(leaf_starts), np.uint64)
    for idx in range(len(rows)):
        words[:] = masks[-1]
        narrow(masks, thresholds, starts, is_zero_missing, rows[idx], 0, n_features, words)
        step_scores(words, leaves, leaf_starts, lows, highs, scores[idx])
