"""Draws by owner: what a draw is, whose level counts, and the interval they give."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.models.measures import OwnerDraws, coarsest_owner, interval
from sojourn.models.measures.censoring import weighted_mean


def test_a_draw_takes_as_many_owners_as_there_are_and_all_rows_of_each() -> None:
    codes = np.array([5, 2, 5, 9, 2, 5])
    for weight in OwnerDraws(codes, 50, seed=3):
        drawn = {code: set(weight[codes == code].tolist()) for code in (2, 5, 9)}
        assert all(len(times) == 1 for times in drawn.values())
        assert sum(times.pop() for times in drawn.values()) == 3.0


def test_each_owner_is_drawn_once_on_average_with_the_variance_of_a_multinomial() -> None:
    draws = np.array(list(OwnerDraws(np.arange(10), 20_000, seed=0)))
    np.testing.assert_allclose(draws.mean(axis=0), 1.0, atol=0.03)
    np.testing.assert_allclose(draws.var(axis=0), 1.0 - 1 / 10, atol=0.04)
    assert np.cov(draws[:, 0], draws[:, 1])[0, 1] == pytest.approx(-1 / 10, abs=0.02)


def test_draws_repeat_and_a_seed_matters() -> None:
    draws = OwnerDraws(np.arange(30), 4, seed=1)
    first, again = np.array(list(draws)), np.array(list(draws))
    np.testing.assert_array_equal(first, again)
    assert len(draws) == len(first) == 4
    assert not np.array_equal(first, np.array(list(OwnerDraws(np.arange(30), 4, seed=2))))


def test_rows_of_unknown_owners_are_drawn_one_by_one() -> None:
    draws = np.array(list(OwnerDraws(np.array([0, 0, -1, -1]), 200, seed=0)))
    assert (draws[:, 0] == draws[:, 1]).all() and (draws[:, 2] != draws[:, 3]).any()
    assert (draws[:, 0] + draws[:, 2] + draws[:, 3] == 3.0).all()


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="owner_codes must hold at least one row, got none"):
        OwnerDraws(np.empty(0, np.int64), seed=0)


def test_the_coarsest_key_with_twenty_owners_counts() -> None:
    few, enough, fine = np.arange(60) % 19, np.arange(60) % 20, np.arange(60) % 30
    assert coarsest_owner([few, enough, fine], 60) is enough
    assert coarsest_owner([np.where(enough == 0, -1, enough), fine], 60) is fine  # the unknown are no owner
    np.testing.assert_array_equal(coarsest_owner([few], 60), np.arange(60))
    np.testing.assert_array_equal(coarsest_owner([], 60), np.arange(60))


def test_the_interval_is_that_of_the_theory_and_of_owners_not_rows() -> None:
    # 100 owners with 20 equal rows each, owner values of standard deviation 1: the mean's standard error is
    # 1 / sqrt(100), and the interval is 2 x 1.96 of them wide; rows on their own would say 1 / sqrt(2000)
    owner = np.repeat(np.arange(100), 20)
    each = np.random.default_rng(0).normal(size=100)
    values = ((each - each.mean()) / each.std())[owner]
    low, high = interval([weighted_mean(values, weight) for weight in OwnerDraws(owner, 2_000, seed=0)])
    assert high - low == pytest.approx(2 * 1.96 / 10, rel=0.06)
    low, high = interval([weighted_mean(values, weight) for weight in OwnerDraws(np.arange(2_000), 2_000, seed=0)])
    assert high - low == pytest.approx(2 * 1.96 / 2_000**0.5, rel=0.06)


def test_replicates_with_nothing_to_measure_are_left_out() -> None:
    assert interval([1.0, float("nan"), 1.0]) == (1.0, 1.0)
    assert np.isnan(interval([float("nan")])).all() and np.isnan(interval([])).all()
    assert np.isnan(weighted_mean(np.ones(2), np.zeros(2))) and np.isnan(weighted_mean(np.empty(0)))
