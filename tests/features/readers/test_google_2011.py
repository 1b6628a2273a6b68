"""The google-2011 reader: events become requests, one per scheduling."""

import gzip
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings

from made_files import TASK_EVENTS, TASK_EVENTS_LATER, TASK_TAIL, google_folder
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "google-2011"
RUNNING = (f"610000000,,5,0,,0,{TASK_TAIL}", f"620000000,,5,0,77,1,{TASK_TAIL}")


def read_lines(folder: Path, *lines: str) -> tuple[Trace, ReadReport]:
    path = folder / "events.csv"
    path.write_text("\n".join(lines) + "\n")
    return read_trace("google-2011", path)


def test_rows(tmp_path: Path) -> None:
    trace, report = read_trace("google-2011", google_folder(tmp_path / "g"))
    rows = trace.requests.set_index("request_id")
    assert sorted(rows.index) == ["1-0-0", "2-0-0", "2-0-1", "2-1-0"]
    # Second 600 is time 0; the last event, 710.000001 s, is rounded up.
    assert trace.horizon_s == 111 and trace.meta["origin_s"] == 600
    assert rows["arrival_s"].isna().to_dict() == {"1-0-0": True, "2-1-0": True, "2-0-0": False, "2-0-1": False}
    assert (rows.loc["2-0-0", "arrival_s"], rows.loc["2-0-1", "arrival_s"]) == (20, 90)
    assert rows["departure_s"].dropna().to_dict() == {"1-0-0": 110, "2-1-0": 60, "2-0-0": 50}
    assert rows["end_event"].to_dict() == {"1-0-0": "finish", "2-1-0": "kill", "2-0-0": "evict", "2-0-1": "none"}
    # Submitted at 610 and at 650.5 s.
    assert rows["queued_s"].dropna().to_dict() == {"2-0-0": 10.0, "2-0-1": 39.5}
    assert rows["n_scheduled_before"].to_dict() == {"1-0-0": 0, "2-1-0": 0, "2-0-0": 0, "2-0-1": 1}
    # The update to 0.75 came after the scheduling.
    sizes = trace.requests.loc[trace.requests["request_id"] == "2-0-1", ["cpu_cores", "mem_gib", "disk"]]
    assert sizes.values.tolist() == [[0.5, 0.25, 0.001]]
    assert (report.n_read, report.n_kept, report.n_joined) == (12, 4, 8)
    assert dict(report.repaired) == {
        "end without a schedule of a task from before the trace: start unknown": 1}
    assert "shares of the largest machine" in trace.meta["units"]
    assert "rows joined to others" in report.text()


def test_cut_ends_are_marked_on_request_only(tmp_path: Path) -> None:
    folder = google_folder(tmp_path / "g")
    assert "is_cut" not in read_trace("google-2011", folder)[0].requests
    trace, _ = read_trace("google-2011", folder, censor_cut=True)
    assert trace.requests.set_index("request_id")["is_cut"].to_dict() == {
        "1-0-0": False, "2-1-0": False, "2-0-0": True, "2-0-1": False}
    assert trace.meta["known_at_end"] == ["end_event", "is_cut"]


def test_one_part_equals_the_same_rows_in_two(tmp_path: Path) -> None:
    whole, _ = read_lines(tmp_path, *TASK_EVENTS, *TASK_EVENTS_LATER)
    parts, _ = read_trace("google-2011", google_folder(tmp_path / "g"))
    pd.testing.assert_frame_equal(whole.requests, parts.requests)


def test_a_later_part_starts_at_its_first_event(tmp_path: Path) -> None:
    trace, report = read_lines(tmp_path, *TASK_EVENTS_LATER)
    assert trace.requests["arrival_s"].tolist() == [0] and trace.horizon_s == 10
    # The finish of 1-0 names no machine, so it may never have run; its time does not move the horizon.
    assert dict(report.refused) == {"end without a schedule": 1}


@pytest.mark.parametrize(("line", "rule"), [
    (f"615000000,,5,0,77,4,{TASK_TAIL}", "departure before arrival"),
    (f"630000000,,5,0,77,1,{TASK_TAIL}", "scheduled again while running"),
    (f"630000000,,6,0,,4,{TASK_TAIL}", "end without a schedule"),
    (f"0,,5,0,77,4,{TASK_TAIL}", "end at time 0"),
    (f"599999999,,6,0,77,1,{TASK_TAIL}", "time inside the 600 s before the trace, or negative"),
    (f"-1,,6,0,77,1,{TASK_TAIL}", "time inside the 600 s before the trace, or negative"),
    (f"{2**63 - 1},,5,0,77,4,{TASK_TAIL}", "time_us not a number"),
    (f"6300000.5e2,,5,0.5,77,1,{TASK_TAIL}", "task_index not a whole number >= 0"),
    (f"630000000,,-5,0,77,1,{TASK_TAIL}", "job not a whole number >= 0"),
    (f"630000000,,6,0,77,9,{TASK_TAIL}", "event outside 0 .. 8"),
    (f"630000000,,6,0,77,,{TASK_TAIL}", "event not a number"),
    (f"630000000,,6,0,77,1,{TASK_TAIL.replace(',2,9,', ',4,9,')}", "sched_class outside 0 .. 3"),
    (f"630000000,,6,0,77,1,{TASK_TAIL.replace(',2,9,', ',2,12,')}", "priority outside 0 .. 11"),
    (f"630000000,,6,0,77,1,{TASK_TAIL.replace('0.25', '-0.25')}", "size outside 0 .. 1"),
    (f"630000000,,6,0,77,1,{TASK_TAIL.replace('0.25', '1.5')}", "size outside 0 .. 1"),
    (f"630000000,,6,0,77,1,{TASK_TAIL.replace('0.25', 'nan')}", "memory not a number"),
    ("630000000,,6,0,77,1", "not 13 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, line: str, rule: str) -> None:
    trace, report = read_lines(tmp_path, *RUNNING, line)
    assert dict(report.refused) == {rule: 1}
    assert report.rejected[["line", "raw"]].values.tolist() == [[3, line]]
    assert trace.requests["request_id"].tolist() == ["5-0-0"] and not trace.is_event().any()


def test_a_clock_that_runs_backwards_and_missing_sizes_are_counted(tmp_path: Path) -> None:
    tail = ",2,9,,,,0"
    trace, report = read_lines(tmp_path, *RUNNING, f"605000000,,6,0,77,1,{tail}")
    assert trace.requests["request_id"].tolist() == ["6-0-0", "5-0-0"]
    assert trace.requests[["cpu_cores", "mem_gib", "disk"]].values.tolist()[0] == [0, 0, 0]
    assert trace.requests["user"].tolist() == ["missing", "alice"]
    assert dict(report.repaired) == {
        "cpu missing: 0 taken": 1, "memory missing: 0 taken": 1, "disk missing: 0 taken": 1,
        "time before the row above: taken in file order": 1}


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold a scheduled task and a later event, got none"):
        read_lines(tmp_path, RUNNING[0])
    with pytest.raises(ValueError, match=r"events\.csv: line 1 must .*, got 2"):
        read_lines(tmp_path, "a,b")
    with pytest.raises(FileNotFoundError, match="must hold task_events_part-00000-of-00500"):
        read_trace("google-2011", tmp_path)
    folder = google_folder(tmp_path / "g")
    (folder / "task_events_part-00001-of-00500.csv").rename(folder / "task_events_part-00003-of-00500.csv")
    with pytest.raises(ValueError, match="parts must be contiguous, got none with the number 00001"):
        read_trace("google-2011", folder)


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    sample = "\n".join([*TASK_EVENTS, *TASK_EVENTS_LATER, ""]).encode()
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    check_read_or_refused("google-2011", path)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("google-2011", DATA)
    assert (report.n_read, report.n_kept) == (450_146 + 77_776 + 160_642 + 115_400, 310_749)
    assert dict(report.refused) == {"end without a schedule": 18}
    # 132,982 scheduled at time 0, and two that only their ends on a machine tell of.
    assert (~trace.is_start_known()).sum() == 132_984
    first = trace.requests[trace.is_start_known() & (trace.requests["n_scheduled_before"] == 0)]
    # 131,055 tasks by the data's README, which counts those two tasks by their later schedulings.
    assert (len(first), first["user"].nunique()) == (131_053, 92)
    assert round(float(first["departure_s"].notna().mean()), 3) == 0.859
    assert trace.horizon_s == 20_645 - 600
