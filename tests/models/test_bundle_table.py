"""A model that went through a bundle answers exactly as the fitted one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.models.bundle_writer import table_of
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.inputs import HistoryState


@pytest.mark.parametrize("family", ["gbdt-once", "gbdt-uptime", "hazard"])
def test_the_bundle_answers_as_the_fitted_model(family: str, tmp_path: Path) -> None:
    trace = synthesize(1_500, seed=2)
    encoder = default_encoder(trace)
    split = split_by_time(build_rows(trace, encoder))
    settings = FitSettings(backoff_keys(encoder), 1, 0, {"num_leaves": 7, "learning_rate": 0.3})
    model = LIFETIME_MODELS[family]().fit(split.train, split.valid, split.past, settings)
    exported = model.export()
    assert exported is not None
    bundle = load_bundle(write_bundle(tmp_path / "b", family, exported, encoder, HistoryState(encoder.history), {}))
    builder = CurveBuilder(bundle.schema, bundle.model)
    fitted, served = model.curve_table(split.test), table_of(bundle.schema, builder.forest, split.test.features)
    for uptime_s in (0.0, 61.0, 7_200.0):
        np.testing.assert_array_equal(fitted.remaining(uptime_s), served.remaining(uptime_s))
        np.testing.assert_array_equal(fitted.quantile(0.9, uptime_s), served.quantile(0.9, uptime_s))
        curve = builder.curve(split.test.features[0].tolist())
        assert curve.remaining(uptime_s) == fitted.remaining(uptime_s)[0]
        assert curve.survival(60.0, uptime_s) == fitted.survival(60.0, uptime_s)[0]
