"""A predictor with a usage section: whom it knows, what ends with a request, reloading and watching."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from made_bundles import Made
from made_usage import DAY_WORKER, made_section
from sojourn.serving import BundleError, Predictor, WatchEvent

NOW_S = 10**7 // 86_400 * 86_400


@pytest.fixture
def folders(made: Made, tmp_path: Path) -> tuple[Path, Path]:
    return Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle")), made_section(tmp_path / "usage")


@pytest.fixture
def predictor(folders: tuple[Path, Path]) -> Predictor:
    return Predictor.load(folders[0], usage=folders[1])


def test_handles_ids_and_requests_of_the_trace_are_observed(made: Made, predictor: Predictor) -> None:
    vm = predictor.admit(made.request(3), NOW_S)
    for time_s in range(NOW_S, NOW_S + 3 * 3600, 300):
        assert predictor.observe(vm, time_s, 0.1)
    assert predictor.usage(vm).class_id == DAY_WORKER
    assert vm.id is not None and predictor.usage(vm.id).own_highest == predictor.usage(vm).own_highest
    predictor.observe("vm-1", NOW_S, 0.95)
    assert predictor.usage("vm-1").basis == "wave"
    assert predictor.usage("vm-1").peak(NOW_S, NOW_S + 60) == pytest.approx(0.95)
    assert predictor.forget_usage("vm-1") and not predictor.forget_usage("vm-1")
    assert predictor.counters["observations"] == 37
    assert predictor.info()["usage"] == predictor.usage_version


def test_what_does_not_run_is_refused(made: Made, predictor: Predictor) -> None:
    for stranger in ("vm-3", predictor.predict(made.request(3), NOW_S), 7):
        with pytest.raises(ValueError, match="vm must be"):
            predictor.observe(stranger, NOW_S, 0.1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="vm must be"):
            predictor.usage(stranger)  # type: ignore[arg-type]
    vm = predictor.admit(made.request(3), NOW_S)
    with pytest.raises(ValueError, match="used must be a finite share"):
        predictor.observe(vm, NOW_S, -1.0)
    assert predictor.counters["errors"] == 7


def test_without_a_section_usage_is_refused(made: Made, folders: tuple[Path, Path]) -> None:
    predictor = Predictor.load(folders[0])
    vm = predictor.admit(made.request(3), NOW_S)
    for ask in (lambda: predictor.usage(vm), lambda: predictor.observe(vm, NOW_S, 0.1), predictor.reload_usage):
        with pytest.raises(ValueError, match=r"usage must be given to Predictor\.load"):
            ask()
    assert predictor.usage_version is None
    with pytest.raises(BundleError, match="format_version must be 3, got 2; make the usage section anew"):
        Predictor.load(folders[0], usage=folders[0])


def test_observations_end_with_the_request(made: Made, predictor: Predictor) -> None:
    vms = [predictor.admit(made.request(3), NOW_S) for _ in range(2)]
    for vm in vms:
        predictor.observe(vm, NOW_S, 0.5)
    live = predictor._usage.live
    assert live is not None and len(live) == 2
    predictor.ended(vms[0], NOW_S + 60)
    predictor.withdraw(vms[1])
    assert len(live) == 0
    with pytest.raises(ValueError, match="vm must be"):
        predictor.observe(vms[0], NOW_S, 0.5)
    assert len(live) == 0


def test_reload_takes_both_and_keeps_what_was_seen(made: Made, predictor: Predictor,
                                                   folders: tuple[Path, Path]) -> None:
    vm = predictor.admit(made.request(3), NOW_S)
    predictor.observe(vm, NOW_S, 0.5)
    old = predictor.usage_version
    made_section(folders[1], {"metrics": {"x": 1}})
    predictor.reload()
    assert predictor.usage_version != old
    assert predictor.usage(vm).own_highest == 0.5
    (folders[1] / "usage.npz").write_bytes(b"")
    served = predictor.usage_version
    with pytest.raises(BundleError, match=r"usage\.npz: sha256 must be"):
        predictor.reload_usage()
    assert (predictor.usage_version, predictor.counters["reload_errors"]) == (served, 1)


def test_a_watcher_follows_both_folders(predictor: Predictor, folders: tuple[Path, Path]) -> None:
    events: list[WatchEvent] = []
    is_told = threading.Event()

    def tell(event: WatchEvent) -> None:
        events.append(event)
        is_told.set()

    with predictor.watch(interval_s=0.01, on_event=tell) as watch:
        made_section(folders[1], {"metrics": {"x": 2}})
        assert is_told.wait(30.0)
        assert [(event.version, event.is_served) for event in events] == [(predictor.usage_version, True)]
        is_told.clear()
        (folders[1] / "usage.json").write_bytes(b"{}")
        assert is_told.wait(30.0)
        assert not events[-1].is_served and "usage.json: sha256 must be" in events[-1].reason
    assert watch._beside is not None and not watch._beside._thread.is_alive()


def test_a_fork_copies_what_was_seen(made: Made, predictor: Predictor) -> None:
    vm = predictor.admit(made.request(3), NOW_S)
    predictor.observe(vm, NOW_S, 0.25)
    child = os.fork()
    if not child:
        predictor.observe(vm, NOW_S, 0.5)
        os._exit(0 if predictor.usage(vm).own_highest == 0.5 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert predictor.usage(vm).own_highest == 0.25
