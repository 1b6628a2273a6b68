"""What a reader understood of a file, as a person reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features import Roles, Trace
from sojourn.features.read_report import ReadLedger
from sojourn.features.readers import check_lines, read_trace

TABLE = pd.DataFrame({
    "request_id": ["a", "b", "c"], "arrival_s": [0, 60, 90], "departure_s": [30, None, 95],
    "cpu_cores": [2.0, 4.0, 2.0], "mem_gib": [8.0, 16.0, 8.0],
    "user": ["ann", "bob", "x" * 60], "zone": "z", "ask": [1.5, 2.0, np.nan], "code": 0})
ROLES = Roles(("user",), ("zone",), ("ask",))


def plain(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_columns_have_their_role_unit_and_examples() -> None:
    meta = {"known_at_end": ["code"], "units": "shares of a machine"}
    lines = check_lines(Trace(TABLE, 100, ROLES, meta=meta), ReadLedger().report(3))
    found = plain(lines)
    assert found[1:10] == [
        "request_id request_id name a, b, c", "arrival_s arrival seconds on its own clock 0, 60, 90",
        "departure_s departure seconds on its own clock 30, 95", "cpu_cores resource number 2.0, 4.0",
        "mem_gib resource number 8.0, 16.0", f"user owner name ann, bob, {'x' * 41}...", "zone category name z",
        "ask number number 1.5, 2.0", "code known at end number 0"]
    assert found[11] == "units shares of a machine"
    assert found[13:17] == ["first time second 0", "last time second 95 (1.6 min after the first)",
                            "horizon second 100 (1.7 min after the first), the end of observation",
                            "requests 3, of which 1 still runs at the horizon (33.3 %): censored"]
    assert lines[2].index("arrival ") == lines[3].index("departure ") == lines[6].index("owner ")


def test_times_are_dates_where_the_start_is_known() -> None:
    dated = Trace(TABLE, 100, ROLES).moved(1_767_225_600, 1_767_225_600)
    lines = check_lines(dated, ReadLedger().report(3))
    assert plain(lines)[2:4] == ["arrival_s arrival Unix seconds 1767225600, 1767225660, 1767225690",
                                 "departure_s departure Unix seconds 1767225630, 1767225695"]
    assert "first time  2026-01-01 00:00:00 UTC" in lines
    assert "last time   2026-01-01 00:01:35 UTC" in lines
    assert "horizon     2026-01-01 00:01:40 UTC, the end of observation" in lines


def test_refused_and_changed_rows_and_doubts_are_counted() -> None:
    ledger = ReadLedger()
    ledger.read(9)
    ledger.refuse("end before start", "jobs.csv", np.arange(2, 8), [f"row {idx}" for idx in range(6)])
    ledger.repair("memory missing: 0 taken", 2)
    for note in ("check: no column is gpu", "second 0 is today", "1 row beyond the horizon (--horizon-s sets it)"):
        ledger.note(note)
    found = check_lines(Trace(TABLE, 100, ROLES), ledger.report(3))
    tail = found[found.index("refused     6 of 9 rows"):]
    assert tail == ["refused     6 of 9 rows", "  6  end before start", "      jobs.csv line 2: row 0",
                    "      jobs.csv line 3: row 1", "      jobs.csv line 4: row 2", "", "changed",
                    "  2  memory missing: 0 taken", "", "look at", "  - no column is gpu",
                    "  - 1 row beyond the horizon (--horizon-s sets it)", "", "notes", "  - second 0 is today"]


def test_seconds_of_an_undated_trace_count_from_its_first_time() -> None:
    table = TABLE.assign(arrival_s=[-86_400, 60, 90])
    lines = check_lines(Trace(table, 5_097_600, ROLES), ReadLedger().report(3))
    assert "first time  second -86,400" in lines  # (5,097,600 + 86,400) / 86,400 = 60
    assert "horizon     second 5,097,600 (60.0 d after the first), the end of observation" in lines


def test_every_note_of_the_report_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|State|Start|End|Elapsed|AllocCPUS|Extra\n"
                    "7|COMPLETED|2026-01-05T03:00:00|2026-01-05T04:00:00|01:00:00|4|x\n"
                    "7.batch|COMPLETED|2026-01-05T03:00:00|2026-01-05T04:00:00|01:00:00|4|x\n"
                    "8|RUNNING|2026-01-05T04:30:00|Unknown|00:30:00|1|x\n")
    trace, report = read_trace("slurm", path)
    lines = check_lines(trace, report)
    assert all(f"  - {note.removeprefix('check: ')}" in lines for note in report.notes)
    assert lines.index("look at") < lines.index("notes") < lines.index("  - 1 lines of steps left out (sacct -X lists "
                                                                       "none)")


def test_columns_of_a_table_are_shown_as_they_stand_in_it(tmp_path: Path) -> None:
    path = tmp_path / "vms.csv"
    path.write_text("vm id,start,end,note\na,0,60,x\nb,5,,y\n")
    found = plain(check_lines(*read_trace("csv", path)))
    assert found[:5] == ["column is kind examples", "vm id request_id name a, b",
                         "start arrival seconds on its own clock 0, 5", "end departure seconds on its own clock 60",
                         "note not read"]
    assert "- columns guessed by their names" in found
