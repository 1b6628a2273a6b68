"""Violations by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sojourn.simulator.colocation import UNITS, host_loads, violations


def test_by_hand() -> None:
    """Host 0: loads .5+.75, .5+.25 -> 1.25, .75; host 1: 1.5, 0; host 2: none. Excess .25 and .5 of 4.0 used."""
    used = (np.array([[0.5, 0.5], [0.75, 0.25], [1.5, 0.0]]) * UNITS).astype(np.int32)
    found = violations(used, np.array([0, 0, 1]), 3)
    assert found.host_rate_pct == pytest.approx(100 * 2 / 6)
    assert found.request_rate_pct == pytest.approx(100 * (0.5 + 0.5 + 0.5) / 3)
    assert found.severity_pct == pytest.approx(100 * 0.75 / 3.5)
    assert found.host_severity_pct == pytest.approx(100 * (0.25 / 2.0 + 0.5 / 1.5) / 2)
    # of request 0: .5 x .25/1.25 = .1 of 1.0; of 1: .75 x .2 = .15 of 1.0; of 2: .5 of 1.5
    assert found.request_severity_pct == pytest.approx(100 * (0.1 + 0.15 + 1 / 3) / 3)
    assert found.used_pct == pytest.approx(100 * (1.0 + 0.75 + 1.0) / 6)  # what is served: least of load and capacity


def test_two_resources_count_one_slot_once() -> None:
    """Both resources above capacity in slot 0, none in slot 1: half of the time, excess .5 + 1 of 4.5."""
    used = (np.array([[[1.5, 0.5], [2.0, 0.5]]]) * UNITS).astype(np.int32).reshape(1, 4)
    found = violations(used, np.array([0]), 1, n_resources=2)
    assert (found.host_rate_pct, found.request_rate_pct) == (50.0, 50.0)
    assert found.severity_pct == pytest.approx(100 * 1.5 / 4.5)


def test_hosts_full_to_capacity_and_requests_that_use_nothing_violate_nothing() -> None:
    used = np.array([[UNITS, UNITS], [0, 0]], np.int32)
    found = violations(used, np.array([0, 0]), 1)
    assert (found.host_rate_pct, found.severity_pct, found.request_severity_pct, found.used_pct) == (0, 0, 0, 100)
    nothing = violations(np.zeros((1, 2), np.int32), np.array([0]), 2)
    assert (nothing.severity_pct, nothing.host_severity_pct, nothing.used_pct) == (0, 0, 0)


@pytest.mark.parametrize(("hosts", "words"), [
    ([0, -1], r"hosts must be 0 \.\. n_hosts - 1, 1, got -1 of request 1"),
    ([2, 0], "got 2 of request 0"), ([0], r"hosts must be whole numbers of the shape \(2,\), got \[0\]"),
    ([[0], [1]], r"of the shape \(2,\)"), ([0.0, 1.0], "hosts must be whole numbers"),
    (["a", "b"], "hosts must be numbers"),
    (None, "hosts must be numbers, got None"), ([[0], [1, 1]], "hosts must be numbers"),
])  # fmt: skip
def test_hosts_that_there_are_not_are_refused(hosts: Any, words: str) -> None:
    used = np.array([[UNITS, 0], [0, UNITS]])
    for measure in (host_loads, violations):
        with pytest.raises(ValueError, match=words):
            measure(used, hosts, 2)


@pytest.mark.parametrize(("used", "n_hosts", "n_resources", "words"), [
    (np.ones((2, 2)), 2, 1, "used must be whole numbers"), (np.ones(2, int), 2, 1, "used must be whole numbers"),
    (-np.ones((2, 2), int), 2, 1, "least -1"), (np.array([["a", "b"]] * 2), 2, 1, "used must be numbers"),
    (np.ones((2, 2), int), 2.5, 1, "n_hosts must be a whole number, at least 1, got 2.5"),
    (np.ones((2, 2), int), 0, 1, "n_hosts must be a whole number, at least 1, got 0"),
    (np.ones((2, 3), int), 2, 2, "n_resources must divide the 3 columns of used, got 2"),
    (np.ones((2, 2), int), 2, 0, "n_resources must be a whole number, at least 1, got 0"),
])  # fmt: skip
def test_use_and_numbers_that_are_refused(used: Any, n_hosts: Any, n_resources: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        violations(used, np.array([0, 1]), n_hosts, n_resources)
