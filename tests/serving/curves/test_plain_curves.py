"""The extension's curves against their slow twins in plain Python: the same bits, the same refusals."""

from __future__ import annotations

import copy
import math
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_curves import hazard_curves, point_curves, shares, uptimes
from sojourn.serving.curves import Axis, HazardCurve, LimitCurve, PointCurve, plain_curves
from sojourn.serving.native import NATIVE

pytestmark = pytest.mark.skipif(NATIVE is None, reason="the extension is not built")
Compiled = HazardCurve | PointCurve


def limited() -> LimitCurve:
    edges = (0.0, 60.0, 99.5, 199.5, 399.5)
    plain = HazardCurve.from_hazards(edges, (0.1, 0.2, 2.0, 0.5), 500.0, (0.0, 60.0))
    return LimitCurve(Axis((0.0, 60.0, 600.0, 0.5, 1.0, 2.0), (0.0, 60.0)), np.concatenate([plain.numbers, edges]))


def twin(curve: Compiled) -> Any:
    """The curve in plain Python."""
    axis = plain_curves.Axis(curve.axis.first, curve.axis.second, curve.axis.smearing)
    if isinstance(curve, PointCurve):
        return plain_curves.Steps(axis, curve.numbers)
    return plain_curves.Hazard(axis, curve.numbers, isinstance(curve, LimitCurve))


@settings(deadline=None)
@given(curve=st.one_of(hazard_curves(), point_curves(), st.builds(limited)), uptime_s=uptimes, q=shares,
       horizon_s=uptimes)
def test_each_answer_has_the_bits_of_plain_python(curve: Compiled, uptime_s: float, q: float,
                                                  horizon_s: float) -> None:
    plain = twin(curve)
    beside = {uptime_s, math.nextafter(uptime_s, 0.0), math.nextafter(uptime_s, math.inf), *curve.axis.first[:-1]}
    for each in sorted(max(age_s, 0.0) for age_s in beside)[:30]:
        for question, arguments in (("remaining", (each,)), ("next_change", (each,)), ("quantile", (q, each)),
                                    ("survival", (horizon_s, each))):
            found, expected = getattr(curve, question)(*arguments), getattr(plain, question)(*arguments)
            assert type(found) is float
            assert found.hex() == expected.hex(), (question, arguments)


@pytest.mark.parametrize("curve", [
    HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1_000.0, (0.0, 10.0)), limited(),
    PointCurve.from_scores((60.0,), (2.0, 3.0), 1.5, (-0.1, 0.0, 0.1))], ids=["hazard", "limit", "point"])
def test_unusual_arguments_are_taken_or_refused_as_in_plain_python(curve: Compiled) -> None:
    plain = twin(curve)
    value: Any
    for value in (5, np.float64(5.0), np.float32(5.0), np.int64(5), np.array(5.0), 10**300):
        assert curve.remaining(value) == plain.remaining(value)
        assert curve.next_change(value) == plain.next_change(value)
    for value in (-1.0, math.nan, math.inf, 10**400, "5", b"5", None, True, 1j, np.bool_(True), [5.0], object()):
        for question, arguments in (("remaining", (value,)), ("next_change", (value,)), ("quantile", (value, 0.0)),
                                    ("quantile", (0.5, value)), ("survival", (value, 0.0)), ("survival", (1.0, value))):
            with pytest.raises(ValueError, match="must be") as found:
                getattr(curve, question)(*arguments)
            with pytest.raises(ValueError, match="must be") as expected:
                getattr(plain, question)(*arguments)
            assert str(found.value) == str(expected.value)
    assert curve.remaining(uptime_s=5.0) == curve.remaining(5.0)
    assert curve.quantile(uptime_s=5.0, q=0.5) == curve.quantile(0.5, uptime_s=5.0) == curve.quantile(0.5, 5.0)
    for wrong in ((), (1.0, 2.0, 3.0)):
        for question in ("remaining", "next_change", "quantile", "survival"):
            with pytest.raises(TypeError, match="a lookup takes"):
                getattr(curve, question)(*wrong)
    with pytest.raises(TypeError, match="a lookup needs uptime_s"):
        curve.remaining(age_s=5.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="a lookup needs uptime_s"):
        curve.quantile(0.5, q=0.5)  # type: ignore[call-arg, misc]


def test_curves_are_copied_pickled_and_referred_to_weakly() -> None:
    for curve in (HazardCurve.from_hazards((0.0, 10.0), (0.5,), 1_000.0, (0.0,)), limited(),
                  PointCurve.from_scores((60.0,), (2.0, 3.0), 1.5, (-0.1, 0.1))):
        for other in (copy.copy(curve), copy.deepcopy(curve), ForkingPickler.loads(ForkingPickler.dumps(curve))):
            assert type(other) is type(curve)
            assert other == curve
            assert other.remaining(50.0) == curve.remaining(50.0)
        assert weakref.ref(curve)() is curve


def test_numbers_that_cannot_be_a_curve_are_refused() -> None:
    axis = Axis((0.0, 10.0), (0.0,))
    for numbers in (np.zeros(7), np.zeros(0)):
        with pytest.raises(ValueError, match="numbers must be at least 8"):
            HazardCurve(axis, numbers)
    for other in (np.zeros(16, np.float32), np.zeros(16, np.int64)):
        with pytest.raises(ValueError, match="must be a row of doubles"):
            HazardCurve(axis, other)
    with pytest.raises((TypeError, BufferError, ValueError)):
        HazardCurve(axis, np.zeros(64)[::2])
    with pytest.raises(ValueError, match="numbers must be at least 3"):
        PointCurve(axis, np.zeros(2))
    with pytest.raises(ValueError, match="numbers must be at least"):
        HazardCurve(Axis((), ()), np.zeros(4))
    with pytest.raises(TypeError):
        Axis([0.0, 1.0], ())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Axis(("0",), ())  # type: ignore[arg-type]
