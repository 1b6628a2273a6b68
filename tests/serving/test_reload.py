"""Reloading: what goes on, what is refused, and what a publisher that works meanwhile cannot break."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_bundles import Made, publish, rewrite_schema
from sojourn.serving import BundleError, Predictor, load_bundle
from sojourn.serving.answers import Served
from sojourn.serving.bundle import FILES, MANIFEST, FolderFiles
from sojourn.serving.bundle import bundle as folder_files

NOW_S = 10**7
DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture
def folder(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))


def test_the_new_version_answers_and_old_handles_stay(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder)
    request = made.request(3)
    old_version, fresh = predictor.version, Predictor.load(made.folders["uptime"])
    vm = predictor.admit(request, NOW_S)
    before = vm.remaining(60.0)
    publish(made.folders["uptime"], folder)
    assert predictor.reload() == predictor.version == fresh.version != old_version
    assert predictor.info()["kind"] == "uptime"
    assert (vm.version, vm.remaining(60.0)) == (old_version, before)
    other = made.request(7) | {"subscription": "nobody else"}
    assert predictor.predict(other, NOW_S).curve == fresh.predict(other, NOW_S).curve
    predictor.ended(vm, NOW_S + 60)
    assert {name: predictor.counters[name] for name in ("ended", "reloads", "reload_errors")} == {
        "ended": 1, "reloads": 1, "reload_errors": 0}


def test_the_live_history_goes_on(made: Made, folder: Path) -> None:
    predictor = Predictor.load(folder, is_history_kept=False)
    request = made.request(3) | {"subscription": "live"}
    vms = [predictor.admit(request, NOW_S + step) for step in range(3)]
    predictor.ended(vms[0], NOW_S + 100)
    features = predictor.predict(request, NOW_S + 200).features
    predictor.reload(made.folders["once"])
    vm = predictor.predict(request, NOW_S + 200)
    assert str(vm.features) == str(features)  # NaN as text, for they do not equal themselves
    assert "subscription" not in vm.not_seen
    predictor.withdraw(vms[1])
    predictor.ended(vms[2], NOW_S + 300)
    assert predictor.counters["ended"] == 2


def _window(schema: dict[str, Any]) -> None:
    schema["history"]["window"] = 17


def _size(schema: dict[str, Any]) -> None:
    schema["history"]["n_keys_max"] -= 1


def _clock(schema: dict[str, Any]) -> None:
    schema["phase_s"] += 3_600


@pytest.mark.parametrize(("change", "message"), [
    (_window, r"schema\.json: history must have the window of version \w{12}, .* \(16\), got 17"),
    (_size, r"schema\.json: history must have the n_keys_max of version"),
    (_clock, r"schema\.json: phase_s must be 0, the clock of version \w{12} that live times are on, got 3600"),
    (lambda schema: schema.update(kind="other"), "kind must be one of"),
])  # fmt: skip
def test_what_does_not_fit_the_live_history_is_refused(made: Made, folder: Path, change: Callable[[Any], object],
                                                       message: str) -> None:
    predictor = Predictor.load(folder)
    version, answer = predictor.version, predictor.predict(made.request(3), NOW_S).remaining(0.0)
    rewrite_schema(folder, change)
    with pytest.raises(BundleError, match=message):
        predictor.reload()
    assert predictor.version == version
    assert predictor.predict(made.request(3), NOW_S).remaining(0.0) == answer
    assert (predictor.counters["reloads"], predictor.counters["reload_errors"]) == (0, 1)


def test_a_key_column_that_was_a_number_and_is_text_is_refused(made: Made) -> None:
    """The definition is the same, and yet its keys would be "2" where the live ones are "2.0"."""
    served = Served.of(load_bundle(made.folders["once"]))
    numbers = [column for column in served.encoder.numbers if column != "cpu_cores"]
    encoder = replace(served.encoder, numbers=tuple(numbers), names=(*served.encoder.names, "cpu_cores"))
    other = replace(served, encoder=encoder)
    with pytest.raises(BundleError, match="the history's column 'cpu_cores' must be a number, as in version"):
        other.following(served)
    with pytest.raises(BundleError, match="the history's column 'cpu_cores' must be text, as in version"):
        served.following(other)


def test_columns_may_come_and_go(made: Made, folder: Path) -> None:
    """What only an earlier version read may still be named; what none has read is refused as ever."""
    rewrite_schema(folder, lambda schema: schema["names"].append("rack"))
    predictor = Predictor.load(folder)
    request = made.request(3)
    assert predictor.predict(request, NOW_S).unknown == ("rack",)
    for source in ("hazard", "once"):
        predictor.reload(made.folders[source])
        vm = predictor.predict(request | {"rack": 1.5}, NOW_S)
        assert vm.unknown == ()
        assert vm.curve == predictor.predict(request, NOW_S).curve
        with pytest.raises(ValueError, match=r"column must be one of .*, got 'colour'"):
            predictor.predict(request | {"colour": 1}, NOW_S)
        with pytest.raises(ValueError, match="request must be a mapping"):
            predictor.predict([request], NOW_S)  # type: ignore[arg-type]
    predictor.reload(folder)
    assert predictor.predict(request | {"rack": "r1"}, NOW_S).unknown == ()
    with pytest.raises(ValueError, match="rack must be text or a whole number"):
        predictor.predict(request | {"rack": 1.5}, NOW_S)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_corrupted_bundle_leaves_the_old_one_serving(made: Made, folder: Path, name: str) -> None:
    predictor = Predictor.load(folder)
    version = predictor.version
    (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    with pytest.raises(BundleError, match=name):
        predictor.reload()
    shutil.rmtree(folder)
    with pytest.raises(BundleError, match=r"MANIFEST\.json must .*, got No such file"):
        predictor.reload()
    assert predictor.version == version
    assert predictor.predict(made.request(0), NOW_S).version == version
    assert predictor.counters["reload_errors"] == 2


def test_a_predictor_of_a_bundle_must_be_told_the_folder(made: Made, folder: Path) -> None:
    predictor = Predictor(load_bundle(folder))
    for call in (predictor.reload, predictor.watch):
        with pytest.raises(ValueError, match="folder must be given, since this predictor was not loaded from one"):
            call()
    assert predictor.reload(made.folders["once"]) == load_bundle(made.folders["once"]).version


def test_a_folder_is_found_after_the_working_directory_moved(folder: Path, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    predictor = Predictor.load("bundle")
    monkeypatch.chdir("/")
    assert predictor.reload() == predictor.version


@pytest.mark.slow
def test_a_load_that_meets_a_publisher_reads_one_version(made: Made, folder: Path) -> None:
    """Two bundles take turns in the folder; two publishes fall into each load; every load is one of them whole."""
    sources = [made.folders["hazard"], made.folders["uptime"]]
    expected = {load_bundle(source).version: (source / "model.onnx").read_bytes() for source in sources}
    due, done = threading.Semaphore(0), threading.Semaphore(0)
    n_loads = 150

    def publisher() -> None:
        for number in range(3 * n_loads):
            due.acquire()
            publish(sources[(number + 1) % 2], folder)
            done.release()

    thread = threading.Thread(target=publisher)
    thread.start()
    seen = []
    try:
        for _ in range(n_loads):
            due.release(2)
            bundle = load_bundle(folder)
            assert bundle.model == expected[bundle.version]
            due.release()  # an odd number in all, so that the next load begins with the other one
            for _ in range(3):
                done.acquire()
            seen.append(bundle.version)
    finally:
        due.release(3 * n_loads)
        thread.join()
    assert set(seen) == set(expected)


def test_a_publisher_that_stands_still_between_its_two_renames_is_waited_for(made: Made, folder: Path,
                                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    old = folder.parent / f".{folder.name}.old.123"
    old.mkdir()
    folder.rename(old / "was")
    n_pauses = 0

    def pause(seconds: float) -> None:
        nonlocal n_pauses
        n_pauses += 1
        if n_pauses == 50:  # more than the attempts at a folder that is simply missing
            (old / "was").rename(folder)

    monkeypatch.setattr(time, "sleep", pause)
    assert load_bundle(folder).version == load_bundle(made.folders["hazard"]).version
    assert n_pauses == 50
    monkeypatch.setattr(folder_files, "_PATIENCE_S", 0.0)
    n_pauses = 100
    folder.rename(old / "was")
    with pytest.raises(BundleError, match="No such file"):  # it was killed there
        load_bundle(folder)
    assert n_pauses == 100 + folder_files._N_ATTEMPTS - 1


@pytest.mark.parametrize("moment", [MANIFEST, *FILES])
def test_a_folder_replaced_between_two_reads_is_read_again(made: Made, folder: Path, moment: str,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """The publish falls just before one of the files is read, with the old folder opened and its files removed."""
    read, n_published = FolderFiles.read, 0

    def reading(files: FolderFiles, root: Path, descriptor: int, name: str, limit: int) -> bytes:
        nonlocal n_published
        if name == moment and n_published == 0:
            n_published += 1
            publish(made.folders["once"], folder)
        return read(files, root, descriptor, name, limit)

    monkeypatch.setattr(FolderFiles, "read", reading)
    bundle = load_bundle(folder)
    assert n_published == 1
    assert bundle.version == load_bundle(made.folders["once"]).version


def test_files_copied_over_the_old_ones_are_read_again(made: Made, folder: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """No renaming publisher, but a copy into the folder: the manifest that was read is not the one that is there."""
    read, n_copied = FolderFiles.read, 0

    def reading(files: FolderFiles, root: Path, descriptor: int, name: str, limit: int) -> bytes:
        nonlocal n_copied
        if name == "schema.json" and n_copied == 0:
            n_copied += 1
            for file in (*FILES, MANIFEST):
                shutil.copy(made.folders["once"] / file, folder / file)
        return read(files, root, descriptor, name, limit)

    monkeypatch.setattr(FolderFiles, "read", reading)
    assert load_bundle(folder).version == load_bundle(made.folders["once"]).version


def test_a_folder_that_never_rests_is_given_up(made: Made, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [made.folders["once"], made.folders["uptime"]]
    read, n_read = FolderFiles.read, 0

    def reading(files: FolderFiles, root: Path, descriptor: int, name: str, limit: int) -> bytes:
        nonlocal n_read
        if name == "history.npz":
            n_read += 1
            publish(sources[n_read % 2], folder)
        return read(files, root, descriptor, name, limit)

    monkeypatch.setattr(FolderFiles, "read", reading)
    monkeypatch.setattr(folder_files, "_PAUSE_S", 0.0)
    with pytest.raises(BundleError, match=r"history\.npz must be a readable file of the bundle"):
        load_bundle(folder)
    assert n_read == folder_files._N_ATTEMPTS


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="open descriptors are not listed on this system")
def test_loading_leaves_no_descriptor_open(made: Made, folder: Path) -> None:
    load_bundle(folder)
    before = len(list(DESCRIPTORS.iterdir()))
    for _ in range(5):
        load_bundle(folder)
        (folder / "schema.json").write_bytes(b"{}")
        with pytest.raises(BundleError):
            load_bundle(folder)
        shutil.copy(made.folders["hazard"] / "schema.json", folder / "schema.json")
    assert len(list(DESCRIPTORS.iterdir())) == before


GROWS = """
import gc, sys
from pathlib import Path
from sojourn.serving import Predictor
def rss_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
predictor, folders = Predictor.load(sys.argv[1]), sys.argv[1:3]
def reload(n):
    for number in range(n):
        predictor.reload(folders[number % 2])
        predictor.predict({"cpu_cores": 2.0}, 10**7).remaining(60.0)
reload(40)
gc.collect()
gc.disable()  # what is old is freed without the collector
before = rss_mib()
reload(200)
print(round(rss_mib() - before, 1))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no resident size to read on this system")
def test_memory_stays_flat_over_two_hundred_reloads(made: Made) -> None:
    folders = [str(made.folders[kind]) for kind in ("hazard", "uptime")]
    found = subprocess.run([sys.executable, "-c", GROWS, *folders], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 12.0
