"""Scores of single hosts; the arithmetic stands above each row."""

import numpy as np
import pytest

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.policies import POLICIES, Policy
from sojourn.simulator.policies.la_binary import class_mismatch
from sojourn.simulator.policies.nilas import temporal_cost
from sojourn.simulator.policies.packing import free_share_left, opens_host

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
    # 3 h and 4 h are edges 5 and 6
    (1000, 1000 + 3 * HOUR, 1, 5),
    (1000, 1000 + 4 * HOUR, 1, 6),
    # a week is the last edge
    (1000, 1000 + 168 * HOUR, 1, 10),
    (1000, 1000 + 1000 * HOUR, 1, 10),
    # an empty host's exit is now (200), whatever its stale value: dT = 2 h
    (10**9, 200 + 2 * HOUR, 0, 4),
])
def test_temporal_cost(host_exit: int, request_exit: int, n_running: int, expected: int) -> None:
    assert temporal_cost(one_host(n_running, host_exit), 0, request(request_exit), 200) == expected


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
