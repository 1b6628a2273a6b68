"""Kaplan-Meier with weights and late entry against scikit-survival's and repeated rows."""

from __future__ import annotations

import numpy as np
import pytest
from sksurv.nonparametric import kaplan_meier_estimator

from sojourn.models.measures import KaplanMeier


def _drawn(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    entry = np.where(rng.random(n) < 0.4, rng.integers(0, 8, n), 0).astype(float)
    return entry + rng.integers(1, 20, n), rng.random(n) < 0.6, entry


@pytest.mark.parametrize("seed", range(3))
def test_it_is_scikit_survivals(seed: int) -> None:
    value, is_event, entry = _drawn(seed)
    values, expected = kaplan_meier_estimator(is_event, value, entry)
    prepared = KaplanMeier.of(value, is_event, entry)
    np.testing.assert_array_equal(prepared.values, values[1:])  # theirs begins at the first entry
    assert prepared.survival().tolist() == expected[1:].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_is_that_many_rows(seed: int) -> None:
    value, is_event, entry = _drawn(seed, 60)
    times = np.random.default_rng(seed).integers(0, 3, 60)
    repeated = np.repeat(np.arange(60), times)
    points = np.linspace(0.0, 30.0, 40)
    weighted = KaplanMeier.of(value, is_event, entry).survival_at(points, times.astype(float))
    plain = KaplanMeier.of(value[repeated], is_event[repeated], entry[repeated]).survival_at(points)
    np.testing.assert_allclose(weighted, plain, atol=1e-12)


def test_beyond_the_last_row_nothing_is_known_unless_all_have_ended() -> None:
    value, entry = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    prepared = KaplanMeier.of(value, np.array([True, True, False]), entry)
    points = np.array([0.5, 2.5, 3.0, 3.1])
    np.testing.assert_allclose(prepared.survival_at(points), [1.0, 1 / 3, 1 / 3, np.nan])
    assert prepared.survival_at(points, np.array([1.0, 1.0, 0.0])).tolist() == [1.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(prepared.survival_at(points, np.array([1.0, 0.0, 0.0])), [1.0, 0.0, 0.0, 0.0])
    assert np.isnan(prepared.survival_at(points, np.zeros(3))).all()


def test_an_entry_not_below_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="got 2 rows, 1 of them not"):
        KaplanMeier.of(np.array([1.0, 2.0]), np.ones(2, bool), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="got 0 rows"):
        KaplanMeier.of(np.empty(0), np.empty(0, bool), np.empty(0))
