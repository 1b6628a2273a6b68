"""A long stretch without an arrival is told, whoever reads the trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sojourn.features.readers import read_trace

DAY_S = 86_400


def _notes(folder: Path, arrivals_s: np.ndarray) -> list[str]:
    rows = [f"j{k},{at},{at + 60},1,1" for k, at in enumerate(arrivals_s)]
    (folder / "jobs.csv").write_text("\n".join(["request_id,arrival_s,departure_s,cpu_cores,mem_gib", *rows]) + "\n")
    return [line for line in read_trace("csv", folder / "jobs.csv")[1].notes if "nothing begins" in line]


def test_a_clock_that_jumped_is_told(tmp_path: Path) -> None:
    arrivals_s = np.arange(40) * 3_600
    arrivals_s[20:] += 10 * 365 * DAY_S
    (note,) = _notes(tmp_path, arrivals_s)
    # 19 h, then 10 years and 1 h, then 19 h: 3,650.04 of 3,651.6 days
    assert note == ("check: nothing begins for 3,650 days after second 68,400, 100 % of the time from the first start "
                    "to the last: a clock that jumped, or days that are missing")


def test_quiet_days_of_a_long_trace_and_few_requests_are_no_hole(tmp_path: Path) -> None:
    arrivals_s = np.arange(100) * DAY_S
    arrivals_s[50:] += 7 * DAY_S  # eight days of 106, less than a tenth
    assert _notes(tmp_path, arrivals_s) == []
    assert _notes(tmp_path, np.array([0, 365 * DAY_S])) == []


def test_survivors_from_before_second_0_leave_no_hole(tmp_path: Path) -> None:
    arrivals_s = np.arange(40) * 3_600
    arrivals_s[:5] -= 90 * DAY_S
    assert _notes(tmp_path, arrivals_s) == []
    assert len(_notes(tmp_path, arrivals_s + 90 * DAY_S)) == 1
