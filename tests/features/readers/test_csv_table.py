"""Any table of requests: what each cell and column means, which rows are refused and how they are reported."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace
from sojourn.features.readers._column_map import ColumnMap, column_map, read_map

HEADER = "id,user,created,deleted,vcpus,memory_mb,status"
GOOD = "a,ann,2026-11-01 00:00,2026-11-01 02:00,2,4096,DELETED"
LATER = "b,bob,2026-11-01 01:00,,1,2048,ACTIVE"


def read(folder: Path, *lines: str, end: str = "\n", **options: Any) -> tuple[Trace, ReadReport]:
    path = folder / "vms.csv"
    path.write_bytes((end.join(lines) + end).encode())
    return read_trace("csv", path, **options)


def rows_of(trace: Trace, *names: str) -> list[list[Any]]:
    wanted = trace.requests[list(names or ("request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"))]
    return [[None if pd.isna(value) else value for value in row] for row in wanted.to_numpy(object).tolist()]


DAY_S = 1_793_491_200
"""2026-11-01 00:00 UTC."""
AS_READ = [["a", DAY_S, DAY_S + 7_200, 2.0, 4.0], ["b", DAY_S + 3_600, None, 1.0, 2.0]]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("is_gzip", [False, True])
def test_separators_line_ends_and_marks_make_no_difference(
        tmp_path: Path, separator: str, end: str, start: str, is_gzip: bool) -> None:
    whole = (start + end.join([HEADER, GOOD, LATER, "", "", ""]).replace(",", separator)).encode()
    path = tmp_path / "vms.txt"
    path.write_bytes(gzip.compress(whole) if is_gzip else whole)
    trace, report = read_trace("csv", path)
    assert rows_of(trace) == AS_READ and report.n_refused == 0
    assert trace.roles.owners == ("user",) and trace.meta["known_at_end"] == ["status"]
    assert trace.horizon_s == DAY_S + 7_200 and trace.meta["start_unix_s"] == DAY_S


def test_parquet_gives_the_same_trace(tmp_path: Path) -> None:
    starts = pd.to_datetime(["2026-11-01 00:00", "2026-11-01 01:00"]).tz_localize("UTC").tz_convert("Asia/Tokyo")
    frame = pd.DataFrame({"id": ["a", "b"], "user": pd.Categorical(["ann", "bob"]), "created": starts,
                          "lifetime": pd.to_timedelta([7_200, None], unit="s"), "vcpus": [2.0, 1.0],
                          "memory_mb": [4096, 2048], "tags": [["x"], []]})
    frame.to_parquet(tmp_path / "vms.parquet")
    trace, report = read_trace("csv", tmp_path / "vms.parquet")
    assert rows_of(trace) == AS_READ and report.n_refused == 0
    with pytest.raises(ValueError, match=r"the column 'tags' must .*, got list"):
        read_trace("csv", tmp_path / "vms.parquet", columns=["category=tags"])


@pytest.mark.parametrize(("row", "rule", "shown"), [
    ("c,ann,yesterday,,1,1,ACTIVE", "created must be a time (ISO 8601)", "created='yesterday'"),
    ("c,ann,,2026-11-01 02:00,1,1,ACTIVE", "created missing", "created=''"),
    ("c,ann,2026-11-01,soon,1,1,ACTIVE", "deleted must be a time (ISO 8601)", "deleted='soon'"),
    ("c,ann,2026-11-01 02:00,2026-11-01 01:00,1,1,ACTIVE", "deleted before created", "deleted='2026-11-01 01:00'"),
    ("c,ann,2026-11-01,,-1,1,ACTIVE", "vcpus must be a number of cores from 0 to 1e9", "vcpus='-1'"),
    ("c,ann,2026-11-01,,two,1,ACTIVE", "vcpus must be a number of cores from 0 to 1e9", "vcpus='two'"),
    ("c,ann,2026-11-01,,1,much,ACTIVE", "memory_mb must be a size of memory from 0 to 1e9 GiB", "memory_mb='much'"),
    ("c,ann,2026-11-01,,1,1e14,ACTIVE", "memory_mb must be a size of memory from 0 to 1e9 GiB", "memory_mb='1e14'"),
    ("a,ann,2026-11-01,,1,1,ACTIVE", "id twice", ""),
    ("c,ann,2026-11-01,,1,1,PENDING", "never ran, by status", "status='PENDING'"),
    ("c,ann,,,1,1,ERROR", "never ran, by status", "status='ERROR'"),
    ("c,ann,2026-11-01", "not 7 columns", "c,ann"), ('"c,ann,2026-11-01,,1,1,x', "quote not closed", '"c,ann'),
])  # fmt: skip
def test_one_wrong_cell_refuses_one_row(tmp_path: Path, row: str, rule: str, shown: str) -> None:
    trace, report = read(tmp_path, HEADER, GOOD, row, LATER)
    assert rows_of(trace) == AS_READ
    assert dict(report.refused) == {rule: 1}
    [found] = report.rejected[["file", "line", "raw"]].to_numpy().tolist()
    assert found[:2] == ["vms.csv", 3] and found[2].startswith(shown) and found[2].endswith(row)


def test_a_tenth_of_garbage_is_refused_and_the_rest_read(tmp_path: Path) -> None:
    days = [f"2026-11-{1 + idx % 28:02d}" for idx in range(200)]
    rows = [f"v{idx},u,{day} 10:00,{day} 11:00,1,1024,x" for idx, day in enumerate(days)]
    for idx in range(0, 200, 10):
        rows[idx] = ["?", "a,b", ",,,,,,", 'x"y,,,,,,', "v,u,\x00,0,nan,inf,"][idx // 10 % 5]
    trace, report = read(tmp_path, HEADER, *rows)
    assert len(trace) == 180 and report.n_refused == 20 and report.n_read == 200


def test_quoted_cells_hold_separators_line_breaks_and_quotes(tmp_path: Path) -> None:
    trace, report = read(tmp_path, "name,note," + HEADER, '"x, ""y""","one\ntwo\n\nthree",' + GOOD,
                         'x,5" disk,' + LATER, end="\r\n", columns=["category=note"])
    assert rows_of(trace, "request_id", "note") == [["a", "one\ntwo\n\nthree"], ["b", '5" disk']]
    assert report.n_refused == 0


def test_a_row_after_an_open_quote_is_read(tmp_path: Path) -> None:
    rows = [GOOD.replace("a,", f"v{idx},", 1) for idx in range(300)]
    trace, report = read(tmp_path, HEADER, '"' + GOOD, *rows)
    assert len(trace) == 300 and dict(report.refused) == {"quote not closed": 1}


def test_missing_ends_are_censored_at_a_horizon_that_is_said(tmp_path: Path) -> None:
    words = ["", "NULL", "None", "Unknown", "-", "nan", "0", "9999-12-31 00:00:00", "0001-01-01T00:00:00Z"]
    rows = [f"r{idx},u,2026-11-01 01:00,{word},1,1,ACTIVE" for idx, word in enumerate(words)]
    trace, report = read(tmp_path, HEADER, GOOD, *rows)
    # a lone 0 among dates is no date: refused, since only where the column holds stamps it is one
    assert dict(report.refused) == {"deleted must be a time (ISO 8601)": 1}
    assert int((~trace.is_event()).sum()) == len(words) - 1
    said = "8 of 9 requests have no end and still run at the horizon, 7,200 s = 2026-11-01 02:00:00 UTC; cells that say"
    assert any(line.startswith(said) and "'NULL' 1" in line for line in report.notes)


@pytest.mark.parametrize("zero", ["0", "-1"])
def test_zero_among_unix_stamps_is_no_end(tmp_path: Path, zero: str) -> None:
    trace, _ = read(tmp_path, "start,end", "1767225600,1767229200", f"1767225600,{zero}")
    assert trace.requests["departure_s"].isna().tolist() == [False, True]
    own, _ = read(tmp_path, "start,end", "0,60", f"30,{zero}", "0,50")
    assert own.requests["departure_s"].isna().sum() == 1


@pytest.mark.parametrize("factor", [1, 10**3, 10**6, 10**9])
def test_unix_stamps_of_each_unit(tmp_path: Path, factor: int) -> None:
    trace, report = read(tmp_path, "start,end", *(f"{(1_767_225_600 + k) * factor},{(1_767_225_660 + k) * factor}"
                                                  for k in range(5)))
    assert rows_of(trace, "arrival_s", "departure_s") == [
        [1_767_225_600 + k, 1_767_225_660 + k] for k in range(5)]
    assert any(line.startswith("start: Unix ") for line in report.notes)


def test_zones_are_taken_as_given_and_the_rest_as_said(tmp_path: Path) -> None:
    lines = ("start,end", "2026-07-01 12:00,2026-07-01 13:00", "2026-07-01T12:00Z,2026-07-01T15:00+02:00")
    trace, report = read(tmp_path, *lines, timezone="Europe/Berlin")
    ten_s = 1_782_900_000  # 12:00 in Berlin
    assert rows_of(trace, "arrival_s", "departure_s") == [
        [ten_s, ten_s + 3_600], [ten_s + 7_200, ten_s + 10_800]]
    assert "start: ISO 8601, 1 without a zone taken as Europe/Berlin" in report.notes
    with pytest.raises(ValueError, match=r"timezone must .*, got 'CEST'"):
        read(tmp_path, *lines, timezone="CEST")


def test_durations_limits_and_sizes_with_units(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, "job_id,submitted,start,elapsed,time_limit,cpus,mem,queue",
                    "1,2026-11-01T00:00:00,2026-11-01T00:01:00,1-00:00:01,2-00:00:00,500m,4Gi,short",
                    "2,2026-11-01T00:00:00,2026-11-01T00:01:00,PT1H,UNLIMITED,2,512Mi,short",
                    "3,2026-11-01T00:00:00,2026-11-01T00:02:00,,90 min,2,2048 MB,long")
    # elapsed ends in no unit: text durations need none
    assert trace.begin_s == DAY_S + 60
    assert rows_of(trace) == [["1", DAY_S + 60, DAY_S + 86_461, 0.5, 4.0], ["2", DAY_S + 60, DAY_S + 3_660, 2.0, 0.5],
                              ["3", DAY_S + 120, None, 2.0, 2.0]]
    assert rows_of(trace, "requested_s", "submit_s", "queue") == [
        [172_800.0, DAY_S, "short"], [None, DAY_S, "short"], [5_400.0, DAY_S, "long"]]
    assert trace.roles.numbers == ("requested_s",) and trace.roles.categories == ("queue",)


def test_thousands_and_decimal_commas(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, "start;end;cpu;mem_mb", "0;60;1,5;4.096", "0;50;2;1.024,5")
    assert rows_of(trace, "cpu_cores", "mem_gib") == [[1.5, 4.0], [2.0, 1024.5 / 1024]]
    trace, _ = read(tmp_path, "start;end;cpu;mem_mb", "0;60;1.5;4,096", "0;50;2;1,024.5")
    assert rows_of(trace, "cpu_cores", "mem_gib") == [[1.5, 4.0], [2.0, 1024.5 / 1024]]


@pytest.mark.parametrize(("cells", "unit", "mem_gib"), [
    (("4096", "8192"), "MiB", 4.0), (("4294967296", "8589934592"), "B", 4.0), (("4", "8"), "GiB", 4.0),
    (("4194304", "8388608"), "KiB", 4.0),
])  # fmt: skip
def test_plain_sizes_without_a_unit_are_guessed_and_said(
        tmp_path: Path, cells: tuple[str, str], unit: str, mem_gib: float) -> None:
    trace, report = read(tmp_path, "start,end,memory", *(f"{k},60,{cell}" for k, cell in enumerate(cells)))
    assert trace.requests["mem_gib"].tolist() == [mem_gib, 2 * mem_gib]
    assert f"check: memory: plain numbers taken as {unit}, by their size (set it under [units])" in report.notes


def test_rows_without_an_id_are_named_by_their_line(tmp_path: Path) -> None:
    trace, report = read(tmp_path, "id,start,end", "x,0,60", ",10,50", "\\N,20,50")
    assert trace.requests["request_id"].tolist() == ["x", "line-3", "line-4"]
    assert dict(report.repaired) == {"id missing: named by its line": 2}
    assert read(tmp_path, "start,end", "0,60", "10,50")[0].requests["request_id"].tolist() == ["line-2", "line-3"]


def test_missing_sizes_are_told(tmp_path: Path) -> None:
    trace, report = read(tmp_path, "start,end,mem_gib", "0,60,4", "10,50,")
    assert trace.requests[["cpu_cores", "mem_gib"]].to_numpy().tolist() == [[1.0, 4.0], [1.0, 0.0]]
    assert dict(report.repaired) == {"mem_gib missing: 0 taken": 1}
    assert "check: no column is cpu_cores: 1 core taken for each request" in report.notes


def test_an_own_clock_that_cuts_at_its_edges(tmp_path: Path) -> None:
    rows = [f"{10 * k},{10 * k + 500}" for k in range(1, 20)]
    trace, report = read(tmp_path, "start,end", *["0,700"] * 3, *rows[:15], *["50,1000"] * 4)
    assert dict(report.repaired) == {"end at the file's last second: still running (at_horizon)": 4,
                                     "start at the file's first second: start unknown (at_start)": 3}
    (tmp_path / "vms.csv.toml").write_text('at_horizon = "seen"\nat_start = "seen"\n[columns]\narrival = "start"\n'
                                           'departure = "end"\n')
    trace, report = read_trace("csv", tmp_path / "vms.csv")
    assert not report.repaired and trace.is_event().all() and trace.is_start_known().all()


def test_one_damaged_date_moves_neither_end_of_the_trace(tmp_path: Path) -> None:
    rows = [f"v{k},2026-11-{1 + k // 24:02d} {k % 24:02d}:00,2026-11-{2 + k // 24:02d} {k % 24:02d}:00"
            for k in range(300)]
    late = "late,2026-11-01 00:00,2046-11-01 00:00"
    trace, report = read(tmp_path, "id,start,end", *rows, "early,2006-11-01 00:00,2026-11-02 00:00", late)
    assert trace.meta["start_unix_s"] in (DAY_S, DAY_S + 3_600) and trace.span_s < 14 * 86_400
    assert not report.refused and dict(report.repaired) == {"end after the horizon: censored": 1}
    assert trace.requests["arrival_s"].min() < trace.begin_s - 6e8  # known to have begun long before
    trace, report = read(tmp_path, "id,start,end", *rows, "over,2006-11-01 00:00,2006-11-02 00:00", late)
    assert dict(report.refused) == {"ended before the trace's start": 1} and trace.span_s < 14 * 86_400


def test_a_given_origin_is_the_begin(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text('origin = 2026-11-01\n[columns]\narrival = "created"\ndeparture = "deleted"\n')
    trace, report = read(tmp_path, "created,deleted", "2026-10-31 23:00,2026-11-01 01:00", "2026-10-30,2026-10-31",
                         "2026-11-01 02:00,", columns_file=file)
    assert rows_of(trace, "arrival_s", "departure_s") == [[DAY_S - 3_600, DAY_S + 3_600], [DAY_S + 7_200, None]]
    assert trace.begin_s == DAY_S
    assert dict(report.refused) == {"ended before the trace's start": 1}


def test_what_is_known_at_the_end_is_no_feature_by_guess(tmp_path: Path) -> None:
    header = "id,user,start,end,zone,status,exit_code,finish_reason,used_cpu_time,max_rss,duration,end_host"
    trace, _ = read(tmp_path, header, *(f"{k},u,{k},{100 + k},z,DONE,{k % 2},oom,{k},{k},100,h" for k in range(5)))
    assert trace.roles.columns() == ("user", "zone")
    assert set(trace.meta["known_at_end"]) == {"status", "exit_code", "finish_reason", "used_cpu_time", "max_rss",
                                               "duration", "end_host"}
    assert not set(trace.roles.columns()) & set(trace.meta["known_at_end"])


def test_a_user_who_maps_what_is_known_at_the_end_is_warned_by_name(tmp_path: Path) -> None:
    header = "id,user,start,end,status,exit_code,zone"
    trace, report = read(tmp_path, header, *(f"{k},u,{k},{100 + k},DONE,0,z" for k in range(5)),
                         columns=["category=exit_code", "category=zone"])
    assert trace.roles.categories == ("exit_code", "zone") and trace.meta["known_at_end"] == ["status"]
    warned = [line for line in report.notes if "known only at a request's end" in line]
    assert len(warned) == 1 and "'exit_code'" in warned[0] and warned[0].startswith("check: ")


@pytest.mark.parametrize(("name", "meaning"), [
    ("vm_id", "request_id"), ("JobID", "request_id"), ("Start Time", "arrival"), ("createdAt", "arrival"),
    ("deletion_timestamp", "departure"), ("FINISHED", "departure"), ("run_time_s", "duration"), ("vCPUs", "cpu_cores"),
    ("cpu_milli", "cpu_cores"), ("Memory (GiB)", "mem_gib"), ("RAM_MB", "mem_gib"), ("memMiB", "mem_gib"),
    ("num_gpus", "gpu"), ("TimeLimit", "requested_s"), ("vm_state", "status"), ("submit_time", "submit"),
])  # fmt: skip
def test_plain_names_are_guessed(name: str, meaning: str) -> None:
    given = [] if meaning == "arrival" else ["arrival=t0"]
    assert column_map([name, "t0"], given).columns[meaning] == name


def test_owners_are_guessed_coarsest_first() -> None:
    found = column_map(["start", "user_id", "namespace", "tenant", "app", "project"])
    assert found.owners == ("tenant", "project", "user_id", "app")


@pytest.mark.parametrize(("names", "pairs", "words"), [
    (["start", "end"], ["arrival=begin"], "the column of arrival must be one of start, end, got 'begin'"),
    (["start", "end"], ["owner=who"], "the column of owners must be one of start, end, got 'who'"),
    (["start", "start"], ["arrival=start"], "the column of arrival must stand once in the table, got 'start' 2 times"),
    (["a", "b"], [], r"the column of arrival must be given \(--column-map arrival=COLUMN\), one of a, b; got none"),
    (["start", "start"], [], r"the column of arrival must stand once in the table, got 'start' 2 times \(rename"),
    (["start", "u"], ["owner=u", "category=u"], "a column must have one meaning, got 'u' twice"),
    (["start", "user", "user"], [], "the column of owners must stand once in the table, got 'user' 2 times"),
    (["start"], ["begin=start"], "must be mapped as OURS=THEIRS, OURS one of request_id, .*; got 'begin=start'"),
    (["start"], ["arrival"], "a column must be mapped as OURS=THEIRS"),
    (["start"], ["arrival=start", "arrival=start"], "arrival must be mapped once"),
    (["start", "gpu", "x"], ["gpu=x", "category=gpu"], "the column 'gpu' must be renamed in the table"),
])  # fmt: skip
def test_maps_that_do_not_fit_are_refused(names: list[str], pairs: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        column_map(names, pairs)


@pytest.mark.parametrize(("text", "words"), [
    ("columns = 3", "columns must be a table of texts, got 3"),
    ("owner = ['a']", "a key must be one of owners, .*got owner"),
    ("owners = 'a'", "owners must be a list of texts, got 'a'"), ("[columns]\nstart = 'a'", "got columns.start"),
    ("at_start = 'maybe'", "at_start must be one of auto, running, seen, got 'maybe'"), ("x =", "must be TOML"),
    ("timezone = 3", "timezone must be a text, got 3"), ("origin = 'x'", "origin must be a date such as 2026-01-01"),
    ("timezone = 'CEST'", "timezone must be an IANA name"),
])  # fmt: skip
def test_files_of_maps_are_checked(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "map.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_map(file)


def test_a_unit_goes_with_the_meaning_that_a_pair_takes_away(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text("[columns]\narrival = 's'\ncpu_cores = 'c'\n[units]\nc = 'cores'\n")
    found = column_map(["s", "c"], ["cpu_cores=", "category=c"], file)
    assert found.categories == ("c",) and not found.units and "cpu_cores" not in found.columns


def test_rows_that_share_a_second_long_before_the_end_are_no_doubt(tmp_path: Path) -> None:
    rows = [f"{k},{k + 500}" for k in range(100)]
    _, report = read(tmp_path, "start,end", *rows, *["100,300"] * 9)
    assert not any("few rows carry" in line for line in report.notes)


def test_a_unit_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    for unit in ("s = 'x'", "m = 'GB!'", "u = 's'"):
        file.write_text(f"owners = ['u']\n[columns]\narrival = 's'\nmem_gib = 'm'\n[units]\n{unit}\n")
        with pytest.raises(ValueError, match=r"the unit of '.' must be one of"):
            column_map(["s", "m", "u"], file=file)


def test_a_written_map_gives_the_same_map(tmp_path: Path) -> None:
    names = ["VM id", "start", "end", "Größe \"x\"", "user", "mem", "zone", "exit_code", "note"]
    found = column_map(names, ["category=Größe \"x\"", "category=zone"])
    file = tmp_path / "map.toml"
    file.write_text(found.toml(["note"]))
    again = column_map(names, file=file)
    assert again == ColumnMap(found.columns, found.owners, found.categories, (), (), found.known_at_end, timezone="UTC")


def test_a_file_beside_the_table_is_taken_and_pairs_win(tmp_path: Path) -> None:
    (tmp_path / "vms.csv.toml").write_text("[columns]\narrival = 'created'\ndeparture = 'deleted'\n")
    trace, report = read(tmp_path, HEADER, GOOD, LATER)
    assert trace.roles.owners == () and trace.requests["request_id"].tolist() == ["line-2", "line-3"]
    assert any(line.startswith("columns as in vms.csv.toml") for line in report.notes)
    assert read_trace("csv", tmp_path / "vms.csv", columns=["owner=user"])[0].roles.owners == ("user",)


@pytest.mark.parametrize(("content", "words"), [
    (b"", "line 1 must be a header of columns separated by comma, semicolon, tab or |, got ''"),
    (b"\n\n", "line 1 must be a header of columns"), (b"only one column\nx\n", "must be a header of columns"),
    (b"start,end\n", "must hold at least one row below its header, got none"),
    (b"start,end\n" + b"1\n" * 30, "line 2 must have 2 columns as the header"),
    (b"start,end\n1,2,3\n", "line 2 must have 2 columns as the header"),
    (b"PK\x03\x04rest", "got an Excel workbook or a zip archive: save it as CSV"),
    ("start,end\n0,1\n".encode("utf-16"), "got text in UTF-16: save it as CSV in UTF-8"),
    (b"BZh9rest", "compressed by bzip2: only gzip is read"), (b"PAR1rest", "must be a Parquet file, got"),
    (b"start,end\nx,1\ny,2\n", "start must be times"), (b"start,end\n20260101,20260102\n", "may be a date"),
    (b"start,end\n1767225600,60\n", "end must be on the same clock as start"),
    (b"start,end\n2026-01-01,2026-01-01\n", "the last time must lie after the first"),
    (b"start,end\n5,1\n", "must hold at least one request"),
])  # fmt: skip
def test_files_that_are_no_table_raise_with_what_was_expected(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as found:
        read_trace("csv", path)
    assert str(path) in str(found.value)
    assert "pandas" not in str(found.value) and "Arrow" not in str(found.value)


def test_a_folder_and_an_absent_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a file: a table with a header, got a folder"):
        read_trace("csv", tmp_path)
    with pytest.raises(OSError, match=r"none\.csv"):
        read_trace("csv", tmp_path / "none.csv")


SAMPLE = "\n".join([HEADER + ",note", GOOD + ',"a, b\nc"', LATER + ",x", "c,ann,2026-11-01T03:00Z,NULL,1,1024,ACTIVE,",
                    "d,ann,2026-11-01 03:00,2026-11-01 04:00,1,1024,PENDING,", ""]).encode()


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_tables_are_read_or_refused(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(SAMPLE, mtime=0) if is_gzip else SAMPLE, edits))
    check_read_or_refused("csv", path)


@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_parquet_tables_are_read_or_refused(tmp_path: Path, edits: Edits) -> None:
    path = tmp_path / "file.parquet"
    pd.DataFrame({"start": [0, 5], "end": [60.0, np.nan], "user": ["a", "b"]}).to_parquet(path)
    path.write_bytes(mutated(path.read_bytes(), edits))
    check_read_or_refused("csv", path)


CELLS = st.sampled_from(["", "NULL", "2026-11-01", "2026-11-02T00:00Z", "1767225600", "5", "-5", "x", "1e300", "nan",
                         '"', "4Gi", "1,5", "\ufeff", "\x00", "9" * 40, "0001-01-01", "2026-02-30", "é"])


@settings(max_examples=25)
@given(rows=st.lists(st.tuples(*[CELLS] * 7), min_size=1, max_size=12))
def test_any_cells_are_read_or_refused(tmp_path: Path, rows: list[tuple[str, ...]]) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("\n".join([HEADER, GOOD, *(",".join(row) for row in rows)]))
    check_read_or_refused("csv", path)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6) | st.none(), st.integers(0, 64)), min_size=1,
                max_size=20))
def test_what_is_written_comes_back(tmp_path: Path, given_rows: list[tuple[int, int | None, int]]) -> None:
    path = tmp_path / "made.csv"
    lines = [f"{idx},{start},{'' if life is None else start + life},{cores}"
             for idx, (start, life, cores) in enumerate(given_rows)]
    path.write_text("\n".join(["id,start,end,cpus", "first,0,2000000,1", *lines]))
    (tmp_path / "made.csv.toml").write_text('at_horizon = "seen"\nat_start = "seen"\n[columns]\nrequest_id = "id"\n'
                                            'arrival = "start"\ndeparture = "end"\ncpu_cores = "cpus"\n')
    trace, report = read_trace("csv", path)
    assert report.n_refused == 0 and trace.horizon_s == 2_000_000
    found = {row[0]: row[1:4] for row in rows_of(trace)}
    assert found == {"first": [0, 2_000_000, 1.0], **{
        str(idx): [start, None if life is None else start + life, float(cores)]
        for idx, (start, life, cores) in enumerate(given_rows)}}
