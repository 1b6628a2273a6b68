"""Calibration by hand, of models whose miscalibration is known in closed form, and under censoring."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable, OnceTable
from sojourn.models.measures import Pit, calibration_points
from sojourn.models.measures.calibration import DECILES, pit_deviation

N = 60_000


def _rows(lifetime_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray | None = None) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), np.asarray(lifetime_s, np.float64), is_event,
                    np.zeros(n) if entry_s is None else entry_s, np.zeros(n, np.int64), np.arange(n))


def _exponential(mean_s: np.ndarray) -> HazardTable:
    """Curves exp(-t / mean)."""
    edges = np.array([0.0, 1.0])
    return HazardTable(edges[None], edges, np.tile(1.0 / mean_s[:, None], 2),
                       np.stack([np.zeros(len(mean_s)), 1.0 / mean_s], axis=1), np.tile(mean_s[:, None], 2),
                       np.zeros((len(mean_s), 2)))


def _pit(table: HazardTable | OnceTable, rows: Examples) -> Pit:
    return Pit.of(table, rows, np.random.default_rng(0))


def _deviation_and_coverage(pit: Pit, weight: np.ndarray | None = None) -> tuple[float, float]:
    """The PIT deviation, and the share within the central 80 %."""
    shares = pit.distribution(DECILES, weight)
    return pit_deviation(shares), float(shares[-1] - shares[0])


def _drawn(seed: int, low_s: float = 100.0, high_s: float = 100_000.0) -> tuple[np.ndarray, np.ndarray]:
    """Means, and lifetimes of that mean in whole seconds."""
    rng = np.random.default_rng(seed)
    mean_s = np.exp(rng.uniform(np.log(low_s), np.log(high_s), N))
    return mean_s, np.maximum(np.rint(rng.exponential(mean_s)), 1.0)


def test_a_true_model_is_calibrated() -> None:
    mean_s, lifetime_s = _drawn(0)
    pit = _pit(_exponential(mean_s), _rows(lifetime_s, np.ones(N, bool)))
    np.testing.assert_allclose(pit.value, 1.0 - np.exp(-lifetime_s / mean_s), atol=0.01)  # a second of 100 s
    deviation, coverage = _deviation_and_coverage(pit)
    assert deviation < 0.006 and coverage == pytest.approx(0.8, abs=0.006)
    points = np.linspace(0.0, 1.0, 101)
    np.testing.assert_allclose(pit.distribution(points), points, atol=0.01)
    statistic, p = pit.d_calibration()
    assert 1.0 < statistic < 25.0 and p > 0.003


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_wrong_scale_deviates_by_what_the_formula_says(factor: float) -> None:
    # of mean m, predicted as exponential of mean k m: P(PIT <= d) = 1 - (1 - d)^k
    mean_s, lifetime_s = _drawn(1)
    pit = _pit(_exponential(factor * mean_s), _rows(lifetime_s, np.ones(N, bool)))
    expected = 1.0 - (1.0 - DECILES) ** factor
    np.testing.assert_allclose(pit.distribution(DECILES), expected, atol=0.006)
    deviation, coverage = _deviation_and_coverage(pit)
    assert deviation == pytest.approx(np.abs(expected - DECILES).max(), abs=0.006)  # 0.25 at 0.5 for k = 2
    assert coverage == pytest.approx(expected[-1] - expected[0], abs=0.006)  # 0.99 - 0.19 for k = 2
    statistic, p = pit.d_calibration()
    edges = 1.0 - (1.0 - np.linspace(0.0, 1.0, 11)) ** factor
    assert statistic == pytest.approx(N * ((np.diff(edges) - 0.1) ** 2).sum() / 0.1, rel=0.05) and p < 1e-9


def test_censoring_leaves_a_true_model_calibrated_where_dropping_rows_would_not() -> None:
    mean_s, true_s = _drawn(2)
    # it depends on what the model sees, too: long ones are followed for less of their life
    censor_s = np.ceil(np.random.default_rng(3).uniform(0.0, 6.0 * mean_s**0.9, N))
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s)
    assert 0.35 < 1.0 - rows.is_event.mean() < 0.45
    table = _exponential(mean_s)
    deviation, coverage = _deviation_and_coverage(_pit(table, rows))
    assert deviation < 0.012 and coverage == pytest.approx(0.8, abs=0.015)
    ended = rows.take(rows.is_event)
    assert _deviation_and_coverage(_pit(table.take(rows.is_event), ended))[0] > 0.1
    assert _deviation_and_coverage(_pit(_exponential(2.0 * mean_s), rows))[0] == pytest.approx(0.25, abs=0.015)
    counts = _pit(table, rows).bin_counts()
    np.testing.assert_allclose(counts / counts.sum(), 0.1, atol=0.006)


def test_late_entries_leave_a_true_model_calibrated_where_ignoring_their_entry_would_not() -> None:
    mean_s, true_s = _drawn(4)
    rng = np.random.default_rng(5)
    entry_s = np.where(rng.random(N) < 0.5, np.floor(rng.uniform(0.0, mean_s)), 0.0)
    censor_s = entry_s + np.ceil(rng.uniform(0.0, 8.0 * mean_s))
    is_seen = true_s > entry_s
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s, entry_s).take(is_seen)
    table = _exponential(mean_s).take(is_seen)
    pit = _pit(table, rows)
    assert _deviation_and_coverage(pit)[0] < 0.012
    counts = pit.bin_counts()
    np.testing.assert_allclose(counts / counts.sum(), 0.1, atol=0.006)
    ignored = _rows(rows.lifetime_s, rows.is_event)
    assert _deviation_and_coverage(_pit(table, ignored))[0] > 0.05


def test_lifetimes_of_a_few_seconds_do_not_look_miscalibrated() -> None:
    # the rise of the curve within one second is a third of the whole
    mean_s, lifetime_s = _drawn(6, 1.0, 5.0)
    table, rows = _exponential(mean_s), _rows(lifetime_s, np.ones(N, bool))
    assert _deviation_and_coverage(_pit(table, rows))[0] < 0.006
    at_end = 1.0 - table.survival(rows.lifetime_s, 0.0)
    assert np.abs(np.mean(at_end[:, None] <= DECILES, axis=0) - DECILES).max() > 0.1


def test_a_curve_that_jumps_does_not_look_miscalibrated() -> None:
    # half of all ends are exactly as told, the others within a factor of ten either way
    rng = np.random.default_rng(7)
    score = np.log10(rng.integers(100, 5_000, N))
    residuals = np.concatenate([np.linspace(-1.0, 0.0, 51), np.zeros(99), np.linspace(0.0, 1.0, 51)])
    drawn = np.interp(rng.random(N), np.linspace(0.0, 1.0, 201), residuals)
    rows = _rows(np.rint(10.0 ** (score + drawn)), np.ones(N, bool))
    assert _deviation_and_coverage(_pit(OnceTable(score, 1.0, residuals), rows))[0] < 0.006


def test_the_distribution_by_hand() -> None:
    # ends at F = 0.2, 0.4, 0.8; censored at 0.4 (after the end there): 3/4, then 3/4 x 2/3, then 0
    lifetime_s = -1e6 * np.log(1.0 - np.array([0.2, 0.4, 0.4, 0.8]))
    lifetime_s[2] = lifetime_s[1] + 1.0
    pit = _pit(_exponential(np.full(4, 1e6)), _rows(lifetime_s, np.array([True, True, False, True])))
    np.testing.assert_allclose(pit.value, [0.2, 0.4, 0.4, 0.8], atol=2e-6)
    np.testing.assert_allclose(pit.distribution(np.array([0.1, 0.3, 0.5, 0.9])), [0.0, 0.25, 0.5, 1.0])
    # 0.2 is a little off its decile: F(0.1) = 0, F(0.7) = 0.5, F(0.8) = 0.5 or 1
    deviation, coverage = _deviation_and_coverage(pit)
    assert coverage == 1.0 and deviation == pytest.approx(0.3 if pit.value[3] > 0.8 else 0.2, abs=1e-9)
    # the one censored at 0.4 is spread over (0.4, 1]: 0.1 / 0.6 in each bin
    expected = np.full(10, 0.0)
    expected[4:] = 1.0 / 6.0
    for value in pit.value[[0, 1, 3]]:
        expected[int(10 * value)] += 1.0
    np.testing.assert_allclose(pit.bin_counts(), expected, atol=1e-4)
    assert pit.d_calibration()[0] == pytest.approx(((expected - 0.4) ** 2).sum() / 0.4, abs=1e-3)


def test_what_no_row_was_followed_to_is_not_guessed() -> None:
    # all censored at F = 0.45 but one end at 0.25: F(0.3) = F(0.4) = 1/4, nothing is known from 0.5 on
    lifetime_s = -1e6 * np.log(1.0 - np.array([0.25, 0.45, 0.45, 0.45]))
    pit = _pit(_exponential(np.full(4, 1e6)), _rows(lifetime_s, np.array([True, False, False, False])))
    np.testing.assert_allclose(pit.distribution(DECILES), [0.0, 0.0, 0.25, 0.25] + [np.nan] * 5)
    deviation, coverage = _deviation_and_coverage(pit)
    assert deviation == pytest.approx(0.2) and np.isnan(coverage)
    assert np.isnan(_deviation_and_coverage(pit, np.zeros(4))).all()
    assert np.isnan(pit.d_calibration(np.zeros(4))).all()


def test_ends_held_impossible_or_certain_count_at_the_edges() -> None:
    # the curve falls from 1 to 0 at 1,000 s, and rows end well before, well after, or are still running after
    table = OnceTable(np.full(4, 3.0), 1.0, np.zeros(201))
    rows = _rows(np.array([10.0, 10.0, 5_000.0, 5_000.0]), np.array([True, True, True, False]),
                 np.array([0.0, 5.0, 2_000.0, 2_000.0]))
    pit = _pit(table, rows)
    assert pit.value.tolist() == [0.0, 0.0, 1.0, 1.0]
    # both early ends are at risk at 0 (the late entries are not yet): all end there
    assert pit.distribution(DECILES).tolist() == [1.0] * 9
    assert pit.bin_counts().tolist() == [2.0] + [0.0] * 8 + [2.0]


def test_a_weight_is_that_many_rows() -> None:
    mean_s, true_s = _drawn(8)
    rows = _rows(np.minimum(true_s, 5_000.0), true_s <= 5_000.0, np.minimum(np.arange(N) % 3, true_s - 1)).take(
        np.arange(200))
    table, rows = _exponential(mean_s).take(np.flatnonzero(rows.entry_s < rows.lifetime_s)), rows.take(
        rows.entry_s < rows.lifetime_s)
    times = np.random.default_rng(0).integers(0, 3, len(rows))
    pit = _pit(table, rows)
    repeated = np.repeat(np.arange(len(rows)), times)
    value, is_event, entry = pit.value[repeated], pit.is_event[repeated], pit.entry[repeated]
    again = Pit(value, is_event, entry, type(pit.over).of(value, is_event, entry))
    weight = times.astype(float)
    assert _deviation_and_coverage(pit, weight) == pytest.approx(_deviation_and_coverage(again), nan_ok=True)
    assert pit.d_calibration(weight) == pytest.approx(again.d_calibration())
    assert pit.d_calibration(weight) != pytest.approx(pit.d_calibration())


def test_calibration_points_by_hand() -> None:
    # two predictions: means 1,000 s and 100 s, horizon 100 s more at age 50 s; the first two are gone by 50 s
    mean_s = np.array([100.0, 1_000.0, 100.0, 100.0, 100.0, 1_000.0, 1_000.0])
    rows = _rows(np.array([20.0, 50.0, 60.0, 120.0, 151.0, 150.0, 400.0]),
                 np.array([True, True, True, False, True, True, True]))
    points = calibration_points(_exponential(mean_s), rows, 100.0, 50.0)
    np.testing.assert_allclose(points.predicted, np.exp([-1.0, -0.1]))
    assert points.n_rows.tolist() == [3, 2]
    # 1 of 3 ends at 60, one is censored, one outlives 150; of the others an end at 150 s has not outlived it
    np.testing.assert_allclose(points.observed, [2 / 3, 1 / 2])


def test_calibration_points_of_a_true_model_lie_on_the_diagonal_under_censoring() -> None:
    mean_s, true_s = _drawn(9)
    censor_s = np.ceil(np.random.default_rng(1).uniform(0.0, 20_000.0, N))
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s)
    points = calibration_points(_exponential(mean_s), rows, 5_000.0, 600.0)
    assert len(points.n_rows) == 10 and np.ptp(points.n_rows) <= 1
    np.testing.assert_allclose(points.observed, points.predicted, atol=0.025)
    long = calibration_points(_exponential(2.0 * mean_s), rows, 5_000.0, 600.0)
    np.testing.assert_allclose(long.observed, long.predicted**2, atol=0.025)
    assert np.isnan(calibration_points(_exponential(mean_s), rows, 30_000.0).observed[-1])
    assert len(calibration_points(_exponential(mean_s), rows, 1.0, 1e9).n_rows) == 0
