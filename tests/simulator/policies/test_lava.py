"""LAVA's rules one by one; the arithmetic stands above each row."""

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from sojourn.simulator import NEVER, Cluster, Request
from sojourn.simulator.policies.lava import (
    DEADLINE_S,
    EMPTY,
    LAVA,
    OPEN,
    RECYCLING,
    at_deadline,
    class_preference,
    departed,
    emptied,
    is_fuller_than,
    lava_state,
    lifetime_class,
    placed,
)
from studies.policies.one_rule_changed import (
    any_class_preference,
    at_deadline_without_rising,
    departed_without_falling,
)

HOUR = 3600
NOW = 50_000
CAPACITY = (1000, 200)


def cluster(n_hosts: int = 1, n_requests: int = 9) -> Cluster:
    """Empty hosts of 1,000 and 200 units."""
    capacity = np.tile(CAPACITY, (n_hosts, 1))
    return Cluster(capacity, capacity.copy(), np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.int64),
                   state=lava_state(n_hosts, n_requests))


def come(hosts: Cluster, row: int, left_s: int, need: tuple[int, int], host: int = 0, now: int = NOW) -> None:
    """What the engine does: room first, then the hook."""
    hosts.free[host] -= need
    hosts.n_running[host] += 1
    placed(hosts, host, Request(row, np.array(need), now + left_s), now)


def go(hosts: Cluster, row: int, need: tuple[int, int], now: int, is_falling: bool = True, host: int = 0) -> None:
    """The hook first, then room; then, perhaps, that the host is empty."""
    (departed if is_falling else departed_without_falling)(hosts, host, row, now)
    hosts.free[host] += need
    hosts.n_running[host] -= 1
    if hosts.n_running[host] == 0:
        emptied(hosts, host, now)


def seen(hosts: Cluster, host: int = 0) -> tuple[int, int, int]:
    """Mode, class, deadline."""
    state = hosts.state
    return int(state.mode[host]), int(state.lifetime_class[host]), int(state.deadline_s[host])


@pytest.mark.parametrize(("remaining_s", "expected"), [
    # below 1 h; an outlived prediction too
    (-5, 1), (0, 1), (HOUR - 1, 1),
    # 1 h sharp is of the next class, up to 10 h
    (HOUR, 2), (10 * HOUR - 1, 2),
    (10 * HOUR, 3), (100 * HOUR - 1, 3),
    # 100 h to 1,000 h, and all that is longer
    (100 * HOUR, 4), (1000 * HOUR, 4), (10**9, 4),
])  # fmt: skip
def test_classes(remaining_s: int, expected: int) -> None:
    assert lifetime_class(remaining_s) == expected


def test_deadlines_are_a_tenth_above_the_classes_bounds() -> None:
    # 1.1 x 1, 10, 100 and 1,000 h
    assert DEADLINE_S == (3_960, 39_600, 396_000, 3_960_000)


@pytest.mark.parametrize(("need", "expected"), [
    # 900 of 1,000 and 180 of 200 are 90 %: not more
    ((900, 180), False),
    # 901 of 1,000; 181 of 200: 90.1 and 90.5 %, on either resource
    ((901, 1), True),
    ((1, 181), True),
    ((1000, 200), True),
    ((0, 0), False),
])
def test_full_is_strictly_above_90_percent_on_any_resource(need: tuple[int, int], expected: bool) -> None:
    hosts = cluster()
    hosts.free[0] -= need
    assert is_fuller_than(hosts, 0, 90) == expected


def test_a_resource_that_a_host_lacks_does_not_fill_it() -> None:
    hosts = Cluster(np.array([[1000, 0]]), np.array([[1000, 0]]), np.array([0]), np.array([0]))
    assert not is_fuller_than(hosts, 0, 90)


def test_an_empty_host_opens_with_the_class_and_deadline_of_its_first_request() -> None:
    hosts = cluster()
    come(hosts, 0, 5 * HOUR, (100, 10))
    # 5 h is LC2: 50,000 + 39,600
    assert seen(hosts) == (OPEN, 2, 89_600)
    # a second one of another class and at another time changes neither
    come(hosts, 1, 500 * HOUR, (100, 10), now=NOW + 7)
    assert seen(hosts) == (OPEN, 2, 89_600)


def test_a_full_host_recycles_and_its_deadline_starts_again() -> None:
    hosts = cluster()
    come(hosts, 0, 5 * HOUR, (500, 10))
    come(hosts, 1, 5 * HOUR, (400, 10), now=NOW + 100)
    assert seen(hosts) == (OPEN, 2, 89_600)  # 900 of 1,000
    come(hosts, 2, 5 * HOUR, (1, 10), now=NOW + 200)
    # 50,200 + 39,600; all three are residuals
    assert seen(hosts) == (RECYCLING, 2, 89_800)
    assert hosts.state.n_residuals[0] == 3


def test_one_request_can_open_and_fill_a_host() -> None:
    hosts = cluster()
    come(hosts, 0, HOUR // 2, (950, 10))
    assert seen(hosts) == (RECYCLING, 1, NOW + 3_960)


def recycling(remaining_h: int = 50) -> Cluster:
    """A recycling host with the residuals 0 and 1, and 2 and 3 that came later."""
    hosts = cluster()
    come(hosts, 0, remaining_h * HOUR, (500, 10))
    come(hosts, 1, remaining_h * HOUR, (450, 10))
    come(hosts, 2, HOUR // 2, (20, 10))
    come(hosts, 3, HOUR // 2, (20, 10))
    return hosts


def test_the_last_residuals_end_lowers_the_class() -> None:
    hosts = recycling()
    assert seen(hosts) == (RECYCLING, 3, NOW + 396_000)
    go(hosts, 2, (20, 10), NOW + 1)  # no residual
    go(hosts, 0, (500, 10), NOW + 2)
    assert seen(hosts) == (RECYCLING, 3, NOW + 396_000)
    go(hosts, 1, (450, 10), NOW + 3)
    # LC3 to LC2: 50,003 + 39,600; request 3 is the only residual
    assert seen(hosts) == (RECYCLING, 2, 89_603)
    assert hosts.state.n_residuals[0] == 1
    come(hosts, 4, 60, (20, 10), now=NOW + 4)
    go(hosts, 3, (20, 10), NOW + 5)
    # LC2 to LC1: 50,005 + 3,960; request 4 is
    assert seen(hosts) == (RECYCLING, 1, 53_965)
    come(hosts, 5, 60, (20, 10), now=NOW + 6)
    go(hosts, 4, (20, 10), NOW + 7)
    # never below LC1, but the deadline starts again: 50,007 + 3,960
    assert seen(hosts) == (RECYCLING, 1, 53_967)


def test_without_falling_the_class_and_the_deadline_stay() -> None:
    hosts = recycling()
    for row, need in ((0, 500), (1, 450)):
        go(hosts, row, (need, 10), NOW + 3, is_falling=False)
    assert seen(hosts) == (RECYCLING, 3, NOW + 396_000)
    assert hosts.state.n_residuals[0] == 2  # 2 and 3 are named all the same


def test_a_request_that_leaves_an_open_host_is_no_residual() -> None:
    hosts = cluster()
    come(hosts, 0, 5 * HOUR, (100, 10))
    come(hosts, 1, 5 * HOUR, (100, 10))
    go(hosts, 0, (100, 10), NOW + 1)
    assert seen(hosts) == (OPEN, 2, 89_600)


def test_an_empty_host_is_as_at_the_start() -> None:
    hosts = recycling()
    for row, need in ((0, 500), (1, 450), (2, 20), (3, 20)):
        go(hosts, row, (need, 10), NOW + 9)
    assert seen(hosts) == (EMPTY, 0, NEVER)
    come(hosts, 5, 500 * HOUR, (100, 10), now=NOW + 10)
    # 500 h is LC4: 50,010 + 3,960,000
    assert seen(hosts) == (OPEN, 4, 4_010_010)


@pytest.mark.parametrize(("left_h", "expected"), [
    # LC1 rises to LC2: its deadline + 39,600; LC2 to LC3; LC3 to LC4
    (0, [(RECYCLING, 2, 39_600), (RECYCLING, 3, 396_000), (RECYCLING, 4, 3_960_000)]),
    (5, [(RECYCLING, 3, 396_000), (RECYCLING, 4, 3_960_000)]),
    # LC4 only renews
    (500, [(RECYCLING, 4, 3_960_000), (RECYCLING, 4, 3_960_000)]),
])
def test_a_deadline_raises_the_class_and_renews(left_h: int, expected: list[tuple[int, int, int]]) -> None:
    hosts = cluster()
    come(hosts, 0, left_h * HOUR, (100, 10))
    come(hosts, 1, left_h * HOUR, (100, 10))
    for mode, found_class, after_s in expected:
        now = seen(hosts)[2]
        at_deadline(hosts, 0, now)
        assert seen(hosts) == (mode, found_class, now + after_s)
        assert hosts.state.n_residuals[0] == 2


@pytest.mark.parametrize(("left_h", "found_class", "after_s"), [
    # of LC1, LC2 and LC4: the class stays and its own deadline begins again
    (0, 1, 3_960), (5, 2, 39_600), (500, 4, 3_960_000),
])  # fmt: skip
def test_without_rising_a_deadline_only_renews(left_h: int, found_class: int, after_s: int) -> None:
    hosts = cluster()
    come(hosts, 0, left_h * HOUR, (100, 10))
    come(hosts, 1, left_h * HOUR, (100, 10))
    for n_named in (2, 3):
        now = seen(hosts)[2]
        at_deadline_without_rising(hosts, 0, now)
        assert seen(hosts) == (RECYCLING, found_class, now + after_s)
        assert hosts.state.n_residuals[0] == n_named
        come(hosts, n_named, HOUR // 2, (100, 10), now=now + 1)  # no residual before the next deadline
        assert hosts.state.n_residuals[0] == n_named


MODES = [EMPTY, RECYCLING, RECYCLING, OPEN, OPEN, RECYCLING, RECYCLING]
CLASSES = [0, 4, 2, 1, 2, 1, 3]


@pytest.mark.parametrize(("left_s", "expected", "any_class"), [
    # LC1: recycling LC2, LC3 and LC4 are 1, 2 and 3 above, so 0, 1, 2; open LC1 is 3; all else in use 4; empty 5
    (60, [5, 2, 0, 3, 4, 4, 1], [5, 0, 0, 3, 4, 4, 0]),
    # LC2: recycling LC3 and LC4 are 0 and 1; recycling LC2 is not above it; open LC2 is 3
    (2 * HOUR, [5, 1, 4, 4, 3, 4, 0], [5, 0, 4, 4, 3, 4, 0]),
    # LC3: recycling LC4 is 0
    (20 * HOUR, [5, 0, 4, 4, 4, 4, 4], [5, 0, 4, 4, 4, 4, 4]),
    # LC4: nothing is above it, nor open of it
    (200 * HOUR, [5, 4, 4, 4, 4, 4, 4], [5, 4, 4, 4, 4, 4, 4]),
])
def test_preference(left_s: int, expected: list[int], any_class: list[int]) -> None:
    hosts = cluster(len(MODES))
    hosts.state.mode[:], hosts.state.lifetime_class[:] = MODES, CLASSES
    hosts.n_running[:] = [mode != EMPTY for mode in MODES]
    asked = Request(0, np.array([1, 1]), NOW + left_s)
    assert [class_preference(hosts, host, asked, NOW) for host in range(len(MODES))] == expected
    assert [any_class_preference(hosts, host, asked, NOW) for host in range(len(MODES))] == any_class


def replayed(rows: list[tuple[int, int, float, float]], horizon: int, n_hosts: int, **kwargs: object) -> sim.Result:
    """LAVA with an oracle on hosts of 10 cores and 10 GiB."""
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 10.0, "mem_gib": 10.0})
    trace = naive.trace_of(rows, horizon)
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    return sim.simulate(workload, LAVA, sim.Oracle(workload), is_ranked=False, **kwargs)  # type: ignore[arg-type]


def test_ties_go_by_nilas_then_by_packing() -> None:
    rows = [
        # three open LC2 hosts: each is left with less than 6 cores, so the next goes elsewhere
        (0, 3 * HOUR, 5.0, 1.0), (0, 9 * HOUR, 6.0, 1.0), (0, 9 * HOUR, 5.5, 1.0),
        # 2 h: outstays none (cost 0 each); host 1 is the fullest
        (10, 2 * HOUR + 10, 1.0, 1.0),
        # 6 h: outstays host 0 by 3 h; of the other two host 1 is the fullest
        (20, 6 * HOUR + 20, 3.0, 1.0),
        # 6 h again, 2 cores: host 1 has none left; host 2, and not host 0, which it outstays
        (30, 6 * HOUR + 30, 2.0, 1.0),
    ]
    assert replayed(rows, 20 * HOUR, 3).host.tolist() == [0, 1, 2, 1, 1, 2]


@pytest.mark.parametrize(("arrives_s", "expected"), [
    # Host 0 was opened by LC1 at 0: deadline 3,960 s. Host 1 recycles as LC2, with 9.2 of 10 GiB in use.
    # A request of LC1 at 3,959 s: the recycling host 1 (0) before the open host 0 (3).
    (3_959, 1),
    # At 3,960 s host 0 recycles as LC2, too (0). NILAS: the outlived 1,800 s have doubled to 7,200, and 3,960 + 3,540
    # is 300 s later, bucket 0, as on host 1. Packing: 8 cores of host 0 are in use, 5 of host 1.
    (3_960, 0),
])
def test_a_replay_passes_deadlines(arrives_s: int, expected: int) -> None:
    hosts = pd.DataFrame({"host_id": range(2), "cpu_cores": 10.0, "mem_gib": 10.0})
    rows = [(0, 9 * HOUR, 8.0, 0.5), (0, 9 * HOUR, 5.0, 9.2), (arrives_s, 9 * HOUR, 1.0, 0.1)]
    trace = naive.trace_of(rows, 20 * HOUR)
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    assert workload.resources[0] == "cpu_cores"
    source = sim.Held(workload.request_ids, sim.one_step(np.array([1_800, 9 * HOUR, 3_540])))
    result = sim.simulate(workload, LAVA, source, is_ranked=False)
    assert result.host.tolist() == [0, 1, expected]


@pytest.mark.slow
def test_a_migrated_request_enters_by_its_remaining_time() -> None:
    # Request 0 (22 h, LC3) is on host 0, which is drained at 13 h: 9 h are left, LC2. It does not fit on host 1 beside
    # request 1 (200 h, LC4) and opens host 2 as LC2. Request 2 (2 h, LC2) prefers that (3) to host 1 (4); had it been
    # opened as LC3 they were alike (4), and the fuller host 1 taken.
    rows = [(0, 22 * HOUR, 5.0, 1.0), (0, 200 * HOUR, 8.0, 1.0), (14 * HOUR, 16 * HOUR, 1.0, 1.0)]
    result = replayed(rows, 250 * HOUR, 3, upkeep=[sim.Drain(0, 13 * HOUR, 249 * HOUR)])
    assert (result.host.tolist(), result.metrics.n_migrations) == ([0, 1, 2], 1)


def test_a_migrated_request_is_no_residual() -> None:
    hosts = recycling()
    # the residuals are 0 and 1; one that migrates here is none, and its end lowers nothing
    come(hosts, 7, 60, (10, 5), now=NOW + 1)
    go(hosts, 7, (10, 5), NOW + 2)
    assert seen(hosts) == (RECYCLING, 3, NOW + 396_000)
    # one that begins to migrate away is gone as a residual
    for row in (0, 1):
        departed(hosts, 0, row, NOW + 3)
    assert seen(hosts) == (RECYCLING, 2, 89_603)
