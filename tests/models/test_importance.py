"""SHAP rows are ones that a scheduler meets, the values are LightGBM's, and background rows are typical requests."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.split import Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.importance import background_rows, mean_abs_shap, n_shap_rows, shap_rows
from sojourn.models.measures import AGES_S
from sojourn.serving.inputs import Encoder

SETTINGS = FitSettings(n_threads=1, params={"num_leaves": 15})


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return default_encoder(synthesize(1_500, seed=2))


@pytest.fixture(scope="module")
def split(encoder: Encoder) -> Split:
    return split_by_time(build_rows(synthesize(1_500, seed=2), encoder))


@pytest.mark.parametrize("family", ["hazard", "gbdt-uptime", "gbdt-once"])
def test_shap_of_each_family(split: Split, encoder: Encoder, family: str) -> None:
    model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, SETTINGS)
    exported = model.export()
    assert exported is not None
    rows = shap_rows(exported, split.test, 100, seed=4)
    assert rows.shape == (100, exported.forest.n_features)
    np.testing.assert_array_equal(rows, shap_rows(exported, split.test, 100, seed=4))
    text = model.boosted_.text  # type: ignore[attr-defined]
    means = mean_abs_shap(text, rows)
    assert means.shape == (exported.forest.n_features,)
    np.testing.assert_array_equal(means, mean_abs_shap(text, rows, n_threads=2))
    is_read = np.isin(np.arange(len(means)), exported.forest.feature)
    assert (means[~is_read] == 0.0).all()
    assert means.max() > 0.0
    assert len(background_rows(model, split.past, encoder, 4)) == 4


def test_hazard_rows_are_intervals_at_risk_and_uptime_rows_ages_met(split: Split) -> None:
    lifetime_of = {row.tobytes(): life_s
                   for row, life_s in zip(split.test.features, split.test.lifetime_s.tolist(), strict=True)}
    assert len(lifetime_of) == len(split.test)
    for family in ("hazard", "gbdt-uptime"):
        model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, SETTINGS)
        exported = model.export()
        assert exported is not None
        rows = shap_rows(exported, split.test, 300)
        assert len(np.unique(rows[:, -1])) > 2
        for row in rows:
            start_s = exported.fields["edges"][int(row[-1])] if family == "hazard" else row[-1]
            assert start_s < lifetime_of[row[:-1].tobytes()]
            assert family == "hazard" or start_s in (0, *AGES_S)


def test_background_rows_are_typical_and_fit_json(split: Split, encoder: Encoder) -> None:
    model = LIFETIME_MODELS["gbdt-once"]().fit(split.train, split.valid, split.past, SETTINGS)
    rows = background_rows(model, split.past, encoder)
    assert rows == background_rows(model, split.past, encoder)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    as_numbers = np.array([[np.nan if value is None else value for value in row] for row in rows])
    known = {row.tobytes() for row in split.past.features}
    assert all(row.tobytes() in known for row in as_numbers)
    of_all = np.log10(model.curve_table(split.past).quantile(0.5, 0.0))
    idx = [next(i for i, row in enumerate(split.past.features) if row.tobytes() == wanted.tobytes())
           for wanted in as_numbers]  # fmt: skip
    assert abs(of_all[idx].mean() - of_all.mean()) < 0.1 * of_all.std()
    assert (np.diff(of_all[idx]) >= 0.0).all()


def test_a_large_forest_gets_fewer_rows(split: Split) -> None:
    model = LIFETIME_MODELS["gbdt-once"]().fit(split.train, split.valid, split.past, SETTINGS)
    exported = model.export()
    assert exported is not None
    assert n_shap_rows(exported) == 1_000
    with pytest.raises(ValueError, match="rows must be at least one"):
        mean_abs_shap(model.boosted_.text, np.empty((0, exported.forest.n_features)))  # type: ignore[attr-defined]
