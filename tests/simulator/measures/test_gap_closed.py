"""The share of best-fit's distance to the bound."""

from __future__ import annotations

import math

import pytest

from sojourn.simulator.measures import gap_closed_pct


def test_of_one_replay() -> None:
    assert gap_closed_pct(1.0, 20.0, 30.0) == 10.0


def test_of_several_it_is_a_ratio_of_means() -> None:
    # gains 1 and 1, gaps 10 and 0.5: mean 1 of 5.25; the mean of the ratios would be (10 + 200) / 2 = 105 %
    assert gap_closed_pct([1.0, 1.0], [20.0, 29.5], [30.0, 30.0]) == pytest.approx(100.0 / 5.25)


@pytest.mark.parametrize("best_fit", [30.0, 31.0])
def test_without_a_distance_there_is_none(best_fit: float) -> None:
    assert math.isnan(gap_closed_pct(0.0, best_fit, 30.0))
