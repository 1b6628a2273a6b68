"""Packed curves answer as the curves one by one, with numba and without; slots are kept, freed and used again."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from made_bundles import Made
from made_curves import OtherCurve, curves, shares, uptimes, vm_of
from sojourn.serving import CurvePool, HostExits, Predictor, remaining_at, remaining_of
from sojourn.serving.curves import HazardCurve, LifetimeCurve, PointCurve
from sojourn.serving.curves.curve import OnceCurve

PATHS = pytest.mark.parametrize("is_compiled", [True, False], ids=["numba", "numpy"])
HAZARD = HazardCurve.from_hazards((0.0, 10.0, 100.0), (0.5, 1.0), 1_000.0, (0.0, 10.0, 30.0, 100.0))
POINT = PointCurve.from_scores((60.0, 100.5), (2.0, 3.0, 3.5), 1.5, (-0.1, 0.0, 0.1))
ONCE = OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1))
N_LOOPED = 300


@njit
def each_remaining(arrays: Any, slots: Any, uptimes_s: Any) -> Any:
    """A scheduler's own compiled loop."""
    answers = np.empty(len(slots))
    for idx in range(len(slots)):
        answers[idx] = remaining_at(arrays, slots[idx], uptimes_s[idx])
    return answers


@PATHS
@given(chosen=st.lists(curves, min_size=1, max_size=6), asked=st.lists(uptimes, min_size=1, max_size=30),
       q=shares, horizon_s=st.floats(0.0, 1e7), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_a_pool_answers_as_its_curves_to_the_bit(is_compiled: bool, chosen: list[LifetimeCurve], asked: list[float],
                                                 q: float, horizon_s: float, seed: int) -> None:
    pool = CurvePool(is_compiled=is_compiled)
    slots = np.array([pool.add(vm_of(curve)) for curve in chosen])
    idx = np.random.default_rng(seed).integers(0, len(chosen), len(asked))
    of_each = list(zip([chosen[position] for position in idx], asked, strict=True))
    assert pool.remaining(slots[idx], asked).tolist() == [curve.remaining(age_s) for curve, age_s in of_each]
    assert pool.quantile(q, slots[idx], asked).tolist() == [curve.quantile(q, age_s) for curve, age_s in of_each]
    assert pool.survival(horizon_s, slots[idx], asked).tolist() == [
        curve.survival(horizon_s, age_s) for curve, age_s in of_each]
    assert pool.next_change(slots[idx], asked).tolist() == [curve.next_change(age_s) for curve, age_s in of_each]
    one_by_one = each_remaining(pool.arrays, slots[idx], np.array(asked, np.float64))
    assert one_by_one.tolist() == pool.remaining(slots[idx], asked).tolist()


@PATHS
@pytest.mark.parametrize("curve", [HAZARD, POINT, ONCE], ids=["hazard", "point", "once"])
def test_answers_at_and_beside_every_bound(is_compiled: bool, curve: LifetimeCurve) -> None:
    at = np.array([0.0, 10.0, 30.0, 60.0, 100.0, 100.5, 200.0, 1e9, 1.7e308])
    asked = np.concatenate([at, np.nextafter(at, np.inf)[:-1], np.nextafter(at[1:], 0.0)])
    pool = CurvePool(is_compiled=is_compiled)
    slots = [pool.add(vm_of(curve))] * len(asked)
    assert pool.remaining(slots, asked).tolist() == [curve.remaining(age_s) for age_s in asked.tolist()]
    assert pool.next_change(slots, asked).tolist() == [curve.next_change(age_s) for age_s in asked.tolist()]


def test_batches_longer_than_the_kernels(made: Made) -> None:
    predictors = [Predictor.load(made.folders[kind]) for kind in ("hazard", "hazard-limit", "uptime", "once")]
    vms = [predictor.predict(made.request(row), 10**7) for predictor in predictors for row in range(20)]
    rng = np.random.default_rng(3)
    idx, asked = rng.integers(0, len(vms), N_LOOPED), np.floor(10.0 ** rng.uniform(0.0, 7.0, N_LOOPED))
    expected = [vms[position].remaining(age_s) for position, age_s in zip(idx, asked.tolist(), strict=True)]
    for is_compiled in (True, False):
        pool = CurvePool(is_compiled=is_compiled)
        slots = np.array([pool.add(vm) for vm in vms])
        assert pool.remaining(slots[idx], asked).tolist() == expected
    assert remaining_of([vms[position] for position in idx], asked).tolist() == expected


@PATHS
def test_all_that_run_are_asked_by_slot(is_compiled: bool) -> None:
    pool = CurvePool(is_compiled=is_compiled)
    first, second = pool.add(vm_of(HAZARD, 0)), pool.add(vm_of(ONCE, 90))
    third = pool.add(vm_of(POINT, 50))
    pool.remove(second)
    answers = pool.remaining_all(115)
    assert len(answers) == 16
    assert (answers[first], answers[third]) == (HAZARD.remaining(115), POINT.remaining(65))
    assert np.isnan(np.delete(answers, [first, third])).all()
    # the clock goes back before an arrival, which was admitted while it was ahead: its uptime is 0
    early = pool.remaining_all(49)
    assert (early[first], early[third]) == (HAZARD.remaining(49), POINT.remaining(0))


@given(steps=st.lists(st.tuples(st.booleans(), curves), max_size=60), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_slots_come_and_go(steps: list[tuple[bool, LifetimeCurve]], seed: int) -> None:
    """A dict of curves is the twin: whatever was added and removed, each slot has its own."""
    rng = np.random.default_rng(seed)
    pool, held = CurvePool(), dict[int, LifetimeCurve]()
    n_most = 0
    for is_added, curve in steps:
        if is_added or not held:
            slot = pool.add(vm_of(curve))
            assert slot not in held
            held[slot] = curve
        else:
            slot = int(rng.choice(list(held)))
            pool.remove(slot)
            del held[slot]
            with pytest.raises(ValueError, match=f"slots must hold a curve, got {slot}"):
                pool.remaining([slot], [0.0])
        n_most = max(n_most, len(held))
        assert len(pool) == len(held)
        assert pool.remaining(list(held), [7.0] * len(held)).tolist() == [
            curve.remaining(7.0) for curve in held.values()]
    assert max(held, default=0) < n_most or not held


def test_growth_doubles_and_keeps_what_it_holds() -> None:
    pool = CurvePool(20)
    vms = [vm_of(OnceCurve.from_score(score, 1.0, (-0.1, 0.1)), 0) for score in np.linspace(1.0, 5.0, 100).tolist()]
    slots = [pool.add(vm) for vm in vms]
    assert slots == list(range(100))
    assert pool.arrays.model.shape == (160,)
    pool.add(vm_of(HAZARD))  # wider than all before
    assert pool.remaining(slots, [3.0] * 100).tolist() == [vm.remaining(3.0) for vm in vms]


def test_models_without_curves_leave_no_trace() -> None:
    """A reload a day for years: what the curves of a version share goes with the last of them."""
    pool = CurvePool()
    for version in range(50):
        edges = (0.0, 10.0 + version, 100.0 + version)
        slots = [pool.add(vm_of(HazardCurve.from_hazards(edges, (0.5, 1.0), 1_000.0, edges))) for _ in range(2)]
        assert pool.next_change(slots, [0.0, 10.0 + version]).tolist() == [10.0 + version, 100.0 + version]
        for slot in slots:
            pool.remove(slot)
    assert len(pool.arrays.kind) == 1


def test_memory_of_a_curve(made: Made) -> None:
    """At most 2 KiB with the usual 37 intervals, 4.5 KiB with the 254 thresholds that LightGBM's bins allow."""
    edges = (0.0, *(float(number) for number in range(1, 38)))
    thresholds = tuple(float(number) for number in range(254))
    for curve, n_bytes_max in (
        (HazardCurve.from_hazards(edges, (0.1,) * 37, 100.0, edges), 2_048),
        (PointCurve.from_scores(thresholds, (2.0,) * 255, 1.0, (0.0, 0.0)), 4_608),
    ):
        pool = CurvePool(1_000)
        pool.add(vm_of(curve))
        assert pool.arrays.numbers.nbytes / 1_000 <= n_bytes_max


@PATHS
def test_nothing_asked_is_nothing_answered(is_compiled: bool) -> None:
    pool = CurvePool(is_compiled=is_compiled)
    pool.add(vm_of(POINT))
    for answers in (pool.remaining([], []), pool.quantile(0.5, [], []), pool.survival(1.0, [], []),
                    pool.next_change([], []), remaining_of([], [])):
        assert answers.shape == (0,)
        assert answers.dtype == np.float64


@PATHS
def test_refusals_name_what_is_wrong(is_compiled: bool) -> None:
    pool = CurvePool(is_compiled=is_compiled)
    slot = pool.add(vm_of(HAZARD))
    ask: Any
    for ask in (pool.remaining, pool.next_change, lambda *asked: pool.quantile(0.5, *asked),
                lambda *asked: pool.survival(1.0, *asked)):
        for bad in (-1, slot + 1, 16, 10**12):
            with pytest.raises(ValueError, match=f"slots must hold a curve, got {bad}"):
                ask([slot, bad], [0.0, 0.0])
        with pytest.raises(ValueError, match="slots must be whole numbers in one dimension, got"):
            ask([0.0], [0.0])
        for truth in ([True, 0.0], [np.bool_(False), 1.0], np.array([True, False]), ["60", "1"]):
            with pytest.raises(ValueError, match="uptimes_s must be numbers, got"):
                ask([0, 1], truth)
        with pytest.raises(ValueError, match=r"uptimes_s must have 2 elements, got shape \(1,\)"):
            ask([slot, slot], [0.0])
        for bad_s in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="uptimes_s must be finite and >= 0, got"):
                ask([slot, slot], [0.0, bad_s])
    with pytest.raises(ValueError, match=r"q must be between 0 and 1, got 1\.0"):
        pool.quantile(1.0, [slot], [0.0])
    with pytest.raises(ValueError, match=r"horizon_s must be finite and >= 0, got -1\.0"):
        pool.survival(-1.0, [slot], [0.0])
    with pytest.raises(ValueError, match="uptimes_s must have 1 elements, got 2"):
        remaining_of([vm_of(HAZARD)], [0.0, 1.0])
    with pytest.raises(TypeError, match=r"curve must .*, got OtherCurve"):
        pool.add(vm_of(OtherCurve()))
    for capacity in (0, -1, 2.0):
        with pytest.raises(ValueError, match=f"capacity must be a whole number >= 1, got {capacity}"):
            CurvePool(capacity)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(ValueError, match="slots must hold a curve, got 1"):
            pool.remove(1)
    assert len(pool) == 1


BARE = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocker())
from sojourn.serving import CurvePool, HostExits, Predictor, remaining_at
folder, requests = json.loads(sys.argv[1])
predictor = Predictor.load(folder)
pool, exits = CurvePool(), HostExits(2)
slots = []
for row, request in enumerate(requests):
    vm = predictor.admit(request, 20_000_000 + row)
    slots.append(pool.add(vm))
    exits.place(row % 2, vm)
print(json.dumps([
    pool.remaining(slots, [3_600.0] * len(slots)).tolist(), pool.quantile(0.9, slots, [60.0] * len(slots)).tolist(),
    [float(remaining_at(pool.arrays, slot, 3_600.0)) for slot in slots],
    exits.at(20_000_100).tolist(), exits.at(20_900_000).tolist()]))
"""


@pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "uptime", "once"])
def test_numba_is_not_needed(made: Made, kind: str) -> None:
    requests = [{name: value.item() if isinstance(value, np.generic) else value
                 for name, value in made.request(row).items()} for row in range(8)]
    found = subprocess.run([sys.executable, "-c", BARE, json.dumps([str(made.folders[kind]), requests])],
                           capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    predictor, exits = Predictor.load(made.folders[kind]), HostExits(2)
    vms = [predictor.admit(request, 20_000_000 + row) for row, request in enumerate(requests)]
    for row, vm in enumerate(vms):
        exits.place(row % 2, vm)
    hour = [vm.remaining(3_600.0) for vm in vms]
    assert json.loads(found.stdout) == [hour, [vm.quantile(0.9, 60.0) for vm in vms], hour,
                                        exits.at(20_000_100).tolist(), exits.at(20_900_000).tolist()]
