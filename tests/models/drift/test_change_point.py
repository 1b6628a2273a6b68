"""The change is found where it is, also where the model was a little wrong before or wrong from the first day."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.models.drift import change_point

EXPECTED = np.full(60, 80.0)


@pytest.mark.parametrize(("before", "since"), [(1.0, 2.0), (1.0, 0.6), (1.12, 2.0), (0.9, 0.5)])
def test_the_first_day_of_a_step_lies_in_a_short_interval(before: float, since: float) -> None:
    rng = np.random.default_rng(4)
    n_covered = 0
    for _ in range(20):
        observed = rng.poisson(np.where(np.arange(60) < 55, before, since) * EXPECTED).astype(float)
        found = change_point(observed, EXPECTED, EXPECTED)
        assert abs(found.start - 55) <= 1
        assert found.high - found.low <= 6
        n_covered += found.low <= 55 <= found.high
    assert n_covered >= 18


def test_a_model_that_is_wrong_from_the_first_day_changed_on_it() -> None:
    observed = np.random.default_rng(5).poisson(2.0 * EXPECTED).astype(float)
    assert change_point(observed, EXPECTED, EXPECTED).start == 0


def test_exits_that_come_in_batches_give_a_longer_interval() -> None:
    observed = np.where(np.arange(60) < 55, 80.0, 110.0)
    near = change_point(observed, EXPECTED, EXPECTED)
    far = change_point(observed, EXPECTED, 9.0 * EXPECTED)
    assert far.high - far.low > near.high - near.low


def test_days_without_expected_exits_and_one_day_are_taken() -> None:
    assert change_point(np.zeros(3), np.zeros(3), np.zeros(3)).start == 0
    assert change_point(np.ones(1), np.ones(1), np.ones(1)).high == 0
    with pytest.raises(ValueError, match="days must be at least one"):
        change_point(np.zeros(0), np.zeros(0), np.zeros(0))
