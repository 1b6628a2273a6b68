"""Brier scores against scikit-survival's, by hand, and reweighed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sksurv.metrics
from sksurv.util import Surv

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.measures import brier, brier_score, censoring_curve, integrated_brier_score
from sojourn.models.measures.brier import (
    EXIT_TIMES_S,
    N_GROUPS,
    N_MOMENTS,
    N_TIMES,
    brier_rows,
    brier_times,
    exit_groups,
    group_exits,
    integrated_at_age,
    integrated_brier_rows,
)
from sojourn.models.measures.censoring import follow_up_s, weighted_mean


def _rows(lifetime_s: np.ndarray, is_event: np.ndarray) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), lifetime_s.astype(float), is_event, np.zeros(n), np.zeros(n, np.int64),
                    np.arange(n))


def _exponential(mean_s: np.ndarray) -> HazardTable:
    """Curves exp(-t / mean)."""
    edges = np.array([0.0, 1.0])
    return HazardTable(edges[None], edges, np.tile(1.0 / mean_s[:, None], 2),
                       np.stack([np.zeros(len(mean_s)), 1.0 / mean_s], axis=1), np.tile(mean_s[:, None], 2),
                       np.zeros((len(mean_s), 2)))


def _drawn(seed: int, n: int = 400) -> tuple[HazardTable, Examples]:
    """Whole seconds; censored half a second later, so that no end is at the second of one censored."""
    rng = np.random.default_rng(seed)
    mean_s = np.exp(rng.normal(6.0, 1.0, n))
    true_s, censor_s = np.ceil(rng.exponential(mean_s)), np.ceil(rng.exponential(800.0, n)) + 0.5
    return _exponential(mean_s), _rows(np.minimum(true_s, censor_s), true_s <= censor_s)


def test_the_curves_of_these_tests_are_exponential() -> None:
    table = _exponential(np.array([10.0, 1_000.0]))
    np.testing.assert_allclose(table.survival(25.0, 0.0), np.exp([-2.5, -0.025]))


@pytest.mark.parametrize("seed", range(3))
def test_each_time_and_the_integral_are_scikit_survivals(seed: int) -> None:
    table, rows = _drawn(seed)
    times_s = brier_times(rows)
    assert len(times_s) == 40 and times_s[0] == 30.0 and times_s[-1] == pytest.approx(follow_up_s(rows))
    known = Surv.from_arrays(rows.is_event, rows.lifetime_s)
    survival = np.stack([table.survival(time_s, 0.0) for time_s in times_s], axis=1)
    _, expected = sksurv.metrics.brier_score(known, known, survival, times_s)
    found = [brier_score(table, rows, float(time_s)) for time_s in times_s]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    integral = np.trapezoid(expected, np.log(times_s)) / np.log(times_s[-1] / times_s[0])
    assert integrated_brier_score(table, rows) == pytest.approx(integral, rel=1e-12)


def test_by_hand_at_a_second_with_an_end_and_one_censored() -> None:
    # survival exp(-4/8) = s at 4. The end at 2 weighs 1 / G(2-) = 1; one of the three left is censored at 2;
    # those that outlive 4 weigh 1 / G(4) = 3/2
    rows = _rows(np.array([2, 2, 5, 9]), np.array([True, False, True, True]))
    s = np.exp(-0.5)
    table = _exponential(np.full(4, 8.0))
    np.testing.assert_allclose(brier_rows(table, rows, 4.0, censoring_curve(rows)),
                               [s**2, 0.0, 1.5 * (1 - s) ** 2, 1.5 * (1 - s) ** 2])
    assert brier_score(table, rows, 4.0) == pytest.approx((s**2 + 3 * (1 - s) ** 2) / 4)


def test_reweighing_rows_is_repeating_them() -> None:
    table, rows = _drawn(7, 100)
    times = np.random.default_rng(0).integers(0, 4, 100)
    repeated = np.repeat(np.arange(100), times)
    curve, times_s = censoring_curve(rows), brier_times(rows, 12)
    whole = integrated_brier_rows(table, rows, times_s, curve)
    again = integrated_brier_rows(table.take(repeated), rows.take(repeated), times_s, curve)
    assert weighted_mean(whole, times.astype(float)) == pytest.approx(again.mean())
    assert weighted_mean(whole, times.astype(float)) != pytest.approx(whole.mean(), rel=1e-3)


@pytest.mark.parametrize("block", [1, 7, 1_000_000])
def test_rows_that_outlived_an_age_are_scored_in_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    table, rows = _drawn(3)
    is_asked = rows.lifetime_s > 100.0
    left = dataclasses.replace(rows.take(is_asked), lifetime_s=rows.lifetime_s[is_asked] - 100.0)
    # an exponential curve is the same at each age
    known = integrated_brier_rows(table.take(is_asked), left, brier_times(left, N_TIMES // 2), censoring_curve(left))
    monkeypatch.setattr(brier, "_BLOCK", block)
    found = integrated_at_age(table, rows, 100.0)
    assert found is not None
    np.testing.assert_array_equal(found[0], is_asked)
    np.testing.assert_allclose(found[1], known, rtol=1e-9)


def test_censoring_does_not_move_it_and_the_true_model_is_the_best() -> None:
    rng = np.random.default_rng(3)
    n = 60_000
    mean_s = np.exp(rng.normal(5.0, 1.0, n))
    true_s, censor_s = rng.exponential(mean_s), rng.uniform(0.0, 1_500.0, n)
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s)
    curve, times_s = censoring_curve(rows), np.geomspace(30.0, 1_000.0, 20)
    whole = _rows(true_s, np.ones(n, bool))
    right = _exponential(mean_s)
    found = integrated_brier_rows(right, rows, times_s, curve).mean()
    truth = integrated_brier_rows(right, whole, times_s, censoring_curve(whole)).mean()
    assert found == pytest.approx(truth, abs=0.002)
    s = np.exp(-times_s[:, None] / mean_s)  # the true model's expected score is the mean of s (1 - s)
    assert truth == pytest.approx(
        np.trapezoid((s * (1 - s)).mean(axis=1), np.log(times_s)) / np.log(1_000.0 / 30.0), abs=0.002)
    for factor in (0.5, 2.0):
        assert integrated_brier_rows(_exponential(factor * mean_s), rows, times_s, curve).mean() > found + 0.005


def test_late_entries_are_refused_and_a_short_follow_up_is_nan() -> None:
    table, rows = _drawn(0, 5)
    late = dataclasses.replace(rows, entry_s=np.array([0.0, 0.5, 0.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="rows must be under observation from their start"):
        brier_score(table, late, 40.0)
    brief = _rows(np.full(5, 20.0), np.ones(5, bool))
    assert len(brier_times(brief)) == 0 and np.isnan(integrated_brier_score(table, brief))


def _running_together(n: int = 400, seed: int = 0) -> tuple[HazardTable, Examples]:
    table, rows = _drawn(seed, n)
    rng = np.random.default_rng(seed)
    return table, dataclasses.replace(rows, arrival_s=rng.integers(0, 3_000, n),
                                      entry_s=np.where(rng.random(n) < 0.2, np.floor(rows.lifetime_s / 2), 0.0))


def test_exits_of_groups_are_those_by_hand() -> None:
    """Each arrival's running requests, four by four; the chance of one, the exit of the last, what is not known."""
    table, rows = _running_together(60)
    squared, known, weights = [], [], []
    weight = np.random.default_rng(1).random(60)
    order = np.argsort(rows.arrival_s, kind="stable")
    n_censored = 0
    for first in order:
        now_s = rows.arrival_s[first]
        runs = [one for one in order if rows.arrival_s[one] + rows.entry_s[one] <= now_s
                < rows.arrival_s[one] + rows.lifetime_s[one]]
        for start in range(0, len(runs) - 3, 4):
            group = np.array(runs[start:start + 4])
            left_s = rows.arrival_s[group] + rows.lifetime_s[group] - now_s
            n_censored += not rows.is_event[group].all()
            for time_s in EXIT_TIMES_S:
                if rows.is_event[group].all() or left_s.max() > time_s:
                    ended = [1.0 - table.take(np.array([one])).survival(time_s, now_s - rows.arrival_s[one])[0]
                             for one in group]
                    squared.append(((1.0 - np.prod(ended)) - (left_s.max() > time_s))**2)
                    known.append(1.0)
                    weights.append(weight[group].mean())
    measure = group_exits(table, rows)
    assert n_censored > 10 and len(known) > 900
    assert measure(None) == pytest.approx(np.mean(squared), rel=1e-12)
    assert measure(weight) == pytest.approx(np.average(squared, weights=weights), rel=1e-12)


def test_exits_of_groups_are_best_by_the_true_curves_and_undefined_without_groups() -> None:
    table, rows = _running_together()
    true = group_exits(table, rows)(None)
    for wrong in (0.3, 3.0):
        assert true < group_exits(_exponential(table.after[:, 0] * wrong), rows)(None)
    assert np.isnan(group_exits(table.take(np.arange(3)), rows.take(np.arange(3)))(None))
    assert np.isnan(group_exits(table.take(np.arange(0)), rows.take(np.arange(0)))(None))


def test_exits_of_groups_are_of_a_bounded_number() -> None:
    _, rows = _running_together(3_000)
    assert len(exit_groups(rows).exit_s) <= N_MOMENTS * N_GROUPS
