"""The huawei-east reader on made files: creations and deletions become requests, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from made_files import HUAWEI_ROWS, huawei_file
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace


def test_rows(tmp_path: Path) -> None:
    huawei_file(tmp_path / "Huawei-East-1.csv")
    trace, report = read_trace("huawei-east", tmp_path)
    rows = trace.requests.set_index("request_id")
    assert rows["arrival_s"].dropna().to_dict() == {"0": 0, "1": 2, "0-1": 83, "2": 90}
    assert rows["departure_s"].dropna().to_dict() == {"9": 60, "0": 55}  # 55.4 s, rounded
    assert list(rows.loc["9", ["cpu_cores", "mem_gib"]]) == [1.0, 1.0]
    assert list(rows.loc["0-1", ["cpu_cores", "mem_gib"]]) == [4.0, 16.0]
    assert trace.horizon_s == 90 and trace.roles.owners == ()
    assert (report.n_read, report.n_kept, report.n_joined) == (6, 5, 1)
    assert dict(report.repaired) == {"deletion without a creation: start unknown": 1} and dict(report.refused) == {}


@pytest.mark.parametrize(("row", "rule"), [
    ("1,8,16,50,0", "created again while running"),
    ("1,8,16,1,1", "departure before arrival"),
    ("9,1,1,61,1", "deleted again"),
    (",8,16,50,0", "vmid missing"),
    ("7,8,16,50,2", "type neither 0 nor 1"),
    ("7,8,16,,0", "time not a number"),
    ("7,8,16,-1,0", "time outside 0 .. 100 years"),
    ("7,8,16,9e9,0", "time outside 0 .. 100 years"),
    ("7,x,16,50,0", "cpu not a number"),
    ("7,8,-16,50,0", "negative size"),
    ("7,8e7,16,50,0", "size above 1e+06"),
    ("7,8,16,50", "not 5 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, row: str, rule: str) -> None:
    trace, report = read_trace("huawei-east", huawei_file(tmp_path / "x.csv", *HUAWEI_ROWS, row))
    assert dict(report.refused) == {rule: 1} and len(trace) == 5
    assert report.rejected[["line", "raw"]].values.tolist() == [[8, row]]


def test_files_that_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold Huawei-East-1\.csv or Huawei-East-1\.csv\.gz"):
        read_trace("huawei-east", tmp_path)
    path = tmp_path / "x.csv"
    path.write_text("vmid,cpu,mem,time,type\n1,1,1,0,0\n")
    with pytest.raises(ValueError, match=r"x\.csv: line 1 must have the columns vmid, cpu, memory, time, type once"):
        read_trace("huawei-east", path)
    with pytest.raises(ValueError, match=r"must hold at least one creation or deletion with a time above 0, got none"):
        read_trace("huawei-east", huawei_file(path, "1,1,1,0,0"))


@settings(max_examples=25)
@given(EDITS)
def test_damaged_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, edits: Edits) -> None:
    path = tmp_path_factory.getbasetemp() / "huawei.csv"
    path.write_bytes(mutated("\n".join(["vmid,cpu,memory,time,type", *HUAWEI_ROWS]).encode(), edits))
    check_read_or_refused("huawei-east", path)
