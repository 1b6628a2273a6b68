"""Forests at the edge of what is accepted, and every compiled walk over them beside its slow twin.

`python tests/hostile_forests.py N` walks N of each kind: under NUMBA_BOUNDSCHECK=1 an index out of range raises.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import naive_forest
from made_forests import NUMBERS, made_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.forest import (
    LARGEST,
    LEQ,
    MEMBER,
    NO_AGE_FEATURES,
    AgeFeatures,
    Forest,
    MaskWalk,
    mask_kernels,
    varying_walk,
)
from sojourn.serving.forest.leaf_masks import leaf_masks
from sojourn.serving.forest.walks import RangeWalk
from sojourn.serving.inputs import HistoryState, Parsed
from sojourn.serving.native import NATIVE

SPLITS = (np.inf, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), 2.0**53, 1e-35, -1e-35)
VALUES = (*SPLITS, np.nan, -np.inf, 3.0, 1e12)
KEYS = [{"name": "a", "columns": ["a"], "kind": "owner"}, {"name": "b+c", "columns": ["b", "c"], "kind": "category"}]


def edge_forest(rng: np.random.Generator, n_features: int, n_fixed: int, has_sets: bool) -> Forest:
    """Trees of one node to many, bushes, chains and twins; features from `n_fixed` on are steps."""
    columns: list[list[Any]] = [[] for _ in range(6)]
    sets: list[list[float]] = []
    roots, n_leaves = [], 0
    for _ in range(int(rng.choice([1, 2, 3, 70]))):
        n_nodes = int(rng.choice([1, 2, 5, 63, 64, 200])) if rng.random() < 0.3 else int(rng.integers(1, 8))
        first = len(columns[0])
        roots.append(first)
        is_chain = rng.random() < 0.5
        own = rng.integers(n_features) if rng.random() < 0.3 else None
        free: list[tuple[int, int]] = []
        for node in range(first, first + n_nodes):
            feature = int(rng.integers(n_features) if own is None else own)
            is_member = has_sets and feature < n_fixed and rng.random() < 0.3
            split = float(rng.choice(SPLITS) if rng.random() < 0.6 else rng.normal() * 10.0 ** rng.integers(-3, 7))
            for column, value in zip(columns, (feature, 0.0 if is_member else split, MEMBER if is_member else LEQ, 0, 0,
                                               bool(rng.integers(2))), strict=True):  # fmt: skip
                column.append(value)
            sets.append(rng.choice(SPLITS[1:], rng.integers(1, 4), replace=False).tolist() if is_member else [])
            if node > first:
                parent, side = free.pop(-1 if is_chain else int(rng.integers(len(free))))
                columns[side][parent] = node
            free += [(node, side) for side in rng.permutation([3, 4]).tolist()]
        for parent, side in free:
            columns[side][parent] = ~n_leaves
            n_leaves += 1
    is_zero_missing = np.zeros(n_features, bool)
    is_zero_missing[:2] = rng.random(2) < 0.5
    return Forest(
        n_features, np.array(roots), np.array(columns[0]), np.array(columns[1], float), np.array(columns[2], np.uint8),
        np.array(columns[3]), np.array(columns[4]), np.array(columns[5], bool),
        rng.choice([-1e12, 1e12, 0.0, -0.0, 5e-324, 0.25, -3.0], n_leaves),
        np.concatenate([[0], np.cumsum([len(members) for members in sets])]).astype(np.int64),
        np.array([value for members in sets for value in members], float), is_zero_missing,
    )  # fmt: skip


def edge_rows(rng: np.random.Generator, forest: Forest, n: int) -> np.ndarray:
    """Rows float64 (n, n_features): the forest's own thresholds, and what is largest, smallest or missing."""
    pool = np.concatenate([forest.split, np.nextafter(forest.split, -np.inf), VALUES])
    return rng.choice(pool, (n, forest.n_features))


def check_walks(rng: np.random.Generator) -> None:
    """Both walks of a forest, with and without what is set against the age, have the bits of the slow twin."""
    n_ages = int(rng.choice([0, 0, 1, 2, 7, 8, 11]))
    n_grid = int(rng.choice([1, 2, 3, 4, 5, 40]))
    n_fixed = int(rng.integers(2, 5))
    forest = edge_forest(rng, n_fixed + n_ages + 1, n_fixed, has_sets=rng.random() < 0.3)
    ages_s = np.sort(rng.choice([1e-3, 0.5, 1.0, 7.0, 60.0, 3_600.0, 1e12], min(n_grid, 7), replace=False))
    ages_s = np.unique(np.concatenate([ages_s, 2.0 + np.arange(n_grid - len(ages_s))])) if n_grid > 7 else ages_s
    n_grid = len(ages_s)
    sources = tuple(int(idx) for idx in rng.integers(0, n_fixed, n_ages))
    ages = NO_AGE_FEATURES
    if n_ages:
        forest.is_zero_missing[list(sources)] = False
        ages = AgeFeatures(sources, tuple(bool(log) for log in rng.integers(0, 2, n_ages)), tuple(ages_s.tolist()),
                           tuple(np.log10(ages_s).tolist()))
    grid = np.arange(n_grid, dtype=float) if n_ages else np.append(forest.splits_on(n_fixed), np.inf)
    rows = edge_rows(rng, forest, 4)
    expected = []
    for row in rows[:, :n_fixed]:
        repeated = np.tile(row, (len(grid), 1))
        whole = np.column_stack([ages.rows(repeated, np.arange(len(grid)))[:, :-1] if n_ages else repeated, grid])
        expected.append([naive_forest.forest_score(forest, each) for each in whole.tolist()])
    assert RangeWalk(forest, grid, ages).scores(rows).tolist() == expected
    walk = varying_walk(forest, grid, ages)
    assert walk.scores(rows).tolist() == expected
    masks = leaf_masks(forest)
    if masks is None:
        assert isinstance(walk, RangeWalk)
        return
    assert isinstance(walk, MaskWalk) == (n_ages < 8)
    scores = np.empty(len(rows))
    mask_kernels.score_rows(masks, rows, scores)
    assert scores.tolist() == [naive_forest.forest_score(forest, row) for row in rows.tolist()]


def check_first_answer(rng: np.random.Generator) -> None:
    """The compiled way from a request to its curve has the bits of the long way, with odd histories and clocks."""
    kind = str(rng.choice(["hazard", "uptime", "once"]))
    n_varying = {"hazard": 3, "uptime": 1, "once": 0}[kind]
    n_features = len(NUMBERS) + 2 + 15 + 2 + n_varying
    forest = edge_forest(rng, n_features, n_features - n_varying, has_sets=False)
    if kind == "uptime":  # a bundle with steps beyond what is taken is refused
        is_step = forest.feature == n_features - 1
        forest.split[is_step] = np.clip(forest.split[is_step], -LARGEST, LARGEST)
    forest.is_zero_missing[2:4] = False
    phase_s = int(rng.choice([0, 1, -1, 2**53, -(2**53), 5 * 86_400]))
    window, batch_gap_s = int(rng.choice([1, 16, 10_000])), int(rng.choice([0, 300, 2**53]))
    history = {"keys": KEYS, "window": window, "batch_gap_s": batch_gap_s, "category_memory": 1, "n_keys_max": 2,
               "prior_strength": float(rng.choice([0.0, 1e-300, 20.0, 1e12]))}
    tail_s = float(rng.choice([1.0, 5e5, 1e12]))
    bundle = made_bundle(forest, kind, history=history, phase_s=phase_s, tail_s=tail_s)
    schema, builder = bundle.schema, CurveBuilder(bundle.schema, bundle.model)
    slow = CurveBuilder(schema, bundle.model, is_compiled=False)
    state = HistoryState(schema.encoder.history)
    now_s = int(rng.choice([0, -(2**53) + 1, 10**6, 2**52]))
    for _ in range(12):
        now_s = min(now_s + int(rng.choice([0, 1, 300, 86_400, 2**40])), 2**53 - 1)
        request = {name: float(value) for name, value in zip(NUMBERS, rng.choice(VALUES, 4), strict=True)
                   if np.isfinite(value)}  # fmt: skip
        parsed = schema.encoder.parse(request)
        features = schema.encoder.encode(parsed, now_s, state)
        curves = [builder.curve(features), slow.curve(features)]
        if builder.first is not None:
            curves += _first_curves(builder, request, parsed, now_s, state, features)
        assert (builder.first is None) == (NATIVE is None or leaf_masks(forest, schema.numbers.age_features) is None)
        assert all(curve == curves[0] for curve in curves)
        for curve in curves:
            assert [curve.remaining(uptime_s) for uptime_s in (0.0, 30.0, 1e5, 1e9)] == [
                curves[-1].remaining(uptime_s) for uptime_s in (0.0, 30.0, 1e5, 1e9)]  # fmt: skip
        receipt = state.admit(parsed.keys, now_s)
        if rng.random() < 0.7:
            state.ended(receipt, min(now_s + int(rng.choice([0, 5, 10**7])), 2**53 - 1))


def _first_curves(builder: CurveBuilder, request: dict[str, float], parsed: Parsed, now_s: int, state: HistoryState,
                  features: list[float]) -> list[Any]:
    """The extension's curves, from the dict and from what Python read of it."""
    history = (state.moments, state.tables, state.rows.view)
    answers = [builder.first.answer(parsed.numbers, parsed.keys, now_s, *history)[0]]
    found = builder.first.first(request, now_s, *history)
    if found is not None:  # not plain, such as a negative size
        answer, keys, unknown = found
        assert (keys, unknown[:len(parsed.unknown)]) == (parsed.keys, parsed.unknown)
        answers.append(answer)
    for answer in answers:
        assert np.frombuffer(answer)[builder.n_before:].tobytes() == np.array(features).tobytes()
    return [builder.curve_of(answer) for answer in answers]


if __name__ == "__main__":
    for seed in range(int(sys.argv[1])):
        check_walks(np.random.default_rng(seed))
        check_first_answer(np.random.default_rng(seed))
    print("ok")
