"""Requests that wait after their admission: a reported start is where uptime, lifetime and recalibration begin."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made, refreshing
from sojourn.serving import Lifetime, Predictor, SnapshotError
from sojourn.serving.checks import LATEST_S
from sojourn.serving.curves import curve_steps
from sojourn.serving.decisions import read_log
from sojourn.serving.live import CurvePool, Recalibration, recalibration
from sojourn.serving.live.snapshot import read_snapshot, write_snapshot

NOW_S = 10**7


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends are counted four at a time, so that few calls show what thousands do."""
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    yield


@pytest.fixture
def folder(made: Made) -> Path:
    return made.folders["hazard"]


def _factors(predictor: Predictor) -> np.ndarray:
    learnt = predictor._open.recalibration.learnt
    assert learnt is not None
    return learnt.factors


def _run(predictor: Predictor, made: Made, steps: range, waiting: list[Lifetime]) -> list[Lifetime]:
    """An admission every 100 s, each starts 350 s later and ends after 60, 160, 260 ... s; returns all handles."""
    handles, running = [], []
    for step in steps:
        now_s = NOW_S + 100 * step
        waiting.append(predictor.admit(made.request(step % 40), now_s))
        handles.append(waiting[-1])
        if len(waiting) > 3:
            running.append(predictor.started(waiting.pop(0), now_s + 50))
        if len(running) > step % 4:
            predictor.ended(running.pop(0), now_s + 60)
    return handles


def test_uptime_and_lifetime_count_from_the_start(made: Made, folder: Path, tmp_path: Path) -> None:
    predictor = Predictor.load(folder)
    predictor.log_to(tmp_path / "log")
    request = made.request(0) | {"subscription": "queue"}
    submitted = predictor.admit(request, 1_000)
    vm = predictor.started(submitted, 1_500)
    assert (vm.arrival_s, submitted.arrival_s, vm.id, vm.curve) == (1_500, 1_000, submitted.id, submitted.curve)
    assert predictor.handle(str(vm.id)).arrival_s == predictor.started(str(vm.id), 1_500).arrival_s == 1_500
    pool = CurvePool()
    slot = pool.add(vm)
    assert pool.remaining_all(1_560)[slot] == vm.remaining(60.0)
    predictor.ended(submitted, 1_600)  # waited 500 s, ran 100 s
    encoder = predictor.encoder
    row = encoder.encode(encoder.parse(request), 1_600, predictor._open.history)
    assert dict(zip(encoder.feature_names(), row, strict=True))["subscription:last"] == 2.0  # log10(100)
    predictor.stop_logging()
    log = read_log(tmp_path / "log")
    assert log.ends[:, 2:].tolist() == [[1_600, 1_500]]
    assert predictor.counters["started"] == 1


def test_features_are_those_of_who_tells_the_wait_at_the_end(made: Made, folder: Path) -> None:
    """The owner's history is that of training: arrivals at submission, whatever has started."""
    told, late = Predictor.load(folder), Predictor.load(folder)
    for step in range(30):
        now_s = NOW_S + 100 * step
        vms = [predictor.admit(made.request(step % 7), now_s) for predictor in (told, late)]
        assert str(vms[0].features) == str(vms[1].features)  # as text, since NaN is not NaN
        told.started(vms[0], now_s + 30)
        if step % 2:
            told.ended(vms[0], now_s + 90)
            late.ended(vms[1], now_s + 90, arrival_s=now_s + 30)


def test_recalibration_is_that_of_requests_followed_from_their_start(made: Made, folder: Path) -> None:
    predictor, plain, own = Predictor.load(folder, recalibrate=True), Predictor.load(folder), Recalibration()
    curves: dict[int, np.ndarray] = {}
    vms: list[Lifetime] = []
    for step in range(60):
        now_s = NOW_S + 100 * step
        vms.append(predictor.admit(made.request(step % 40), now_s))
        other = plain.admit(made.request(step % 40), now_s)
        curves[step] = curve_steps(other.curve)  # type: ignore[arg-type]
        if step >= 3:
            predictor.started(vms[step - 3], now_s + 20)
            own.follow(step - 3, now_s + 20)
        if step >= 9 and step % 2:
            predictor.ended(vms[step - 9], now_s + 30)
            own.ended(step - 9, now_s + 30, curves[step - 9])
            if own.is_due:
                own.count(now_s + 30, curves.__getitem__)
        if step >= 9 and step % 2:
            plain.ended(plain.running()[0 if step == 9 else (step - 9) // 2], now_s + 30,
                        arrival_s=now_s - 600 + 20)
    assert own.is_learnt and predictor.info()["recalibration"] == "on"
    assert _factors(predictor).tolist() == own.factors.tolist()
    assert predictor.admit(made.request(1), NOW_S + 9_000).curve != plain.admit(made.request(1), NOW_S + 9_000).curve


@pytest.mark.parametrize(("what", "now_s", "message"), [
    ("own", 999, "now_s must be >= the admission 1000, got 999"),
    ("started", 1_500, "vm must be waiting, got one that has run since 1200"),
    ("admitted running", 1_500, "vm must be waiting, got one that has run since 400"),
    ("ended", 1_500, "vm must be admitted and neither ended nor withdrawn"),
    ("0000000000000000-0", 1_500, "vm must be admitted by this predictor"),
    ("nothing", 1_500, "vm must be a Lifetime or the id of one"),
    (7, 1_500, "vm must be a Lifetime or the id of one"),
    ("own", 10**12, "now_s must be seconds on the own clock of the training trace"),
    ("own", None, "now_s must be"),
])  # fmt: skip
def test_a_start_that_cannot_be_is_refused_and_changes_nothing(made: Made, folder: Path, what: Any, now_s: Any,
                                                               message: str) -> None:
    predictor = Predictor.load(folder, is_history_kept=False, recalibrate=True)
    vms = {"own": predictor.admit(made.request(0), 1_000), "ended": predictor.admit(made.request(1), 1_000),
           "started": predictor.admit(made.request(2), 1_000),
           "admitted running": predictor.admit(made.request(3), 1_000, arrival_s=400)}  # fmt: skip
    predictor.ended(vms["ended"], 1_100)
    assert predictor.started(vms["started"], 1_200).arrival_s == 1_200
    before = predictor._open.running.all()
    with pytest.raises((ValueError, TypeError), match=message):
        predictor.started(vms.get(what, what), now_s)
    assert predictor._open.running.all() == before
    assert predictor.counters["started"] == 1
    assert predictor.started(vms["started"], 1_200).arrival_s == 1_200  # the same report again changes nothing
    assert predictor.counters["started"] == 1


def test_clocks_that_jump(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, is_history_kept=False, recalibrate=True)
    ahead, behind = predictor.admit(made.request(0), 1_000), predictor.admit(made.request(1), 5_000)
    predictor.started(ahead, 900_000)  # the clock was ahead at the start
    with pytest.raises(ValueError, match=r"now_s must be >= the arrival 900000, got 2000"):
        predictor.ended(ahead, 2_000)
    predictor.ended(ahead, 2_000, arrival_s=1_500)  # the end's word is the last
    predictor.started(behind, 6_000)
    assert predictor.counters["clock_steps_back"] == 1
    predictor.ended(behind, 6_100)
    early = predictor.admit(made.request(2), 7_000)
    predictor.admit(made.request(3), 9_000)
    predictor.ended(predictor.started(early, 8_000), 9_100)
    assert predictor.counters["clock_steps_back"] == 2
    assert predictor.info()["recalibration"] == "on"
    assert np.isfinite(_factors(predictor)).all()


def test_what_runs_at_its_admission_counts_without_a_report(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, recalibrate=True)
    predictor.started(predictor.admit(made.request(0), NOW_S), NOW_S + 5)
    predictor.admit(made.request(1), NOW_S + 10)
    predictor.admit(made.request(2), NOW_S + 10, arrival_s=NOW_S - 100)
    learnt = predictor._open.recalibration.learnt
    assert learnt is not None and len(learnt) == 2


def test_the_first_start_forgets_what_waiting_requests_taught(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, recalibrate=True)
    for step in range(30):
        predictor.ended(predictor.admit(made.request(step), NOW_S + step), NOW_S + step + 60)
    waiting = predictor.admit(made.request(1), NOW_S + 100)
    assert (_factors(predictor) != 1.0).any()
    predictor.started(waiting, NOW_S + 200)
    assert (_factors(predictor) == 1.0).all()
    assert predictor.counters["ended"] == 30


def test_a_start_brings_back_what_a_late_word_of_a_wait_ended(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, recalibrate=True)
    with pytest.warns(RuntimeWarning, match=r"Predictor\.started"):
        predictor.ended(predictor.admit(made.request(0), NOW_S), NOW_S + 90, arrival_s=NOW_S + 50)
    assert predictor.info()["recalibration"].startswith("off: requests wait")
    _run(predictor, made, range(1, 40), [])
    assert predictor.info()["recalibration"] == "on"
    assert (_factors(predictor) != 1.0).any()
    late = predictor.admit(made.request(0), NOW_S + 9_000)
    predictor.ended(late, NOW_S + 9_900, arrival_s=NOW_S + 9_500)  # one start was not reported: it is not learnt from
    assert predictor.info()["recalibration"] == "on"


def test_without_the_switch_a_start_changes_no_curve(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder)
    _run(predictor, made, range(30), [])
    assert predictor.info()["recalibration"] == "off"


def test_a_restart_goes_on_to_the_bit(made: Made, folder: Path, tmp_path: Path) -> None:
    left = Predictor.load(folder, recalibrate=True)
    waiting: list[Lifetime] = []
    _run(left, made, range(31), waiting)
    left.snapshot(tmp_path / "s")
    right = Predictor.load(folder, history=tmp_path / "s", recalibrate=True)
    for vm in left.running():
        assert left.handle(vm).arrival_s == right.handle(vm).arrival_s
        assert left.handle(vm).curve == right.handle(vm).curve
    ends = [_run(predictor, made, range(40, 70), [*waiting]) for predictor in (left, right)]
    assert [vm.curve for vm in ends[0]] == [vm.curve for vm in ends[1]]
    assert _factors(left).tobytes() == _factors(right).tobytes()
    left.snapshot(tmp_path / "left")
    right.snapshot(tmp_path / "right")
    one, other = read_snapshot(tmp_path / "left"), read_snapshot(tmp_path / "right")
    assert one is not None and other is not None
    assert one.arrays["started"].tolist() == other.arrays["started"].tolist()
    assert one.state["is_by_starts"] is other.state["is_by_starts"] is True


@pytest.mark.parametrize("wrong", [[0, 0], [5], [LATEST_S], []])
def test_forged_starts_are_refused_and_older_snapshots_have_none(made: Made, folder: Path, tmp_path: Path,
                                                                 wrong: list[int]) -> None:
    predictor = Predictor.load(folder)
    vm = predictor.started(predictor.admit(made.request(0), NOW_S), NOW_S + 50)
    predictor.snapshot(tmp_path / "s")
    content = read_snapshot(tmp_path / "s")
    assert content is not None
    write_snapshot(tmp_path / "s", replace(content, arrays={**content.arrays, "started": np.array(wrong, np.int64)}))
    with pytest.raises(SnapshotError, match="started must be seconds after the admission"):
        Predictor.load(folder, history=tmp_path / "s")
    older = {name: array for name, array in content.arrays.items() if name != "started"}
    state = {name: value for name, value in content.state.items() if name != "is_by_starts"}
    write_snapshot(tmp_path / "s", replace(content, arrays=older, state=state))
    assert Predictor.load(folder, history=tmp_path / "s").handle(str(vm.id)).arrival_s == NOW_S


def test_another_version_counts_only_what_has_started(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, recalibrate=True)
    waiting = [predictor.admit(made.request(step), NOW_S) for step in range(4)]
    predictor.started(waiting[0], NOW_S + 5)
    predictor.reload(made.folders["hazard-limit"])
    fresh = [predictor.admit(made.request(step), NOW_S + 10) for step in range(3)]
    predictor.started(fresh[0], NOW_S + 20)
    predictor.withdraw(fresh[1])
    learnt = predictor._open.recalibration.learnt
    assert learnt is not None and len(learnt) == 1  # of the former version's curves nothing can be learnt


def test_a_refresh_counts_the_age_from_the_start(made: Made, tmp_path: Path) -> None:
    predictor = Predictor.load(refreshing(made, tmp_path / "bundle"))
    ages_s = predictor.info()["refresh_ages_s"]
    vm = predictor.started(predictor.admit(made.request(0), NOW_S), NOW_S + 1_000)
    assert type(predictor.refresh(vm, NOW_S + 1_000 + ages_s[0] - 1)) is Lifetime
    refreshed = predictor.refresh(vm, NOW_S + 1_000 + ages_s[0])
    assert type(refreshed) is not Lifetime and refreshed.arrival_s == NOW_S + 1_000
    assert type(predictor.started(refreshed, NOW_S + 1_000)) is not Lifetime  # the same report again keeps the refresh
    assert predictor.handle(str(vm.id)).arrival_s == NOW_S + 1_000


def test_a_refresh_during_the_wait_is_dropped(made: Made, tmp_path: Path) -> None:
    predictor = Predictor.load(refreshing(made, tmp_path / "bundle"))
    waits = [predictor.admit(made.request(0), NOW_S) for _ in range(3)]
    early = [predictor.refresh(vm, NOW_S + 5_000) for vm in waits]  # an age of 5,000 s that is none
    assert all(type(vm) is not Lifetime for vm in early)
    begun = [predictor.started(vm, NOW_S + 9_000) for vm in (early[0], waits[1], str(waits[2].id))]
    assert [type(vm) for vm in begun] == [Lifetime] * 3
    assert [vm.curve for vm in begun] == [vm.curve for vm in waits]
    assert [predictor.handle(str(vm.id)).arrival_s for vm in waits] == [NOW_S + 9_000] * 3
