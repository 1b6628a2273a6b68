"""Lifetime curves: golden numbers, closed form against integration, and what every curve must obey."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from made_curves import curves, hazard_curves, once_curves, point_curves, shares, uptimes
from sojourn.serving.curves import LONGEST_S, HazardCurve, LifetimeCurve, PointCurve, hazard_remaining
from sojourn.serving.curves.curve import OnceCurve
from sojourn.serving.native import NATIVE

EDGES = (0.0, 10.0, 100.0)
HAZARD = HazardCurve.from_hazards(EDGES, (0.5, 1.0), 1_000.0, (0.0, 10.0, 30.0, 100.0))
POINT = PointCurve.from_scores((60.0, 100.5), (2.0, 3.0, 3.5), 1.5, (-0.1, 0.0, 0.1))
ONCE = OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1))
CURVES = pytest.mark.parametrize("curve", [HAZARD, POINT, ONCE], ids=["hazard", "point", "once"])
QUESTIONS = ("remaining", "quantile", "survival", "next_change")


def ask(curve: LifetimeCurve, question: str, uptime_s: Any) -> float:
    first = {"quantile": (0.5,), "survival": (10.0,)}.get(question, ())
    answer: float = getattr(curve, question)(*first, uptime_s)
    return answer


@pytest.mark.parametrize(("uptime_s", "expected"), [
    # at 100: the tail, 1000. at 10: 90 (1 - e^-1) / 1 + 1000 e^-1 = 56.891 + 367.879 = 424.770
    # at 0: 10 (1 - e^-0.5) / 0.5 + 424.770 e^-0.5 = 7.869 + 257.636 = 265.506
    (0.0, 266.0),
    (10.0, 425.0),
    # at 55 a hazard of 0.5 is left in 45 s: 45 (1 - e^-0.5) / 0.5 + 1000 e^-0.5 = 35.412 + 606.531 = 641.943
    (55.0, 642.0),
    (100.0, 1_000.0),
    (1e300, 1_000.0),
])  # fmt: skip
def test_hazard_remaining_golden(uptime_s: float, expected: float) -> None:
    assert HAZARD.remaining(uptime_s) == expected


def test_hazard_survival_and_quantile_golden() -> None:
    assert HAZARD.survival(10.0, 0.0) == math.exp(-0.5)
    assert HAZARD.survival(45.0, 10.0) == pytest.approx(math.exp(-0.5), rel=1e-14)  # half of the second interval
    assert HAZARD.survival(1_000.0, 100.0) == pytest.approx(math.exp(-1.0), rel=1e-14)
    # -log 0.5 = 0.5 + (t - 10) / 90, so t = 10 + 90 * 0.19315 = 27.38
    assert HAZARD.quantile(0.5, 0.0) == 27.0
    assert HAZARD.quantile(0.9, 100.0) == 2_303.0  # 1000 log 10 = 2302.6
    assert [HAZARD.next_change(uptime_s) for uptime_s in (0.0, 9.9, 10.0, 100.0)] == [10.0, 10.0, 30.0, math.inf]


def test_point_golden() -> None:
    # 10^2 * 1.5 up to and at 60; 10^3 * 1.5 up to 100.5; then 10^3.5 * 1.5 = 4743.4
    assert [POINT.remaining(u) for u in (0, 60, 60.5, 100.5, 101)] == [150.0, 150.0, 1_500.0, 1_500.0, 4_743.0]
    assert POINT.quantile(0.25, 0.0) == 89.0  # 10^(2 - 0.05) = 89.1
    # log10 100 - 2 = 0: half of the residuals lie above
    assert POINT.survival(100.0, 0.0) == 0.5
    assert [POINT.next_change(u) for u in (0.0, 60.0, 61.0, 101.0)] == [61.0, 61.0, 101.0, math.inf]


def test_once_golden() -> None:
    assert [ONCE.remaining(u) for u in (0, 40, 100, 250)] == [100.0, 60.0, 100.0, 150.0]
    assert [ONCE.next_change(u) for u in (0, 99, 100, 250)] == [100.0, 100.0, 200.0, 400.0]
    assert ONCE.survival(100.0, 0.0) == 0.5
    assert ONCE.remaining(1.7e308) == LONGEST_S


@given(hazard_curves(), st.floats(0.0, 2e6))
@settings(deadline=None)
def test_hazard_closed_form_is_the_integral_of_survival(curve: HazardCurve, uptime_s: float) -> None:
    idx = int(np.searchsorted(curve.edges, uptime_s, side="right")) - 1
    rates, _, after, gaps = curve.numbers.reshape(4, -1).tolist()
    found = hazard_remaining(curve.edges, rates, after, gaps, idx, uptime_s)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    expected = 0.0
    bounds = [uptime_s, *(edge for edge in curve.edges if edge > uptime_s)]
    for low, high in pairwise(bounds):
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        expected += half * sum(weight * curve.survival(middle + half * node - uptime_s, uptime_s)
                               for node, weight in zip(nodes, weights, strict=True))
    expected += curve.survival(bounds[-1] - uptime_s, uptime_s) * after[-1]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert curve.remaining(uptime_s) == round(found)


@given(curves, uptimes, st.lists(st.floats(0.0, 1e8), min_size=2, max_size=20).map(sorted))
@settings(deadline=None)
def test_survival_falls_from_one(curve: LifetimeCurve, uptime_s: float, horizons_s: list[float]) -> None:
    assert curve.survival(0.0, uptime_s) == 1.0
    answers = [curve.survival(horizon_s, uptime_s) for horizon_s in horizons_s]
    assert all(0.0 <= answer <= 1.0 for answer in answers)
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(answers))


@given(curves, uptimes, shares)
@example(OnceCurve.from_score(6.0, 1.0, [0.0, 2.0]), 1, 0.99)  # a total beyond three years
@example(OnceCurve.from_score(8.0, 1.0, [0.0, 2.0]), 2e8, 0.5)  # an uptime beyond three years
@example(PointCurve.from_scores([], [9.0], 1.0, [0.0, 2.0]), 2e8, 0.5)
@settings(deadline=None)
def test_quantile_is_where_survival_crosses(curve: LifetimeCurve, uptime_s: float, q: float) -> None:
    quantile_s = curve.quantile(q, uptime_s)
    if quantile_s < LONGEST_S:
        assert curve.survival(quantile_s + 0.51, uptime_s) <= 1.0 - q + 1e-6
    assert curve.survival(max(quantile_s - 0.51, 0.0), uptime_s) >= 1.0 - q - 1e-6


@given(curves, uptimes, shares, shares)
@settings(deadline=None)
def test_quantiles_rise(curve: LifetimeCurve, uptime_s: float, first: float, second: float) -> None:
    low, high = sorted((first, second))
    assert curve.quantile(low, uptime_s) <= curve.quantile(high, uptime_s)


@given(st.one_of(point_curves(), once_curves), st.integers(0, 10**7))
@settings(deadline=None)
def test_a_held_exit_stays_until_the_next_change(curve: PointCurve | OnceCurve, uptime_s: int) -> None:
    change_s = curve.next_change(uptime_s)
    assert change_s > uptime_s
    last_s = min(change_s, 2.0**40) - 1
    if last_s > uptime_s:
        passed = 0.0 if isinstance(curve, PointCurve) else last_s - uptime_s
        left = curve.remaining(uptime_s)
        assert left == LONGEST_S or curve.remaining(last_s) == pytest.approx(left - passed, abs=1)


@CURVES
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, -1, "5", b"5", None, [1.0], 1j, 10**400,
                                 np.array([1.0, 2.0]), np.float32("nan")], ids=repr)  # fmt: skip
def test_bad_uptimes_are_refused_by_name(curve: LifetimeCurve, question: str, bad: Any) -> None:
    with pytest.raises(ValueError, match="uptime_s must be finite and >= 0, got"):
        ask(curve, question, bad)


@CURVES
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", [int, np.int32, np.int64, np.uint8, np.float32, np.float64])
def test_a_number_of_any_type_answers_as_its_float(curve: LifetimeCurve, question: str, kind: Any) -> None:
    value = kind(61.7)
    answer = ask(curve, question, value)
    assert type(answer) is float
    assert answer == ask(curve, question, float(value))


@CURVES
def test_bad_shares_and_horizons_are_refused_by_name(curve: LifetimeCurve) -> None:
    for share in (0.0, 1.0, math.nan, "0.5", None):
        with pytest.raises(ValueError, match="q must be between 0 and 1"):
            curve.quantile(share, 0.0)  # type: ignore[arg-type]
    for horizon_s in (-1.0, math.nan, math.inf, "5", None):
        with pytest.raises(ValueError, match="horizon_s must be finite"):
            curve.survival(horizon_s, 0.0)  # type: ignore[arg-type]


def test_a_hazard_curve_of_37_intervals_takes_2_kib() -> None:
    edges = (0.0, *np.geomspace(1.0, 1e6, 37).tolist())
    curve = HazardCurve.from_hazards(edges, [0.1] * 37, 1_000.0, edges)
    assert sys.getsizeof(curve) + (curve.numbers.nbytes if NATIVE is None else 0) <= 2_048


def test_a_point_curve_of_254_thresholds_takes_4_kib() -> None:
    thresholds = tuple(float(number) for number in range(10, 264))
    curve = PointCurve.from_scores(thresholds, np.linspace(1.0, 4.0, 255).tolist(), 1.5, (-0.1, 0.0, 0.1))
    assert sys.getsizeof(curve) + (curve.numbers.nbytes if NATIVE is None else 0) <= 4_096
    assert [curve.remaining(uptime_s) for uptime_s in (0.0, 5, 10.0, 10.5)] == [15.0, 15.0, 15.0, 15.0]
    assert curve.all_seconds() == [curve.remaining(uptime_s) for uptime_s in (*thresholds, 1e6)]
    with pytest.raises(ValueError, match=r"scores must .*, got 254"):
        PointCurve.from_scores(thresholds, (1.0,) * 254, 1.0, (0.0, 0.0))
