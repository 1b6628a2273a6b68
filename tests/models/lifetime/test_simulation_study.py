"""Data of known truth: what dropping censored rows costs, and that censoring-aware families have no such bias."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models import LIFETIME_MODELS, FitSettings

SHAPE = 1.5
SCALES_S = (1_000.0, 4_000.0)
"""Weibull lifetimes by a covariate of 0 or 1."""
TRUE_MEDIAN = np.array([np.log10(scale * np.log(2.0) ** (1.0 / SHAPE)) for scale in SCALES_S])
"""log10 of scale ln(2)^(1/shape): 2.894 and 3.496."""
SETTINGS = FitSettings(idx_backoff=(0,), n_threads=1, params={"num_leaves": 4, "learning_rate": 0.3})
ASKED = np.array([[0.0], [1.0]])


CUT_S = 10_000.0
FAMILIES = ("km", "gbdt-once", "gbdt-uptime", "gbdt-landmark", "hazard")


def _drawn(seed: int, cut_s: float, n: int = 12_000) -> Examples:
    """Arrivals to 10,000 s; what still runs at `cut_s` is censored there; some were running at time 0."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    arrival_s = np.floor(rng.uniform(-3_000.0, CUT_S, n)).astype(np.int64)
    true_s = np.maximum(np.ceil(np.array(SCALES_S)[group] * rng.weibull(SHAPE, n)), 1.0)
    left_s = np.maximum(cut_s - arrival_s, 1.0)
    entry_s = np.maximum(-arrival_s, 0).astype(np.float64)
    drawn = Examples(group[:, None].astype(np.float64), (group.astype(np.int64),), np.minimum(true_s, left_s),
                     true_s <= left_s, entry_s, arrival_s, np.arange(n))
    return drawn.take(entry_s < drawn.lifetime_s)


def _medians(name: str, train: Examples, valid: Examples) -> np.ndarray:
    """log10 medians at creation of the two groups."""
    model = LIFETIME_MODELS[name]().fit(train, valid, train, SETTINGS)
    asked = Examples(np.array([[0.0], [1.0]]), (np.array([0, 1]),), np.ones(2), np.ones(2, bool), np.zeros(2),
                     np.zeros(2, np.int64), np.arange(2))
    return np.log10(model.curve_table(asked).quantile(0.5, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_censoring_brings_no_bias_unless_censored_rows_are_dropped(name: str) -> None:
    # The same draws watched to their ends are what each family would answer without censoring: a point model's
    # own error (one spread of residuals for all uptimes) is in both, and what is left is due to censoring.
    whole = _medians(name, _drawn(0, np.inf), _drawn(1, np.inf))
    train, valid = _drawn(0, CUT_S), _drawn(1, CUT_S)
    assert 0.1 < 1.0 - train.is_event.mean() < 0.4
    kept = _medians(name, train, valid) - whole
    dropped = _medians(name, train.take(train.is_event), valid.take(valid.is_event)) - whole
    assert np.abs(kept).max() < 0.04
    assert dropped[1] < -0.08


@pytest.mark.slow
@pytest.mark.parametrize("name", ["km", "gbdt-once", "hazard"])
def test_medians_at_creation_are_the_true_ones(name: str) -> None:
    errors = _medians(name, _drawn(2, CUT_S), _drawn(3, CUT_S)) - TRUE_MEDIAN
    assert np.abs(errors).max() < 0.04
