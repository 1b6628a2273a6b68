"""A predictor that recalibrates itself: its factors are those of the rows in order, kept by handles and snapshots."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from made_bundles import Made
from sojourn.publishing import publish_files
from sojourn.serving import BundleError, Lifetime, Predictor
from sojourn.serving.bundle import FORMAT_VERSION, MANIFEST, manifest_of
from sojourn.serving.curves import curve_steps, recalibrated
from sojourn.serving.live import Recalibration, recalibration

NOW_S = 10**7
KINDS = ("hazard", "hazard-limit")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends are counted four at a time, so that few calls show what thousands do."""
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    yield


@pytest.fixture(params=KINDS)
def folder(made: Made, request: pytest.FixtureRequest) -> Path:
    return made.folders[request.param]


def _run(predictor: Predictor, made: Made, steps: range) -> list[Lifetime]:
    """An admission every 100 s; each third one ends after 60 s, and what was admitted 5 before ends, too."""
    kept: list[Lifetime] = []
    for step in steps:
        now_s = NOW_S + 100 * step
        kept.append(predictor.admit(made.request(step % 40), now_s))
        if step % 3 == 0:
            predictor.ended(kept.pop(), now_s + 60)
        elif len(kept) > 5:
            predictor.ended(kept.pop(0), now_s + 60)
    return kept


def _factors(predictor: Predictor) -> np.ndarray:
    own = predictor._open.recalibration.learnt
    assert own is not None
    return own.factors


def test_off_by_default_and_said(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder)
    plain = _run(predictor, made, range(30))
    assert predictor.info()["recalibration"] == "off"
    again = Predictor.load(folder, recalibrate=True)
    others = _run(again, made, range(30))
    assert again.info()["recalibration"] == "on"
    assert str(plain[-1].features) == str(others[-1].features)
    assert plain[-1].curve != others[-1].curve


def _judged(folder: Path, target: Path, recalibrate: object) -> Path:
    """A copy of the bundle whose version was judged recalibrated, or not."""
    contents = {name: (folder / name).read_bytes() for name in ("model.onnx", "schema.json", "history.npz")}
    document = json.loads(contents["schema.json"]) | {"recalibrate": recalibrate}
    contents["schema.json"] = json.dumps(document).encode()
    publish_files(target, contents | {MANIFEST: manifest_of(contents, FORMAT_VERSION)}, MANIFEST)
    return target


def test_a_version_that_was_judged_recalibrated_is_served_so_unless_told_otherwise(
        made: Made, folder: Path, tmp_path: Path) -> None:
    judged = _judged(folder, tmp_path / "judged", True)
    predictor, told = Predictor.load(judged), Predictor.load(judged, recalibrate=False)
    asked = Predictor.load(folder, recalibrate=True)
    curves = [_run(each, made, range(30))[-1].curve for each in (predictor, told, asked, Predictor.load(folder))]
    assert predictor.info()["recalibration"] == "on" and told.info()["recalibration"] == "off"
    assert curves[0] == curves[2] and curves[1] == curves[3] and curves[0] != curves[1]
    predictor.snapshot(tmp_path / "s")
    again = Predictor.load(judged, history=tmp_path / "s")
    assert _factors(again).tolist() == _factors(predictor).tolist()
    # each version as it was judged
    predictor.reload(folder)
    assert predictor.info()["recalibration"] == "off"
    predictor.reload(judged)
    assert predictor.info()["recalibration"] == "on"
    assert (_factors(predictor) == 1.0).all()
    with pytest.raises(BundleError, match=r"recalibrate must be true or false, got 'yes'"):
        Predictor.load(_judged(folder, tmp_path / "wrong", "yes"))


def test_curves_are_the_models_own_recalibrated(made: Made, folder: Path) -> None:
    predictor, plain = Predictor.load(folder, recalibrate=True), Predictor.load(folder)
    first, own = predictor.admit(made.request(1), NOW_S), plain.admit(made.request(1), NOW_S)
    assert first.curve == own.curve  # nothing has ended yet
    _run(predictor, made, range(1, 30))
    _run(plain, made, range(1, 30))
    now_s = NOW_S + 5_000
    expected = recalibrated(plain.predict(made.request(3), now_s).curve, _factors(predictor))  # type: ignore[arg-type]
    assert predictor.predict(made.request(3), now_s).curve == expected
    many = predictor.remaining_many([made.request(3)] * 2, [0.0, 500.0], now_s)
    assert many.tolist() == [expected.remaining(0.0), expected.remaining(500.0)]
    assert first.curve == own.curve  # what was given stays


def test_factors_are_those_of_the_same_ends_in_order(made: Made, folder: Path) -> None:
    """The predictor's counting against its own class fed by hand with the curves of a predictor that does not learn."""
    predictor, plain, own = Predictor.load(folder, recalibrate=True), Predictor.load(folder), Recalibration()
    pairs: list[tuple[Lifetime, Lifetime, int]] = []
    curves: dict[int, np.ndarray] = {}
    for step in range(40):
        now_s = NOW_S + 100 * step
        request = made.request(step % 40)
        pairs.append((predictor.admit(request, now_s), plain.admit(request, now_s), step))
        own.follow(step, now_s)
        curves[step] = curve_steps(pairs[-1][1].curve)  # type: ignore[arg-type]
        if step % 2:
            vm, other, number = pairs.pop(0)
            predictor.ended(vm, now_s + 7)
            plain.ended(other, now_s + 7)
            own.ended(number, now_s + 7, curves[number])
            if own.is_due:
                own.count(now_s + 7, curves.__getitem__)
    assert own.is_learnt
    assert _factors(predictor).tolist() == own.factors.tolist()


def test_a_restart_goes_on_to_the_bit(made: Made, folder: Path, tmp_path: Path) -> None:
    left = Predictor.load(folder, recalibrate=True)
    kept = _run(left, made, range(31))
    own = left._open.recalibration.learnt
    assert own is not None and own._pending  # in the middle of four
    left.snapshot(tmp_path / "s")
    right = Predictor.load(folder, history=tmp_path / "s", recalibrate=True)
    for vm in kept:
        assert vm.id is not None and right.handle(vm.id).curve == vm.curve == left.handle(vm.id).curve
    for predictor in (left, right):
        for vm in kept[:3]:
            predictor.ended(str(vm.id), NOW_S + 5_000)
    ends = [_run(predictor, made, range(60, 80)) for predictor in (left, right)]
    assert _factors(left).tobytes() == _factors(right).tobytes()
    assert [vm.curve for vm in ends[0]] == [vm.curve for vm in ends[1]]
    off = Predictor.load(folder, history=tmp_path / "s")
    assert off.info()["recalibration"] == "off"
    assert off.handle(str(kept[4].id)).curve == kept[4].curve  # what was given stays


def test_a_damaged_snapshot_is_refused(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"], recalibrate=True)
    _run(predictor, made, range(31))
    assert predictor._open.recalibration.learnt is not None
    arrays = predictor._open.recalibration.learnt.to_arrays()
    for name, wrong in (("counts", -np.ones((8, 7))), ("counts", np.ones((6, 7))),
                        ("turns", np.ones((2, 3), int)), ("pending", np.ones((1, 2))), ("pending:numbers", np.ones(7))):
        with pytest.raises(ValueError, match=name.removesuffix(":numbers")):
            Recalibration.from_arrays({**arrays, name: wrong})


@pytest.mark.parametrize(("name", "value"), [
    ("counts", math.nan), ("turns:counted", math.nan), ("turns:counted", math.inf), ("turns:counted", -1.0),
    ("pending", math.nan), ("pending", math.inf), ("pending", -1.0), ("pending:numbers", math.nan),
    ("pending:numbers", math.inf), ("pending:numbers", -1e9),
])
def test_a_forged_number_is_refused(made: Made, name: str, value: float) -> None:
    # with right hashes it reached the factors, and answers were NaN
    predictor = Predictor.load(made.folders["hazard"], recalibrate=True)
    _run(predictor, made, range(31))
    assert predictor._open.recalibration.learnt is not None
    arrays = {key: array.copy() for key, array in predictor._open.recalibration.learnt.to_arrays().items()}
    assert arrays[name].size
    Recalibration.from_arrays(arrays)
    arrays[name].flat[0] = value
    with pytest.raises(ValueError, match=name.partition(":")[0]):
        Recalibration.from_arrays(arrays)


def test_forged_curves_of_other_intervals_are_counted(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"], recalibrate=True)
    _run(predictor, made, range(31))
    assert predictor._open.recalibration.learnt is not None
    arrays = predictor._open.recalibration.learnt.to_arrays()
    n = len(arrays["pending"])
    assert n
    forged = np.tile([0.0, 60.0, 0.001, 0.001], n)  # edges and rates of one interval
    own = Recalibration.from_arrays({**arrays, "pending:numbers": forged})
    steps = np.array([[0.0, 600.0, 6_000.0], [0.002, 0.001, 0.001]])
    own.count(10**9, lambda _: steps)
    assert np.isfinite(own.factors).all()


def test_another_version_begins_anew_and_the_same_goes_on(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"], recalibrate=True)
    _run(predictor, made, range(30))
    before = _factors(predictor)
    predictor.reload()
    assert _factors(predictor) is before
    predictor.reload(made.folders["hazard-limit"])
    assert (_factors(predictor) == 1.0).all()
    predictor.reload(made.folders["once"])
    assert predictor.info()["recalibration"].startswith("off: the version's curves are not of hazards")
    _run(predictor, made, range(30, 60))
    predictor.reload(made.folders["hazard"])
    assert predictor.info()["recalibration"] == "on"


def test_waits_after_the_admission_end_it(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, recalibrate=True)
    _run(predictor, made, range(30))
    vm = predictor.admit(made.request(0), NOW_S + 9_000)
    with pytest.warns(RuntimeWarning, match=r"recalibration is off: requests wait .* Predictor\.started"):
        predictor.ended(vm, NOW_S + 9_900, arrival_s=NOW_S + 9_500)
    assert predictor.info()["recalibration"].startswith("off: requests wait after their admission")
    assert vm.id not in predictor.running()  # the end itself is recorded
    plain = Predictor.load(folder)
    _run(plain, made, range(30))
    other = plain.admit(made.request(0), NOW_S + 9_000)
    plain.ended(other, NOW_S + 9_900, arrival_s=NOW_S + 9_500)
    assert predictor.admit(made.request(2), NOW_S + 9_999).curve == plain.admit(made.request(2), NOW_S + 9_999).curve


def test_what_is_withdrawn_counts_no_further(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, recalibrate=True)
    predictor.withdraw(predictor.admit(made.request(0), NOW_S))
    assert predictor._open.recalibration.learnt is not None and len(predictor._open.recalibration.learnt) == 0


@pytest.mark.parametrize("kind", ["hazard", "hazard-limit"])
def test_without_the_extension_the_same_bits(made: Made, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Predictor.load(made.folders[kind], recalibrate=True)
    ends = [vm.curve for vm in _run(compiled, made, range(40))]
    with monkeypatch.context() as patch:
        patch.setattr("sojourn.serving.curves.curve.NATIVE", None)
        patch.setattr("sojourn.serving.answers.curve_builder.NATIVE", None)
        plain = Predictor.load(made.folders[kind], recalibrate=True)
        assert [vm.curve for vm in _run(plain, made, range(40))] == ends
