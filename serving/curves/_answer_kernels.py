"""Compiled first answers: a request's features, the leaves they leave of each tree, and its curve, in one call.

Imported only where numba is installed. Slow twins: `Encoder.encode` and `CurveBuilder.curve`.
"""

from __future__ import annotations

import numpy as np

from sojourn.serving.curves.curve_arrays import n_at_most
from sojourn.serving.curves.formulas import fill_hazard, hazard_remaining, interval_hazard, mean_seconds
from sojourn.serving.forest.mask_kernels import fill_age_rows, interval_scores, n_below, narrow, step_scores
from sojourn.serving.inputs import CATEGORY_FEATURES, OWNER_FEATURES, fill_category_features, fill_owner_features
from sojourn.serving.kernel import kernel

N_OWNER, N_CATEGORY = len(OWNER_FEATURES), len(CATEGORY_FEATURES)


@kernel
def section(values, bounds, number):
    """One of the parts that an array is made of."""
    return values[bounds[number]:bounds[number + 1]]


@kernel
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


@kernel
def encode_and_narrow(ints, int_bounds, floats, float_bounds, masks, history_rows, asked, features, words):
    """What both kinds of answers begin with: a request's features, and the leaves that they leave of each tree."""
    constants = section(floats, float_bounds, 2)
    encode(asked, ints[:2], section(ints, int_bounds, 0), section(ints, int_bounds, 1), constants, history_rows,
           features)
    words[:] = masks[-1]
    narrow(masks, section(floats, float_bounds, 0), section(ints, int_bounds, 2), section(ints, int_bounds, 3),
           features, 0, len(features), words)


@kernel
def hazard_answer(ints, floats, masks, turn_rows, history_rows, asked, answer):
    """A hazard model's whole answer to one request: its curve's numbers, (4, K + 1), and its features, into answer.

    ints, floats: see `first_answer.FirstAnswer`. asked: see `encode`.
    """
    int_bounds, float_bounds = ints[2:11], ints[11:18]
    edges, offsets = section(floats, float_bounds, 5), section(floats, float_bounds, 4)
    n_edges, n_grid = len(edges), len(offsets)
    features = answer[4 * n_edges:]
    scratch = np.empty((n_grid + 1, masks.shape[1]), np.uint64)
    words = scratch[n_grid]
    encode_and_narrow(ints, int_bounds, floats, float_bounds, masks, history_rows, asked, features, words)
    at = section(ints, int_bounds, 7).copy().reshape(8, n_grid)
    sources, turn_starts = section(ints, int_bounds, 5), section(ints, int_bounds, 6)
    fill_age_rows(section(floats, float_bounds, 3), turn_starts, turn_rows, sources, features, at)
    scores = np.empty(n_grid)
    interval_scores(masks, words, at, section(floats, float_bounds, 1), section(ints, int_bounds, 4), scratch[:n_grid],
                    scores)
    for idx in range(n_grid):
        scores[idx] = interval_hazard(scores[idx], offsets[idx])
    numbers = answer[:4 * n_edges].reshape(4, n_edges)
    tail_s = floats[float_bounds[2] + 1]
    fill_hazard(scores, edges, tail_s, numbers[0], numbers[1], numbers[2], numbers[3])


@kernel
def step_answer(ints, floats, masks, turn_rows, history_rows, asked, answer):
    """A point model's whole answer to one request: its score at each of K steps, and its features, into answer.

    ints, floats: see `first_answer.FirstAnswer`. asked: see `encode`.
    """
    int_bounds, float_bounds = ints[2:10], ints[10:15]
    n_grid = np.int64(floats[float_bounds[2] + 1])
    scores, features = answer[:n_grid], answer[n_grid:]
    words = np.empty(masks.shape[1], np.uint64)
    encode_and_narrow(ints, int_bounds, floats, float_bounds, masks, history_rows, asked, features, words)
    scores[:] = 0.0
    step_scores(words, section(floats, float_bounds, 1), section(ints, int_bounds, 4), section(ints, int_bounds, 5),
                section(ints, int_bounds, 6), scores)


@kernel
def hazard_remaining_rows(ints, floats, masks, turn_rows, history_rows, asked, uptimes_s, remaining_s, answer):
    """Mean remaining whole seconds of requests (n,) at one uptime each, by `hazard_answer`; asked: a row of it each."""
    edges = section(floats, ints[11:18], 5)
    numbers = answer[:4 * len(edges)].reshape(4, len(edges))
    for idx in range(len(asked)):
        hazard_answer(ints, floats, masks, turn_rows, history_rows, asked[idx], answer)
        interval = n_at_most(edges, uptimes_s[idx]) - 1
        left_s = hazard_remaining(edges, numbers[0], numbers[2], numbers[3], interval, uptimes_s[idx])
        remaining_s[idx] = np.rint(left_s)


@kernel
def step_remaining_rows(ints, floats, masks, turn_rows, history_rows, asked, uptimes_s, remaining_s, answer):
    """The same of a point model, by `step_answer`; of a one-shot model, which has no steps, the whole lifetime."""
    float_bounds = ints[10:15]
    steps = section(floats, float_bounds, 3)
    smearing = floats[float_bounds[2] + 2]
    for idx in range(len(asked)):
        step_answer(ints, floats, masks, turn_rows, history_rows, asked[idx], answer)
        remaining_s[idx] = np.rint(mean_seconds(answer[n_below(steps, 0, len(steps), uptimes_s[idx])], smearing))
