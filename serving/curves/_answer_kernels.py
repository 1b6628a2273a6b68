"""Compiled first answers: a request's features, the leaves that they reach, and its curve, in one call.

Imported only if numba is installed. Slow twins: `Encoder.encode` and `CurveBuilder.curve`. `model`
is a `PackedModel`; kernels that Python calls take its four arrays as arguments.
"""

from __future__ import annotations

import numpy as np

from sojourn.serving.curves.curve_arrays import n_at_most
from sojourn.serving.curves.formulas import (
    AFTER,
    CUMULATIVE,
    GAPS,
    N_HAZARD,
    RATES,
    fill_hazard,
    fill_limit_axis,
    hazard_remaining,
    interval_hazard,
    mean_seconds,
    mixed_hazard,
    table_row,
    unread_intervals,
)
from sojourn.serving.curves.packed_model import (
    AGE_ROWS,
    ASKED_NUMBERS,
    ASKED_S,
    BATCH_GAP_S,
    CONSTANTS,
    EDGES,
    ENCODER,
    IS_OWNER,
    KNOWN,
    LEAF_HIGHS,
    LEAF_LOWS,
    LIMIT_PLACE,
    LOOKUP,
    OFFSETS,
    OVERALL,
    PHASE_S,
    PRIOR_STRENGTH,
    SHARES,
    SMEARING,
    STEPS,
    TAIL_S,
    WEIGHTS,
    WINDOW,
    PackedModel,
    bins_of,
    float_part,
    masks_of,
    whole_part,
)
from sojourn.serving.forest import N_VARYING_MAX
from sojourn.serving.forest.mask_kernels import fill_age_rows, interval_scores, n_below, narrow, step_scores
from sojourn.serving.inputs import (
    CATEGORY_FEATURES,
    OWNER_FEATURES,
    fill_category_features,
    fill_limit_features,
    fill_owner_features,
)
from sojourn.serving.kernel import kernel, register_inlined

N_OWNER, N_CATEGORY = len(OWNER_FEATURES), len(CATEGORY_FEATURES)


@kernel
def encode(model, history_rows, inputs, features):
    """Write the encoder's features of a request to `features`; see `encoder.Encoder.encode`.

    inputs: float64, see `packed_model.ASKED_S`.
    """
    encoder, is_owner = whole_part(model, ENCODER), whole_part(model, IS_OWNER)
    prior_strength = float_part(model, CONSTANTS)[PRIOR_STRENGTH]
    n_keys = len(is_owner)
    n_numbers = len(inputs) - ASKED_NUMBERS - n_keys
    now_s, overall = inputs[ASKED_S], inputs[OVERALL]
    for idx in range(n_numbers):
        features[idx] = inputs[ASKED_NUMBERS + idx]
    second = np.int64(now_s) + encoder[PHASE_S]
    features[n_numbers] = (second % 86_400) / 3_600.0
    features[n_numbers + 1] = float(second // 86_400 % 7)
    at = n_numbers + 2
    for idx in range(n_keys):
        row = history_rows[np.int64(inputs[ASKED_NUMBERS + n_numbers + idx])]
        if is_owner[idx]:
            fill_owner_features(row, now_s, float(encoder[BATCH_GAP_S]), features, at)
            at += N_OWNER
        else:
            fill_category_features(row, overall, prior_strength, float(encoder[WINDOW]), features, at)
            at += N_CATEGORY
    if encoder[LIMIT_PLACE] >= 0:
        fill_limit_features(features[encoder[LIMIT_PLACE]], is_owner, N_OWNER, N_CATEGORY, n_numbers + 2, features, at)


@register_inlined
def encoded_hazards(model, history_rows, inputs, features, first_off, n_off):
    """Write the request's features to `features`; its hazards in each interval of the model, float64 (J,).

    n_off intervals from first_off on are not computed; their hazards are 0.
    """
    forest, masks, offsets = masks_of(model), model.masks, float_part(model, OFFSETS)
    n_grid = len(offsets)
    n_read = n_grid - n_off
    scratch = np.empty((n_read + 1, masks.shape[1]), np.uint64)
    words = scratch[n_read]
    encode(model, history_rows, inputs, features)
    narrow(forest, features, len(features), words)
    at = whole_part(model, AGE_ROWS).copy().reshape(N_VARYING_MAX, n_grid)
    fill_age_rows(bins_of(model), features, at)
    if n_off > 0:
        every, at = at, np.empty((N_VARYING_MAX, n_read), np.int64)
        for feature in range(N_VARYING_MAX):
            for idx in range(n_read):
                at[feature, idx] = every[feature, idx if idx < first_off else idx + n_off]
    scores, read_scores = np.zeros(n_grid), np.empty(n_read)
    interval_scores(forest, words, at, scratch[:n_read], read_scores)
    for idx in range(n_read):
        target = idx if idx < first_off else idx + n_off
        scores[target] = interval_hazard(read_scores[idx], offsets[target])
    table = float_part(model, KNOWN)
    if len(table) > 0:
        place, weights = whole_part(model, LOOKUP)[0], float_part(model, WEIGHTS)
        target = table_row(features[place], len(table) // n_grid) * n_grid
        for idx in range(n_grid):
            scores[idx] = mixed_hazard(scores[idx], weights[idx], table[target + idx])
    return scores


@kernel
def hazard_answer(whole, floats, masks, turn_rows, history_rows, inputs, answer):
    """Write a hazard model's answer to one request: the numbers of its curve, (4, J + 1), then its features.

    inputs: see `encode`.
    """
    model = PackedModel(whole, floats, masks, turn_rows)
    edges = float_part(model, EDGES)
    n_edges = len(edges)
    scores = encoded_hazards(model, history_rows, inputs, answer[N_HAZARD * n_edges:], n_edges - 1, 0)
    numbers = answer[:N_HAZARD * n_edges].reshape(N_HAZARD, n_edges)
    tail_s = float_part(model, CONSTANTS)[TAIL_S]
    fill_hazard(scores, edges, tail_s, numbers[RATES], numbers[CUMULATIVE], numbers[AFTER], numbers[GAPS])


@kernel
def limit_answer(whole, floats, masks, turn_rows, history_rows, inputs, answer):
    """The same for a model with limit axis: the numbers, (4, J + K + 1), the request's edges, then its features."""
    model = PackedModel(whole, floats, masks, turn_rows)
    n_edges = len(float_part(model, OFFSETS)) + 1
    limit_s = inputs[ASKED_NUMBERS + whole_part(model, ENCODER)[LIMIT_PLACE]]
    edges, shares = float_part(model, EDGES), float_part(model, SHARES)
    first_off, n_off = unread_intervals(edges, shares, limit_s)
    scores = encoded_hazards(model, history_rows, inputs, answer[(N_HAZARD + 1) * n_edges:], first_off, n_off)
    numbers = answer[:(N_HAZARD + 1) * n_edges].reshape(N_HAZARD + 1, n_edges)
    tail_s, hazards = float_part(model, CONSTANTS)[TAIL_S], np.empty(n_edges - 1)
    fill_limit_axis(scores, edges, shares, limit_s, tail_s, numbers[N_HAZARD], hazards)
    fill_hazard(hazards, numbers[N_HAZARD], tail_s, numbers[RATES], numbers[CUMULATIVE], numbers[AFTER], numbers[GAPS])


@kernel
def step_answer(whole, floats, masks, turn_rows, history_rows, inputs, answer):
    """Write a point model's answer to one request: its score at each of K steps, then its features.

    inputs: see `encode`.
    """
    model = PackedModel(whole, floats, masks, turn_rows)
    forest = masks_of(model)
    n_grid = len(float_part(model, STEPS)) + 1
    scores, features = answer[:n_grid], answer[n_grid:]
    words = np.empty(masks.shape[1], np.uint64)
    encode(model, history_rows, inputs, features)
    narrow(forest, features, len(features), words)
    scores[:] = 0.0
    lows, highs = whole_part(model, LEAF_LOWS), whole_part(model, LEAF_HIGHS)
    step_scores(words, forest.leaves, forest.leaf_starts, lows, highs, scores)


@kernel
def hazard_remaining_rows(model_parts, history_rows, inputs, uptimes_s, remaining_s, answer):
    """Mean remaining whole seconds (n,) of requests at one uptime each, by `hazard_answer`; inputs: a row each."""
    whole, floats, masks, turn_rows = model_parts
    edges = float_part(PackedModel(whole, floats, masks, turn_rows), EDGES)
    numbers = answer[:N_HAZARD * len(edges)].reshape(N_HAZARD, len(edges))
    for idx in range(len(inputs)):
        hazard_answer(whole, floats, masks, turn_rows, history_rows, inputs[idx], answer)
        interval = n_at_most(edges, uptimes_s[idx]) - 1
        left_s = hazard_remaining(edges, numbers[RATES], numbers[AFTER], numbers[GAPS], interval, uptimes_s[idx])
        remaining_s[idx] = np.rint(left_s)


@kernel
def limit_remaining_rows(model_parts, history_rows, inputs, uptimes_s, remaining_s, answer):
    """The same with `limit_answer`."""
    whole, floats, masks, turn_rows = model_parts
    n_edges = len(float_part(PackedModel(whole, floats, masks, turn_rows), OFFSETS)) + 1
    numbers = answer[:(N_HAZARD + 1) * n_edges].reshape(N_HAZARD + 1, n_edges)
    for idx in range(len(inputs)):
        limit_answer(whole, floats, masks, turn_rows, history_rows, inputs[idx], answer)
        interval = n_at_most(numbers[N_HAZARD], uptimes_s[idx]) - 1
        left_s = hazard_remaining(numbers[N_HAZARD], numbers[RATES], numbers[AFTER], numbers[GAPS], interval,
                                  uptimes_s[idx])
        remaining_s[idx] = np.rint(left_s)


@kernel
def step_remaining_rows(model_parts, history_rows, inputs, uptimes_s, remaining_s, answer):
    """The same for a point model, with `step_answer`; for a one-shot model, without steps, the whole lifetime."""
    whole, floats, masks, turn_rows = model_parts
    model = PackedModel(whole, floats, masks, turn_rows)
    steps, smearing = float_part(model, STEPS), float_part(model, CONSTANTS)[SMEARING]
    for idx in range(len(inputs)):
        step_answer(whole, floats, masks, turn_rows, history_rows, inputs[idx], answer)
        remaining_s[idx] = np.rint(mean_seconds(answer[n_below(steps, 0, len(steps), uptimes_s[idx])], smearing))
