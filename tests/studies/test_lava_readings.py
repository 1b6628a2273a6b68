"""The readings of LAVA beside ours, rule by rule; the arithmetic stands above each row."""

import numpy as np
import pytest

from sojourn.simulator import NEVER, Cluster, Request
from sojourn.simulator.policies.lava import EMPTY, OPEN, RECYCLING, departed, emptied, is_fuller_than, lava_state
from studies.policies.one_rule_changed import (
    LAVA_SOFT,
    LAVA_SOFT_EXPECTED,
    LAVA_SOFT_JOINT,
    at_deadline_from_opening,
    placed_from_opening,
    placed_until_95,
    recycling_preference,
)

HOUR = 3600
NOW = 50_000


def cluster(n_hosts: int = 1) -> Cluster:
    """Empty hosts of 1,000 and 200 units."""
    capacity = np.tile((1000, 200), (n_hosts, 1))
    return Cluster(capacity, capacity.copy(), np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.int64),
                   state=lava_state(n_hosts, 9))


def come(hosts: Cluster, row: int, left_h: float, cpu: int, now: int = NOW) -> None:
    """Room first, then the hook."""
    need = np.array([cpu, 1])
    hosts.free[0] -= need
    hosts.n_running[0] += 1
    placed_from_opening(hosts, 0, Request(row, need, now + int(left_h * HOUR)), now)


def go(hosts: Cluster, row: int, cpu: int, now: int) -> None:
    """The hook first, then room."""
    departed(hosts, 0, row, now)
    hosts.free[0] += (cpu, 1)
    hosts.n_running[0] -= 1
    if hosts.n_running[0] == 0:
        emptied(hosts, 0, now)


def seen(hosts: Cluster) -> tuple[int, int, int]:
    """Mode, class, deadline."""
    state = hosts.state
    return int(state.mode[0]), int(state.lifetime_class[0]), int(state.deadline_s[0])


@pytest.mark.parametrize(("need", "expected"), [
    # 950 of 1,000 and 190 of 200 are 95 %: not more
    ((950, 190), False),
    # 95.1 % of the one, 95.5 % of the other
    ((951, 1), True),
    ((1, 191), True),
])
def test_full_at_95_percent_is_strictly_above_on_any_resource(need: tuple[int, int], expected: bool) -> None:
    hosts = cluster()
    hosts.free[0] -= need
    assert is_fuller_than(hosts, 0, 95) == expected


def test_a_host_recycles_above_95_percent_and_not_above_90() -> None:
    for used, mode in ((901, OPEN), (950, OPEN), (951, RECYCLING)):
        hosts = cluster()
        hosts.free[0] -= (used, 1)
        hosts.n_running[0] += 1
        placed_until_95(hosts, 0, Request(0, np.array([used, 1]), NOW + 5 * HOUR), NOW)
        assert seen(hosts) == (mode, 2, NOW + 39_600), used  # LC2: 1.1 x 10 h


def test_the_deadline_counts_from_the_opening() -> None:
    hosts = cluster()
    come(hosts, 0, 5, 500)
    assert seen(hosts) == (OPEN, 2, 89_600)  # LC2: 50,000 + 39,600
    come(hosts, 1, 5, 450, now=NOW + 10_000)
    # full: it recycles, and the deadline does not begin again
    assert seen(hosts) == (RECYCLING, 2, 89_600)
    come(hosts, 2, 0.5, 20, now=NOW + 10_001)
    go(hosts, 0, 500, NOW + 10_002)
    go(hosts, 1, 450, NOW + 10_003)
    # LC2 to LC1, which begins a deadline of its own: 60,003 + 3,960
    assert seen(hosts) == (RECYCLING, 1, 63_963)
    at_deadline_from_opening(hosts, 0, 63_963)
    # LC1 to LC2, from the opening: 50,000 + 39,600
    assert seen(hosts) == (RECYCLING, 2, 89_600)
    at_deadline_from_opening(hosts, 0, 89_600)
    # LC2 to LC3, from the opening: 50,000 + 396,000
    assert seen(hosts) == (RECYCLING, 3, 446_000)
    at_deadline_from_opening(hosts, 0, 446_000)
    # LC4: 50,000 + 3,960,000; then it only renews: 4,010,000 + 3,960,000
    assert seen(hosts) == (RECYCLING, 4, 4_010_000)
    at_deadline_from_opening(hosts, 0, 4_010_000)
    assert seen(hosts) == (RECYCLING, 4, 7_970_000)
    assert hosts.state.n_residuals[0] == 1


def test_a_class_whose_time_from_the_opening_is_over_counts_from_now() -> None:
    hosts = cluster()
    come(hosts, 0, 0.5, 500)
    at_deadline_from_opening(hosts, 0, 99_000)
    # LC1 to LC2: 50,000 + 39,600 is over, so 99,000 + 39,600
    assert seen(hosts) == (RECYCLING, 2, 138_600)


def test_an_emptied_host_opens_anew() -> None:
    hosts = cluster()
    come(hosts, 0, 5, 500)
    go(hosts, 0, 500, NOW + 9)
    assert seen(hosts) == (EMPTY, 0, NEVER)
    come(hosts, 1, 0.5, 500, now=NOW + 100)
    # LC1: 50,100 + 3,960, and from that opening
    assert (*seen(hosts), int(hosts.state.opened_s[0])) == (OPEN, 1, 54_060, 50_100)


@pytest.mark.parametrize(("left_s", "expected"), [
    # LC1: recycling LC2, LC3 and LC4 are 1, 2 and 3 above, so 0, 1, 2; all others, empty or in use, 3
    (60, [3, 2, 0, 3, 3, 3, 1]),
    # LC2: recycling LC3 and LC4 are 0 and 1; the open host of LC2 is like any other
    (2 * HOUR, [3, 1, 3, 3, 3, 3, 0]),
    (200 * HOUR, [3, 3, 3, 3, 3, 3, 3]),
])
def test_only_recycling_hosts_stand_above_nilas(left_s: int, expected: list[int]) -> None:
    modes = [EMPTY, RECYCLING, RECYCLING, OPEN, OPEN, RECYCLING, RECYCLING]
    hosts = cluster(len(modes))
    hosts.state.mode[:], hosts.state.lifetime_class[:] = modes, [0, 4, 2, 1, 2, 1, 3]
    hosts.n_running[:] = [mode != EMPTY for mode in modes]
    asked = Request(0, np.array([1, 1]), NOW + left_s)
    assert [recycling_preference(hosts, host, asked, NOW) for host in range(len(modes))] == expected


def test_the_soft_readings_differ_in_the_level_below() -> None:
    # 70 min beyond a host that is busy for an hour by the mean, and 10 s as expected; 996 of 1,000 are left free:
    # bucket 2 (60 to 90 min); bucket 0; log(1 + 10/7,200) + 0.996
    hosts = cluster()
    hosts.free[0] -= (3, 1)
    hosts.n_running[0], hosts.exit_s[0] = 1, HOUR
    hosts.state.mode[0], hosts.state.lifetime_class[0] = OPEN, 1
    asked = Request(0, np.array([1, 1]), HOUR + 70 * 60, 0, np.array([0, HOUR]), np.array([7_800, 10]))
    found = [policy.scorers[1](hosts, 0, asked, 0)  # type: ignore[operator]
             for policy in (LAVA_SOFT, LAVA_SOFT_EXPECTED, LAVA_SOFT_JOINT)]
    assert found == pytest.approx([2.0, 0.0, np.log1p(10 / 7_200) + 0.996])
