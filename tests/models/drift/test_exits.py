"""Observed and expected exits: against a slow twin, under censoring, and without what comes later."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_drift import naive_daily_exits
from sojourn.models.drift import DAY_S, WatchedRequests, daily_exits

BANDS = (0.0, 7_200.0, 90_000.0)


def drawn(seed: int, n: int = 40, days: int = 6) -> WatchedRequests:
    """Requests that arrive over `days` days from two before 0, some watched late, some censored."""
    rng = np.random.default_rng(seed)
    arrival = rng.integers(-2 * DAY_S, days * DAY_S, n)
    lifetime = np.rint(np.exp(rng.normal(9.5, 2.0, n))).astype(np.int64)
    lifetime[rng.random(n) < 0.1] = 0  # ends in the second of the arrival
    watch = arrival + np.where(rng.random(n) < 0.3, (lifetime * rng.random(n)).astype(np.int64), 0)
    ages = np.append(0.0, np.geomspace(60.0, 5 * DAY_S, 7))
    hazard = np.column_stack([np.zeros(n), rng.exponential(0.5, (n, 7)).cumsum(axis=1)])
    return WatchedRequests(arrival, watch, arrival + lifetime, rng.random(n) < 0.8, rng.integers(0, 6, n), ages, hazard)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), first=st.integers(-3, 2), n_days=st.integers(1, 9))
def test_it_is_the_slow_twins(seed: int, first: int, n_days: int) -> None:
    rows = drawn(seed)
    found = daily_exits(rows, first, first + n_days - 1, BANDS)
    observed, expected, squared, squared_all = naive_daily_exits(rows, first, first + n_days - 1, BANDS)
    assert found.observed.tolist() == observed.tolist()
    np.testing.assert_allclose(found.expected, expected, atol=1e-9)
    np.testing.assert_allclose(found.squared, squared, atol=1e-9)
    np.testing.assert_allclose(found.squared_all, squared_all, atol=1e-9)


def test_later_days_change_nothing() -> None:
    rows = drawn(3, 400, 12)
    whole = daily_exits(rows, 0, 11, BANDS)
    assert whole.observed.sum() > 200
    for now_day in (1, 4, 9):
        known = daily_exits(rows.known_at(now_day * DAY_S), 0, now_day - 1, BANDS)
        for name in ("observed", "expected", "squared", "squared_all"):
            np.testing.assert_allclose(getattr(known, name), getattr(whole, name)[:now_day], atol=1e-12)


def exponential(rate_per_day: float, predicted_per_day: float, censoring: str, seed: int = 5) -> WatchedRequests:
    """20,000 requests of constant hazard over 20 days, and how their observation ends."""
    rng = np.random.default_rng(seed)
    n = 20_000
    arrival = rng.integers(0, 20 * DAY_S, n)
    end = arrival + np.ceil(rng.exponential(DAY_S / rate_per_day, n)).astype(np.int64)
    if censoring == "by chance":
        stop = arrival + np.ceil(rng.exponential(DAY_S / 2, n)).astype(np.int64)
    elif censoring == "at a cut":
        stop = np.full(n, 15 * DAY_S)
    else:  # by what the curve says of the age: observation ends where half are predicted to be gone
        stop = arrival + int(DAY_S * np.log(2.0) / predicted_per_day)
    ages = np.array([0.0, 40.0 * DAY_S])
    is_kept = arrival < stop
    arrival, end, stop = arrival[is_kept], end[is_kept], stop[is_kept]
    return WatchedRequests(arrival, arrival, np.minimum(end, stop), end <= stop, np.arange(len(arrival)), ages,
                           np.tile(ages * predicted_per_day / DAY_S, (len(arrival), 1)))


@pytest.mark.parametrize("censoring", ["by chance", "at a cut", "by age"])
def test_under_the_true_model_the_difference_has_mean_zero_however_requests_are_censored(censoring: str) -> None:
    days = daily_exits(exponential(1.0, 1.0, censoring), 0, 19, BANDS)
    excess = (days.observed - days.expected).sum(axis=1)
    in_errors = excess.sum() / np.sqrt(days.squared_all.sum())
    assert days.observed.sum() > 5_000
    assert abs(in_errors) < 3.0
    assert days.squared_all.sum() == pytest.approx(days.expected.sum(), rel=0.1)  # each request its own cluster


@pytest.mark.parametrize("censoring", ["by chance", "at a cut", "by age"])
def test_a_hazard_half_as_high_gives_half_the_exits(censoring: str) -> None:
    days = daily_exits(exponential(0.5, 1.0, censoring), 0, 19, BANDS)
    assert days.observed.sum() / days.expected.sum() == pytest.approx(0.5, rel=0.05)


def test_a_batch_that_ends_together_is_one_standard_error() -> None:
    ages = np.array([0.0, DAY_S])
    n = 50
    rows = WatchedRequests(np.zeros(n, int), np.zeros(n, int), np.full(n, 3_600), np.ones(n, bool), np.zeros(n, int),
                           ages, np.tile(ages / DAY_S, (n, 1)))
    days = daily_exits(rows, 0, 0, (0.0,))
    excess = days.observed[0, 0] - days.expected[0, 0]
    assert excess == pytest.approx(50 - 50 / 24)
    assert excess / np.sqrt(days.squared_all[0]) == pytest.approx(1.0)


def test_above_the_last_age_nothing_is_compared() -> None:
    ages = np.array([0.0, 100.0])
    rows = WatchedRequests(np.array([0]), np.array([0]), np.array([500]), np.array([True]), np.array([0]), ages,
                           np.array([[0.0, 2.0]]))
    days = daily_exits(rows, 0, 0)
    assert days.observed.sum() == 0.0 and days.expected.sum() == 2.0


def test_a_request_of_no_watched_time_adds_nothing() -> None:
    ages = np.array([0.0, 100.0])
    rows = WatchedRequests(np.array([5]), np.array([50]), np.array([50]), np.array([True]), np.array([0]), ages,
                           np.array([[0.0, 2.0]]))
    assert daily_exits(rows, 0, 0).observed.sum() == 0.0


def test_ends_in_the_second_of_the_arrival_are_exits_of_age_one_second() -> None:
    ages = np.array([0.0, 100.0])
    arrival = np.array([5, DAY_S - 1, 9])  # the second ends at midnight; the third is censored
    rows = WatchedRequests(arrival, arrival, arrival, np.array([True, True, False]), np.arange(3), ages,
                           np.tile(ages / 50.0, (3, 1)))
    days = daily_exits(rows, 0, 1)
    assert days.observed.tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(days.expected, [[2 / 50, 0.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(("change", "message"), [
    ({"end_s": np.array([4, 9])}, "end_s must be at or after watch_s, got request 0"),
    ({"watch_s": np.array([5, 4])}, "watch_s must be at or after arrival_s, got request 1"),
    ({"ages_s": np.array([1.0, 2.0])}, "ages_s must be at least two ages that rise from 0"),
    ({"hazard": np.array([[0.0, 1.0], [1.0, 0.5]])}, "hazard must be finite and must not fall"),
    ({"hazard": np.array([[0.0, np.inf], [0.0, 0.5]])}, "hazard must be finite"),
    ({"cluster": np.array([1])}, "cluster must be of shape"),
])
def test_what_is_refused(change: dict[str, np.ndarray], message: str) -> None:
    good = WatchedRequests(np.array([5, 5]), np.array([5, 5]), np.array([9, 9]), np.array([True, True]),
                           np.array([0, 1]), np.array([0.0, 10.0]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(good, **change)


def test_days_and_bands_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match=r"last_day must .*, got 2"):
        daily_exits(drawn(0), 3, 2)
    with pytest.raises(ValueError, match="bands_s must rise from 0"):
        daily_exits(drawn(0), 0, 2, (0.0, 5.0, 5.0))
