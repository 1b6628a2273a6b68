"""Weights that make up for censoring: by hand, and what they recover of a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.measures import average_precision, censoring_curve, mae_log10, outliving_weights
from sojourn.models.measures.censoring import end_weights, follow_up_s
from sojourn.models.measures.errors import FLOOR_S


def _rows(lifetime_s: list[float] | np.ndarray, is_event: list[bool] | np.ndarray,
          entry_s: list[float] | np.ndarray | None = None) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), np.array(lifetime_s, np.float64), np.array(is_event),
                    np.zeros(n) if entry_s is None else np.array(entry_s), np.zeros(n, np.int64), np.arange(n))


def test_weights_of_outliving_by_hand() -> None:
    # G: at 3 one of 5 is censored (4/5), at 6 one of the 2 left, after the end at 6 (4/5 x 1/2)
    rows = _rows([2.0, 3.0, 4.0, 6.0, 6.0, 9.0], [True, False, True, True, False, True])
    curve = censoring_curve(rows)
    np.testing.assert_allclose(curve.at(np.array([2.9, 3.0, 5.9, 6.0])), [1.0, 0.8, 0.8, 0.4])
    np.testing.assert_allclose(curve.before(np.array([3.0, 6.0, 9.0])), [1.0, 0.8, 0.4])
    weight, clipped = outliving_weights(curve, rows, 5.0)
    np.testing.assert_allclose(weight, [1.0, 0.0, 1 / 0.8, 1 / 0.8, 1 / 0.8, 1 / 0.8])
    assert weight.sum() == pytest.approx(6.0) and clipped == 0.0
    # at the threshold 6 an end at 6 is short, G(6-); one censored at 6 is unknown; beyond weighs 1 / G(6)
    weight, _ = outliving_weights(curve, rows, 6.0)
    np.testing.assert_allclose(weight, [1.0, 0.0, 1 / 0.8, 1 / 0.8, 0.0, 1 / 0.4])
    # at age 3 those alive are asked, and all begin at G(3) = 0.8
    weight, _ = outliving_weights(curve, rows, 6.0, 3.0)
    np.testing.assert_allclose(weight, [0.0, 0.0, 1.0, 1.0, 0.0, 2.0])
    weight, _ = end_weights(curve, rows, 3.0)
    np.testing.assert_allclose(weight, [0.0, 0.0, 1.0, 1.0, 0.0, 2.0])


def test_late_entries_weigh_from_their_entry_on() -> None:
    rows = _rows([4.0, 5.0, 9.0, 9.0], [True, False, True, True], [0.0, 0.0, 0.0, 4.5])
    curve = censoring_curve(rows)
    np.testing.assert_allclose(curve.at(np.array([5.0])), 2 / 3)  # three at risk at 5, one of them late
    np.testing.assert_allclose(outliving_weights(curve, rows, 8.0)[0], [1.0, 0.0, 1.5, 0.0])
    np.testing.assert_allclose(outliving_weights(curve, rows, 8.0, 4.75)[0], [0.0, 0.0, 1.5, 1.5])


def test_weights_are_clipped_and_say_how_many() -> None:
    # 99 of 100 are censored at 5: the last one would weigh 100
    rows = _rows([5.0] * 99 + [9.0], [False] * 99 + [True])
    weight, clipped = outliving_weights(censoring_curve(rows), rows, 8.0)
    assert weight.tolist() == [0.0] * 99 + [20.0] and clipped == 1.0
    assert end_weights(censoring_curve(rows), rows)[0][-1] == 20.0


def test_an_age_past_the_threshold_is_refused() -> None:
    rows = _rows([5.0], [True])
    with pytest.raises(ValueError, match=r"age_s must .*, got 3\.0"):
        outliving_weights(censoring_curve(rows), rows, 3.0, 3.0)


def test_follow_up_is_where_five_in_a_hundred_are_left_and_no_weight_up_to_it_is_clipped() -> None:
    assert follow_up_s(_rows(np.arange(1.0, 102.0), np.ones(101, bool))) == 96.0
    assert np.isnan(follow_up_s(_rows([], np.ones(0, bool))))
    rng = np.random.default_rng(0)
    time_s = np.ceil(rng.exponential(100.0, 5_000))
    rows = _rows(time_s, rng.random(5_000) < 0.02)  # nearly all censored
    last_s = follow_up_s(rows)
    weight, clipped = outliving_weights(censoring_curve(rows), rows, last_s)
    assert clipped == 0.0 and 10.0 < weight.max() <= 20.0


def test_the_weights_recover_what_no_censoring_would_have_shown() -> None:
    rng = np.random.default_rng(2)
    n = 100_000
    mean_s = np.exp(rng.normal(6.0, 1.0, n))
    true_s = np.ceil(rng.exponential(mean_s))
    censor_s = np.ceil(rng.uniform(0.0, 4_000.0, n))
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s)
    score = np.log(mean_s) + rng.normal(0.0, 0.3, n)
    curve = censoring_curve(rows)
    for age_s, threshold_s in ((0.0, 1_000.0), (300.0, 2_000.0)):
        weight, clipped = outliving_weights(curve, rows, threshold_s, age_s)
        is_alive = true_s > age_s
        truth = average_precision(true_s[is_alive] > threshold_s, score[is_alive])
        is_known = (rows.lifetime_s > age_s) & (rows.is_event | (rows.lifetime_s > threshold_s))
        dropped = average_precision(rows.lifetime_s[is_known] > threshold_s, score[is_known])
        found = average_precision(rows.lifetime_s > threshold_s, score, weight)
        assert clipped == 0.0 and found == pytest.approx(truth, abs=0.01)
        assert abs(dropped - truth) > 0.03
        share = np.average(rows.lifetime_s > threshold_s, weights=weight)
        assert share == pytest.approx((true_s[is_alive] > threshold_s).mean(), abs=0.01)
    weight, _ = end_weights(curve, rows)
    predicted_s = np.full(n, 250.0)
    is_within = true_s < 3_900.0
    truth = mae_log10(predicted_s[is_within], np.maximum(true_s[is_within], FLOOR_S))
    dropped = mae_log10(predicted_s[rows.is_event], rows.lifetime_s[rows.is_event])
    assert mae_log10(predicted_s, rows.lifetime_s, weight) == pytest.approx(truth, abs=0.005)
    assert abs(dropped - truth) > 0.02
