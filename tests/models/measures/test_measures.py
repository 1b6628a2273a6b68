"""Measures against hand-computed values and scikit-survival's and scikit-learn's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.split import Examples, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import score_model
from sojourn.models.curve_table import OnceTable
from sojourn.models.measures import (
    Ranking,
    average_precision,
    choose_threshold,
    f1,
    mae_log10,
)
from sojourn.models.outcomes import CensoringCurve, event_weights


def _examples(lifetime_s: list[float] | np.ndarray, is_event: list[bool] | None = None) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (np.arange(n),), np.array(lifetime_s), np.ones(n, bool) if is_event is None
                    else np.array(is_event), np.zeros(n), np.zeros(n, np.int64), np.arange(n))


def test_average_precision_by_hand() -> None:
    # ranked long, short, long: precision 1 at recall 1/2, 2/3 at recall 1: 0.5 * 1 + 0.5 * 2/3
    assert average_precision(np.array([True, False, True]), np.array([3.0, 2.0, 1.0])) == pytest.approx(5 / 6)
    assert np.isnan(average_precision(np.array([True, True]), np.array([1.0, 2.0])))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=40), st.floats(0.5, 1.0))
def test_recall_at_precision_is_what_trying_every_threshold_gives(rows: list[tuple[bool, int]], wanted: float) -> None:
    is_long, score = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    best = 0.0
    for threshold in set(score.tolist()):
        taken = score >= threshold
        if is_long[taken].sum() >= wanted * taken.sum() and is_long.any():
            best = max(best, is_long[taken].sum() / is_long.sum())
    found = Ranking.of(is_long, score).curve(None).recall_at(wanted)
    assert np.isnan(found) if is_long.all() or not is_long.any() else found == pytest.approx(best)


def test_f1_by_hand() -> None:
    # 2 of 3 long found, 1 false alarm: precision 2/3, recall 2/3
    assert f1(np.array([True, True, True, False]), np.array([True, True, False, True])) == pytest.approx(2 / 3)


_ROWS = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30)


@settings(deadline=None, max_examples=50)
@given(_ROWS)
def test_a_weight_is_that_many_rows(rows: list[tuple[bool, int, bool, int]]) -> None:
    is_long, score, is_called, times = (np.array(column) for column in zip(*rows, strict=True))
    weight, predicted_s = times.astype(float), 10.0 ** (2 + score)
    repeated = np.repeat(np.arange(len(rows)), times)
    for weighted, plain in (
        (average_precision(is_long, score, weight), average_precision(is_long[repeated], score[repeated])),
        (f1(is_long, is_called, weight), f1(is_long[repeated], is_called[repeated])),
        (mae_log10(predicted_s, weight * 100, weight), mae_log10(predicted_s[repeated], weight[repeated] * 100)),
    ):
        assert weighted == pytest.approx(plain, nan_ok=True)


def test_a_prepared_ranking_is_scikit_learns_with_weights() -> None:
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    for levels in (3, 50, 10_000):
        is_long, score = rng.random(500) < 0.3, rng.integers(0, levels, 500).astype(float)
        ranking = Ranking.of(is_long, score)
        assert ranking.curve().average_precision() == pytest.approx(average_precision_score(is_long, score))
        for _ in range(5):
            weight = rng.exponential(size=500) * rng.integers(0, 2, 500)
            expected = average_precision_score(is_long, score, sample_weight=weight)
            assert ranking.curve(weight).average_precision() == pytest.approx(expected, abs=1e-12)


def test_reverse_kaplan_meier_is_that_of_scikit_survival() -> None:
    from sksurv.nonparametric import kaplan_meier_estimator

    rng = np.random.default_rng(0)
    lifetime_s = rng.integers(1, 30, 500).astype(float)
    is_event = rng.random(500) < 0.6
    times, probability = kaplan_meier_estimator(is_event, lifetime_s, reverse=True)
    curve = CensoringCurve.fit(lifetime_s, is_event, np.zeros(500))
    np.testing.assert_array_equal(curve.times_s, times)
    np.testing.assert_allclose(curve.probability, probability, atol=1e-12)


def test_weights_make_up_for_censored_requests() -> None:
    rng = np.random.default_rng(1)
    true_s = rng.exponential(100.0, 200_000)
    censor_s = rng.uniform(0.0, 500.0, 200_000)
    lifetime_s, is_event = np.minimum(true_s, censor_s), true_s <= censor_s
    seen = dataclasses.replace(_examples(lifetime_s), is_event=is_event)
    weight, clipped = event_weights(seen, np.arange(200_000), np.zeros(200_000))
    assert lifetime_s[is_event].mean() < 85.0  # what dropping censored rows would give
    # nobody is observed past 500 s, so the weights speak for lifetimes below that; clipping costs about 1 %
    within = true_s[true_s < 500.0].mean()
    assert np.average(lifetime_s, weights=weight) == pytest.approx(within, rel=0.02)
    assert clipped < 0.01
    # given an uptime of 50 s the weight begins there: G(50-) / G(L-)
    is_alive = lifetime_s > 50.0
    later, _ = event_weights(seen, np.flatnonzero(is_alive), np.full(int(is_alive.sum()), 50.0))
    within = (true_s[(true_s > 50.0) & (true_s < 500.0)] - 50.0).mean()
    assert np.average(lifetime_s[is_alive] - 50.0, weights=later) == pytest.approx(within, rel=0.02)


def test_each_week_of_arrival_has_its_own_censoring() -> None:
    # 300 of each week; all of week 0 are followed, half of week 1 are censored at 50 s, before any ends
    arrival_s = np.repeat([0, 604_800], 300)
    lifetime_s = np.full(600, 100.0)
    lifetime_s[300:450] = 50.0
    seen = dataclasses.replace(_examples(lifetime_s), arrival_s=arrival_s, is_event=lifetime_s == 100.0)
    weight, _ = event_weights(seen, np.arange(600), np.zeros(600))
    assert set(weight[:300]) == {1.0} and set(weight[300:450]) == {0.0} and set(weight[450:]) == {2.0}
    # a week with few requests takes the curve of all
    few = seen.take(np.r_[0:300, 400:500])
    weight, _ = event_weights(few, np.arange(400), np.zeros(400))
    assert set(weight[:300]) == {1.0} and set(np.round(weight[350:], 9)) == {round(400 / 350, 9)}


def test_threshold_is_the_longest_that_four_in_a_hundred_outlive() -> None:
    # 5 of 100 outlive 12 h (43,200 s), 3 of 100 a day
    lifetimes = [60.0] * 95 + [50_000.0] * 2 + [100_000.0] * 3
    assert choose_threshold(_examples(lifetimes)) == 43_200


def test_scores_at_absolute_ages_by_hand() -> None:
    test = _examples([300.0, 4_000.0, 40_000.0, 40_000.0], [True, True, True, False])
    table = OnceTable(np.log10([300.0, 4_000.0, 4_000.0, 4_000.0]), 1.0, np.zeros(201))
    scores = score_model(table, test, 7_200)
    # at 10 min three are alive, one of them censored; of the other two one is exact and one is predicted
    # 3,400 s left where 39,400 s are: log10(39,400 / 3,400) / 2
    assert scores["age_10m.n_alive"] == 3.0
    assert scores["age_10m.mae_log10_remaining"] == pytest.approx(np.log10(39_400 / 3_400) / 2)
    assert scores["age_10m.bias_log10_remaining"] == pytest.approx(-np.log10(39_400 / 3_400) / 2)
    assert scores["creation.base_rate_long"] == 0.5  # the censored one had outlived 2 h by then
    assert "age_10m.ap_long" in scores


def test_weights_are_those_of_the_same_trace_on_another_clock() -> None:
    trace = synthesize(1_500, seed=3, days=21).since_begin()
    moved = trace.moved(1_700_000_003, 1_700_000_003)  # no whole number of weeks
    found = []
    for each in (trace, moved):
        past = split_by_time(build_rows(each, default_encoder(each))).past
        found.append(event_weights(past, np.arange(len(past)), np.zeros(len(past))))
    assert found[0][1] == found[1][1]
    np.testing.assert_array_equal(found[0][0], found[1][0])
