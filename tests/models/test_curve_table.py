"""The compiled tables give exactly what the scalar curves give, row by row, for all three kinds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.serving.curves import LONGEST_S, HazardCurve, LifetimeCurve, PointCurve, interval_hazard
from sojourn.serving.curves.curve import OnceCurve

UPTIMES_S = [0.0, 0.5, 1.0, 9.999, 10.0, 61.0, 3_600.0, 86_400.5, 1e6, 1e7, 1e9, 1.7e308]
HORIZONS_S = [0.0, 1e-3, 1.0, 3_600.0, 1e6, 1e9]
SHARES = [0.01, 0.5, 0.9, 0.999]


def hazard_pair(rng: np.random.Generator, n: int) -> tuple[CurveTable, list[LifetimeCurve]]:
    n_intervals = int(rng.integers(1, 40))
    edges = np.concatenate([[0.0], np.cumsum(10.0 ** rng.uniform(0.0, 4.0, n_intervals))])
    scores = rng.normal(-2.0, 3.0, (n, n_intervals))
    scores[rng.random(scores.shape) < 0.05] = -800.0  # a hazard that is 0 in double precision
    scores[rng.random(scores.shape) < 0.05] = 50.0
    offsets = rng.normal(size=n_intervals)
    tail_s = float(10.0 ** rng.uniform(1.8, 7.9))
    curves: list[LifetimeCurve] = [
        HazardCurve.from_hazards(edges.tolist(), list(map(interval_hazard, row, offsets.tolist())), tail_s,
                                 edges.tolist())
        for row in scores.tolist()]  # fmt: skip
    return HazardTable.from_scores(edges, scores, offsets, tail_s, edges), curves


def residual_grid(rng: np.random.Generator) -> np.ndarray:
    return np.sort(np.round(rng.normal(0.0, 0.7, int(rng.integers(2, 50))), int(rng.integers(1, 9))))


def point_pair(rng: np.random.Generator, n: int) -> tuple[CurveTable, list[LifetimeCurve]]:
    thresholds = np.unique(np.append(10.0 ** rng.uniform(-1.0, 6.0, int(rng.integers(0, 60))), 61.0))
    scores = rng.normal(3.0, 2.5, (n, len(thresholds) + 1))
    smearing, residuals = float(rng.uniform(0.5, 4.0)), residual_grid(rng)
    curves: list[LifetimeCurve] = [
        PointCurve.from_scores(thresholds.tolist(), row, smearing, residuals.tolist()) for row in scores.tolist()]
    return PointTable(thresholds, scores, smearing, residuals), curves


def once_pair(rng: np.random.Generator, n: int) -> tuple[CurveTable, list[LifetimeCurve]]:
    scores, smearing, residuals = rng.normal(3.0, 2.5, n), float(rng.uniform(0.5, 4.0)), residual_grid(rng)
    curves: list[LifetimeCurve] = [
        OnceCurve.from_score(score, smearing, residuals.tolist()) for score in scores.tolist()]
    return OnceTable(scores, smearing, residuals), curves


PAIRS = pytest.mark.parametrize("pair", [hazard_pair, point_pair, once_pair], ids=["hazard", "point", "once"])


@PAIRS
@given(seed=st.integers(0, 2**32), uptime_s=st.sampled_from(UPTIMES_S) | st.floats(0.0, 2e6))
@settings(deadline=None, max_examples=60)
def test_tables_equal_curves_to_the_bit(pair, seed: int, uptime_s: float) -> None:  # type: ignore[no-untyped-def]
    table, curves = pair(np.random.default_rng(seed), 3)
    assert len(table) == len(curves)
    assert table.remaining(uptime_s).tolist() == [curve.remaining(uptime_s) for curve in curves]
    for q in SHARES:
        assert table.quantile(q, uptime_s).tolist() == [curve.quantile(q, uptime_s) for curve in curves]
    for horizon_s in HORIZONS_S:
        assert table.survival(horizon_s, uptime_s).tolist() == [curve.survival(horizon_s, uptime_s) for curve in curves]


@PAIRS
def test_one_uptime_per_row_and_taken_rows(pair) -> None:  # type: ignore[no-untyped-def]
    table, curves = pair(np.random.default_rng(7), len(UPTIMES_S))
    uptimes_s = np.array(UPTIMES_S)
    expected = [curve.remaining(uptime_s) for curve, uptime_s in zip(curves, UPTIMES_S, strict=True)]
    assert table.remaining(uptimes_s).tolist() == expected
    idx = np.array([3, 1, 1])
    assert table.take(idx).remaining(uptimes_s[idx]).tolist() == [expected[position] for position in idx]
    is_taken = uptimes_s > 1e4
    assert len(table.take(is_taken)) == int(is_taken.sum())


@PAIRS
def test_held_uptimes_rise_from_zero(pair) -> None:  # type: ignore[no-untyped-def]
    table, _ = pair(np.random.default_rng(8), 1)
    held = table.held_uptimes()
    assert held[0] == 0
    assert held.dtype == np.int64
    assert (np.diff(held) > 0).all()


def test_point_answers_change_only_at_held_uptimes() -> None:
    table, curves = point_pair(np.random.default_rng(9), 1)
    held = table.held_uptimes()
    for low, high in zip(held.tolist(), [*held[1:].tolist(), int(LONGEST_S)], strict=True):
        assert curves[0].remaining(low) == curves[0].remaining(high - 1)
