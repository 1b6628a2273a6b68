"""Snapshots: a restart goes on to the bit, whenever the writer is killed; what is not whole or not ours is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_bundles import Made, rewrite, rewrite_schema
from sojourn.models.bundle_writer import packed_arrays
from sojourn.serving import Lifetime, Predictor, SnapshotError, load_bundle
from sojourn.serving.bundle import read_arrays
from sojourn.serving.inputs import HistoryDefinition, HistoryState, whole_arrays
from sojourn.serving.live import content_of, open_requests, read_snapshot, write_snapshot
from sojourn.serving.live import snapshot as snapshot_module
from sojourn.serving.live.snapshot import ENDINGS, MARK, SnapshotContent

NOW_S = 10**7
KEYS_MAX = 3
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture(scope="module", params=["hazard", "once"])
def small(made: Made, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A bundle without history, whose tables hold three owners or categories."""
    folder = Path(shutil.copytree(made.folders[request.param], tmp_path_factory.mktemp("small") / "bundle"))
    rewrite_schema(folder, lambda schema: schema["history"].update(n_keys_max=KEYS_MAX, window=3))
    definition = HistoryDefinition.from_dict(json.loads((folder / "schema.json").read_bytes())["history"])
    rewrite(folder, "history.npz", packed_arrays(HistoryState(definition).to_arrays()))
    return folder


@pytest.fixture
def predictor(made: Made) -> Predictor:
    return Predictor.load(made.folders["hazard"])


@pytest.fixture
def folder(tmp_path: Path, made: Made, predictor: Predictor) -> Path:
    """A snapshot of three running requests, one of them without an owner."""
    for idx in range(3):
        predictor.admit(made.request(idx) if idx else {"cpu_cores": 1.0}, NOW_S + idx)
    predictor.ended(predictor.admit(made.request(5), NOW_S + 3), NOW_S + 9)
    predictor.snapshot(tmp_path / "snapshot")
    return tmp_path / "snapshot"


def in_bytes(predictor: Predictor) -> dict[str, bytes]:
    cut = predictor._open.history.cut()
    predictor._open.history.release()
    return {name: array.tobytes() for name, array in whole_arrays(cut).items()}


Op = tuple[str, int, int]
OPS = st.lists(st.tuples(st.sampled_from(["admit", "admit", "admit", "end", "end", "withdraw", "wait"]),
                         st.integers(0, 4), st.integers(0, 9)), max_size=40)  # fmt: skip


class Twin:
    """A predictor driven by operations; it keeps handles, or only their ids."""

    def __init__(self, predictor: Predictor, kept: list[Any], now_s: int) -> None:
        self.predictor, self.kept, self.now_s = predictor, kept, now_s

    def run(self, ops: list[Op]) -> list[Any]:
        answers: list[Any] = []
        for kind, owner, pick in ops:
            self.now_s += (0, 1, 200, 301, 4_000)[pick % 5]
            if kind == "admit":
                request = {"cpu_cores": float(pick), "subscription": f"s{owner}", "zone": f"z{owner}"}
                vm = self.predictor.admit(request, self.now_s)
                answers.append((str(vm.features), vm.unknown, vm.remaining(60.0)))
                self.kept.append(vm.id if pick % 2 else vm)
            elif kind != "wait" and self.kept:
                one = self.kept.pop(pick % len(self.kept))
                if kind == "end":
                    self.predictor.ended(one, self.now_s)
                else:
                    self.predictor.withdraw(one)
        return answers


@given(before=OPS, after=OPS)
@settings(deadline=None, max_examples=60)
def test_a_restart_goes_on_to_the_bit(small: Path, tmp_path_factory: pytest.TempPathFactory, before: list[Op],
                                      after: list[Op]) -> None:
    """Random admissions, ends and withdrawals with evictions, against a predictor that never stopped."""
    folder = tmp_path_factory.mktemp("snapshots")
    left = Twin(Predictor.load(small, is_history_kept=False), [], NOW_S)
    left.run(before)
    left.predictor.snapshot(folder)
    restarted = Predictor.load(small, history=folder)
    assert restarted.running() == left.predictor.running()
    for one in left.kept:
        vm, again = (one if isinstance(one, Lifetime) else left.predictor.handle(one)), restarted.handle(
            one if isinstance(one, str) else one.id)
        assert (again.curve, again.arrival_s, again.unknown) == (vm.curve, vm.arrival_s, vm.unknown)
    right = Twin(restarted, [one if isinstance(one, str) else one.id for one in left.kept], left.now_s)
    assert right.run(after) == left.run(after)
    assert in_bytes(restarted) == in_bytes(left.predictor)
    numbers = [[int(id.split("-")[1]) for id in one.predictor.running()] for one in (left, right)]
    assert numbers[0] == numbers[1]


def test_handles_of_before_a_restart_end_once(made: Made, predictor: Predictor, tmp_path: Path) -> None:
    old, lost = predictor.admit(made.request(0), NOW_S), None
    predictor.snapshot(tmp_path / "s")
    lost = predictor.admit(made.request(0), NOW_S)
    restarted = Predictor.load(made.folders["hazard"], history=tmp_path / "s")
    fresh = restarted.admit(made.request(0), NOW_S)
    assert fresh.id != lost.id  # though the snapshot knows of neither, and both are its next admission
    restarted.ended(old, NOW_S + 5)
    for handle in (old, old.id):
        assert handle is not None
        with pytest.raises(ValueError, match=r"vm must .*, got one of another, or of before"):
            restarted.ended(handle, NOW_S + 5)
    with pytest.raises(ValueError, match="vm must be admitted by this predictor"):
        restarted.ended(lost, NOW_S + 5)
    assert restarted.running() == [fresh.id]


def test_a_newer_version_goes_on_from_a_snapshot(made: Made, predictor: Predictor, folder: Path) -> None:
    restarted = Predictor.load(made.folders["once"], history=folder)
    ids = predictor.running()
    assert restarted.running() == ids
    features = predictor.handle(ids[1]).features
    again = restarted.handle(ids[1])
    assert str(again.features) == str(features)
    assert again.curve == restarted._current.served.builder.curve(features)
    assert again.version == restarted.version != predictor.version
    restarted.snapshot(folder)  # and so does a later one from what the new version left
    assert Predictor.load(made.folders["hazard"], history=folder).running() == ids


def _window(schema: dict[str, Any]) -> None:
    schema["history"]["window"] = 17


def _clock(schema: dict[str, Any]) -> None:
    schema["phase_s"] += 3_600


@pytest.mark.parametrize(("change", "message"), [
    (_window, r"version \w{12}: history must have the window of the snapshot, .* \(16\), got 17"),
    (_clock, "phase_s must be 0, the clock of the snapshot that live times are on, got 3600"),
])  # fmt: skip
def test_a_snapshot_of_another_definition_or_clock_is_refused(made: Made, folder: Path, tmp_path: Path, message: str,
                                                              change: Callable[[Any], object]) -> None:
    bundle = Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))
    rewrite_schema(bundle, change)
    with pytest.raises(SnapshotError, match=message):
        Predictor.load(bundle, history=folder)


def test_a_bundle_is_no_snapshot_and_is_not_written_to(made: Made, predictor: Predictor, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(made.folders["once"], tmp_path / "bundle"))
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    for act in (lambda: Predictor.load(bundle, history=bundle), lambda: predictor.snapshot(bundle)):
        with pytest.raises(SnapshotError, match=r"must be new, empty or a folder of snapshots only, got 'MANIFEST\."):
            act()
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before
    assert predictor.counters["snapshot_errors"] == 1
    with pytest.raises(ValueError, match="history must be None where is_history_kept is False"):
        Predictor.load(bundle, is_history_kept=False, history=bundle)


def named(folder: Path, part: str) -> Path:
    """The file of a part, or the mark."""
    if part == MARK:
        return folder / MARK
    (path,) = folder.glob(f"{part}-*{ENDINGS[part]}")
    return path


@pytest.mark.parametrize("part", [MARK, *ENDINGS])
@pytest.mark.parametrize("damage", [
    lambda content: content[:-9], lambda content: b"", lambda content: content[:len(content) // 2],
    lambda content: content + b" x", lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:], None])
def test_a_damaged_snapshot_is_refused(made: Made, folder: Path, part: str,
                                       damage: Callable[[bytes], bytes] | None) -> None:
    path = named(folder, part)
    if damage is None and part == MARK:
        return  # no snapshot yet: below
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SnapshotError, match=part.split(".")[0]):
        Predictor.load(made.folders["hazard"], history=folder)


@pytest.mark.parametrize("left", [
    None, [], ["lost+found"], [".tmp-0123456789abcdef"], ["state", "arrays"], ["arrays", ".tmp-0123456789abcdef"]])
def test_a_folder_without_its_mark_holds_no_snapshot_yet(made: Made, predictor: Predictor, folder: Path,
                                                         left: list[str] | None) -> None:
    """None made, an empty one, a fresh volume, and what a first snapshot that was killed leaves."""
    kept = {part: named(folder, part) for part in ENDINGS}
    others = [path for path in folder.iterdir() if left is None or path not in [kept.get(name) for name in left]]
    for path in others:
        path.unlink()
    for name in left or ():
        if name == "lost+found":
            (folder / name).mkdir()
        elif name not in kept:
            (folder / name).write_bytes(b"half")
    if left is None:
        folder.rmdir()
    fresh = Predictor.load(made.folders["hazard"], history=folder)
    assert (fresh.running(), fresh.info()["is_restored"]) == ([], False)
    assert in_bytes(fresh) == in_bytes(Predictor.load(made.folders["hazard"]))
    predictor.snapshot(folder)
    again = Predictor.load(made.folders["hazard"], history=folder)
    assert (again.running(), again.info()["is_restored"]) == (predictor.running(), True)
    assert len([path for path in folder.iterdir() if path.is_file()]) == 3


def test_a_folder_that_cannot_be_looked_into_is_not_taken_for_none(made: Made, predictor: Predictor,
                                                                   tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("nowhere")
    for path in ("file", "file/below", "link"):
        with pytest.raises(SnapshotError, match="must be a readable"):
            Predictor.load(made.folders["hazard"], history=tmp_path / path)
    for path in ("file", "link"):
        with pytest.raises(SnapshotError, match="must be a folder, got something else there"):
            predictor.snapshot(tmp_path / path)


@pytest.mark.parametrize("bad", [None, 1, True, b"folder", "a\0b", "\ud800", "", [], object(), 1.5, {}])
def test_what_is_no_path_is_named(made: Made, predictor: Predictor, bad: Any) -> None:
    bundle = made.folders["hazard"]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("folder", lambda: predictor.snapshot(bad)), ("folder", lambda: Predictor.load(bad)),
        ("folder", lambda: load_bundle(bad))]
    calls += [] if bad is None else [("folder", lambda: predictor.reload(bad)),
                                     ("history", lambda: Predictor.load(bundle, history=bad))]
    for name, call in calls:
        with pytest.raises(ValueError, match=f"^{name} must be the path of a folder, got ") as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("field", "value"), [
    ("format_version", 2), ("format_version", None), ("format", "other"), ("sha256", {}), ("sha256", None),
    ("sha256", {"state": "0" * 64, "arrays": "../../../etc/passwd"}),
    ("sha256", {"state": "0" * 64, "arrays": "0" * 64, "more": "0" * 64}),
])  # fmt: skip
def test_another_format_is_refused_and_not_overwritten(made: Made, predictor: Predictor, folder: Path, field: str,
                                                       value: object) -> None:
    mark = json.loads((folder / MARK).read_bytes()) | {field: value}
    (folder / MARK).write_text(json.dumps(mark))
    before = sorted(path.name for path in folder.iterdir())
    for act in (lambda: Predictor.load(made.folders["hazard"], history=folder), lambda: predictor.snapshot(folder)):
        with pytest.raises(SnapshotError, match=r"SNAPSHOT.json: (format|sha256) must be"):
            act()
    assert sorted(path.name for path in folder.iterdir()) == before


def vouched(folder: Path, content: SnapshotContent) -> None:
    """Put other content into a folder with a mark that vouches for it."""
    shutil.rmtree(folder)
    write_snapshot(folder, content)


def changed(content: SnapshotContent) -> list[SnapshotContent]:
    """Each field of the state another, each array of another form, and each of its numbers another."""
    found = []
    for name in content.state:
        found += [SnapshotContent({other: content.state[other] for other in content.state if other != name},
                                  content.arrays)]
        found += [SnapshotContent({**content.state, name: value}, content.arrays)
                  for value in (None, -1, 2**60, 1.5, "x", [], [1], {}, {"a": 1}, True)]  # fmt: skip
    for name, array in content.arrays.items():
        if not name.startswith("running"):
            continue  # those of the history: test_history.py
        forms = [array[:0], array[:-1], np.concatenate([array, array[-1:]]), np.zeros(3, np.uint8), array[None, :]]
        for at in range(min(array.size, 15)):
            for value in (-2, 1, 3, 2**62, -2**63) if array.dtype == np.int64 else ():
                form = array.copy()
                form.flat[at] = value
                forms.append(form)
        found += [SnapshotContent(content.state, {**content.arrays, name: form}) for form in forms]
        found += [SnapshotContent(content.state, {other: content.arrays[other] for other in content.arrays
                                                  if other != name})]  # fmt: skip
    return found


@pytest.mark.slow
def test_content_that_does_not_fit_is_refused_or_answered(made: Made, folder: Path) -> None:
    """Whoever writes the folder may vouch for anything: an error of ours, or a predictor that goes on."""
    n_refused = n_all = 0
    bundle = made.folders["once"]
    kept = read_snapshot(folder)
    assert kept is not None
    for content in changed(kept):
        n_all += 1
        vouched(folder, content)
        try:
            predictor = Predictor.load(bundle, history=folder)
        except SnapshotError as error:
            assert 0 < len(str(error)) < 2_000
            n_refused += 1
            continue
        for id in predictor.running():
            assert predictor.handle(id).remaining(60.0) >= 0.0
        for id in predictor.running():
            try:
                predictor.ended(id, NOW_S + 10**6)
            except ValueError as error:
                assert "must be >= the arrival" in str(error)  # its arrival was changed to a late one
        predictor.predict(made.request(1), NOW_S + 10**6)
        predictor.snapshot(folder)
    assert 0.5 * n_all < n_refused < n_all


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from sojourn.serving import Predictor, SnapshotError
bundle, root = sys.argv[1], Path(sys.argv[2])
old = Predictor.load(bundle, is_history_kept=False)
request = {"cpu_cores": 2.0, "subscription": "asked", "zone": "z0"}
first = [old.admit(request, 10 + idx).id for idx in range(3)]
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.listdir", "os.scandir", "fcntl.flock", "os.fsync"}
left, folder = -1, None

def hook(event, given):
    global left
    if left >= 0 and event in EVENTS:
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

def fsync(descriptor, real=os.fsync):
    hook("os.fsync", ())
    return real(descriptor)

sys.addaudithook(hook)
os.fsync = fsync
seen = {"old": 0, "new": 0, "none": 0}
for has_old in (True, False):
    for n in range(1_000):
        folder = root / f"{has_old}-{n}"
        if has_old:
            old.snapshot(folder)
        child = os.fork()
        if not child:
            old.ended(first[0], 100)
            left = n
            old.snapshot(folder)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        for attempt in range(2):
            try:
                found = Predictor.load(bundle, history=folder).running()
            except SnapshotError as error:
                found = error
            kind = "none" if found == [] else "old" if found == first else "new"
            assert kind != "new" or found == first[1:], found
            assert kind != "none" or (not has_old and attempt == 0 and status != 0)
            if attempt == 0:
                seen[kind] += 1
                old.snapshot(folder)  # what the killed one left is in nobody's way
                assert len(list(folder.iterdir())) == 3, list(folder.iterdir())
            else:
                assert kind == "old"
        shutil.rmtree(folder)
        if status == 0:
            assert kind == "old"
            break
print(seen["old"] > 8, seen["new"] >= 4, seen["none"] > 8, n > 10)
"""


@needs_fork
@pytest.mark.slow
def test_a_writer_killed_at_any_file_event_leaves_the_old_or_the_new(made: Made, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", KILLED, str(made.folders["once"]), str(tmp_path)], capture_output=True,
                         text=True, check=False, timeout=600)
    assert (run.stdout, run.stderr) == ("True True True True\n", "")


@pytest.mark.parametrize("nth", range(6))
def test_a_full_disk_leaves_the_snapshot_before_and_no_litter(made: Made, predictor: Predictor, folder: Path, nth: int,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    before = predictor.running()
    names = sorted(path.name for path in folder.iterdir())
    predictor.ended(before[0], NOW_S + 100)
    fsync, n_left = os.fsync, nth

    def failing(descriptor: int) -> None:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        if nth < 5:
            with pytest.raises(OSError, match="No space left on device"):
                predictor.snapshot(folder)
    if nth < 4:
        assert sorted(path.name for path in folder.iterdir()) == names
    assert len(list(folder.iterdir())) == 3
    expected = before if nth < 4 else before[1:]  # the fifth comes after the mark was renamed into place
    if nth < 5:
        assert Predictor.load(made.folders["hazard"], history=folder).running() == expected
        assert predictor.counters["snapshot_errors"] == 1
    predictor.snapshot(folder)
    assert Predictor.load(made.folders["hazard"], history=folder).running() == before[1:]


def test_the_lock_is_free_while_a_snapshot_is_packed_and_written(made: Made, predictor: Predictor, tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens meanwhile goes on, and is no part of it."""
    vms = [predictor.admit(made.request(0), NOW_S + idx) for idx in range(3)]
    expected, before = in_bytes(predictor), predictor.running()

    def packing(*given: Any) -> SnapshotContent:
        predictor.ended(vms[0], NOW_S + 50)
        predictor.admit(made.request(0), NOW_S + 51)
        predictor.reload(made.folders["once"])
        return content_of(*given)

    def writing(folder: Path, content: SnapshotContent) -> None:
        predictor.withdraw(vms[1])
        write_snapshot(folder, content)

    monkeypatch.setattr(open_requests, "content_of", packing)
    monkeypatch.setattr(open_requests, "write_snapshot", writing)
    predictor.snapshot(tmp_path / "s")
    restarted = Predictor.load(made.folders["hazard"], history=tmp_path / "s")
    assert (in_bytes(restarted), restarted.running()) == (expected, before)
    assert predictor._open.history._changed is None
    assert predictor.counters["ended"] == predictor.counters["withdrawn"] == predictor.counters["snapshots"] == 1


@pytest.mark.slow
def test_snapshots_amid_threads_and_reloads_are_consistent_cuts(made: Made, tmp_path: Path) -> None:
    """In each of them a thread's running requests are those from its latest end to its latest admission."""
    predictor = Predictor.load(made.folders["hazard"], is_history_kept=False)
    n_threads, n_running = 3, 5
    ids: list[list[str]] = [[] for _ in range(n_threads)]
    is_over = threading.Event()

    def work(number: int) -> None:
        request = made.request(0) | {"subscription": f"thread-{number}"}
        while not is_over.is_set():
            vm = predictor.admit(request, NOW_S + len(ids[number]))
            assert vm.id is not None
            ids[number].append(vm.id)
            if len(ids[number]) > n_running:
                predictor.ended(ids[number][-1 - n_running], NOW_S + len(ids[number]))

    def reload() -> None:
        while not is_over.is_set():
            predictor.reload(made.folders["once"])
            predictor.reload(made.folders["hazard"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(n_threads)]
    threads.append(threading.Thread(target=reload))
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            predictor.snapshot(tmp_path / "s")
            found = Predictor.load(made.folders["hazard"], history=tmp_path / "s")
            running = found.running()
            owners = found._open.history._owners[0]
            for number in range(n_threads):
                own = set(ids[number])  # at least those of the cut: nobody knows an id before it is admitted
                kept = [id for id in running if id in own]
                owner = owners.get((f"thread-{number}",))
                assert owner is not None or not kept
                if owner is None or owner.running is None:
                    continue
                start = owner.n_ended
                # an id may be on its way from `admit` to the list
                assert kept == ids[number][start:start + len(owner.running.arrivals)][:len(kept)]
                assert len(owner.running.arrivals) - len(kept) in (0, 1)
                assert len(owner.running.arrivals) <= n_running + 1
            arrivals = {number for owner in owners.values() if owner.running for number in owner.running.arrivals}
            assert arrivals == {int(id.split("-")[1]) for id in running}
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert predictor.counters["snapshots"] == 15


def test_a_load_that_meets_a_writer_reads_one_snapshot(made: Made, predictor: Predictor, folder: Path) -> None:
    is_over = threading.Event()
    n_written = 0

    def write() -> None:
        nonlocal n_written
        while not is_over.is_set():
            predictor.withdraw(predictor.admit(made.request(n_written % 9), NOW_S + n_written))
            predictor.snapshot(folder)
            n_written += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        n_read = 0
        while n_read < 100 or (n_written < 4 and thread.is_alive()):  # where disks are busy, reading is the faster
            kept = read_snapshot(folder)
            assert kept is not None
            assert len(kept.arrays["running"]) == 3
            n_read += 1
    finally:
        is_over.set()
        thread.join()
    assert n_written > 3


@needs_fork
def test_two_writers_of_one_folder_are_told_apart(predictor: Predictor, folder: Path) -> None:
    with snapshot_module._locked(folder), pytest.raises(SnapshotError, match="must be written by one predictor at a"):
        predictor.snapshot(folder)
    predictor.snapshot(folder)


FORKED = """
import os, signal, sys
from pathlib import Path
from sojourn.serving import Predictor
from sojourn.serving.live import open_requests as module
predictor = Predictor.load(sys.argv[1])
folder = Path(sys.argv[2])
vm = predictor.admit({"cpu_cores": 2.0, "subscription": "asked"}, 10**7)
write, status = module.write_snapshot, None

def forking(path, content):
    global status
    def inner(file, arrays, *, is_compressed, real=module_of.write_arrays):
        global status
        real(file, arrays, is_compressed=is_compressed)
        if status is None:
            child = os.fork()
            if not child:  # in the middle of the parent's writing, its folder locked
                signal.alarm(60)
                status = 0
                predictor._open.history.admit(((("x",)),) * len(predictor._open.history.definition.keys), 5)
                predictor.snapshot(folder.with_name("other"))
                os._exit(predictor._open.history._changed is not None)
            status = os.waitpid(child, 0)[1]
    module_of.write_arrays = inner
    write(path, content)

import sojourn.serving.live.snapshot as module_of
module.write_snapshot = forking
predictor.snapshot(folder)
assert Predictor.load(sys.argv[1], history=folder).running() == [vm.id]
print(status)
"""


@needs_fork
def test_a_child_forked_amid_a_snapshot_takes_its_own(made: Made, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", FORKED, str(made.folders["once"]), str(tmp_path / "s")], text=True,
                         capture_output=True, check=False, timeout=120)
    assert (run.stdout, run.stderr) == ("0\n", "")


def test_equal_states_give_equal_bytes(made: Made, predictor: Predictor, folder: Path, tmp_path: Path) -> None:
    predictor.snapshot(tmp_path / "again")
    for part in (MARK, *ENDINGS):
        assert named(folder, part).read_bytes() == named(tmp_path / "again", part).read_bytes()
    mark = json.loads((folder / MARK).read_bytes())
    assert mark["sha256"]["arrays"] == hashlib.sha256(named(folder, "arrays").read_bytes()).hexdigest()
    assert "running" in read_arrays(named(folder, "arrays").read_bytes())


def test_the_latest_time_goes_on(made: Made, folder: Path) -> None:
    restarted = Predictor.load(made.folders["hazard"], history=folder)
    restarted.admit(made.request(0), NOW_S + 8)
    assert restarted.counters["clock_steps_back"] == 1


def test_a_bundle_of_no_history_keys_has_snapshots_too(made: Made, tmp_path: Path) -> None:
    empty = Predictor(load_bundle(made.folders["once"]), HistoryState(HistoryDefinition(())))
    empty._open.history.admit((), 5)
    cut = empty._open.history.cut()
    assert sorted(whole_arrays(cut)) == ["overall"]
