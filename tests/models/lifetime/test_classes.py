"""The classifiers: censoring by weights, curves that fall, thresholds that the rows cannot show left out."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.lifetime import ClassesModel
from sojourn.models.measures import CLASS_THRESHOLDS_S

SETTINGS = FitSettings(n_threads=1, params={"num_leaves": 7, "learning_rate": 0.2})


def _drawn(seed: int, n: int = 4_000, mean_s: float = 20_000.0) -> Examples:
    """Exponential lifetimes of `mean_s` or a tenth of it, as one feature says; censored uniformly below 100,000 s."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n).astype(np.float64)
    true_s = np.ceil(rng.exponential(mean_s * 0.1**kind))
    censor_s = np.ceil(rng.uniform(1.0, 100_000.0, n))
    return Examples(kind[:, None], (), np.minimum(true_s, censor_s), true_s <= censor_s, np.zeros(n),
                    np.zeros(n, np.int64), np.arange(n))


@pytest.fixture(scope="module")
def fitted() -> ClassesModel:
    model = LIFETIME_MODELS["lava-classes"]()
    assert isinstance(model, ClassesModel)
    return model.fit(_drawn(0), _drawn(1, 1_000), _drawn(2, 5_000), SETTINGS)


def test_censored_rows_are_weighed_for_at_creation_and_of_what_remains(fitted: ClassesModel) -> None:
    table = fitted.curve_table(_drawn(3, 400))
    kind = _drawn(3, 400).features[:, 0]
    for threshold_s, mean_s, which in ((3_600.0, 20_000.0, 0.0), (36_000.0, 20_000.0, 0.0), (3_600.0, 2_000.0, 1.0)):
        truth = np.exp(-threshold_s / mean_s)  # dropping censored rows would give a third less at 36,000 s
        assert table.survival(threshold_s, 0.0)[kind == which].mean() == pytest.approx(truth, abs=0.05)
        assert table.survival(threshold_s, 600.0)[kind == which].mean() == pytest.approx(truth, abs=0.05)


def test_between_thresholds_the_hazard_is_constant(fitted: ClassesModel) -> None:
    table = fitted.curve_table(_drawn(3, 50))
    half, whole = table.survival(1_800.0, 0.0), table.survival(3_600.0, 0.0)
    np.testing.assert_allclose(half, np.sqrt(whole), rtol=1e-12)
    far, last = table.survival(36_000.0, 0.0), table.survival(3_600.0, 0.0)
    np.testing.assert_allclose(table.survival(10_000.0, 0.0), last * (far / last) ** (6_400 / 32_400), rtol=1e-9)


def test_a_threshold_that_too_few_rows_show_is_left_out(fitted: ClassesModel) -> None:
    assert CLASS_THRESHOLDS_S["lava"] == (3_600, 36_000, 360_000)
    assert fitted.left_out_ == (360_000,)  # nothing is followed so far
    short = _drawn(0, 800, mean_s=200.0)
    model = LIFETIME_MODELS["dvla-classes"]().fit(short, short, short, SETTINGS)
    assert isinstance(model, ClassesModel)
    assert model.left_out_ == CLASS_THRESHOLDS_S["dvla"]
    # the pooled rate stands alone: one exponential curve for all
    remaining = model.curve_table(short).remaining(0.0)
    assert len(np.unique(remaining)) == 1
    assert remaining[0] == pytest.approx(short.lifetime_s.sum() / short.is_event.sum(), abs=1.0)
