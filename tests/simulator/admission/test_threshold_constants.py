"""Golden constants of the threshold algorithm, and that they solve the equations that define them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sojourn.simulator.admission import threshold_constants


def _by_definition(factor: float, first: int, m: int) -> list[float]:
    """f_k .. f_m by the sums of the paper."""
    ratio, factors = (m * factor + 1) / first, [factor]
    for _ in range(first + 1, m + 1):
        factors.append((ratio * (first + sum(f - 1 for f in factors)) - 1) / m)
    return factors


@pytest.mark.parametrize("slack", [0.01, 0.1, 0.25, 2 / 7, 0.3, 0.5, 0.9, 1.0])
def test_closed_forms_of_one_and_two_cores(slack: float) -> None:
    assert threshold_constants(1, slack).ratio == pytest.approx(2 + 1 / slack, abs=1e-9)
    two = 1.5 + 1 / slack if slack >= 2 / 7 else 0.5 + 2 * math.sqrt(25 / 16 + 1 / slack)
    assert threshold_constants(2, slack).ratio == pytest.approx(two, abs=1e-6)


@pytest.mark.parametrize(("m", "first", "ratio"), [(3, 2, 6.658911), (10, 5, 4.912199), (100, 47, 4.362387)])
def test_golden_constants_at_a_tenth(m: int, first: int, ratio: float) -> None:
    found = threshold_constants(m, 0.1)
    assert found.first == first
    assert found.ratio == pytest.approx(ratio, abs=1e-6)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 30, 200])
@pytest.mark.parametrize("slack", [1e-9, 1e-3, 0.07, 0.33, 0.77, 1.0])
def test_the_constants_solve_the_equations_with_the_smallest_k(m: int, slack: float) -> None:
    found = threshold_constants(m, slack)
    factors = _by_definition(float(found.factors[0]), found.first, m)
    assert found.factors[0] >= 2.0
    assert factors == pytest.approx(found.factors.tolist(), rel=1e-6)
    assert found.factors[-1] == pytest.approx((1 + slack) / slack)
    assert (np.diff(found.factors) > 0).all()
    if found.first > 1:  # already the least factor, 2, gives too much
        assert _by_definition(2.0, found.first - 1, m)[-1] > (1 + slack) / slack


def test_a_slack_of_1_counts_the_least_loaded_core_alone() -> None:
    found = threshold_constants(5, 1.0)
    assert (found.first, found.factors.tolist()) == (5, [2.0])


@pytest.mark.parametrize("slack", [0.0, -0.5, 1.001, float("nan")])
def test_other_slacks_are_refused(slack: float) -> None:
    with pytest.raises(ValueError, match=f"slack must be above 0 and at most 1 with threshold acceptance, got {slack}"):
        threshold_constants(5, slack)
    with pytest.raises(ValueError, match=r"n_cores must .*, got 0"):
        threshold_constants(0, 0.5)
