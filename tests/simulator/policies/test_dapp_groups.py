"""DAPP's groups of classes and their detector; the arithmetic stands above each row."""

from __future__ import annotations

import numpy as np
import pytest

import naive_dapp
from sojourn.models.drift import ClassShares, ClassShareSettings, DriftDay
from sojourn.simulator import DappRules, GroupRules
from sojourn.simulator.policies.dapp import DappState, choose_group, dapp_state, pass_day


def made(groups: GroupRules, n_bounds: int = 5) -> DappState:
    return dapp_state(DappRules(bounds_s=tuple(range(60, 60 * n_bounds + 1, 60)), long_class=1, groups=groups), 1, 1)


def updates(state: DappState, days: np.ndarray) -> list[int]:
    """Days of update, from 0. days: int (n_days, K), cores by class."""
    found = []
    for day, cores in enumerate(days):
        state.pool_cores[:] = cores
        if pass_day(state):
            found.append(day)
    return found


def group(state: DappState) -> list[int]:
    return (np.flatnonzero(state.is_member) + 1).tolist()


@pytest.mark.parametrize(("window_days", "n_days", "expected"), [
    # 12 days of warm-up, 0 to 11; alarm on 12, whose observation of 14 days ends on 25; 14 days of cooldown, 26 to 39;
    # alarm on 40, observed until 53: the paper's figure 9
    (14, 60, [25, 53]),
    # with 20 days: 12 + 20 - 1 = 31; cooldown 32 to 45; 46 + 20 - 1 = 65
    (20, 70, [31, 65]),
])
def test_a_detector_that_always_alarms_updates_on_these_days(window_days: int, n_days: int,
                                                             expected: list[int]) -> None:
    state = made(GroupRules(window_days=window_days, alarm=-1.0, confirm=0.0))
    assert updates(state, np.tile([1, 0, 0, 2, 3, 4], (n_days, 1))) == expected
    assert state.pool[0]["n_updates"] == len(expected)


def test_a_timer_updates_by_the_days_alone() -> None:
    # days 27 and 55 end 28 and 56 days
    assert updates(made(GroupRules("timer")), np.tile([1, 2, 3, 0, 0, 0], (60, 1))) == [27, 55]


def test_without_groups_every_class_is_a_member() -> None:
    state = made(GroupRules("off", alarm=-1.0, confirm=0.0))
    assert updates(state, np.tile([1, 0, 0, 0, 0, 0], (60, 1))) == []
    assert group(state) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("sums", "coverage", "n_least", "expected"), [
    # of one day: 0.6 + 0.25 = 0.85, + 0.1 = 0.95
    ([0.05, 0.1, 0.25, 0.0, 0.6, 0.0], 0.95, 2, [2, 3, 5]),
    # 0.6 covers half, but two classes must be in
    ([0.05, 0.1, 0.25, 0.0, 0.6, 0.0], 0.5, 2, [3, 5]),
    ([0.05, 0.1, 0.25, 0.0, 0.6, 0.0], 0.5, 1, [5]),
    # of equal shares the longer class comes first
    ([0.25, 0.25, 0.25, 0.25, 0.0, 0.0], 0.5, 1, [3, 4]),
    ([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.95, 2, [1, 6]),
])
def test_a_group_covers_the_largest_shares(sums: list[float], coverage: float, n_least: int,
                                           expected: list[int]) -> None:
    state = made(GroupRules(coverage=coverage, n_least=n_least))
    state.sums[:] = sums
    choose_group(state, 1)
    assert group(state) == expected


def test_the_first_group_is_of_the_warm_up_and_the_next_of_the_window() -> None:
    state = made(GroupRules("timer", warmup_days=2, window_days=2, timer_days=5, coverage=0.7, n_least=1))
    days = np.array([[8, 0, 2, 0, 0, 0], [6, 0, 4, 0, 0, 0], [0, 9, 1, 0, 0, 0], [0, 9, 1, 0, 0, 0],
                     [0, 1, 9, 0, 0, 0]])
    updates(state, days[:1])
    assert group(state) == [1, 2, 3, 4, 5, 6]
    # (0.8 + 0.6) / 2 = 0.7 of class 1
    updates(state, days[1:2])
    assert group(state) == [1]
    # the last two days: (0.9 + 0.1) / 2 = 0.5 of classes 2 and 3 each; of equal ones the longer first, then both
    assert updates(state, days[2:]) == [2]
    assert group(state) == [2, 3]


def test_a_day_without_requests_is_none() -> None:
    state = made(GroupRules("timer", timer_days=2))
    assert updates(state, np.array([[1, 0, 0, 0, 0, 0], [0] * 6, [0] * 6, [1, 0, 0, 0, 0, 0]])) == [3]


def days_with_a_step(seed: int, n_days: int = 120) -> np.ndarray:
    """Cores by six classes with noise; on day 60 a third of them goes to another class."""
    rng = np.random.default_rng(seed)
    mean = np.tile([50.0, 100.0, 150.0, 200.0, 400.0, 100.0], (n_days, 1))
    mean[60:, 4], mean[60:, 1] = 100.0, 400.0
    return np.rint(1000 * mean * rng.lognormal(0.0, 0.05, mean.shape)).astype(np.int64)


@pytest.mark.parametrize("is_as_printed", [False, True])
@pytest.mark.parametrize("window_days", [1, 3, 14, 20])
def test_it_equals_its_slow_twin_to_the_bit_and_the_pipelines_detector(window_days: int, is_as_printed: bool) -> None:
    n_updates = 0
    for seed in range(20):
        rules = GroupRules(window_days=window_days, is_as_printed=is_as_printed)
        state, twin = made(rules), naive_dapp.Detector(rules)
        other = ClassShares(ClassShareSettings(window_days=window_days, is_as_printed=is_as_printed))
        for cores in days_with_a_step(seed):
            state.pool_cores[:] = cores
            shares = [own / int(cores.sum()) for own in cores.tolist()]
            found = pass_day(state)
            assert found == twin.day(shares) == other.update(DriftDay(0.0, 0.0, 0.0, tuple(shares)))
            assert (state.pool[0]["error"], state.pool[0]["spread"]) == (twin.error, twin.spread)
            assert state.shares.tolist() == twin.means
            assert group(state) == (twin.group or [1, 2, 3, 4, 5, 6])
            n_updates += found
    assert n_updates >= 20  # the step is found in each


@pytest.mark.parametrize(("change", "message"), [
    ({"update": "weekly"}, "update must be one of off, algorithm-1, timer, got 'weekly'"),
    ({"window_days": 0}, "window_days must be 1 or more, got 0"),
    ({"alpha": 0.0}, "alpha must be above 0 and at most 1, got 0.0"),
])
def test_rules_of_groups_that_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupRules(**change)  # type: ignore[arg-type]
