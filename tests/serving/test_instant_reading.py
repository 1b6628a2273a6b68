"""A bundle whose history sets instant ends apart: the same bits on each way, and reloads between the two readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made, publish, rewrite_schema
from made_curves import check_curve
from sojourn.features.creation import build_rows
from sojourn.features.refreshed import with_instants_apart
from sojourn.serving import BundleError, Lifetime, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder

NOW_S = 10**7
KINDS = ("hazard", "hazard-limit")


def apart(made: Made, folder: Path, kind: str) -> Path:
    """The bundle of a kind, of the same forest, with instant ends apart."""
    publish(made.folders[kind], folder)
    names = with_instants_apart(made.encoder, 1).feature_names()

    def change(schema: dict[str, object]) -> None:
        features = schema["features"]
        assert isinstance(features, list)
        schema["features"] = [*names, *features[len(names):]]
        history = schema["history"]
        assert isinstance(history, dict)
        history["instant_s"] = 1

    rewrite_schema(folder, change)
    return folder


def _with_instant(value: object) -> Callable[[dict[str, Any]], object]:
    """What sets a schema's instant_s."""
    return lambda schema: schema["history"].update(instant_s=value)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def folder(made: Made, kind: str, tmp_path: Path) -> Path:
    return apart(made, tmp_path / "apart", kind)


def _run(predictor: Predictor, made: Made, steps: range) -> None:
    """An admission every 100 s, of which every other one ends at once and the others after a minute."""
    for step in steps:
        now_s = NOW_S + 100 * step
        vm = predictor.admit(made.request(step % 40), now_s)
        predictor.ended(vm, now_s + (60 if step % 2 else step % 4 // 2))


def _features(predictor: Predictor, made: Made) -> list[str]:
    """NaN as text, for they do not equal themselves."""
    return [str(predictor.predict(made.request(idx), NOW_S + 10**5).features) for idx in range(40)]


def test_a_replayed_trace_gives_the_training_rows_to_the_bit(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, is_history_kept=False)
    encoder = predictor.encoder
    assert encoder.history.instant_s == 1
    rows = build_rows(made.trace, encoder)
    is_asked = (rows.decided_s >= 0) & (rows.decided_s == rows.arrival_s)
    events = sorted([(int(rows.arrival_s[idx] + rows.lifetime_s[idx]), 0, idx) for idx in range(len(rows))
                     if rows.is_event[idx]] + [(int(rows.decided_s[idx]), 1, idx) for idx in range(len(rows))])
    vms: dict[int, Lifetime] = {}
    for now_s, is_start, idx in events:
        if not is_start:
            predictor.ended(vms.pop(idx), now_s)
        else:
            vms[idx] = predictor.admit(made.request(idx), now_s)
            if is_asked[idx]:
                assert np.array(vms[idx].features).tobytes() == rows.features[idx].tobytes()
    assert is_asked.sum() > 300


def test_compiled_and_plain_answers_have_the_same_bits(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder)
    _run(predictor, made, range(60))
    bundle = load_bundle(folder)
    slow = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    for idx in range(20):
        vm = predictor.predict(made.request(idx), NOW_S + 10**5)
        check_curve(vm)
        assert vm.curve == slow.curve(vm.features)


def test_a_reload_between_the_readings_reads_the_live_history_anew(made: Made, kind: str, folder: Path) -> None:
    plain, whole = Predictor.load(made.folders[kind]), Predictor.load(folder)
    for predictor in (plain, whole):
        _run(predictor, made, range(60))
    together, own = _features(plain, made), _features(whole, made)
    assert together != own
    running = plain.admit(made.request(0), NOW_S + 9_000)
    before = running.curve
    plain.reload(folder)
    assert _features(plain, made) == _features_with(whole, made, running_request=0)
    assert plain.counters["reload_errors"] == 0 and running.curve == before
    with pytest.raises(ValueError, match="which encodes others"):
        plain.handle(str(running.id))  # its features were of the other reading
    plain.ended(running, NOW_S + 9_000)
    plain.reload(made.folders[kind])
    twin = Predictor.load(made.folders[kind])
    _run(twin, made, range(60))
    twin.ended(twin.admit(made.request(0), NOW_S + 9_000), NOW_S + 9_000)
    assert _features(plain, made) == _features(twin, made)


def _features_with(predictor: Predictor, made: Made, running_request: int) -> list[str]:
    predictor.admit(made.request(running_request), NOW_S + 9_000)
    return _features(predictor, made)


def test_a_snapshot_of_one_reading_is_restored_by_the_other(made: Made, kind: str, folder: Path,
                                                            tmp_path: Path) -> None:
    plain, whole = Predictor.load(made.folders[kind]), Predictor.load(folder)
    for predictor in (plain, whole):
        _run(predictor, made, range(60))
    plain.snapshot(tmp_path / "kept")
    assert _features(Predictor.load(folder, history=tmp_path / "kept"), made) == _features(whole, made)


def test_a_call_that_began_before_the_reload_is_answered_by_the_new_version(made: Made, kind: str,
                                                                           folder: Path) -> None:
    predictor = Predictor.load(made.folders[kind])
    _run(predictor, made, range(60))
    old = predictor._current.served
    predictor.reload(folder)
    late = predictor._predict(old, made.request(3), NOW_S + 10**5)
    expected = predictor.predict(made.request(3), NOW_S + 10**5)
    assert (late.version, late.curve) == (expected.version, expected.curve)
    if old.builder.first is not None:
        assert predictor._predict_many(old, [made.request(3)], [0.0], NOW_S) is None


def test_a_shadow_must_have_the_champions_reading(made: Made, kind: str, folder: Path) -> None:
    predictor = Predictor.load(made.folders[kind])
    with pytest.raises(BundleError, match=r"a shadow's instant_s must .*, got 1"):
        predictor.reload_shadow(folder)
    predictor.reload_shadow(made.folders["once"])
    predictor.reload(folder)  # the shadow stays, and can't be asked any longer
    _run(predictor, made, range(4))
    assert predictor.flush_decisions()
    assert predictor.counters["shadow_errors"] == 5 and predictor.counters["shadow_predictions"] == 0


@pytest.mark.parametrize("wrong", [-1, 1.5, 2**31, "1"])
def test_a_wrong_bound_in_a_bundle_is_refused(made: Made, tmp_path: Path, wrong: object) -> None:
    bad = apart(made, tmp_path / "bad", "hazard")
    rewrite_schema(bad, _with_instant(wrong))
    with pytest.raises(BundleError, match="instant_s must be"):
        load_bundle(bad)
