"""Power profiles: what a file means, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.simulator.admission import PowerProfile, read_power_profile


def _file(folder: Path, text: str) -> Path:
    path = folder / "power.csv"
    path.write_text(text)
    return path


def test_rows_hold_until_the_next_and_the_last_as_long_as_the_one_before(tmp_path: Path) -> None:
    profile = read_power_profile(_file(tmp_path, "time_s,cores\n0,3\n60,1\n120,2\n\n"))
    assert (profile.time_s.tolist(), profile.cores.tolist(), profile.end_s) == ([0, 60, 120], [3, 1, 2], 180)
    assert profile.core_seconds(0, 180) == 60 * 6
    assert profile.core_seconds(59, 61) == 4
    assert profile.core_seconds(180, 900) == 0
    assert read_power_profile(_file(tmp_path, "time_s,cores\n0,3\n")).end_s == 3_600


def test_watts_are_cores_that_can_all_be_busy(tmp_path: Path) -> None:
    path = _file(tmp_path, "hour,time_s,watts\na,0,299.9\nb,60,300\n")
    assert read_power_profile(path, busy_w=100).cores.tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"busy_w must .*, got None"):
        read_power_profile(path)


def test_a_file_as_excel_saves_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_bytes(b"\xef\xbb\xbftime_s,cores\r\n0,3\r\n60,2\r\n")
    assert read_power_profile(path).cores.tolist() == [3, 2]
    path.write_bytes(b"time_s,cores\n0,\xff\n")
    with pytest.raises(ValueError, match=r"power\.csv: line 2 must be UTF-8, got the byte 0xff"):
        read_power_profile(path)


@pytest.mark.parametrize(("text", "words"), [
    ("time_s,cores,watts\n0,3,9\n", "each once, got time_s, cores, watts"),
    ("time_s,cores,cores\n0,3,9\n", "each once, got time_s, cores, cores"),
    ("time_s,cores\n0,3,9\n", r"a row must have 2 values, got 3 \(line 2\)"),
    ("time_s,cores\n0,3\n60,1\n180,2\n", "rows must have equal distances, got 180 after 60 where rows before are 60 s"),
    ("time_s,cores\n0,3\n60,\n120,2\n", r"cores must be a number of at least 0, got '' \(line 3\)"),
    ("time_s,cores\n0,3\n60\n", r"cores must be a number of at least 0, got '' \(line 3\)"),
    ("time_s,cores\n0,3\n60,nan\n", r"cores must be a number of at least 0, got 'nan' \(line 3\)"),
    ("time_s,cores\n0,-3\n", r"cores must be a number of at least 0, got '-3' \(line 2\)"),
    ("time_s,cores\n0,3\n0,2\n", r"time_s of a power profile must rise, got 0.0 after 0.0 \(row 2\)"),
    ("time_s,cores\n0,3.5\n", "cores of a power profile must be a whole number"),
    ("when,cores\n0,3\n", "columns must be time_s and one of cores and watts, each once, got when, cores"),
    ("", "columns must be time_s and one of cores and watts, each once, got none"),
    ("time_s,cores\n", "a power profile must have rows, got none"),
])
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_power_profile(_file(tmp_path, text))


def test_a_gap_is_held_over_where_that_is_asked_for(tmp_path: Path) -> None:
    path = _file(tmp_path, "time_s,cores\n0,3\n60,1\n180,2\n")
    assert read_power_profile(path, may_have_gaps=True).core_seconds(60, 180) == 120


def test_bad_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match=r"end_s of a power profile must .*, got 10"):
        PowerProfile(np.array([10]), np.array([1]), 10)
    with pytest.raises(ValueError, match="power profile must have rows"):
        PowerProfile(np.array([]), np.array([]), 10)


def test_intervals_join_where_a_core_stays_on() -> None:
    """Core 0 is on from 0 to 30, core 1 from 0 to 10 and from 20 to 30; the more loaded stand behind."""
    table = PowerProfile(np.array([0, 10, 20]), np.array([2, 1, 5]), 30).intervals(2)
    assert table[:3].T.tolist() == [[0, 10, 1], [0, 30, 0], [20, 30, 1]]
