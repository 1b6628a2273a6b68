"""Exits against the owners' own rate before, requests of new owners, and the CUSUM that learns its scale."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.models.drift import DAY_S, DETECTORS, DriftDay, ScaledCusum, new_owner_days, own_exits


def made_requests(seed: int, change_day: int = 1_000, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sixty owners of different lifetimes over 80 days; from a day on each is `factor` times as long."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.integers(0, 80 * DAY_S, 6_000))
    owner = rng.integers(0, 60, 6_000)
    mean_s = 1_000.0 * np.exp(rng.standard_normal(60))[owner] * np.where(arrival_s < change_day * DAY_S, 1.0, factor)
    return arrival_s, arrival_s + np.ceil(rng.exponential(mean_s)).astype(np.int64), owner


def own_days(arrival_s: np.ndarray, end_s: np.ndarray, owner: np.ndarray, last_day: int = 79) -> list[DriftDay]:
    return own_exits(arrival_s, arrival_s, end_s, np.ones(len(owner), bool), owner, 28, last_day)


def test_own_exits_by_hand() -> None:
    # one cell of age (0 to 60 s): 28 days of 10 requests of 50 s, today 4 of 25 s. Of 284 exits today is expected to
    # have the share of its time at risk, 100 s of 14,100 s
    arrival_s = np.concatenate([np.repeat(np.arange(28) * DAY_S, 10), np.full(4, 28 * DAY_S)])
    end_s = arrival_s + np.where(arrival_s < 28 * DAY_S, 50, 25)
    day, = own_exits(arrival_s, arrival_s, end_s, np.ones(284, bool), np.zeros(284, int), 28, 28)
    expected = 284 * 100 / 14_100
    assert day.observed == 4.0 and day.expected == pytest.approx(expected)
    assert day.variance == pytest.approx((4.0 - expected) ** 2)


def test_unchanged_owners_of_any_lifetime_have_residuals_around_0_and_a_change_is_found() -> None:
    calm = np.array([day.residual(1) for day in own_days(*made_requests(1))])
    assert abs(calm.mean()) < 0.4 and 0.7 < calm.std() < 1.3
    moved = [day.residual(-1) for day in own_days(*made_requests(1, 60, 2.0))]
    assert min(moved[32:35]) > 2.0


def test_an_owner_that_is_new_says_nothing_of_exits() -> None:
    arrival_s, end_s, owner = made_requests(2)
    other = np.where(arrival_s >= 60 * DAY_S, owner + 100, owner)
    arrival_s, end_s, other = (each[end_s // DAY_S == arrival_s // DAY_S] for each in (arrival_s, end_s, other))
    days = own_days(arrival_s, end_s, other)
    assert (days[32].observed, days[32].expected, days[32].variance) == (0.0, 0.0, 0.0)


def test_days_of_owners_are_those_of_a_record_that_ends_there() -> None:
    arrival_s, end_s, owner = made_requests(3, 60, 3.0)
    cut_s = 63 * DAY_S
    known = arrival_s < cut_s
    early = own_exits(arrival_s[known], arrival_s[known], np.minimum(end_s, cut_s)[known], (end_s <= cut_s)[known],
                      owner[known], 28, 62)
    assert early == own_days(arrival_s, end_s, owner)[:35]
    assert new_owner_days(arrival_s[known], owner[known], 0, 62) == new_owner_days(arrival_s, owner, 0, 79)[:63]


def test_new_owners_by_hand() -> None:
    # two requests a day of one owner; days 14 to 27 have none of a new one, so the share is 0; on day 30 three of two
    arrival_s = np.sort(np.concatenate([np.arange(62) * DAY_S // 2, np.full(3, 30 * DAY_S + 5)]))
    owner = np.zeros(65, int)
    owner[np.flatnonzero(arrival_s == 30 * DAY_S + 5)] = (1, 1, 2)
    days = new_owner_days(arrival_s, owner, 26, 30)
    assert [day.observed for day in days] == [0.0, 0.0, 0.0, 0.0, 3.0]
    assert (days[4].expected, days[4].variance) == (0.0, 5.0)


def test_more_new_owners_are_found_on_the_second_day_and_fewer_are_no_alarm() -> None:
    rng = np.random.default_rng(4)
    arrival_s = np.sort(rng.integers(0, 90 * DAY_S, 9_000))
    owner = rng.integers(0, 50, 9_000)
    fresh = np.where((arrival_s >= 80 * DAY_S) & (rng.random(9_000) < 0.4), 1_000 + rng.integers(0, 25, 9_000), owner)
    for owners, expected in ((fresh, [81]), (owner, [])):
        detector = DETECTORS["new-owners"]()
        days = [DriftDay(0.0, 0.0, 0.0, new_owners=day) for day in new_owner_days(arrival_s, owners, 0, 89)]
        assert [number for number, day in enumerate(days) if detector.update(day)] == expected


def test_the_scale_of_correlated_residuals_is_learnt_late_and_kept() -> None:
    rng = np.random.default_rng(5)
    residual, found = 0.0, []
    for _ in range(400):
        residual = 0.8 * residual + 0.6 * rng.standard_normal()  # spread 1, correlation 0.8: scale 3
        found.append(DriftDay(100.0 + 10.0 * residual, 100.0, 100.0))
    detector = ScaledCusum(threshold=1e9, rest_days=0)
    for day in found[:8]:
        detector.update(day)
    assert detector.scale == 1.0
    for day in found[8:]:
        detector.update(day)
    assert detector.scale == pytest.approx(3.0, rel=0.35)
    before = detector.scale
    detector.threshold = 0.5
    assert any(detector.update(DriftDay(200.0, 100.0, 100.0)) for _ in range(3))
    assert detector.scale == pytest.approx(before, rel=0.2)


def test_it_rests_after_an_alarm() -> None:
    detector = ScaledCusum(threshold=3.0, allowance=1.0, rest_days=4)
    alarms = [detector.update(DriftDay(200.0, 100.0, 100.0)) for _ in range(12)]
    assert [number for number, alarm in enumerate(alarms) if alarm] == [5, 11]


@pytest.mark.parametrize("made", [lambda: ScaledCusum(threshold=0.0), lambda: ScaledCusum(rest_days=-1)])
def test_impossible_settings_are_refused(made: type) -> None:
    with pytest.raises(ValueError, match="must be"):
        made()


def test_a_last_day_before_the_first_is_refused() -> None:
    none = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match=r"last_day must .*, got 2"):
        own_exits(none, none, none, none.astype(bool), none, 3, 2)
    with pytest.raises(ValueError, match=r"last_day must .*, got 2"):
        new_owner_days(none, none, 3, 2)
