"""Folders of stores that are not finished: killed writers leave nothing, living ones lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.features.usage.usage_store import spool_folder

_WRITER = """
import sys, time
from pathlib import Path
from sojourn.features.usage.usage_store import spool_folder
with spool_folder(Path(sys.argv[1])) as fresh:
    (fresh / "part-0000.raw").write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path / "usage")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        (left,) = tmp_path.iterdir()
        with spool_folder(tmp_path / "usage"):
            assert (left / "part-0000.raw").is_file()
        os.kill(writer.pid, signal.SIGKILL)
    assert left.is_dir()
    with spool_folder(tmp_path / "usage") as fresh:
        assert not left.exists() and fresh.is_dir()


def test_a_folder_without_its_writer_is_removed_and_those_of_the_user_stay(tmp_path: Path) -> None:
    (tmp_path / ".usage.x1y2z3_a").mkdir()
    (tmp_path / ".usage.x1y2z3_a" / "part-0000.raw").write_bytes(b"half")
    for name in (".usage.notes", ".usage.abcdefgh", ".usage2.abcdefgh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("kept")
    with spool_folder(tmp_path / "usage") as fresh, spool_folder(tmp_path / "usage") as other:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            [".usage.notes", ".usage.abcdefgh", ".usage2.abcdefgh", fresh.name, other.name])


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk full"), spool_folder(tmp_path / "usage") as fresh:
        (fresh / "part-0000.raw").write_bytes(b"half")
        raise OSError("disk full")
    assert list(tmp_path.iterdir()) == []
