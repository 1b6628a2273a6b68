"""The azure-packing reader, on made SQLite files: days, machine generations, and what is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings

from made_files import VM_TYPES, VMS, packing_file
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import azure_packing, read_trace


def test_rows(tmp_path: Path) -> None:
    trace, report = read_trace("azure-packing", packing_file(tmp_path / "p.sqlite"))
    rows = trace.requests
    # Machine 4 holds all three VMs, machine 3 two. Half a day before 0 is -43,200 s; 0.50001 d is 43,200.864 s.
    assert trace.meta["machine"] == "4" and trace.horizon_s == 43_200
    assert rows["request_id"].tolist() == ["1", "2", "3"]
    assert rows["arrival_s"].tolist() == [-43_200, 10_800, 43_200]
    assert trace.is_event().tolist() == [True, False, True]
    assert rows["departure_s"].dropna().tolist() == [21_600, 43_200]
    assert rows[["cpu_cores", "mem_gib"]].values.tolist() == [[0.25, 0.125], [1.0, 0.5], [0.25, 0.125]]
    assert rows[["tenant", "vm_type", "priority"]].astype(str).values.tolist() == [
        ["90", "7", "0"], ["90", "8", "1"], ["91", "7", "1"]]
    assert trace.hosts is not None and trace.hosts.values.tolist() == [["machine-4", 1.0, 1.0]]
    assert (report.n_read, report.n_kept, dict(report.refused)) == (3, 3, {})


def test_a_machine_by_name_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "p.sqlite")
    trace, report = read_trace("azure-packing", path, machine="3")
    assert trace.requests["cpu_cores"].tolist() == [0.5, 0.5]
    assert dict(report.refused) == {"type does not fit the chosen machine": 1}
    with pytest.raises(ValueError, match="machine must be one of 3, 4, got '9'"):
        read_trace("azure-packing", path, machine="9")


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packing_file(tmp_path / "p.sqlite")
    whole, _ = read_trace("azure-packing", path)
    monkeypatch.setattr(azure_packing, "BLOCK_LINES", 1)
    pd.testing.assert_frame_equal(read_trace("azure-packing", path)[0].requests, whole.requests)


@pytest.mark.parametrize(("row", "rule"), [
    ((9, 90, 7, 0, 0.5, 0.25), "departure before arrival"),
    ((9, 90, 7, 0, -0.5, -0.25), "departure before the trace"),
    ((9, 90, 6, 0, 0.1, 0.25), "vmTypeId not in vmType"),
    ((9, 90, None, 0, 0.1, 0.25), "vmTypeId not in vmType"),
    ((9, 90, 7, 0, None, 0.25), "starttime not a number"),
    ((9, 90, 7, 0, "x", 0.25), "starttime not a number"),
    ((9, 90, 7, 0, 0.1, float("inf")), "endtime not a number"),
    ((9, 90, 7, 0, 0.1, 40_000), "time above 100 years"),
    ((9, 90, 7, 0, -40_000, 0.1), "time above 100 years"),
    ((None, 90, 7, 0, 0.1, 0.25), "vmId missing"),
    ((1, 90, 7, 0, 0.1, 0.25), "duplicate vmId"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, row: tuple[object, ...], rule: str) -> None:
    trace, report = read_trace("azure-packing", packing_file(tmp_path / "p.sqlite", *VMS, row))
    assert dict(report.refused) == {rule: 1} and len(trace) == 3
    assert report.rejected[["file", "line"]].values.tolist() == [["p.sqlite vm", 4]]


def test_a_clock_that_runs_backwards_is_sorted(tmp_path: Path) -> None:
    trace, _ = read_trace("azure-packing", packing_file(tmp_path / "p.sqlite", *VMS[::-1]))
    assert trace.requests["request_id"].tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(("row", "message"), [
    ((3, 9, 4, 1.5, 0.1, 0, 0, 0), "vmType row 4 must be good, got size outside 0 .. 1"),
    ((3, 9, 4, 0.5, -0.1, 0, 0, 0), "vmType row 4 must be good, got size outside 0 .. 1"),
    ((3, 9, 4, None, 0.1, 0, 0, 0), "vmType row 4 must be good, got core not a number"),
    ((3, 9, None, 0.5, 0.1, 0, 0, 0), "vmType row 4 must be good, got vmTypeId or machineId missing"),
    ((3, 7, 4, 0.5, 0.1, 0, 0, 0), "vmType row 4 must be good, got duplicate vmTypeId and machineId"),
])
def test_a_bad_type_raises(tmp_path: Path, row: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_trace("azure-packing", packing_file(tmp_path / "p.sqlite", types=(*VM_TYPES, row)))


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    path.write_text("vm,start\n1,2\n" * 100)
    with pytest.raises(ValueError, match=r"p\.sqlite must be an SQLite file with a table vmType .*not a database"):
        read_trace("azure-packing", path)
    path.unlink()
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table vmType (vmTypeId, core)")
    with pytest.raises(ValueError, match=r"columns vmTypeId, machineId, core, memory; got table vmType with .* core"):
        read_trace("azure-packing", path)
    with pytest.raises(ValueError, match="vmType must hold at least one row, got none"):
        read_trace("azure-packing", packing_file(path, types=()))
    with pytest.raises(ValueError, match=r"got none; refused: \{'departure before arrival': 1\}"):
        read_trace("azure-packing", packing_file(path, (1, 90, 7, 0, 0.5, 0.25)))


def test_a_table_without_end_is_refused(tmp_path: Path) -> None:
    path = packing_file(tmp_path / "p.sqlite")
    with closing(sqlite3.connect(path)) as made:
        made.execute("drop table vm")
        made.execute("create view vm as with recursive c(n) as (select 0 union all select n + 1 from c) "
                     "select n as vmId, 9 as tenantId, 7 as vmTypeId, 0 as priority, 0 as starttime, 1 as endtime "
                     "from c")
        made.commit()
    with pytest.raises(ValueError, match="got more rows than bytes in vm"):
        read_trace("azure-packing", path)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, edits: Edits) -> None:
    path = packing_file(tmp_path / "p.sqlite")
    path.write_bytes(mutated(path.read_bytes(), edits))
    check_read_or_refused("azure-packing", path)
