"""Dumps of Nova's `instances`: which VMs ran, when, as what they began, bad rows, and damaged files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features import Trace
from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace

COLUMNS = ("uuid", "created_at", "launched_at", "terminated_at", "deleted_at", "updated_at", "deleted", "project_id",
           "user_id", "availability_zone", "vm_state", "vcpus", "memory_mb", "root_gb", "ephemeral_gb",
           "instance_type_id")
DAY = "2026-01-05"
FOUR_S = 1_767_585_600
"""04:00 UTC of that day."""
GOOD = dict(zip(COLUMNS, ("a", f"{DAY} 03:00:00", f"{DAY} 03:00:20", f"{DAY} 04:00:00", f"{DAY} 04:00:01",
                          f"{DAY} 04:00:01", "7", "p", "ann", "az1", "deleted", "2", "4096", "20", "5", "1"),
                strict=True))
LIVE = GOOD | {"uuid": "b", "created_at": f"{DAY} 03:30:00", "launched_at": f"{DAY} 03:30:10", "terminated_at": "NULL",
               "deleted_at": "NULL", "updated_at": f"{DAY} 05:00:00", "deleted": "0", "vm_state": "active",
               "availability_zone": "az2", "project_id": "q"}


def write(file: Path, *rows: dict[str, str], separator: str = "\t") -> Path:
    lines = [separator.join(COLUMNS), *(separator.join(row[name] for name in COLUMNS) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


def read(folder: Path, *rows: dict[str, str], **options: Any) -> tuple[Trace, ReadReport]:
    return read_trace("openstack", write(folder / "instances.tsv", *rows), **options)


def column(trace: Trace, name: str) -> list[Any]:
    return [None if pd.isna(each) else each for each in trace.requests.set_index("request_id")[name].sort_index()]


def test_a_vm_runs_from_its_creation_to_its_termination(tmp_path: Path) -> None:
    trace, report = read(tmp_path, GOOD, LIVE)
    assert column(trace, "arrival_s") == [FOUR_S - 3_600, FOUR_S - 1_800]
    assert column(trace, "departure_s") == [FOUR_S, None]
    assert trace.horizon_s == FOUR_S + 3_600  # the last update of any row
    assert trace.meta["start_unix_s"] == FOUR_S  # the first end
    assert column(trace, "cpu_cores") == [2.0, 2.0] and column(trace, "mem_gib") == [4.0, 4.0]
    assert column(trace, "disk_gib") == [25.0, 25.0]
    assert trace.roles.owners == ("project_id", "user_id") and trace.roles.categories == ("availability_zone",)
    assert report.n_refused == 0


def test_times_are_utc_or_of_the_zone(tmp_path: Path) -> None:
    utc, tokyo = (read(tmp_path, GOOD, LIVE, timezone=zone)[0].meta["start_unix_s"] for zone in (None, "Asia/Tokyo"))
    assert utc - tokyo == 9 * 3_600


def test_csv_and_gzip_and_postgres_read_the_same(tmp_path: Path) -> None:
    rows = [{name: value.replace("NULL", "") for name, value in row.items()} for row in (GOOD, LIVE)]
    plain = read(tmp_path, GOOD, LIVE)[0].requests
    csv = write(tmp_path / "instances.csv", *rows, separator=",")
    pd.testing.assert_frame_equal(read_trace("openstack", csv)[0].requests, plain)
    backslash = [{name: value.replace("NULL", "\\N") for name, value in row.items()} for row in (GOOD, LIVE)]
    pd.testing.assert_frame_equal(read(tmp_path, *backslash)[0].requests, plain)
    packed = tmp_path / "instances.csv.gz"
    packed.write_bytes(gzip.compress(csv.read_bytes()))
    pd.testing.assert_frame_equal(read_trace("openstack", packed)[0].requests, plain)
    parts = [row | {"deleted": flag, "created_at": row["created_at"] + ".123456"}
             for row, flag in zip(rows, "tf", strict=True)]
    assert column(read_trace("openstack", write(csv, *parts, separator=","))[0], "departure_s") == [FOUR_S, None]


@pytest.mark.parametrize(("change", "rule"), [
    ({"launched_at": "NULL", "vm_state": "error"}, "never ran (error, not launched)"),
    ({"launched_at": "NULL", "vm_state": "building"}, "never ran (building, not launched)"),
    ({"launched_at": "NULL", "vm_state": "deleted", "deleted": "9"}, "never ran (deleted, not launched)"),
    ({"launched_at": "NULL"}, "never ran (not launched)"),
    ({"created_at": "NULL"}, "created_at missing"),
    ({"created_at": "soon"}, "created_at must be a time"),
    ({"terminated_at": f"{DAY} 03:00:00"}, "end before created_at"),
    ({"deleted": "9"}, "deleted without a time"),
    ({"vm_state": "deleted"}, "deleted without a time"),
    ({"deleted": "x"}, "deleted must be 0 or a number"),
    ({"vcpus": "-1"}, "vcpus negative or above 1e+09"),
    ({"vcpus": "two"}, "vcpus must be a number"),
    ({"memory_mb": "1e300"}, "memory_mb must be a number"),
    ({"root_gb": "-5"}, "root_gb negative or above 1e+09"),
    ({"uuid": "a"}, "uuid twice"),
    ({"uuid": ""}, "uuid missing"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, change: dict[str, str], rule: str) -> None:
    trace, report = read(tmp_path, GOOD, LIVE | {"uuid": "c"}, LIVE | change)
    assert dict(report.refused) == {rule: 1} and len(trace) == 2
    assert report.rejected["line"].tolist() == [4]


def test_a_row_that_is_deleted_without_a_termination_ends_when_it_was_deleted(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, GOOD | {"terminated_at": "NULL"}, LIVE)
    assert trace.meta["start_unix_s"] == FOUR_S + 1 and column(trace, "departure_s") == [FOUR_S + 1, None]


@pytest.mark.parametrize("state", ["error", "soft-delete", "shelved_offloaded"])
def test_a_launched_vm_without_an_end_runs_and_is_told(tmp_path: Path, state: str) -> None:
    trace, report = read(tmp_path, GOOD, LIVE | {"vm_state": state})
    assert column(trace, "departure_s") == [FOUR_S, None]
    assert any(f"1 VMs without an end are in the state {state}" in line for line in report.notes)


def test_a_resize_moves_no_arrival(tmp_path: Path) -> None:
    """Nova writes `launched_at` again: taken as the start, a VM that was resized would look young, and only long-lived
    ones are resized."""
    trace, report = read(tmp_path, GOOD, LIVE | {"launched_at": f"{DAY} 04:45:00"})
    assert column(trace, "arrival_s") == [FOUR_S - 3_600, FOUR_S - 1_800]
    assert any(line.startswith("check: 1 VMs were launched again") for line in report.notes)


def test_migrations_tell_the_sizes_that_were_known_at_creation(tmp_path: Path) -> None:
    """Without them a model would learn that large VMs live long: they were small when they were made."""
    write(tmp_path / "instances.tsv", GOOD, LIVE | {"vcpus": "16", "memory_mb": "65536", "instance_type_id": "3"})
    (tmp_path / "flavors.csv").write_text("id,name,vcpus,memory_mb,root_gb,ephemeral_gb\n1,small,2,4096,20,5\n"
                                          "2,middle,4,8192,20,0\n3,large,16,65536,20,0\n")
    (tmp_path / "migrations.csv").write_text(
        "instance_uuid,created_at,migration_type,old_instance_type_id,new_instance_type_id\n"
        "b,2026-01-05 04:40:00,resize,2,3\nb,2026-01-05 04:20:00,resize,1,2\n"
        "b,2026-01-05 04:10:00,live-migration,1,1\nz,2026-01-05 04:40:00,resize,2,3\n")
    trace, _ = read_trace("openstack", tmp_path)
    assert column(trace, "cpu_cores") == [2.0, 2.0] and column(trace, "disk_gib") == [25.0, 25.0]
    assert "flavor" not in trace.requests  # one name says nothing
    (tmp_path / "migrations.csv").unlink()
    later, _ = read_trace("openstack", tmp_path)
    assert column(later, "cpu_cores") == [2.0, 16.0] and column(later, "flavor") == ["small", "large"]


def test_what_is_known_at_the_end_is_no_feature(tmp_path: Path) -> None:
    """State, times of changes and the host never reach a model: with other ones the features are the same."""
    trace, _ = read(tmp_path, GOOD, LIVE)
    other, _ = read(tmp_path, GOOD | {"vm_state": "stopped"}, LIVE | {"vm_state": "paused"})
    assert trace.meta["known_at_end"] == ["vm_state"]
    features = [build_rows(each, default_encoder(each)) for each in (trace, other)]
    assert not {"vm_state", "launched_at", "updated_at"} & set(features[0].names)
    np.testing.assert_array_equal(features[0].features, features[1].features)


def test_archived_rows_and_domains_are_read_beside(tmp_path: Path) -> None:
    write(tmp_path / "instances.tsv", LIVE, LIVE | {"uuid": "c", "project_id": "p"})
    write(tmp_path / "shadow_instances.tsv", GOOD)
    (tmp_path / "projects.csv").write_text("id,name,domain_id\np,x,one\nq,y,two\n")
    trace, report = read_trace("openstack", tmp_path)
    assert trace.roles.owners == ("domain_id", "project_id", "user_id")
    assert column(trace, "domain_id") == ["one", "two", "one"] and report.n_read == 3


@pytest.mark.parametrize(("name", "text", "message"), [
    ("instances.tsv", "", "must be a header of columns"),
    ("instances.tsv", "uuid\tcreated_at\n", "must hold at least one row"),
    ("instances.tsv", "uuid\tcreated_at\na\tb\n", r"none of deleted, vcpus, memory_mb [^;]*; write a dump with: mysql"),
    ("instances.tsv", "uuid\tuuid\tcreated_at\tdeleted\tvcpus\tmemory_mb\na\ta\tb\t0\t1\t1\n", "each column once"),
    ("instances.tsv", "uuid\tcreated_at\tdeleted\tvcpus\tmemory_mb\na\tsoon\t0\t1\t1\n", "created_at must be times"),
    ("instances.tsv", "uuid\tcreated_at\tdeleted\tvcpus\tmemory_mb\na\t77\t0\t1\t1\n", "created_at must be dates"),
    ("other.tsv", "x", "must hold a dump of the table instances"),
])
def test_what_is_no_dump_is_told_with_its_file(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    path = tmp_path if name == "other.tsv" else tmp_path / name
    with pytest.raises(ValueError, match=message) as caught:
        read_trace("openstack", path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_dumps_are_read_or_refused_never_worse(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    path = write(tmp_path / "instances.tsv", GOOD, LIVE, *(
        GOOD | {"uuid": f"v{idx}", "terminated_at": f"{DAY} 0{4 + idx % 5}:10:00"} for idx in range(30)))
    sample = path.read_bytes()
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    check_read_or_refused("openstack", path)


def test_garbage_rows_cost_only_themselves(tmp_path: Path) -> None:
    good = [GOOD | {"uuid": f"v{idx}"} for idx in range(90)] + [LIVE]
    path = write(tmp_path / "instances.tsv", *good)
    lines = path.read_text().splitlines()
    for idx in range(10):
        lines.insert(5 + 9 * idx, "\t".join(["%&/"] * len(COLUMNS)) if idx % 2 else "short")
    path.write_text("\n".join(lines) + "\n")
    trace, report = read_trace("openstack", path)
    assert len(trace) == 91 and report.n_refused == 10
