"""A recalibrated curve: its hazards by hand, in plain Python and compiled, and as a table."""

import math

import numpy as np
import pytest

from sojourn.models.curve_table import HazardTable
from sojourn.serving.curves import N_AGES, N_BANDS, Axis, HazardCurve, formulas, recalibrated
from sojourn.serving.curves import curve as recalibrated_curve
from sojourn.serving.curves.curve import LimitCurve
from sojourn.serving.curves.formulas import hazard_numbers
from sojourn.serving.native import NATIVE

EDGES = (0.0, 100.0, 700.0, 4_000.0, 50_000.0)


def _factors(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.125, 8.0, (N_AGES, N_BANDS))


def _hazard(seed: int) -> HazardCurve:
    return HazardCurve.from_hazards(EDGES, np.random.default_rng(seed).exponential(0.8, 4).tolist(), 9_000.0, EDGES)


def _limited(seed: int) -> LimitCurve:
    plain = _hazard(seed)
    numbers = np.concatenate([plain.numbers, EDGES])
    return LimitCurve(Axis((0.0, 100.0, 700.0, 0.5, 1.0, 2.0), EDGES), numbers)


def test_hazards_by_hand() -> None:
    factors = np.ones((N_AGES, N_BANDS))
    factors[0, 0], factors[0, 1], factors[0, 2] = 2.0, 3.0, 5.0
    factors[1, 0] = 0.5
    curve = HazardCurve.from_hazards((0.0, 100.0, 700.0, 4_000.0), (0.2, 0.3, 0.08), 9_000.0, (0.0,))
    found = recalibrated(curve, factors)
    # 0 to 0.2: 0.1 x 2 + 0.1 x 3 = 0.5. From 100 s on the bucket is the same: 0.2 to 0.5 is 0.1 x 3 + 0.2 x 5 = 1.3.
    # The third interval begins at 700 s, in the second bucket: from 0 anew, 0.08 x 0.5 = 0.04.
    cumulative = [-math.log(found.survival(time_s, 0.0)) for time_s in (100.0, 700.0, 4_000.0)]
    assert cumulative == pytest.approx([0.5, 1.8, 1.84])
    assert found.remaining(4_000.0) == curve.remaining(4_000.0) == 9_000.0  # the tail stays


def test_factors_of_one_change_no_answer_by_more_than_rounding() -> None:
    curve = _hazard(1)
    found = recalibrated(curve, np.ones((N_AGES, N_BANDS)))
    assert found.numbers == pytest.approx(curve.numbers, rel=1e-9)


@pytest.mark.skipif(NATIVE is None, reason="the extension is not built")
@pytest.mark.parametrize("seed", range(20))
def test_plain_python_gives_the_compiled_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = recalibrated_curve
    for curve in (_hazard(seed), _limited(seed)):
        compiled = recalibrated(curve, _factors(seed))
        with monkeypatch.context() as patch:
            patch.setattr(module, "NATIVE", None)
            plain = recalibrated(curve, _factors(seed))
        assert type(plain) is type(compiled) is type(curve)
        assert plain.numbers.tobytes() == compiled.numbers.tobytes()
        assert len(plain.numbers) == len(curve.numbers)


def test_table_gives_the_curves_bits() -> None:
    curves = [_hazard(seed) for seed in range(6)]
    factors = np.array([_factors(1), _factors(2)])
    place = np.array([0, 1, 1, 0, 1, 0])
    n = len(EDGES)
    hazards = np.array([np.diff(curve.numbers[n:2 * n]) for curve in curves])
    table = HazardTable.from_hazards(np.array(EDGES), hazards, 9_000.0, np.array(EDGES))
    curves = [HazardCurve(Axis(EDGES, EDGES), np.concatenate(parts))
              for parts in zip(table.rates, table.cumulative, table.after, table.gaps, strict=True)]
    found = table.recalibrated(factors, place)
    for row, curve in enumerate(curves):
        one = recalibrated(curve, factors[place[row]])
        assert found.rates[row].tobytes() == one.numbers[:n].tobytes()
        assert found.remaining(50.0)[row] == one.remaining(50.0)
        assert found.quantile(0.9, 650.0)[row] == one.quantile(0.9, 650.0)


def test_limits_own_edges_stay_behind_the_numbers() -> None:
    curve = recalibrated(_limited(3), _factors(3))
    assert curve.numbers[-len(EDGES):].tolist() == list(EDGES)
    again = hazard_numbers(np.diff(curve.numbers[5:10]).tolist(), EDGES, 9_000.0)
    assert again == pytest.approx(curve.numbers[:20])


def test_bands_and_buckets_are_those_that_calibration_is_measured_at() -> None:
    from sojourn.models.measures import AGES_S
    assert (0.0, *map(float, AGES_S)) == formulas.AGE_STARTS_S


def test_curves_of_two_models_in_turn_keep_their_own_edges() -> None:
    factors = np.full((N_AGES, N_BANDS), 2.0)
    one = HazardCurve.from_hazards((0.0, 100.0, 700.0), (0.2, 0.3), 9_000.0, (0.0,))
    other = HazardCurve.from_hazards((0.0, 50.0, 90.0), (0.2, 0.3), 9_000.0, (0.0,))
    for curve, edge_s in ((one, 100.0), (other, 50.0), (one, 100.0)):
        assert recalibrated(curve, factors).survival(edge_s, 0.0) == pytest.approx(math.exp(-0.4))
