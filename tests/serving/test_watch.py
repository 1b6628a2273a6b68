"""The watcher: serves what is published, reports what is refused, tries nothing twice, and does not die."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from made_bundles import Made, publish
from sojourn.serving import BundleError, Predictor, Watch, WatchEvent, load_bundle
from sojourn.serving import watch as watch_module
from sojourn.serving.bundle import FILES
from sojourn.serving.watch import N_LOOKS_UNCHECKED

LONG_S = 3_600.0
"""An interval in which the thread does not look, so that a test can, with `poll`."""
DEADLINE_S = 60.0


@pytest.fixture
def folder(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))


@pytest.fixture
def predictor(folder: Path) -> Predictor:
    return Predictor.load(folder)


def test_the_thread_serves_what_is_published(made: Made, folder: Path, predictor: Predictor) -> None:
    events: list[WatchEvent] = []
    is_told = threading.Event()

    def tell(event: WatchEvent) -> None:
        events.append(event)
        is_told.set()

    with predictor.watch(interval_s=0.001, on_event=tell) as watch:
        publish(made.folders["uptime"], folder)
        assert is_told.wait(DEADLINE_S)
        thread = watch._thread
        assert thread.daemon
    assert not thread.is_alive()
    expected = load_bundle(folder).version
    assert events == [WatchEvent(expected, True)]
    assert predictor.version == expected
    watch.stop()  # twice does no harm


def test_nothing_happens_where_nothing_changed(folder: Path, predictor: Predictor) -> None:
    events: list[WatchEvent] = []
    with predictor.watch(interval_s=LONG_S, on_event=events.append) as watch:
        watch.poll()
        publish(shutil.copytree(folder, folder.parent / "same"), folder)  # other files, the same bytes
        watch.poll()
        shutil.rmtree(folder)
        watch.poll()
    assert events == []
    assert predictor.counters["reloads"] == predictor.counters["reload_errors"] == 0


def test_what_was_published_before_the_watch_began_is_served(made: Made, folder: Path, predictor: Predictor) -> None:
    publish(made.folders["once"], folder)
    with predictor.watch(interval_s=LONG_S) as watch:
        watch.poll()
    assert predictor.info()["kind"] == "once"


def test_a_refused_version_is_reported_once_and_tried_again_when_it_changes(made: Made, folder: Path,
                                                                            predictor: Predictor) -> None:
    events: list[WatchEvent] = []
    served = predictor.version
    with predictor.watch(interval_s=LONG_S, on_event=events.append) as watch:
        watch.poll()
        publish(made.folders["uptime"], folder)
        (folder / "schema.json").write_bytes(b"{}")
        for _ in range(3):
            watch.poll()
        (event,) = events
        assert not event.is_served
        assert event.version != served
        assert event.reason.startswith("BundleError: schema.json: sha256 must be ")
        assert (predictor.version, predictor.counters["reload_errors"]) == (served, 1)
        # the manifest stays as it is; the file it vouches for comes late
        shutil.copy(made.folders["uptime"] / "schema.json", folder / "schema.json")
        watch.poll()
    assert events[1:] == [WatchEvent(event.version, True)]
    assert predictor.version == event.version


def test_a_file_that_is_missing_is_reported_and_waited_for(made: Made, folder: Path, predictor: Predictor) -> None:
    events: list[WatchEvent] = []
    with predictor.watch(interval_s=LONG_S, on_event=events.append) as watch:
        publish(made.folders["uptime"], folder)
        (folder / "history.npz").unlink()
        watch.poll()
        watch.poll()
        (event,) = events
        assert "history.npz must be a readable file of the bundle, got No such file" in event.reason
        assert predictor.counters["reload_errors"] == 1
        shutil.copy(made.folders["uptime"] / "history.npz", folder)
        watch.poll()
    assert events[1:] == [WatchEvent(event.version, True)]


def test_what_could_not_be_read_is_tried_again_and_told_once(made: Made, folder: Path, predictor: Predictor,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[WatchEvent] = []
    reload = predictor.reload
    failures: list[Exception] = [MemoryError("too little"), MemoryError("too little"), _unreadable()]

    def failing(source: Path) -> str:
        if failures:
            raise failures.pop(0)
        return reload(source)

    monkeypatch.setattr(predictor, "reload", failing)
    publish(made.folders["once"], folder)
    with predictor.watch(interval_s=LONG_S, on_event=events.append) as watch:
        for _ in range(5):
            watch.poll()
    assert [event.reason for event in events] == ["MemoryError: too little", "BundleError: too many open files", ""]
    assert predictor.info()["kind"] == "once"


def _unreadable() -> BundleError:
    error = BundleError("too many open files")
    error.__cause__ = OSError(24, "too many open files")
    return error


def test_a_callback_that_fails_is_counted_and_the_thread_lives_on(made: Made, folder: Path,
                                                                  predictor: Predictor) -> None:
    told = threading.Semaphore(0)

    def failing(_: WatchEvent) -> None:
        told.release()
        raise RuntimeError("the callback's own trouble")

    with predictor.watch(interval_s=0.001, on_event=failing):
        for kind in ("uptime", "once"):
            publish(made.folders[kind], folder)
            assert told.acquire(timeout=DEADLINE_S)
    assert predictor.counters["watch_errors"] == 2
    assert predictor.info()["kind"] == "once"


def test_a_callback_may_stop_the_watch(made: Made, folder: Path, predictor: Predictor) -> None:
    stopped: list[Watch] = []
    is_ready = threading.Event()

    def stopping(_: WatchEvent) -> None:
        is_ready.wait(DEADLINE_S)
        stopped[0].stop()

    stopped.append(predictor.watch(interval_s=0.001, on_event=stopping))
    is_ready.set()
    publish(made.folders["uptime"], folder)
    stopped[0]._thread.join(DEADLINE_S)
    assert not stopped[0]._thread.is_alive()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_served_file_that_is_changed_in_place_is_reported_once(folder: Path, predictor: Predictor, name: str,
                                                                 is_hidden: bool) -> None:
    """Also where size and time of the file are what they were; and the loaded model serves on."""
    events: list[WatchEvent] = []
    path, whole = folder / name, (folder / name).read_bytes()
    n_looks = N_LOOKS_UNCHECKED if is_hidden else 1

    def put(content: bytes) -> None:
        before = path.stat()
        path.write_bytes(content)
        if is_hidden:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    with predictor.watch(interval_s=LONG_S, on_event=events.append) as watch:
        for n_found in (1, 2):
            watch.poll()
            put(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
            for _ in range(2 * n_looks):
                watch.poll()
            assert len(events) == predictor.counters["corruptions"] == n_found
            put(whole)
            for _ in range(n_looks):
                watch.poll()
    assert {(event.version, event.is_served) for event in events} == {(predictor.version, False)}
    assert events[0].reason.startswith(f"BundleError: {name}: sha256 must be")
    assert (predictor.counters["reloads"], predictor.counters["reload_errors"]) == (0, 0)


def test_served_files_that_cannot_be_read_are_no_news(folder: Path, predictor: Predictor,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[WatchEvent] = []

    def failing(_: Path) -> str:
        raise _unreadable()

    with predictor.watch(interval_s=LONG_S, on_event=events.append) as watch:
        with monkeypatch.context() as patch:
            patch.setattr(watch_module, "check_files", failing)
            watch.poll()
        (folder / "history.npz").write_bytes(b"")
        watch.poll()
    (event,) = events
    assert "history.npz: sha256 must be" in event.reason


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan"), float("inf"), "5", None, True])
def test_a_bad_interval_is_named(predictor: Predictor, interval_s: float) -> None:
    n_threads = threading.active_count()
    with pytest.raises(ValueError, match="interval_s must be finite and above 0, got"):
        predictor.watch(interval_s=interval_s)
    assert threading.active_count() == n_threads


FORKS = """
import os, shutil, signal, sys, threading
from pathlib import Path
from sojourn.serving import Predictor, load_bundle
folder, source = Path(sys.argv[1]), Path(sys.argv[2])
predictor = Predictor.load(folder)
expected = load_bundle(source).version
is_served = threading.Event()
watch = predictor.watch(interval_s=0.001, on_event=lambda event: is_served.set())
child = os.fork()
if not child:
    signal.alarm(60)
    fresh = Path(shutil.copytree(source, folder.parent / "fresh"))
    folder.rename(folder.parent / "old")
    fresh.rename(folder)
    is_told = is_served.wait(50)
    watch.stop()
    os._exit(0 if is_told and predictor.version == expected and watch._thread.name == "sojourn-watch" else 1)
_, status = os.waitpid(child, 0)
assert is_served.wait(50) and predictor.version == expected
watch.stop()
# a watch that was stopped before the fork stays so
child = os.fork()
if not child:
    os._exit(threading.active_count() - 1)
_, second = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) + 2 * os.waitstatus_to_exitcode(second))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_watches_on(made: Made, folder: Path) -> None:
    arguments = [str(folder), str(made.folders["uptime"])]
    found = subprocess.run([sys.executable, "-c", FORKS, *arguments], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
