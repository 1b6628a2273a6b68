"""Files and folders that are there whole: one writer among several, one that fails, and a folder that is replaced."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn import publishing
from sojourn.publishing import publish_files, publish_folder, whole_file


def _published(target: Path, number: int) -> None:
    publish_files(target, {"MANIFEST.json": str(number).encode()}, "MANIFEST.json")
    assert (target / "MANIFEST.json").read_text() == str(number)
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders are exchanged by a call of Linux")
def test_a_folder_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _published(tmp_path / "served", 0)
    # a rename would leave none for a moment, and a kill there a scheduler without its bundle
    monkeypatch.setattr(Path, "rename", lambda path, target: pytest.fail(f"{path} was renamed"))
    _published(tmp_path / "served", 1)


def test_where_folders_cannot_be_exchanged_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.publishing.exchange", lambda one, other: False)
    for number in range(2):
        _published(tmp_path / "served", number)


def test_what_is_not_known_by_its_mark_stays(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "other").touch()
    with pytest.raises(ValueError, match="must be new, empty or a folder with MANIFEST, got something else"):
        publish_files(tmp_path / "target", {"MANIFEST": b""}, "MANIFEST")
    assert [path.name for path in tmp_path.rglob("*")] == ["target", "other"]


def test_a_file_of_the_user_s_own_is_not_removed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    publish_files(target, {"MANIFEST": b"1", "old": b"1"}, "MANIFEST")
    (target / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"target must .*, got 'notes\.txt'"):
        publish_files(target, {"MANIFEST": b"2", "old": b"2"}, "MANIFEST", others=())
    assert ((target / "notes.txt").read_text(), (target / "old").read_text()) == ("mine", "1")
    (target / "notes.txt").unlink()
    publish_files(target, {"MANIFEST": b"2"}, "MANIFEST", others=["old"])
    assert [path.name for path in target.iterdir()] == ["MANIFEST"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders are exchanged by a call of Linux")
def test_a_folder_is_on_disk_before_it_is_seen_and_its_name_before_the_older_one_is_deleted(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, target = tmp_path / "fresh", tmp_path / "target"
    for folder in (fresh, target):
        (folder / "within").mkdir(parents=True)
        (folder / "within" / "file").touch()
        (folder / "mark").touch()
    steps: list[str] = []

    def noted(step: str, real: Callable[..., object]) -> Callable[..., object]:
        def note(path: Path, *rest: Path) -> object:
            n_folders = len(list(tmp_path.iterdir()))
            steps.append(f"{step} {path.relative_to(tmp_path)}, {n_folders} there")
            return real(path, *rest)

        return note

    monkeypatch.setattr(publishing, "sync", noted("sync", publishing.sync))
    monkeypatch.setattr(publishing, "exchange", noted("exchange", publishing.exchange))
    publish_folder(fresh, target, "mark")
    parts = ("within/file", "within", "mark", "")
    assert steps == [*(f"sync {Path('fresh', part)}, 2 there" for part in parts), "exchange fresh, 2 there",
                     "sync ., 2 there", "sync ., 1 there"]
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_two_writers_of_one_process_do_not_meet(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    with whole_file(file) as first:
        first.write_text("A" * 20)
        with whole_file(file) as second:
            second.write_text("BBBB")
        assert file.read_text() == "BBBB"
        assert first.read_text() == "A" * 20
    assert file.read_text() == "A" * 20
    assert list(file.parent.iterdir()) == [file]


def test_what_failed_half_way_leaves_the_old(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(file) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_names_the_file_and_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file, folder = tmp_path / "file.json", tmp_path / "folder"
    file.write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=f"No space left on device: '{file}'"), whole_file(file) as temporary:
        temporary.write_bytes(b"new")
    with pytest.raises(OSError, match=f"No space left on device: '{folder / 'a'}'"):
        publish_files(folder, {"a": b"new"}, "a")
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]
    assert file.read_text() == "old"
    with pytest.raises(ConnectionError) as raised, whole_file(file):  # not of this file
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert raised.value.filename is None


def test_others_may_read_what_they_may_read_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with whole_file(tmp_path / "file") as temporary:
        temporary.touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_is_on_disk_before_its_name_and_its_name_at_the_end(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(publishing, "sync", lambda path: steps.append(
        (path.name, [found.name[:5] for found in tmp_path.iterdir()])))
    with whole_file(tmp_path / "file") as temporary:
        temporary.touch()
    assert steps == [(temporary.name, [".file"]), (tmp_path.name, ["file"])]


def test_what_a_killed_call_left_is_removed_by_a_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "state"
    with monkeypatch.context() as patched:  # as after a kill: nothing is cleaned
        patched.setattr("sojourn.publishing.shutil.rmtree", lambda *_, **__: None)
        patched.setattr("sojourn.publishing.publish_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                publish_files(target, {"MARK": b"1"}, "MARK")
    left = sorted(tmp_path.iterdir())
    (tmp_path / ".state.mine").mkdir()  # of somebody else
    os.utime(tmp_path / ".state.mine", (0, 0))
    assert len(left) == 2 and all(path.name.startswith(".state.fresh.") for path in left)
    os.utime(left[0], (0, 0))  # the other one may be of a call that still writes
    publish_files(target, {"MARK": b"2"}, "MARK")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".state.mine", left[1].name, "state"])
