"""The export gives LightGBM's own bits: on real-looking rows, on every threshold and one ulp beside it."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from sojourn.models import to_onnx
from sojourn.models.lifetime.gbdt import forest_from_text
from sojourn.models.parity import lightgbm_scores, n_different_scores, on_thresholds
from sojourn.serving.curves import PointCurve
from sojourn.serving.forest import MEMBER, Forest, OnnxForest, read_forest
from sojourn.serving.forest.walks import RangeWalk

N_ROWS = 200_000
N_FEATURES = 6
QUIET = {"verbose": -1, "num_threads": 1, "seed": 0, "deterministic": True}
MISSING: dict[str, dict[str, Any]] = {
    "none": {"use_missing": False},
    "zero": {"zero_as_missing": True},
    "nan": {},
}


def rows_of(n: int, seed: int = 0) -> np.ndarray:
    """Rows with zeros, NaN, values within LightGBM's zero, repeated values and many magnitudes."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, N_FEATURES)) * 10.0 ** rng.integers(-3, 6, N_FEATURES)
    rows[:, 1] = rng.integers(0, 8, n)
    rows[:, 5] = np.floor(10.0 ** rng.uniform(0.0, 6.0, n))
    for column in range(3):
        rows[rng.random(n) < 0.1, column] = np.nan
        rows[rng.random(n) < 0.1, column] = 0.0
        rows[rng.random(n) < 0.02, column] = 1e-36
        rows[rng.random(n) < 0.02, column] = -1e-36
    return rows


def boosted(n_rounds: int = 30, n_leaves: int = 31, **params: Any) -> lgb.Booster:
    rows = rows_of(4_000, seed=1)
    label = np.log10(rows[:, 5]) + np.nan_to_num(rows[:, 1]) + np.nan_to_num(rows[:, 0]) * 100.0
    categories: Any = params.pop("categorical", "auto")
    settings = {**QUIET, "objective": "regression", "num_leaves": n_leaves, **params}
    return lgb.train(settings, lgb.Dataset(rows, label, categorical_feature=categories), n_rounds)


def n_different_bits(text: str, forest: Forest, rows: np.ndarray) -> tuple[int, int]:
    """How many rows' raw scores differ in any bit from LightGBM's, and of how many. text: LightGBM's model."""
    return n_different_scores(lightgbm_scores(text), forest, rows)


def forest_of(booster: lgb.Booster) -> Forest:
    return forest_from_text(booster.model_to_string())


@pytest.mark.parametrize("missing", sorted(MISSING))
def test_bits_equal_on_200_000_rows_and_on_their_thresholds(missing: str) -> None:
    booster = boosted(**MISSING[missing])
    forest = forest_of(booster)
    assert forest.is_zero_missing.any() == (missing == "zero")
    # n_different_bits asks each row as it is and once moved on or beside thresholds: 200 000 in all
    assert n_different_bits(booster.model_to_string(), forest, rows_of(N_ROWS // 2)) == (0, N_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "n_leaves"), [("nan", 63), ("none", 63), ("zero", 63), ("nan", 100)])
def test_bits_equal_on_a_million_rows(missing: str, n_leaves: int) -> None:
    """Trees of up to 64 leaves go by masks, larger ones are walked."""
    booster = boosted(n_leaves=n_leaves, **MISSING[missing])
    assert n_different_bits(booster.model_to_string(), forest_of(booster), rows_of(500_000)) == (0, 1_000_000)


def test_bits_equal_with_categories() -> None:
    booster = boosted(categorical=[1], max_cat_to_onehot=1, min_data_per_group=5)
    forest = forest_of(booster)
    assert (forest.mode == MEMBER).any()
    rows = rows_of(N_ROWS // 20)
    rows[:, 1] = np.rint(rows[:, 1])  # categories are whole numbers; NaN stays
    rows[::7, 1] = 31.0  # never seen in training
    rows[::11, 1] = -1.0
    assert n_different_bits(booster.model_to_string(), forest, rows) == (0, N_ROWS // 10)


def test_a_single_precision_export_would_have_moved_rows() -> None:
    """What the double thresholds are for: the same rows against a forest of float32 splits."""
    forest = forest_of(boosted())
    rows = on_thresholds(forest, rows_of(2_000), seed=3)
    exact = OnnxForest(to_onnx(forest), N_FEATURES).scores(rows)
    rounded = Forest(
        forest.n_features, forest.roots, forest.feature, forest.split.astype(np.float32).astype(np.float64),
        forest.mode, forest.on_true, forest.on_false, forest.is_nan_true, forest.leaves, forest.member_start,
        forest.members, forest.is_zero_missing,
    )  # fmt: skip
    assert (OnnxForest(to_onnx(rounded), N_FEATURES).scores(rows) != exact).mean() > 0.3


@pytest.mark.parametrize("params", [
    {"n_leaves": 2, "min_data_in_leaf": 4_000},  # nothing can be split: one leaf per tree
    {"min_gain_to_split": 1e9},
    {"n_rounds": 1, "boost_from_average": True},
    {"objective": "binary", "label": True},
], ids=["single-leaf", "no-gain", "one-tree", "binary"])  # fmt: skip
def test_odd_models_keep_their_bits(params: dict[str, Any]) -> None:
    if params.pop("label", False):
        rows = rows_of(4_000, seed=1)
        booster = lgb.train({**QUIET, **params}, lgb.Dataset(rows, rows[:, 5] > 1_000.0), 10)
    else:
        booster = boosted(**params)
    assert n_different_bits(booster.model_to_string(), forest_of(booster), rows_of(1_000)) == (0, 2_000)


def test_constant_features_and_labels_keep_their_bits() -> None:
    rows = rows_of(1_000)
    rows[:, [0, 3]] = 7.25
    for label in (rows[:, 5], np.full(len(rows), 3.0)):
        booster = lgb.train({**QUIET, "objective": "regression"}, lgb.Dataset(rows, label), 5)
        assert n_different_bits(booster.model_to_string(), forest_of(booster), rows) == (0, 2_000)


def test_the_file_is_the_same_twice_and_reads_back() -> None:
    forest = forest_of(boosted(n_rounds=3))
    assert to_onnx(forest) == to_onnx(forest)
    found = read_forest(to_onnx(forest), N_FEATURES)
    np.testing.assert_array_equal(found.split, forest.split)


@pytest.mark.parametrize(("params", "message"), [
    ({"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}, "boosting must not be rf"),
    ({"linear_tree": True}, "linear_tree must be off"),
    ({"reg_sqrt": True}, "must not be transformed by reg_sqrt"),
])  # fmt: skip
def test_scores_that_are_no_sum_of_leaves_are_refused(params: dict[str, Any], message: str) -> None:
    rows = np.nan_to_num(rows_of(500))
    booster = lgb.train({**QUIET, "objective": "regression", **params}, lgb.Dataset(rows, rows[:, 5]), 3)
    with pytest.raises(ValueError, match=message):
        forest_of(booster)


def test_several_classes_and_empty_models_are_refused() -> None:
    rows = np.nan_to_num(rows_of(500))
    booster = lgb.train({**QUIET, "objective": "multiclass", "num_class": 3}, lgb.Dataset(rows, np.arange(500) % 3), 2)
    with pytest.raises(ValueError, match="num_tree_per_iteration must be 1, got 3"):
        forest_of(booster)
    empty = lgb.Booster({**QUIET, "objective": "regression"}, lgb.Dataset(rows, rows[:, 5]))
    with pytest.raises(ValueError, match="at least one tree"):
        forest_of(empty)


@pytest.mark.parametrize("missing", ["none", "nan"])
def test_a_point_curve_is_the_model_at_and_beside_every_threshold(missing: str) -> None:
    booster = boosted(n_rounds=60, **MISSING[missing])
    forest = forest_of(booster)
    thresholds = forest.splits_on(N_FEATURES - 1)
    assert len(thresholds) > 50
    uptimes_s = np.concatenate([[0.0, 1e9], thresholds, np.nextafter(thresholds, np.inf),
                                np.nextafter(thresholds, -np.inf)])
    uptimes_s = uptimes_s[uptimes_s >= 0.0]
    walk = RangeWalk(forest, np.append(thresholds, np.inf))
    for row in rows_of(20, seed=4):
        scores = walk.scores(row[None, :])[0].tolist()
        curve = PointCurve.from_scores(thresholds.tolist(), scores, 1.0, (0.0, 0.0))
        asked = np.repeat(row[None, :], len(uptimes_s), axis=0)
        asked[:, -1] = uptimes_s
        expected = booster.predict(asked, raw_score=True, num_threads=1)
        assert [curve.raw_score(uptime_s) for uptime_s in uptimes_s.tolist()] == np.asarray(expected).tolist()


def test_a_curve_needs_zeros_that_are_numbers() -> None:
    forest = forest_of(boosted(**MISSING["zero"]))
    with pytest.raises(ValueError, match="nor its zeros missing"):
        RangeWalk(forest, np.array([0.0]))
