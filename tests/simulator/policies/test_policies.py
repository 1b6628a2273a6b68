"""Scores of single hosts; the arithmetic stands above each row."""

from typing import Any

import numpy as np
import pytest

from sojourn.simulator import POLICIES, Cluster, Policy, Request
from sojourn.simulator.policies import free_share_left, opens_host
from sojourn.simulator.policies.baselines import added_waste, draw, used_share, waste_state
from sojourn.simulator.policies.baselines import placed as waste_placed
from sojourn.simulator.policies.joint import aligned_cost, joint_cost
from sojourn.simulator.policies.la import class_mismatch, doubling_class_mismatch
from sojourn.simulator.policies.nilas import expected_cost, expected_extension, temporal_cost
from studies.policies.one_rule_changed import extension

MINUTE, HOUR = 60, 3600


def one_host(n_running: int, exit_s: int) -> Cluster:
    return Cluster(np.array([[8000, 16]]), np.array([[4000, 12]]), np.array([n_running]), np.array([exit_s]))


def request(exit_s: int) -> Request:
    return Request(0, np.array([2000, 4]), exit_s)


@pytest.mark.parametrize(("host_exit", "request_exit", "n_running", "expected"), [
    # 70 min after the host: [60, 90) min is bucket 2
    (1000, 1000 + 70 * MINUTE, 1, 2),
    # leaves with the host: dT = 0
    (1000, 1000, 1, 0),
    # leaves before the host: dT = max(-500, 0) = 0
    (1000, 500, 1, 0),
    # one second under 30 min: bucket 0
    (1000, 1000 + 30 * MINUTE - 1, 1, 0),
    # 30 min sharp: buckets are closed on the left
    (1000, 1000 + 30 * MINUTE, 1, 1),
    # 60 min, 90 min, 2 h, 3 h, 4 h, 6 h, 12 h, 24 h and 168 h begin buckets 2 to 10; a second below is the one before
    (1000, 1000 + 60 * MINUTE - 1, 1, 1),
    (1000, 1000 + 60 * MINUTE, 1, 2),
    (1000, 1000 + 90 * MINUTE - 1, 1, 2),
    (1000, 1000 + 90 * MINUTE, 1, 3),
    (1000, 1000 + 2 * HOUR - 1, 1, 3),
    (1000, 1000 + 2 * HOUR, 1, 4),
    (1000, 1000 + 3 * HOUR - 1, 1, 4),
    (1000, 1000 + 3 * HOUR, 1, 5),
    (1000, 1000 + 4 * HOUR - 1, 1, 5),
    (1000, 1000 + 4 * HOUR, 1, 6),
    (1000, 1000 + 6 * HOUR - 1, 1, 6),
    (1000, 1000 + 6 * HOUR, 1, 7),
    (1000, 1000 + 12 * HOUR - 1, 1, 7),
    (1000, 1000 + 12 * HOUR, 1, 8),
    (1000, 1000 + 24 * HOUR - 1, 1, 8),
    (1000, 1000 + 24 * HOUR, 1, 9),
    (1000, 1000 + 168 * HOUR - 1, 1, 9),
    (1000, 1000 + 168 * HOUR, 1, 10),
    # a week is the last edge
    (1000, 1000 + 1000 * HOUR, 1, 10),
    # an empty host's exit is now (200), whatever its stale value: dT = 2 h
    (10**9, 200 + 2 * HOUR, 0, 4),
])
def test_temporal_cost(host_exit: int, request_exit: int, n_running: int, expected: int) -> None:
    assert temporal_cost(one_host(n_running, host_exit), 0, request(request_exit), 200) == expected


@pytest.mark.parametrize(("host_exit", "request_exit", "n_running", "expected"), [
    # 4,200 s after the host
    (1_000, 5_200, 1, 4_200.0),
    # 500 s before it: max(-500, 0)
    (1_000, 500, 1, 0.0),
    # the host's predicted exit has passed: it counts as now (200), 800 - 200
    (100, 800, 1, 600.0),
    # an empty host's exit is now, whatever its stale value
    (10**9, 800, 0, 600.0),
])
def test_extension_in_seconds(host_exit: int, request_exit: int, n_running: int, expected: float) -> None:
    assert extension(one_host(n_running, host_exit), 0, request(request_exit), 200) == expected


@pytest.mark.parametrize(("host_left", "request_left", "n_running", "expected"), [
    # 2 h is long, so is 3 h
    (3 * HOUR, 2 * HOUR, 1, 0),
    # one second under 2 h is short
    (3 * HOUR, 2 * HOUR - 1, 1, 1),
    # an expired prediction counts as 0: short
    (-5 * HOUR, 1, 1, 0),
    (-5 * HOUR, 2 * HOUR, 1, 1),
    # empty hosts come last
    (3 * HOUR, 3 * HOUR, 0, 2),
])
def test_class_mismatch(host_left: int, request_left: int, n_running: int, expected: int) -> None:
    now = 50_000
    host = one_host(n_running, now + host_left)
    assert class_mismatch(host, 0, request(now + request_left), now) == expected


@pytest.mark.parametrize(("host_left", "request_left", "n_running", "expected"), [
    # [2, 4) h is class 1: both
    (4 * HOUR - 1, 2 * HOUR, 1, 0),
    # 4 h is class 2
    (4 * HOUR, 2 * HOUR, 1, 1),
    # below 2 h is class 0, so are an hour, a second and an expired prediction
    (2 * HOUR - 1, HOUR, 1, 0),
    (-5 * HOUR, 1, 1, 0),
    (-5 * HOUR, 2 * HOUR, 1, 1),
    # 1,024 h = 2^10 and 2,047 h
    (1_024 * HOUR, 2_047 * HOUR, 1, 0),
    (1_024 * HOUR, 2_048 * HOUR, 1, 1),
    # empty hosts come last
    (3 * HOUR, 3 * HOUR, 0, 2),
])
def test_doubling_class_mismatch(host_left: int, request_left: int, n_running: int, expected: int) -> None:
    now = 50_000
    host = one_host(n_running, now + host_left)
    assert doubling_class_mismatch(host, 0, request(now + request_left), now) == expected


OVERHANG: Any = {"uptimes_s": np.array([0, 3600, 7200]), "overhang_s": np.array([20_000, 10_000, 5_000])}


@pytest.mark.parametrize(("host_left", "n_running", "age", "left", "expected"), [
    # at breakpoints, and half way between 20,000 and 10,000
    (0, 1, 0, 20_000, 20_000),
    (1800, 1, 0, 20_000, 15_000),
    (7200, 1, 0, 20_000, 5_000),
    # beyond: halved every 3,600 s
    (10_800, 1, 0, 20_000, 2_500),
    # an expired host exit and an empty host's stale one are now
    (-50, 1, 0, 20_000, 20_000),
    (9_999, 0, 0, 20_000, 20_000),
    # 1,041 h old: an overhang of 5,000 / 2^1,039 = 8e-310 s, halved in each of 10 hours more
    (36_000, 1, 1_040 * 3600 + 3600, 7_200, 7_200 / 2**10),
    # an hour old, 15,000 s left: reached with probability 10,000 / 15,000; 5,000 x 15,000 / 10,000
    (3600, 1, 3600, 15_000, 7_500),
])
def test_expected_extension(host_left: int, n_running: int, age: int, left: int, expected: float) -> None:
    now = 50_000
    asked = Request(0, np.array([2000, 4]), now + left, age, **OVERHANG)
    assert expected_extension(one_host(n_running, now + host_left), 0, asked, now) == pytest.approx(expected, rel=1e-12)


def test_expected_extension_of_one_lifetime_is_its_overhang() -> None:
    # 5,000 s left on a host that is busy for 3,000 s, 5,000 s and longer
    found = [expected_extension(one_host(1, 200 + left), 0, request(5_200), 200) for left in (3_000, 5_000, 9_000)]
    assert found == [2_000, 0, 0]
    ended = Request(0, np.array([2000, 4]), 900, 0, np.array([0, 60]), np.array([700, 0]))
    assert expected_extension(one_host(1, 10**6), 0, ended, 200) == 0.0


def test_expected_cost_is_the_bucket_of_the_extension() -> None:
    # 5,000 s is in [60, 90) min, 10,000 s in [2, 3) h
    asked = Request(0, np.array([2000, 4]), 20_200, 0, **OVERHANG)
    assert [expected_cost(one_host(1, 200 + left), 0, asked, 200) for left in (7200, 3600)] == [2.0, 4.0]


@pytest.mark.parametrize(("host_left", "n_running", "free", "expected"), [
    # extension 5,000 s: log(1 + 5,000 / 7,200) = 0.527355; free after the placement (4,000 - 2,000) / 8,000
    (7200, 1, 4000, 0.527355 + 0.25),
    # the same on a host that the request fills
    (7200, 1, 2000, 0.527355),
    # extension 10,000 s: log(1 + 10,000 / 7,200) = 0.870828
    (3600, 1, 2000, 0.870828),
    # an empty host's exit is now: log(1 + 20,000 / 7,200) = 1.329136; (8,000 - 2,000) / 8,000 left
    (9_999, 0, 8000, 1.329136 + 0.75),
])
def test_joint_cost(host_left: int, n_running: int, free: int, expected: float) -> None:
    now = 50_000
    host = one_host(n_running, now + host_left)
    host.free[0, 0] = free
    asked = Request(0, np.array([2000, 4]), now + 20_000, 0, **OVERHANG)
    assert joint_cost(host, 0, asked, now) == pytest.approx(expected, abs=1e-6)


def test_joint_fit_takes_the_fuller_host_for_a_little_more_extension() -> None:
    """5,000 s on a host left with 3/4 free: 0.527 + 0.75. 7,200 s on one that the request fills: log 2 = 0.693."""
    two = Cluster(np.array([[8000], [8000]]), np.array([[8000], [2000]]), np.ones(2, int), np.array([3_200, 1_000]))
    asked = Request(0, np.array([2000]), 8_200)
    assert joint_cost(two, 1, asked, 0) < joint_cost(two, 0, asked, 0)
    assert expected_cost(two, 1, asked, 0) > expected_cost(two, 0, asked, 0)


@pytest.mark.parametrize(("host_left", "n_running", "expected"), [
    # extension 5,000 s, no slack (7,200 - 20,000 + 5,000 < 0); free after the placement (4,000 - 2,000) / 8,000
    (7200, 1, 5_000 / 7200 + 0.25),
    # extension 2,500 s beyond 10,800 s, as halved every hour; none at all 100 h on, slack 360,000 - 20,000 s
    (10_800, 1, 2_500 / 7200 + 0.25),
    (360_000, 1, 0.03 * 340_000 / 7200 + 0.25),
    # an empty host has no slack, whatever its stale exit
    (360_000, 0, 20_000 / 7200 + 0.25),
])
def test_aligned_cost(host_left: int, n_running: int, expected: float) -> None:
    now = 50_000
    asked = Request(0, np.array([2000, 4]), now + 20_000, 0, **OVERHANG)
    assert aligned_cost(one_host(n_running, now + host_left), 0, asked, now) == pytest.approx(expected, abs=1e-9)


def test_worst_fit_scores() -> None:
    # (8000 - 4000 + 2000) / 8000 and (16 - 12 + 4) / 16
    assert [used_share(one_host(1, 0), 0, request(0), d) for d in (0, 1)] == [0.75, 0.5]


@pytest.mark.parametrize(("mix", "need", "expected"), [
    # 4 cores and 12 MiB are free of 8 and 16. A mix of 8 cores, 16 MiB: 0.5 of it fits, 12 - 8 of 16 MiB are left over;
    # after 2 cores, 4 MiB: 0.25 of it, 8 - 4 of 16. Nothing added: 50 x 1.
    ((8000, 16), (2000, 4), 50),
    # after 1.6 cores, 0 MiB: 0.3 of it, 12 - 4.8 of 16: 50 x (1 + 0.45 - 0.25)
    ((8000, 16), (1600, 0), 60),
    # the same whatever the mix is multiplied by
    ((80_000, 160), (1600, 0), 60),
    # 8 cores, 4 MiB: 12 - 2 of 16 before, 8 - 1 after: 50 x (1 + 0.4375 - 0.625) = 40.625
    ((8000, 4), (2000, 4), 41),
    # 1 core, 16 MiB: memory binds; 4 - 0.75 of 8 cores before, 2 - 0.5 after: 50 x (1 + 0.1875 - 0.40625) = 39.06
    ((1000, 16), (2000, 4), 39),
    # a mix that needs no memory: all of it is left over
    ((1000, 0), (0, 4), 38),  # 50 x (1 + 8/16 - 12/16) = 37.5, to even
    # nothing seen yet
    ((0, 0), (2000, 4), 50),
])
def test_added_waste(mix: tuple[int, int], need: tuple[int, int], expected: int) -> None:
    state = waste_state(1, 1)
    state.mix[:2] = mix
    host = one_host(1, 0)._replace(state=state)
    assert added_waste(host, 0, Request(0, np.array(need), 0), 0) == expected


def test_the_mix_counts_a_request_once() -> None:
    host = one_host(1, 0)._replace(state=waste_state(1, 3))
    # 0 is placed and placed again, as when it migrates; then 1 is: 2 x 2,000 and 2 x 4
    for row in (0, 0, 1, 0):
        waste_placed(host, 0, Request(row, np.array([2000, 4]), 0), 0)
    assert host.state.mix[:3].tolist() == [4000, 8, 0]


def test_random_scores_are_uniform_and_of_request_and_host() -> None:
    need = np.array([2000, 4])
    many = Cluster(np.tile([8000, 16], (200, 1)), np.tile([4000, 12], (200, 1)), np.ones(200, int), np.zeros(200, int))
    drawn = np.array([[draw(many, host, Request(row, need, 0), 7) for host in range(200)] for row in range(100)])
    assert len(np.unique(drawn)) == drawn.size
    chosen = np.bincount(drawn.argmin(axis=1), minlength=200)
    # 100 requests on 200 hosts: a host is chosen by Binomial(100, 1/200), 5 times with probability 0.0002
    assert chosen.max() <= 5
    # 20,000 uniform numbers: mean 0.5 +- 4 x 0.289 / sqrt(20,000), and so in every tenth
    assert abs(drawn.mean() - 0.5) < 0.0082
    assert (np.abs(np.histogram(drawn, 10, (0.0, 1.0))[0] - 2_000) < 4 * np.sqrt(1_800)).all()
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 0.03


def test_packing_scores() -> None:
    host = one_host(1, 0)
    # (4000 - 2000) / 8000 and (12 - 4) / 16
    assert [free_share_left(host, 0, request(0), d) for d in (0, 1)] == [0.25, 0.5]
    assert [opens_host(one_host(n, 0), 0, request(0), 0) for n in (0, 1)] == [1.0, 0.0]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_registry(name: str) -> None:
    policy = POLICIES[name]
    assert isinstance(policy, Policy)
    assert policy.name == name
    with pytest.raises(TypeError):
        POLICIES[name] = policy  # type: ignore[index]
