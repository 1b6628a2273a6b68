"""Handles: each names one admission of one predictor, whatever copies are made of it and wherever they come from."""

from __future__ import annotations

import copy
import os
import pickle  # noqa: TID251 -- a caller may
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_bundles import Made
from sojourn.serving import Lifetime, Predictor

NOW_S = 10**7
ADMITS = """
import pickle, sys
from sojourn.serving import Predictor
predictor = Predictor.load(sys.argv[1], is_history_kept=False)
vm = predictor.admit({"cpu_cores": 2.0, "subscription": "theirs"}, 10_000_000)
sys.stdout.buffer.write(pickle.dumps(vm))
"""


@pytest.fixture
def predictor(made: Made) -> Predictor:
    return Predictor.load(made.folders["hazard"], is_history_kept=False)


def test_a_handle_of_another_process_is_refused(made: Made, predictor: Predictor) -> None:
    """Both processes count their admissions from 0."""
    found = subprocess.run([sys.executable, "-c", ADMITS, str(made.folders["hazard"])], capture_output=True, check=True)
    theirs: Lifetime = pickle.loads(found.stdout)  # noqa: S301
    mine = predictor.admit(made.request(0), NOW_S)
    before = {name: array.tobytes() for name, array in predictor._open.history.to_arrays().items()}
    for named in (theirs, str(theirs.id)):
        with pytest.raises(ValueError, match=r"vm must .*, got one of another"):
            predictor.ended(named, NOW_S + 9)
        with pytest.raises(ValueError, match=r"vm must .*, got one of another"):
            predictor.withdraw(named)
    assert {name: array.tobytes() for name, array in predictor._open.history.to_arrays().items()} == before
    assert predictor.running() == [mine.id]
    predictor.ended(mine, NOW_S + 9)


@pytest.mark.parametrize("copied", [
    copy.copy, copy.deepcopy, lambda vm: pickle.loads(pickle.dumps(vm)), lambda vm: vm.id, lambda vm: str(vm.id)])  # noqa: S301
def test_a_copy_ends_the_admission_and_no_other_does_again(made: Made, predictor: Predictor,
                                                           copied: Callable[[Lifetime], Any]) -> None:
    vm, neighbour = predictor.admit(made.request(0), NOW_S), predictor.admit(made.request(0), NOW_S)
    one = copied(vm)
    predictor.ended(one, NOW_S + 60)
    for again in (vm, one, copied(vm), str(vm.id)):
        with pytest.raises(ValueError, match="neither ended nor withdrawn"):
            predictor.ended(again, NOW_S + 61)
        with pytest.raises(ValueError, match="neither ended nor withdrawn"):
            predictor.withdraw(again)
    assert predictor.running() == [neighbour.id]
    assert (predictor.counters["ended"], predictor.counters["withdrawn"]) == (1, 0)


def test_a_handle_that_was_tampered_with_ends_what_was_admitted(made: Made, predictor: Predictor) -> None:
    vm = predictor.admit(made.request(0), NOW_S)
    assert vm.admission is not None
    forged = copy.copy(vm)
    forged.admission = vm.admission._replace(keys=(("nobody",),) * len(vm.admission.keys), arrival_s=0)
    with pytest.raises(ValueError, match=f"now_s must be >= the arrival {NOW_S}, got 5"):
        predictor.ended(forged, 5)
    predictor.ended(forged, NOW_S + 60)
    assert "subscription" not in predictor.predict(made.request(0), NOW_S + 60).not_seen


def test_no_two_predictors_and_no_two_admissions_share_an_id(made: Made) -> None:
    predictors = [Predictor.load(made.folders["once"], is_history_kept=False) for _ in range(3)]
    ids = [one.admit(made.request(0), NOW_S).id for one in predictors for _ in range(4)]
    assert len(set(ids)) == 12
    assert predictors[0].predict(made.request(0), NOW_S).id is None


@pytest.mark.parametrize("bad", ["", "vm", "0-0", "00000000000000ff-07", "00000000000000FF-7", "00000000000000ff--1",
                                 "00000000000000ff-7\n", "g" * 16 + "-1", "0" * 16 + "-" + "9" * 400])
def test_what_is_no_id_is_named(predictor: Predictor, bad: str) -> None:
    for act in (lambda: predictor.ended(bad, 0), lambda: predictor.withdraw(bad), lambda: predictor.handle(bad)):
        with pytest.raises(ValueError, match="vm must be a Lifetime or the id of one, got") as caught:
            act()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", ["hazard", "uptime", "once"])
def test_a_handle_is_made_again_from_its_id(made: Made, kind: str) -> None:
    predictor = Predictor.load(made.folders[kind])
    vm = predictor.admit(made.request(3), NOW_S)
    assert vm.id is not None
    predictor.ended(predictor.admit(made.request(3), NOW_S), NOW_S + 5)  # the owner's history has moved on
    again = predictor.handle(vm.id)
    assert (again.curve, again.arrival_s, again.unknown, again.version) == (vm.curve, NOW_S, vm.unknown, vm.version)
    assert str(again.features) == str(vm.features)
    predictor.reload(made.folders["once"])  # the same features, by the model that is served now
    assert predictor.handle(vm.id).version == predictor.version
    predictor.ended(again, NOW_S + 9)
    with pytest.raises(ValueError, match="neither ended nor withdrawn"):
        predictor.handle(vm.id)


FORK = """
import os, sys
from sojourn.serving import Predictor
predictor = Predictor.load(sys.argv[1], is_history_kept=False)
request = {"cpu_cores": 2.0, "subscription": "asked"}
both = predictor.admit(request, 10)
reading, writing = os.pipe()
back_reading, back_writing = os.pipe()

def refused(vm):
    try:
        predictor.ended(vm, 50)
    except ValueError as error:
        return "of another" in str(error)
    return False

child = os.fork()
mine = [predictor.admit(request, 20) for _ in range(2)]
if not child:
    os.write(writing, ",".join(vm.id for vm in mine).encode())
    theirs = os.read(back_reading, 1000).decode().split(",")
    good = all(map(refused, theirs))
    predictor.ended(both, 40)  # once here
    good &= not refused(mine[0]) and predictor.running() == [mine[1].id]
    os._exit(not good)
os.write(back_writing, ",".join(vm.id for vm in mine).encode())
theirs = os.read(reading, 1000).decode().split(",")
assert all(map(refused, theirs)) and not set(theirs) & {vm.id for vm in mine}
assert predictor.running() == [both.id, *(vm.id for vm in mine)]
predictor.ended(both, 60)  # and once here
predictor.ended(mine[1], 70)
print(os.waitpid(child, 0)[1], predictor.counters["ended"])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_each_process_knows_its_own_admissions(made: Made) -> None:
    found = subprocess.run([sys.executable, "-c", FORK, str(made.folders["hazard"])], capture_output=True, text=True,
                           check=False, timeout=120)
    assert (found.stdout, found.stderr) == ("0 2\n", "")


def test_what_nobody_ends_is_bounded_and_the_first_are_dropped(made: Made, monkeypatch: pytest.MonkeyPatch,
                                                               tmp_path: Path) -> None:
    monkeypatch.setattr("sojourn.serving.live.admitted.N_RUNNING_MAX", 8)
    monkeypatch.setattr("sojourn.serving.live.admitted.N_DROPPED_AT_ONCE", 3)
    bounded, twin = (Predictor.load(made.folders["hazard"], is_history_kept=False, recalibrate=True) for _ in "ab")
    handles = [bounded.admit(made.request(idx % 2), NOW_S + idx) for idx in range(9)]
    assert bounded.running() == [vm.id for vm in handles[3:]]
    told = bounded.info()
    assert (told["n_running"], told["n_dropped"], bounded.counters["dropped"]) == (6, 3, 3)
    for idx in range(3, 9):  # the history is as if the dropped ones had never been
        twin.admit(made.request(idx % 2), NOW_S + idx)
    for idx in range(2):
        after = [each.predict(made.request(idx), NOW_S + 20).features for each in (bounded, twin)]
        assert repr(after[0]) == repr(after[1])
    with pytest.raises(ValueError, match="neither ended nor withdrawn"):
        bounded.ended(handles[0], NOW_S + 30)
    bounded.ended(handles[3], NOW_S + 30)
    bounded.snapshot(tmp_path / "snapshot")
    again = Predictor.load(made.folders["hazard"], history=tmp_path / "snapshot")
    assert again.running() == bounded.running() == [vm.id for vm in handles[4:]]
