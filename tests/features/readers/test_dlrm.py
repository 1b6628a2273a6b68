"""The dlrm reader: which time is missing says how a request is censored."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings

from made_files import DLRM_HEADER, DLRM_ROWS, dlrm_file
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "alibaba-dlrm-2025"
GOOD = DLRM_ROWS[3]


def test_rows(tmp_path: Path) -> None:
    dlrm_file(tmp_path)
    trace, report = read_trace("dlrm", tmp_path)
    rows = trace.requests
    assert rows["request_id"].tolist() == ["i-0", "i-1", "i-2", "i-3"]
    assert trace.is_start_known().tolist() == [False, False, True, True]
    assert trace.is_event().tolist() == [False, True, False, True]
    # The last time of the file, 899.9999, is rounded to 900.
    assert trace.horizon_s == 900 and rows["departure_s"].tolist()[3] == 900
    assert rows["arrival_s"].tolist()[2:] == [623, 683] and rows["creation_s"].tolist()[2:] == [475, 610]
    assert rows[["cpu_cores", "mem_gib", "gpu"]].values.tolist()[1:3] == [[12, 120, 1], [64, 320, 0]]
    assert rows[["rdma_percent", "disk_gib"]].values.tolist()[1:3] == [[25, 640], [1, 255]]
    assert rows["max_per_node"].isna().tolist() == [False, False, True, True]
    assert (trace.roles.owners, trace.roles.categories) == (("app_name",), ("role",))
    assert (report.n_read, report.n_kept, dict(report.refused)) == (4, 4, {})


@pytest.mark.parametrize(("old", "new", "rule"), [
    ("899.9999", "680", "departure before arrival"),
    ("683.0", "609", "scheduled before creation"),
    ("683.0", "", "never ran (created, not scheduled)"),
    ("610.0", "-1", "time outside 0 .. 100 years"),
    ("899.9999", "4e9", "time outside 0 .. 100 years"),
    ("899.9999", "nan", "deletion_time not a number"),
    (",64,64,", ",-64,64,", "negative size"),
    (",255.0,", ",-255.0,", "negative size"),
    ("320.0,320.0", "x,320.0", "memory_request not a number"),
    (",-1,610", ",,610", "max_instance_per_node not a number"),
    (",-1,610", ",0,610", "max_instance_per_node neither -1 nor above 0"),
    ("i-9,", ",", "name missing"),
    ("i-9,", "i-3,", "duplicate name"),
    ("i-9,", "i-9,x,", "not 17 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, old: str, new: str, rule: str) -> None:
    row = GOOD.replace("i-3,", "i-9,").replace(old, new, 1)
    trace, report = read_trace("dlrm", dlrm_file(tmp_path, GOOD, row))
    assert dict(report.refused) == {rule: 1} and len(trace) == 1
    assert report.rejected[["line", "raw"]].values.tolist() == [[3, row]]


def test_a_start_is_known_where_only_the_creation_is_missing(tmp_path: Path) -> None:
    trace, _ = read_trace("dlrm", dlrm_file(tmp_path, GOOD.replace("610.0", ""), GOOD.replace("i-3,CN,app_1", "i-4,,")))
    assert trace.requests["arrival_s"].tolist() == [683, 683]
    assert trace.requests["app_name"].tolist() == ["app_1", "missing"]


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold disaggregated_DLRM_trace\.csv or"):
        read_trace("dlrm", tmp_path)
    with pytest.raises(ValueError, match=r"one instance with a time above 0, got none; refused: \{'name missing': 1\}"):
        read_trace("dlrm", dlrm_file(tmp_path, GOOD.replace("i-3", "")))
    with pytest.raises(ValueError, match="one instance with a time above 0, got none"):
        read_trace("dlrm", dlrm_file(tmp_path, DLRM_ROWS[0]))
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu\np-0,1\n")
    with pytest.raises(ValueError, match=r"pods\.csv: line 1 must have the columns instance_sn, role"):
        read_trace("dlrm", path)


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    sample = "\n".join([DLRM_HEADER, *DLRM_ROWS, ""]).encode()
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    check_read_or_refused("dlrm", path)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("dlrm", DATA)
    assert (report.n_read, report.n_kept) == (23_871, 23_871)
    assert trace.requests["app_name"].nunique() == 156
    assert trace.requests["role"].value_counts().to_dict() == {"CN": 16_485, "HN": 7_386}
    is_known, is_event = trace.is_start_known(), trace.is_event()
    assert ((~is_known).sum(), (~is_event).sum()) == (7_280, 8_878)
    assert ((is_known & is_event).sum(), (is_known & ~is_event).sum()) == (12_390, 4_201)
