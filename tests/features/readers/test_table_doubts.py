"""What a table may mean besides how it was read: each such doubt is said, and nothing is said without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace

CALM = ("id,start,end,vcpus,memory_mb", "a,2026-11-01T00:00Z,2026-11-01T02:00Z,2,4096",
        "b,2026-11-01T01:00Z,2026-11-01T02:00Z,1,2048")


def read(folder: Path, *lines: str, **options: Any) -> tuple[Trace, ReadReport]:
    path = folder / "vms.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_trace("csv", path, **options)


def doubts_of(report: ReadReport) -> list[str]:
    return [line.removeprefix("check: ") for line in report.notes
            if line.startswith("check: ") and "guessed by their names" not in line]


def test_a_plain_table_raises_no_doubt(tmp_path: Path) -> None:
    assert doubts_of(read(tmp_path, *CALM)[1]) == []


MEM = ("512", "1.024", "2.048", "4.096", "16.384")


@pytest.mark.parametrize("cpu", ["0,5", "2"])
def test_points_of_thousands_are_told_by_the_file(tmp_path: Path, cpu: str) -> None:
    trace, report = read(tmp_path, "id;start;end;vCPU;RAM (MB)", *(
        f"{k};{k};99;{cpu};{mem}" for k, mem in enumerate(MEM)))
    assert trace.requests["mem_gib"].tolist() == [0.5, 1.0, 2.0, 4.0, 16.0]
    [line] = doubts_of(report)
    why = "other columns have decimal commas" if "," in cpu else "semicolons part the columns"
    assert line.startswith(f"RAM (MB): points taken as those of thousands, '1.024' is 1024 ({why})")


def test_points_of_thousands_in_durations(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, "id;start;duration;vcpus;time_limit", "a;0;3.600;0,5;7.200", "b;9;900;1;900")
    assert trace.requests["departure_s"].tolist() == [3_600, 909]
    assert trace.requests["requested_s"].tolist() == [7_200.0, 900.0]


@pytest.mark.parametrize(("separator", "other"), [(",", "2"), ("\t", "2"), (";", "0.5")])
def test_without_evidence_points_are_decimal_and_it_is_said(tmp_path: Path, separator: str, other: str) -> None:
    lines = ("id;start;end;vcpus;ram_mb", f"a;0;9;{other};512", f"b;1;9;{other};1.024")
    trace, report = read(tmp_path, *(line.replace(";", separator) for line in lines))
    assert trace.requests["mem_gib"].tolist() == [0.5, 0.001]
    assert doubts_of(report) == ["ram_mb: points taken as decimal points, '1.024' is a little more than 1; if it is "
                                 "1024, write it so"]


def test_cores_and_gib_are_not_thousands_by_a_semicolon(tmp_path: Path) -> None:
    trace, report = read(tmp_path, "id;start;end;vcpus;mem_gib", "a;0;9;1.500;4.096", "b;1;9;2;8")
    assert trace.requests[["cpu_cores", "mem_gib"]].to_numpy().tolist() == [[1.5, 4.096], [2.0, 8.0]]
    assert len(doubts_of(report)) == 2


def test_other_numbers_of_decimals_are_no_thousands(tmp_path: Path) -> None:
    _, report = read(tmp_path, "id;start;end;vcpus;ram_mb", "a;0;9;1;512.5", "b;1;9;2;1.024", "c;1;9;2;2048")
    assert doubts_of(report) == []


def test_names_are_ids_where_each_row_has_its_own(tmp_path: Path) -> None:
    rows = [f"vm-{k},{k},99,1,1024" for k in range(9)]
    trace, report = read(tmp_path, "VM Name,start,end,vcpus,mem_mb", *rows, rows[0])
    assert trace.requests["request_id"].tolist()[:2] == ["vm-0", "vm-1"]
    assert dict(report.refused) == {"VM Name twice": 1}
    shared = [f"web-{k % 3},{k},99,1,1024" for k in range(9)]
    trace, report = read(tmp_path, "pod,start,end,vcpus,mem_mb", *shared)
    assert len(trace) == 9 and doubts_of(report) == [
        "no column is request_id: 9 requests are named by their line, and duplicates are not found",
        "'pod' is not taken as request_id: 3 names in 9 rows (--column-map request_id=pod takes it and refuses a "
        "name's second row)"]
    assert len(read(tmp_path, "pod,start,end,vcpus,mem_mb", *shared, columns=["id=pod"])[0]) == 3


def test_a_table_without_ends_is_said_to_have_none(tmp_path: Path) -> None:
    _, report = read(tmp_path, "id,start,vcpus,mem_mb", "a,0,1,1", "b,9,1,1")
    assert doubts_of(report) == ["no column is departure or duration: all requests count as still running"]


@pytest.mark.parametrize("line", [1, 3])
def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path, line: int) -> None:
    lines = [f"id,start,end,{'größe' if line == 1 else 'user'}", "a,0,9,x", "b,1,9,Jürgen" if line == 3 else "b,1,9,y"]
    path = tmp_path / "vms.csv"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    byte = lines[line - 1].encode("latin-1").index(b"\xf6" if line == 1 else b"\xfc") + 1
    with pytest.raises(ValueError, match=rf"vms.csv: line {line} must be UTF-8, got the byte 0xf. as its byte {byte};"
                                         r" .*iconv -f latin1 -t utf-8"):
        read_trace("csv", path)


def test_an_unread_column_that_stands_twice_is_said(tmp_path: Path) -> None:
    _, report = read(tmp_path, *(f"{line},{note},{note}" for line, note in zip(CALM, ("note", "x", "y"), strict=True)))
    assert doubts_of(report) == ["'note' stands 2 times in the table: not read"]


def test_times_taken_as_utc_are_counted(tmp_path: Path) -> None:
    lines = [line.replace("Z", "") for line in CALM]
    trace, report = read(tmp_path, *lines)
    assert doubts_of(report) == ["start: 2 times without a zone taken as UTC (--timezone says which)",
                                 "end: 2 times without a zone taken as UTC (--timezone says which)"]
    assert trace.meta["columns"][1]["kind"] == "ISO 8601, 2 without a zone: UTC"
    assert doubts_of(read(tmp_path, *lines, timezone="UTC")[1]) == []


def test_columns_that_differ_in_zones_are_said(tmp_path: Path) -> None:
    lines = [line.replace("Z,2026", ",2026") for line in CALM]
    _, report = read(tmp_path, *lines, timezone="Europe/Berlin")
    assert doubts_of(report) == ["only some times have a zone (0 of 2 in start, 2 of 2 in end): lifetimes are wrong "
                                 "where the others are not Europe/Berlin"]


def test_times_in_changes_of_clocks_are_counted(tmp_path: Path) -> None:
    _, report = read(tmp_path, CALM[0], "a,2026-03-29 02:30,2026-10-25 02:30,2,4096", timezone="Europe/Berlin")
    found = doubts_of(report)
    assert len(found) == 2 and found[0].startswith("start: 1 times in an hour that Europe/Berlin leaves out")
    assert found[1].startswith("end: 1 times in an hour that Europe/Berlin repeats")


@pytest.mark.parametrize(("cells", "said"), [(("500", "1000", "2000"), True), (("500m", "1000", "2000"), True),
                                             (("0.5", "500", "1"), False), (("1", "2", "64"), False)])
def test_cores_that_look_like_millicores(tmp_path: Path, cells: tuple[str, ...], said: bool) -> None:
    rows = [f"{k},{k},9,{cell},1" for k, cell in enumerate(cells)]
    _, report = read(tmp_path, "id,start,end,cpu,mem_gib", *rows)
    assert ["look like millicores" in line for line in doubts_of(report)] == [True] * said
    assert doubts_of(read(tmp_path, "id,start,end,cpu_milli,mem_gib", *rows)[1]) == []


def test_states_that_say_ended_without_an_end_are_counted(tmp_path: Path) -> None:
    states = ("Terminated", "Terminated", "ERROR", "running")
    _, report = read(tmp_path, f"{CALM[0]},state", f"{CALM[1]},Terminated",
                     *(f"{k},2026-11-01T01:00Z,,1,1,{state}" for k, state in enumerate(states)))
    assert doubts_of(report) == ["2 rows are 'Terminated' without an end: they count as still running",
                                 "1 row is 'ERROR' without an end: it counts as still running"]


def test_a_duration_stands_for_an_end_that_is_missing_where_it_is_mapped(tmp_path: Path) -> None:
    lines = ("id,start,end,duration,vcpus,mem_mb", "a,0,60,999,1,1", "b,5,,20,1,1", "c,6,,-1,1,1", "d,7,,,1,1")
    trace, report = read(tmp_path, *lines)
    assert trace.requests["departure_s"].isna().sum() == 3
    assert doubts_of(report) == ["1 requests without an end have a value in 'duration': --column-map departure=end "
                                 "--column-map duration=duration takes it for them, unless it is the time so far"]
    trace, report = read(tmp_path, *lines, columns=["departure=end", "duration=duration"])
    assert trace.requests["departure_s"].fillna(-1).tolist() == [60, 25, -1, -1]
    assert dict(report.repaired) == {"end missing: start + duration taken": 1} and doubts_of(report) == []


def test_minus_one_is_no_duration(tmp_path: Path) -> None:
    trace, report = read(tmp_path, "id,start,duration,vcpus,mem_mb", "a,0,60,1,1", "b,5,-1,1,1", "c,5,-2,1,1")
    assert trace.requests["departure_s"].fillna(-1).tolist() == [60, -1] and report.n_refused == 1


def test_a_horizon_may_be_a_unix_second_of_a_dated_table(tmp_path: Path) -> None:
    for horizon_s in (1_793_491_200 + 86_400, 86_400):
        assert read(tmp_path, *CALM, horizon_s=horizon_s)[0].horizon_s == 1_793_491_200 + 86_400
    for wrong in (1_793_491_200_000, 4_300_000_000):
        with pytest.raises(ValueError, match=r"horizon_s must be seconds after the begin, or a Unix .* 2026-11-01"):
            read(tmp_path, *CALM, horizon_s=wrong)
    with pytest.raises(ValueError, match="horizon_s must be seconds above 0, at most 100 years beyond the last time"):
        read(tmp_path, "id,start,end", "a,0,60", "b,5,9", horizon_s=3_300_000_000)


def test_requests_that_end_at_once_are_counted(tmp_path: Path) -> None:
    _, report = read(tmp_path, *CALM, "c,2026-11-01T01:00:00Z,2026-11-01T01:00:00.4Z,1,1")
    assert doubts_of(report) == ["1 of 3 requests end in the second in which they begin"]


def test_an_origin_in_quotes_is_a_date_and_a_column_of_two_meanings_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text('origin = "2026-10-31"\n[columns]\narrival = "start"\ndeparture = "end"\n')
    assert read(tmp_path, *CALM, columns_file=file)[0].meta["start_unix_s"] == 1_793_491_200 - 86_400
    with pytest.raises(ValueError, match=r"one meaning, got 'end' twice: .*\(also as map.toml says\)"):
        read(tmp_path, *CALM, columns_file=file, columns=["category=end"])


def test_dates_with_the_day_first_are_refused_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got '01.03.2026 00:34:11' .*write it as 2026-01-31 12:00:00"):
        read(tmp_path, "id,start,end", "a,01.03.2026 00:34:11,", "b,02.03.2026 00:34:11,")
