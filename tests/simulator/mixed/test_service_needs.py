"""Needs of services without classes: only what was seen before the interval enters them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sojourn.simulator.mixed import Services, own_maximum, true_needs


def services(n: int = 5, n_intervals: int = 20) -> Services:
    rng = np.random.default_rng(0)
    return Services(np.full((n, 2), 100), rng.integers(0, 100, (n, n_intervals, 2)), np.array([0, 0, 3, 5, 19])[:n],
                    np.full(n, n_intervals), np.full(n, -1))


@pytest.mark.parametrize("changed_from", [1, 4, 10, 19])
def test_the_future_changes_no_need_that_is_known_before(changed_from: int) -> None:
    one = services()
    used = one.used.copy()
    used[:, changed_from:] = 10_000
    before, after = own_maximum(one, 2), own_maximum(replace(one, used=used), 2)
    known = changed_from + 1  # the need of the interval that changed is known when it begins
    np.testing.assert_array_equal(before[:, :known], after[:, :known])
    if known < before.shape[1]:
        assert (after[:2, known:] == 10_000).all()


def test_a_service_is_identified_after_its_own_observation_time() -> None:
    needs = own_maximum(services(), 4)
    # seen are the intervals first .. t - 1, four of them at t = first + 4
    assert np.isnan(needs[..., 0]).sum(axis=1).tolist() == [4, 4, 7, 9, 20]


def test_the_margin_is_added_and_truth_is_truth() -> None:
    one = services()
    np.testing.assert_allclose(own_maximum(one, 2, 0.15), own_maximum(one, 2) * 1.15)
    assert true_needs(one)[0, 3, 0] == max(one.used[0, 3, 0], one.used[0, 4, 0])
    np.testing.assert_array_equal(true_needs(one)[:, -1], one.used[:, -1])
    with pytest.raises(ValueError, match="n_observed must be a whole number, at least 1"):
        own_maximum(one, 0)
    with pytest.raises(ValueError, match="margin must be 0 or more"):
        own_maximum(one, 1, float("nan"))
    with pytest.raises(ValueError, match=r"margin must .*, got inf"):
        own_maximum(one, 1, float("inf"))
    with pytest.raises(ValueError, match=r"n_observed must .*, got 1\.5"):
        own_maximum(one, 1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("change", "message"), [
    ({"used": np.zeros((5, 20), np.int64)}, "used must have the shape"),
    ({"reserved": np.zeros((5, 2))}, "reserved must be whole numbers"),
    ({"first": np.full(5, -1)}, "first must be 0 or more, got -1"),
    ({"machine": np.zeros(4, np.int64)}, r"machine must be whole numbers of the shape \(5,\)"),
    ({"machine": np.full(5, -2)}, "machine must be -1 or more, got -2"),
    ({"first": np.full(5, 7), "last": np.full(5, 6)}, "must be in this order and at most n_intervals, 20, got 7 and 6"),
    ({"last": np.full(5, 21)}, "at most n_intervals, 20, got 0 and 21 of service 0"),
    ({"used": np.full((5, 20, 2), 2**40)}, r"used must be below 2\^40, got 1099511627776"),
    ({"used": [[1]]}, r"used must have the shape \(5, n_intervals, 2\), got \(1, 1\)"),
    ({"reserved": "abc"}, r"used must have the shape \(0, n_intervals, 2\)"),
    ({"first": [0] * 5}, "first must be an array of whole numbers, got"),
])
def test_services_that_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(services(), **change)
