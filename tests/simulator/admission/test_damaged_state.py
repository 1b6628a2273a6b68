"""Damaged states and journals of an admission: a torn last line is recovered, all else is refused in one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from mutations import EDITS, RAW, Edits, mutated, paths, with_raw
from sojourn.simulator.admission import Admission, OfferedJob
from sojourn.simulator.admission.admission import (
    ARRAY,
    MARK,
    N_LINE_MAX,
    _header_hash,
    _sha256,
    journal_seed,
    line_of,
    read_journal,
)

NAMES = [f"job-{k}" for k in range(6)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two jobs in the saved state, six answers and two changes in the journal."""
    folder = tmp_path_factory.mktemp("admission") / "state"
    with Admission.open(folder, 4, is_backfilling=True) as machine:
        machine.offer(OfferedJob(0, 60, 2, 90, "first"))
        machine.offer(OfferedJob(0, 500, 1, 900, "long"))
        machine.save(folder)
        for k, name in enumerate(NAMES):
            machine.offer(OfferedJob(k, 30 + k, 1 + k % 3, 700, name))
        machine.ended("first", 9)
        machine.extended("long", 650, 10)
    return folder


def state_of(machine: Admission) -> tuple[object, ...]:
    return machine.now_s, machine.n_offered, machine.running(), machine._cores.state().tolist()


def loaded_or_refused(folder: Path) -> tuple[object, ...] | None:
    """What a folder says; None if it is refused, which takes one line that names a file of it."""
    try:
        return state_of(Admission.load(folder))
    except (ValueError, FileNotFoundError) as error:
        assert str(folder) in str(error) and "\n" not in str(error) and len(str(error)) < 900
        return None


def journals(content: bytes) -> Iterator[tuple[str, bytes]]:
    lines = content.splitlines(keepends=True)
    for k in range(len(lines)):
        if k < len(lines) - 1:  # a last one that is missing can't be told
            yield f"line {k} lost", b"".join(lines[:k] + lines[k + 1:])
        yield f"line {k} doubled", b"".join(lines[:k + 1] + lines[k:])
        yield f"line {k} first", b"".join([lines[k], *lines[:k], *lines[k + 1:]]) if k else content + b"\n"
    yield "a blank line", content + b"\n"
    yield "garbage", content + b"garbage\n"
    yield "zeros and an end", content + bytes(100) + b"\n"
    yield "the end of the last line changed", content[:-1] + b"x"
    yield "a line without end", content + bytes(N_LINE_MAX + 1)


def test_lines_that_are_lost_doubled_moved_or_changed_are_refused(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "state"))
    file, good = folder / "journal.log", state_of(Admission.load(whole))
    content = file.read_bytes()
    for what, journal in journals(content):
        file.write_bytes(journal)
        assert loaded_or_refused(folder) is None, what
    for at in range(len(content)):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        assert loaded_or_refused(folder) is None, at
    for tail in (b"", bytes(50), b"0", b"ffffffff", b"ffffffff [", content.splitlines()[0]):  # torn, as by a kill
        file.write_bytes(content + tail)
        assert loaded_or_refused(folder) == good
        with Admission.open(folder, 4, is_backfilling=True) as machine:
            assert state_of(machine) == good and file.read_bytes() == content
    file.write_bytes(content)
    with Admission.open(folder, 4, is_backfilling=True) as machine:  # what is written now goes on
        machine.offer(OfferedJob(11, 5, 1, 700, "next"))
    assert loaded_or_refused(folder) not in (None, good)


def test_the_journal_of_another_state_is_refused(whole: Path, tmp_path: Path) -> None:
    with Admission.open(tmp_path / "state", 4, is_backfilling=True) as machine:
        machine.offer(OfferedJob(0, 60, 2, 90, "another"))
        machine.save(tmp_path / "state")
    shutil.copy(whole / "journal.log", tmp_path / "state")
    with pytest.raises(ValueError, match=r"journal\.log: line 1 must end and match its CRC-32, .* saved state, got"):
        Admission.load(tmp_path / "state")


@pytest.mark.parametrize("entry", [
    *(json.loads(text) for text in ("7", "{}", "null", '"offer"', "[]", '["offer"]', '["ended", "a"]',
                                    '["offer", 7, true, 0]', '["offer", [0, 1, 1, 9, "a"], 1, 0]')),
    *(["offer", job, True, 0] for job in ([0, 1, 1, 9, 7], [0, True, 1, 9, "a"], [0, 1.5, 1, 9, "a"],
                                          [0, 1, 10**30, 9, "a"])),
    ["offer", [0, 1, 1, 9, "a"], True, "x"], ["offer", [0, 1, 1, 9, "a"], False, None],
    ["ended", "nobody", 20, 20], ["ended", "long", "x", 20], ["ended", "long", -1, 20], ["stop", "long", 20, 20],
    ["extended", "long", 10**30, 20], ["extended", ["long"], 20, 20],
])
def test_a_line_with_its_crc_that_says_what_cannot_be_is_refused(entry: Any, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "state"))
    file = folder / "journal.log"
    line, _ = line_of(entry, read_journal(file, journal_seed(folder)).crc)
    file.write_bytes(file.read_bytes() + line)
    with pytest.raises(ValueError, match=r"journal\.log: line 9"):
        Admission.load(folder)
    with pytest.raises(ValueError, match=r"journal\.log: line 9"):
        Admission.open(folder, 4, is_backfilling=True)
    assert loaded_or_refused(folder) is None


@pytest.mark.slow
def test_every_value_of_the_header_with_a_right_hash_is_read_or_refused(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "state", ignore=shutil.ignore_patterns("journal.log")))
    document = json.loads((whole / MARK).read_bytes())
    n_read = n_all = 0
    for path in paths(document):
        for raw in (*RAW, None):
            text = with_raw(document, path, raw)
            if path[0] != "sha256":
                try:
                    changed = json.loads(text)
                    changed["sha256"]["header"] = _header_hash(changed)
                    text = json.dumps(changed)
                except (ValueError, RecursionError, KeyError):  # such a document has no hash
                    pass
            (folder / MARK).write_text(text)
            n_all += 1
            n_read += loaded_or_refused(folder) is not None
    assert 0 < n_read < 0.2 * n_all


@pytest.mark.parametrize("array", [
    np.zeros((4, 1), np.int64), np.zeros((5, 1)), np.zeros(0, np.int64), np.int64(7), np.array(["x"]),
    np.full((5, 4), -1, np.int64), np.full((5, 4), 2**62, np.int64)])
def test_an_array_with_a_right_hash_that_does_not_fit_is_refused(array: Any, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "state"))
    np.save(folder / ARRAY, array)
    _hash_again(folder)
    assert loaded_or_refused(folder) is None


@pytest.mark.parametrize("content", [b"", b"x", b"PK\3\4" + bytes(50), bytes(200), b"\x1f\x8b" + bytes(50),
                                     b"\x93NUMPY\1\0v\0{'descr': '<i8', 'fortran_order': False, 'shape': (5, "
                                     b"100000000000), }".ljust(128)])
def test_bytes_with_a_right_hash_that_are_no_array_are_refused(content: bytes, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "state"))
    (folder / ARRAY).write_bytes(content)
    _hash_again(folder)
    assert loaded_or_refused(folder) is None


def _hash_again(folder: Path) -> None:
    header = json.loads((folder / MARK).read_bytes())
    header["sha256"][ARRAY] = _sha256((folder / ARRAY).read_bytes())
    header["sha256"]["header"] = _header_hash(header)
    (folder / MARK).write_text(json.dumps(header))
    (folder / "journal.log").unlink()


@pytest.mark.parametrize("name", [MARK, ARRAY, "journal.log"])
@pytest.mark.parametrize("what", ["folder", "pipe", "loop"])
def test_what_is_no_file_is_refused(name: str, what: str, whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "state"))
    file = folder / name
    file.unlink()
    if what == "folder":
        file.mkdir()
    elif what == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(file)
    if name == "journal.log" and what == "loop":  # a link that leads nowhere is no journal
        assert loaded_or_refused(folder) is not None
    else:
        assert loaded_or_refused(folder) is None


@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_refused_or_read_as_a_begin(edits: Edits, tmp_path: Path, whole: Path) -> None:
    """Of a journal no more is read than a whole one holds, and no other answers."""
    folder = tmp_path / "mutated"
    content = (whole / "journal.log").read_bytes()
    begins = []
    for name in (MARK, ARRAY, "journal.log"):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        (folder / name).write_bytes(mutated((folder / name).read_bytes(), edits))
        found = loaded_or_refused(folder)
        if name == "journal.log" and found is not None:
            kept = (folder / name).read_bytes()
            n_lines = read_journal(folder / name, journal_seed(folder)).n_bytes
            begins.append(content.startswith(kept[:n_lines]))
        elif found is not None:
            assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert all(begins)


def test_a_name_that_no_line_holds_is_refused(tmp_path: Path) -> None:
    with Admission.open(tmp_path / "state", 1) as machine:
        for name in ("a" * 65_537, 7, None):
            with pytest.raises(ValueError, match="name must be text of at most 65,536 characters, got"):
                machine.offer(OfferedJob(0, 10, 1, 10, name))  # type: ignore[arg-type]
        assert machine.offer(OfferedJob(0, 10, 1, 10, "\U0001f600" * 65_536)).is_accepted
    assert len(Admission.load(tmp_path / "state").running()) == 1
