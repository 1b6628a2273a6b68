"""Leaf masks: which forests have them, and the one bit that they leave."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_forest
from made_forests import comb
from sojourn.serving.forest import MEMBER, AgeFeatures, Forest, LeafMasks, MaskWalk, varying_walk
from sojourn.serving.forest import leaf_masks as leaf_mask_module
from sojourn.serving.forest.leaf_masks import age_bins, leaf_masks
from sojourn.serving.forest.mask_kernels import score_rows
from sojourn.serving.forest.walks import RangeWalk


def scored(masks: LeafMasks, rows: np.ndarray) -> list[float]:
    scores = np.empty(len(rows))
    score_rows(masks, rows, scores)
    return scores.tolist()


def test_the_masks_of_a_small_tree_by_hand() -> None:
    masks = leaf_masks(comb([1.0, 5.0]))
    assert masks is not None and masks.thresholds.tolist() == [1.0, 5.0] and masks.leaves.tolist() == [0.0, 1.0, 2.0]
    # x <= 1: leaf 0 or, past the first node's true side, nothing else; then what the second node would leave of it
    low, middle, high, nan, other_low, other_nan, every = masks.masks[:, 0].tolist()
    assert (low, middle, high, nan) == (0b001, 0b010, 0b100, 0b100)
    assert other_low == other_nan == every == 0b111


@pytest.mark.parametrize(("n_splits", "is_met"), [(63, True), (64, False)])
def test_a_tree_of_more_than_64_leaves_is_walked_instead(n_splits: int, is_met: bool) -> None:
    forest = comb([float(value) for value in range(n_splits)], feature=1)
    masks = leaf_masks(forest)
    assert (masks is not None) == is_met
    walk = varying_walk(forest, np.array([-1.0, 0.0, 62.5, 63.5, np.inf]))
    assert isinstance(walk, MaskWalk if is_met else RangeWalk)
    assert walk.scores(np.zeros((1, 2)))[0].tolist() == [0.0, 0.0, 63.0, min(64.0, n_splits), n_splits]


def test_a_forest_with_sets_has_no_masks() -> None:
    forest = comb([1.0])
    sets = Forest(2, forest.roots, forest.feature, forest.split, np.array([MEMBER], np.uint8), forest.on_true,
                  forest.on_false, forest.is_nan_true, forest.leaves, np.array([0, 1]), np.array([3.0]),
                  forest.is_zero_missing)
    assert leaf_masks(sets) is None


def test_rows_on_and_one_ulp_beside_each_threshold() -> None:
    rng = np.random.default_rng(0)
    splits = np.unique(np.concatenate([rng.normal(size=40) * 10.0 ** rng.integers(-30, 30, 40), [0.0, np.inf]]))
    forest = comb(rng.permutation(splits).tolist())
    masks = leaf_masks(forest)
    assert masks is not None
    values = np.concatenate([splits, np.nextafter(splits, -np.inf), np.nextafter(splits, np.inf), [np.nan, -0.0]])
    rows = np.column_stack([values, np.zeros(len(values))])
    assert scored(masks, rows) == [naive_forest.forest_score(forest, row) for row in rows.tolist()]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6, unique=True), st.booleans(),
       st.floats(1e-3, 1e6), st.floats(1.0001, 50.0), st.data())
@settings(deadline=None)
def test_a_value_falls_in_the_bins_that_it_has_against_each_age(splits: list[float], is_log: bool, first_s: float,
                                                                factor: float, data: st.DataObject) -> None:
    ages_s = first_s * factor ** np.arange(5)
    ages = AgeFeatures((0,), (is_log,), tuple(ages_s.tolist()), tuple(np.log10(ages_s).tolist()))
    masks = leaf_masks(comb(splits, feature=1))
    assert masks is not None
    turns, turn_starts, rows, _ = age_bins(masks, ages, 1)
    beside = np.concatenate([turns, np.nextafter(turns, -np.inf), np.nextafter(turns, np.inf)]).tolist()
    value = data.draw(st.sampled_from(beside) | st.floats(-1e4, 1e4) | st.just(math.inf))
    found = rows[turn_starts[0] + int((turns < value).sum())] - masks.first_row(1)
    against = value - np.log10(ages_s) if is_log else value / ages_s
    assert found.tolist() == [int((np.array(sorted(splits)) < each).sum()) for each in against]
    assert (rows[-1] - masks.first_row(1) == len(splits) + 1).all()  # NaN


@pytest.mark.parametrize("n", [0, 6, 7, 20])
def test_rows_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    rng = np.random.default_rng(n)
    features, idx, interval = rng.normal(size=(9, 3)), rng.integers(0, 9, n), rng.integers(0, 4, n)
    ages = AgeFeatures((2, 0), (True, False), (1.0, 10.0, 100.0, 1000.0), (0.0, 1.0, 2.0, 3.0))
    monkeypatch.setattr(leaf_mask_module, "_BLOCK", 7)
    known = np.column_stack([features[idx], ages.at(features[idx], interval), interval])
    np.testing.assert_array_equal(ages.rows(features, interval, idx), known)
    np.testing.assert_array_equal(ages.rows(features[idx], interval), known)


def test_threads_walk_without_sharing_scratch() -> None:
    """A row's age bins are its own: two threads that walk different rows of one model get their own scores."""
    forest = comb(np.linspace(0.5, 2.0, 61).tolist(), n_features=3, feature=1)
    ages = AgeFeatures((0,), (False,), tuple(np.linspace(1.0, 30.0, 60).tolist()), tuple(np.linspace(0.0, 1.5, 60)))
    walk = varying_walk(forest, np.arange(60.0), ages)
    assert isinstance(walk, MaskWalk)
    asked = [np.array([[value, 0.0, 0.0]] * 50) for value in (0.0, 40.0)]
    expected = [walk.scores(rows).tobytes() for rows in asked]
    assert expected[0] != expected[1]
    is_right = [True, True]

    def ask(number: int) -> None:
        for _ in range(1_500):
            is_right[number] &= walk.scores(asked[number]).tobytes() == expected[number]

    threads = [threading.Thread(target=ask, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_right == [True, True]
