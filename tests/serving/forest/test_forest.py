"""Forest walks against their slow twin, and the reader of our ONNX file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_forest
from sojourn.models import to_onnx
from sojourn.serving import BundleError
from sojourn.serving.forest import LEQ, MEMBER, AgeFeatures, Forest, OnnxForest, read_forest, varying_walk
from sojourn.serving.forest.walks import RangeWalk

N_FEATURES = 4
SPLITS = [-2.0, -1e-34, 0.0, 1e-34, 0.5, 1.0, 3.0, 7.5]
ARRAYS = ("roots", "feature", "split", "mode", "on_true", "on_false", "is_nan_true", "leaves", "member_start",
          "members", "is_zero_missing")  # fmt: skip


@st.composite
def forests(draw: st.DrawFn, has_sets: bool = True) -> Forest:
    """Random trees; feature 1 may have sets, zeros of feature 0 may be missing, the last one varies."""
    roots: list[int] = []
    nodes: list[list[Any]] = []
    sets: list[list[float]] = []
    leaves: list[float] = []

    def leaf() -> int:
        leaves.append(draw(st.floats(-5.0, 5.0)))
        return ~(len(leaves) - 1)

    def grow(depth: int) -> int:
        node = len(nodes)
        is_member = has_sets and draw(st.integers(0, 3)) == 0
        feature = 1 if is_member else draw(st.integers(0, N_FEATURES - 1))
        nodes.append([feature, 0.0 if is_member else draw(st.sampled_from(SPLITS)), MEMBER if is_member else LEQ,
                      0, 0, not is_member and draw(st.booleans())])  # fmt: skip
        sets.append(sorted(draw(st.sets(st.integers(0, 4), min_size=1, max_size=3))) if is_member else [])
        for side in (3, 4):
            nodes[node][side] = grow(depth + 1) if depth < 4 and draw(st.booleans()) else leaf()
        return node

    for _ in range(draw(st.integers(1, 4))):
        roots.append(grow(0))
    columns = list(zip(*nodes, strict=True))
    return Forest(
        N_FEATURES, np.array(roots), np.array(columns[0]), np.array(columns[1], float), np.array(columns[2], np.uint8),
        np.array(columns[3]), np.array(columns[4]), np.array(columns[5], bool), np.array(leaves),
        np.concatenate([[0], np.cumsum([len(members) for members in sets])]).astype(np.int64),
        np.array([value for members in sets for value in members], float),
        np.array([draw(st.booleans()), False, False, False]),
    )  # fmt: skip


values = st.sampled_from([*SPLITS, 2.0, 4.0, np.nan, -0.0, 1e-36]) | st.floats(-10.0, 10.0)
rows = st.lists(st.lists(values, min_size=N_FEATURES, max_size=N_FEATURES), min_size=1, max_size=5)


@given(forests() | forests(has_sets=False), rows)
@settings(deadline=None)
def test_walks_equal_their_slow_twin(forest: Forest, asked: list[list[float]]) -> None:
    grid = np.array([-3.0, *SPLITS, np.inf])
    expected = [naive_forest.range_scores(forest, grid, row) for row in asked]
    assert RangeWalk(forest, grid).scores(np.array(asked)).tolist() == expected
    assert varying_walk(forest, grid).scores(np.array(asked)).tolist() == expected


@given(forests() | forests(has_sets=False), rows, st.booleans(), st.floats(0.001, 5.0))
@settings(deadline=None)
def test_what_is_set_against_the_age_is_walked_as_its_slow_twin(forest: Forest, asked: list[list[float]], is_log: bool,
                                                                first_s: float) -> None:
    grid = np.array([-3.0, *SPLITS])
    ages_s = first_s * 1.7 ** np.arange(len(grid))
    against = AgeFeatures((1,), (is_log,), tuple(ages_s.tolist()), tuple(np.log10(ages_s).tolist()))
    expected: list[list[float]] = []
    for row in asked:
        expected.append([])
        for value, age_s, log_age in zip(grid.tolist(), against.ages_s, against.log_ages, strict=True):
            set_against = row[1] - log_age if is_log else row[1] / age_s
            expected[-1].append(naive_forest.forest_score(forest, [row[0], row[1], set_against, value]))
    assert RangeWalk(forest, grid, against).scores(np.array(asked)).tolist() == expected
    assert varying_walk(forest, grid, against).scores(np.array(asked)).tolist() == expected


def test_zeros_set_against_the_age_must_not_be_missing_values() -> None:
    against = AgeFeatures((0,), (True,), (1.0,), (0.0,))
    forest = Forest(3, np.array([0]), np.array([2]), np.array([0.5]), np.array([LEQ], np.uint8), np.array([-1]),
                    np.array([-2]), np.array([False]), np.array([0.0, 1.0]), np.array([0, 0]), np.array([]),
                    np.array([True, False, False]))
    with pytest.raises(ValueError, match="zeros of what is set against the age"):
        RangeWalk(forest, np.array([0.0]), against)


@given(forests(), rows)
@settings(deadline=None)
def test_onnx_runtime_equals_the_slow_twin_to_the_bit(forest: Forest, asked: list[list[float]]) -> None:
    found = OnnxForest(to_onnx(forest), N_FEATURES).scores(np.array(asked))
    assert found.tolist() == [naive_forest.forest_score(forest, row) for row in asked]


@given(forests())
@settings(deadline=None)
def test_the_reader_gives_back_what_was_written(forest: Forest) -> None:
    found = read_forest(to_onnx(forest), N_FEATURES)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(forest, name), err_msg=name)


@given(forests(), st.data())
@settings(deadline=None)
def test_a_changed_model_is_refused_or_read_as_onnx_runtime_reads_it(forest: Forest, data: st.DataObject) -> None:
    content = bytearray(to_onnx(forest))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_forest(bytes(content), N_FEATURES)
        runtime = OnnxForest(bytes(content), N_FEATURES)
    except BundleError:
        return
    asked = [[0.5, 2.0, np.nan, 1.0], [0.0, 1.0, -2.0, 7.5]]
    assert runtime.scores(np.array(asked)).tolist() == [naive_forest.forest_score(found, row) for row in asked]


def stump() -> Forest:
    """x0 <= 1 -> 10, else x1 in {2} -> 20, else 30."""
    return Forest(2, np.array([0]), np.array([0, 1]), np.array([1.0, 0.0]), np.array([LEQ, MEMBER], np.uint8),
                  np.array([~0, ~1]), np.array([1, ~2]), np.array([True, False]), np.array([10.0, 20.0, 30.0]),
                  np.array([0, 0, 1]), np.array([2.0]), np.array([False, False]))  # fmt: skip


def test_stump_golden() -> None:
    asked = np.array([[1.0, 0.0], [np.nan, 0.0], [1.5, 2.0], [1.5, np.nan]])
    assert OnnxForest(to_onnx(stump()), 2).scores(asked).tolist() == [10.0, 10.0, 20.0, 30.0]
    assert stump().splits_on(0).tolist() == [1.0]
    assert stump().depth() == 2


@pytest.mark.parametrize(("changes", "message"), [
    ({"roots": np.array([1])}, "roots and children must name each"),
    ({"roots": np.array([], int)}, "at least one"),
    ({"on_true": np.array([~0, ~3])}, "leaves once"),
    ({"on_true": np.array([~0, ~0])}, "leaves once"),
    ({"on_false": np.array([0, ~2])}, "nodes once"),
    ({"on_false": np.array([5, ~2])}, "nodes once"),
    ({"feature": np.array([0, 2])}, "features must be among 2"),
    ({"mode": np.array([LEQ, 1], np.uint8)}, "modes must be 0 or 6"),
    ({"split": np.array([1.0])}, "split must have 2 elements, got 1"),
    ({"split": np.array([np.nan, 0.0])}, "splits must be numbers above -inf"),
    ({"leaves": np.array([10.0, 1e300, 30.0])}, "leaves within"),
    ({"member_start": np.array([0, 1, 0])}, "member_start must rise from 0 to 1"),
    ({"member_start": np.array([0, 0, 0]), "members": np.zeros(0)}, "hold at least one finite value"),
    ({"member_start": np.array([0, 1, 1])}, "belong to the member nodes"),
    ({"is_zero_missing": np.array([False])}, "is_zero_missing must have 2"),
])  # fmt: skip
def test_an_impossible_forest_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(stump(), **changes)


def test_a_varying_feature_must_be_stepwise() -> None:
    with pytest.raises(ValueError, match="must not be a category"):
        RangeWalk(stump(), np.array([0.0]))
    with pytest.raises(ValueError, match="nor its zeros missing"):
        RangeWalk(replace(stump(), feature=np.array([1, 0]), is_zero_missing=np.array([False, True])), np.array([0.0]))


def test_another_width_is_refused() -> None:
    with pytest.raises(BundleError, match=r"model.onnx must take doubles of shape \(n, 3\)"):
        OnnxForest(to_onnx(stump()), 3)
    with pytest.raises(BundleError, match=r"model.onnx must .*, got ValueError"):
        read_forest(to_onnx(stump()), 1)
