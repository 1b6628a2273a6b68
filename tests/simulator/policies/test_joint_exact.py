"""What joint-exact knows of hosts, and its scores; the arithmetic stands above each row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sojourn.simulator import NEVER, Cluster, Request
from sojourn.simulator.policies.joint import (
    CERTAIN,
    at_deadline,
    departed,
    emptied,
    exact_extension,
    exact_state,
    joint_exact_cost,
    placed,
    resident,
)

NEED = np.array([2])
UNSURE: Any = {"uptimes_s": np.array([0, 900, 1800]), "overhang_s": np.array([1000, 550, 0])}
"""Runs for 450 of the first 900 s and for 550 of the next 900, then no more; the mean is 1,000 s."""


def hosts() -> Cluster:
    """Two empty hosts of 8 cores."""
    capacity = np.full((2, 1), 8)
    return Cluster(capacity, capacity.copy(), np.zeros(2, np.int64), np.zeros(2, np.int64), state=exact_state(2, 9))


def test_a_host_has_the_chance_that_all_its_requests_have_left() -> None:
    two = hosts()
    placed(two, 0, Request(0, NEED, 1000, 0, **UNSURE), 0)
    # left with chance 1 - 450/900 = 1/2 in the first cell, 1 - 550/900 = 7/18 in the second, surely after that
    assert two.state.gone[0].tolist() == [693_147, 944_462, *[0] * 10]
    assert two.state.deadline_s.tolist() == [900, NEVER]
    # two alike: chances 1/4 and 49/324
    placed(two, 0, Request(1, NEED, 1100, 0, **UNSURE), 100)
    # 1,100 - 100 = 1,000 s left, as its overhang says
    assert two.state.gone[0].tolist() == [1_386_294, 1_888_924, *[0] * 10]
    assert two.state.deadline_s.tolist() == [900, NEVER]
    # a lifetime that is certain: 1,350 s run through the first cell and half of the second
    placed(two, 1, Request(2, NEED, 1450), 100)
    assert two.state.gone[1].tolist() == [CERTAIN, 693_147, *[0] * 10]
    assert two.state.deadline_s.tolist() == [900, 1000]


def test_chances_are_found_anew_a_second_after_a_departure_and_then_every_15_minutes() -> None:
    two = hosts()
    placed(two, 0, Request(0, NEED, 1000, 0, **UNSURE), 0)
    placed(two, 0, Request(1, NEED, 1000, 0, **UNSURE), 0)
    departed(two, 0, 1, 300)
    assert two.state.deadline_s[0] == 301
    # at the age of 900 s, 550 s more: (550 - 0) x 450 / 550 = 450 of the next 900 s where 450 are predicted now
    resident(two, 0, Request(0, NEED, 900 + 450, 900, **UNSURE), 900)
    at_deadline(two, 0, 900)
    assert two.state.gone[0].tolist() == [693_147, *[0] * 11]
    assert two.state.deadline_s[0] == 1800
    at_deadline(two, 0, 1800)
    assert two.state.gone[0].tolist() == [0] * 12
    placed(two, 0, Request(2, NEED, 9000), 1800)
    emptied(two, 0, 1900)
    assert two.state.gone[0].tolist() == [0] * 12
    assert two.state.deadline_s[0] == NEVER


@pytest.mark.parametrize(("resident_s", "asked_s", "expected"), [
    # an empty host: all of it
    (0, 2700, 2700),
    # the other one stays for 1,800 s: 900 alone
    (1800, 2700, 900),
    # for 2,250 s: certain for 1,800, then a quarter of the cell up to 3,600: 900 x 3/4
    (2250, 2700, 675),
    # longer than it
    (9000, 2700, 0),
])
def test_exact_extension(resident_s: int, asked_s: int, expected: float) -> None:
    two = hosts()
    if resident_s:
        placed(two, 0, Request(0, NEED, resident_s), 0)
    assert exact_extension(two, 0, Request(1, NEED, asked_s), 0) == pytest.approx(expected, abs=0.001)


def test_it_prefers_the_host_that_surely_stays_to_the_one_that_may_be_empty() -> None:
    two = hosts()
    two.n_running[:] = 1
    two.free[:] = 6
    # both are predicted to leave after 1,000 s, the first for certain
    placed(two, 0, Request(0, NEED, 1000), 0)
    placed(two, 1, Request(1, NEED, 1000, 0, **UNSURE), 0)
    two.exit_s[:] = 1000
    asked = Request(2, NEED, 900)
    # on the first none; on the second 900 s x 1/2: 2 log(1 + 450 / 7200) = 0.1212; (6 - 2) / 8 is free in both
    assert joint_exact_cost(two, 0, asked, 0) == pytest.approx(0.5, abs=1e-6)
    assert joint_exact_cost(two, 1, asked, 0) == pytest.approx(0.5 + 2 * math.log(1.0625), abs=1e-6)
