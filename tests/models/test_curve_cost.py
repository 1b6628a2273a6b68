"""What a curve costs against LightGBM's own call: which rows are asked, and whose time is whose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.models.lifetime import Scores
from sojourn.models.parity import N_WARM, CurveCost, at_all_ages, curve_cost, learner_scores
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.inputs import HistoryState


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Scores, CurveBuilder, np.ndarray]]:
    """The learner's scores, the builder of a bundle, and feature rows, of each family that is served."""
    trace = synthesize(1_000, seed=1)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), 1, 0, {"num_leaves": 15, "learning_rate": 0.3}, rows.names)
    found = {}
    for family in ("hazard", "gbdt-uptime", "gbdt-once"):
        model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings)
        exported = model.export()
        assert exported is not None
        folder: Path = tmp_path_factory.mktemp(family) / "bundle"
        bundle = load_bundle(write_bundle(folder, family, exported, encoder, history, {}))
        scores = learner_scores(exported)
        assert scores is not None
        found[family] = scores, CurveBuilder(bundle.schema, bundle.model), split.test.features
    return found


@pytest.mark.parametrize("family", ["hazard", "gbdt-uptime", "gbdt-once"])
def test_lightgbm_is_asked_for_the_very_scores_that_a_curve_holds(
        made: dict[str, tuple[Scores, CurveBuilder, np.ndarray]], family: str) -> None:
    scores, builder, rows = made[family]
    for row in rows[:5]:
        asked = at_all_ages(builder, row)
        assert scores(asked).tolist() == builder.scores(row.tolist()).tolist()


def test_medians_are_of_each_part_and_not_of_the_first_calls(
        made: dict[str, tuple[Scores, CurveBuilder, np.ndarray]]) -> None:
    # the clock is read before a curve, after it, and after LightGBM; the first calls take a second, then a curve takes
    # 2 us and LightGBM 8, but for one call in which the machine was busy
    scores, builder, rows = made["hazard"]
    steps = [(1.0, 1.0)] * N_WARM + [(2e-6, 8e-6), (2e-6, 8e-6), (5.0, 8e-6), (2e-6, 9.0), (2e-6, 8e-6)]
    readings = iter([part for curve_s, lightgbm_s in steps for part in (0.0, curve_s, curve_s + lightgbm_s)])
    cost = curve_cost(scores, builder, rows[:5], lambda: next(readings))
    assert (round(cost.curve_us, 6), round(cost.learner_us, 6), cost.n_answers) == (2.0, 8.0, len(builder.grid))
    assert CurveCost(2.0, 8.0, 1).ratio == 0.25
