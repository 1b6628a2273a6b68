"""Files that are there whole: one writer among several, and one that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.flows.whole_file import whole_file


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


def test_others_may_read_what_they_may_read_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with whole_file(tmp_path / "file") as temporary:
        temporary.touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
