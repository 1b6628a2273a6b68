"""The google-2019 reader on made files: events in any order become requests, JSON or CSV, and what is refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings

from made_files import INSTANCE_EVENTS, SIZES, instances_folder
from mutations import EDITS, RAW_KINDS, Edits, check_read_or_refused, in_turn, mutated, paths, with_raw
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace

RUNNING: tuple[dict[str, Any], ...] = (
    {"time": 610_000_000, "type": 0, "collection_id": 5, "instance_index": 0, **SIZES},
    {"time": 620_000_000, "type": 3, "collection_id": 5, "instance_index": 0, "machine_id": 77, **SIZES})


def read_events(folder: Path, *events: dict[str, Any], **options: Any) -> tuple[Trace, ReadReport]:
    path = folder / "instance_events-000000000000.json"
    path.write_text("\n".join(map(json.dumps, events)) + "\n")
    return read_trace("google-2019", path, **options)


def test_rows(tmp_path: Path) -> None:
    trace, report = read_trace("google-2019", instances_folder(tmp_path / "g"))
    rows = trace.requests.set_index("request_id")
    # the task inside the alloc instance 11-0 gets no room of a machine
    assert sorted(rows.index) == ["11-0-0", "7-0-0", "8-0-0", "8-0-1", "9-0-0"]
    # second 600 is time 0; the last event, an update at 710.000001 s, is rounded up
    assert trace.horizon_s == 111 and trace.meta["origin_s"] == 600
    assert rows["arrival_s"].dropna().to_dict() == {"8-0-0": 20, "8-0-1": 90, "11-0-0": 15}
    assert rows["departure_s"].dropna().to_dict() == {"7-0-0": 100, "8-0-0": 50, "9-0-0": 60}
    assert rows["end_event"].to_dict() == {"7-0-0": "finish", "8-0-0": "evict", "8-0-1": "none", "9-0-0": "kill",
                                           "11-0-0": "none"}
    assert rows["queued_s"].dropna().to_dict() == {"8-0-0": 10.0}  # after the eviction no submit is recorded
    assert rows["n_scheduled_before"].to_dict()["8-0-1"] == 1
    assert rows["thing"].to_dict() == {"7-0-0": "task", "8-0-0": "task", "8-0-1": "task", "9-0-0": "task",
                                       "11-0-0": "alloc"}
    assert list(rows.loc["7-0-0", ["user", "logical_name", "job", "sched_class", "priority"]]) == [
        "ann", "daily", "7", "3", "200"]
    assert list(rows.loc["9-0-0", ["user", "logical_name"]]) == ["missing", "missing"]
    assert (report.n_read, report.n_kept, report.n_joined, dict(report.refused)) == (15, 5, 10, {})
    assert dict(report.repaired) == {"end without any event before it: start unknown": 1}
    assert "1 rows of tasks inside alloc instances left out (in_allocs=True reads them)" in report.notes


def test_tasks_in_allocs_instead_of_allocs(tmp_path: Path) -> None:
    trace, report = read_trace("google-2019", instances_folder(tmp_path / "g"), in_allocs=True)
    rows = trace.requests.set_index("request_id")
    assert sorted(rows.index) == ["12-0-0", "7-0-0", "8-0-0", "8-0-1", "9-0-0"]
    assert list(rows.loc["12-0-0", ["cpu_cores", "mem_gib"]]) == [0.1, 0.0]
    assert report.repaired["memory missing: 0 taken"] == 1


def test_cut_ends_are_marked_on_request(tmp_path: Path) -> None:
    trace, _ = read_trace("google-2019", instances_folder(tmp_path / "g"), censor_cut=True)
    assert trace.requests.set_index("request_id")["is_cut"].to_dict() == {
        "7-0-0": False, "8-0-0": True, "8-0-1": False, "9-0-0": False, "11-0-0": False}
    assert trace.meta["known_at_end"] == ["end_event", "is_cut"]


def test_csv_in_one_file_is_the_same_trace(tmp_path: Path) -> None:
    flat = pd.json_normalize([dict(event) for event in INSTANCE_EVENTS])
    for folder, change in (("dots", {}), ("underscores", {
            "resource_request.cpus": "resource_request_cpus", "resource_request.memory": "resource_request_memory"})):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "instance_events-000000000000.csv.gz"
        path.write_bytes(gzip.compress(flat.rename(columns=change).to_csv(index=False).encode()))
        trace, _ = read_trace("google-2019", path.parent)
        whole, _ = read_events(tmp_path, *INSTANCE_EVENTS)
        assert trace.roles == whole.roles and trace.roles.owners == ("job",)  # without collections
        pd.testing.assert_frame_equal(trace.requests, whole.requests)


def test_the_order_of_rows_does_not_show(tmp_path: Path) -> None:
    whole, _ = read_events(tmp_path, *INSTANCE_EVENTS)
    other, _ = read_events(tmp_path, *INSTANCE_EVENTS[::-1])
    pd.testing.assert_frame_equal(whole.requests, other.requests)


def test_a_run_of_no_time_and_an_end_beside_the_next_schedule(tmp_path: Path) -> None:
    at = {**RUNNING[1], "time": 640_000_000}
    trace, report = read_events(
        tmp_path, *RUNNING, {**at, "type": 4}, at,  # evicted and scheduled again in one microsecond
        {**RUNNING[0], "collection_id": 6}, {**at, "collection_id": 6}, {**at, "collection_id": 6, "type": 5})  # fails
    rows = trace.requests.set_index("request_id")
    assert rows["arrival_s"].to_dict() == {"5-0-0": 10, "5-0-1": 30, "6-0-0": 30}
    assert rows["departure_s"].dropna().to_dict() == {"5-0-0": 30, "6-0-0": 30} and dict(report.refused) == {}
    assert trace.meta["origin_s"] == 610  # no event at time 0: the files begin later


@pytest.mark.parametrize(("change", "rule"), [
    ({"type": 3, "time": 630_000_000}, "scheduled again while running"),
    ({"type": 6, "collection_id": 6, "machine_id": 0}, "end without a schedule"),
    ({"type": 6, "time": 0}, "end at time 0"),
    ({"time": 599_999_999}, "time inside the 600 s before the trace, or negative"),
    ({"time": -1}, "time inside the 600 s before the trace, or negative"),
    ({"time": str(2**63 - 1)}, "time not a number"),
    ({"time": None}, "time not a number"),
    ({"time": 630_000_000.5}, "time not a whole number >= 0"),
    ({"collection_id": -5}, "collection_id not a whole number >= 0"),
    ({"collection_id": "x"}, "collection_id not a number"),
    ({"instance_index": 0.5}, "instance_index not a whole number >= 0"),
    ({"instance_index": 2**40}, "instance_index above 2^31"),
    ({"type": 11}, "type outside 0 .. 10"),
    ({"type": "SCHEDULE"}, "type not a number"),
    ({"scheduling_class": 4}, "scheduling_class outside 0 .. 3"),
    ({"collection_type": 2}, "collection_type neither 0 nor 1"),
    ({"priority": 1e6}, "priority not a whole number in 0 .. 999"),
    ({"resource_request": {"cpus": 1.5, "memory": 0.1}}, "size outside 0 .. 1"),
    ({"resource_request": {"cpus": "a lot", "memory": 0.1}}, "cpus not a number"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, change: dict[str, Any], rule: str) -> None:
    event = {**RUNNING[1], "time": 650_000_000, "type": 10, **change}
    trace, report = read_events(tmp_path, *RUNNING, {**RUNNING[1], "type": 10, "time": 660_000_000}, event)
    assert dict(report.refused) == {rule: 1}
    assert report.rejected[["file", "line"]].values.tolist() == [["instance_events-000000000000.json", 4]]
    assert trace.requests["request_id"].tolist() == ["5-0-0"] and trace.horizon_s == 50


def test_a_line_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "instance_events.json"
    good = "\n".join(map(json.dumps, RUNNING))
    path.write_text(f"{good}\n[1]\n{{\n\n" + '{"time": 1' + "9" * 6000 + "}\n")
    report = read_trace("google-2019", path)[1]
    assert dict(report.refused) == {"not a JSON object": 3} and report.rejected["line"].tolist() == [3, 4, 6]


def test_files_that_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold instance_events\*\.json or \.csv, plain or \.gz$"):
        read_trace("google-2019", tmp_path)
    path = tmp_path / "instance_events.csv"
    path.write_text("time,type,collection_id\n1,2,3\n")
    with pytest.raises(ValueError, match=r"events\.csv: line 1 must have the columns time, .*, got 'time, type, coll"):
        read_trace("google-2019", path)
    path.write_text('{"time": 1\n')
    with pytest.raises(ValueError, match=r"events\.csv: must hold JSON objects, one a line, got none"):
        read_trace("google-2019", path)
    with pytest.raises(ValueError, match=r"must hold at least one scheduled instance and a later event, got none"):
        read_events(tmp_path, RUNNING[0])


@pytest.mark.slow
def test_each_value_of_an_event_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "instance_events.json"
    good = "\n".join(map(json.dumps, RUNNING))
    event = {**INSTANCE_EVENTS[2], "machine_id": 3, "alloc_collection_id": "0", "collection_type": 0}
    for number, place in enumerate(paths(event)):
        for raw in [*in_turn(RAW_KINDS, number), None]:
            path.write_text(f"{good}\n{with_raw(event, place, raw)}\n")
            check_read_or_refused("google-2019", path)


@settings(max_examples=25)
@given(EDITS)
def test_damaged_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, edits: Edits) -> None:
    path = tmp_path_factory.getbasetemp() / "google_2019.json"
    path.write_bytes(mutated("\n".join(map(json.dumps, INSTANCE_EVENTS)).encode(), edits))
    check_read_or_refused("google-2019", path)
