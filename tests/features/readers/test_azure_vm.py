"""The azure-vm reader: who ran at either end of the trace, buckets, and what would leak."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings

from made_files import VM_ROWS, vm_table
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "azure-2017-fixture"
GOOD = VM_ROWS[2]


def test_rows(tmp_path: Path) -> None:
    vm_table(tmp_path / "vmtable.csv")
    trace, report = read_trace("azure-vm", tmp_path)
    rows = trace.requests
    assert trace.horizon_s == 2_591_700
    assert rows["request_id"].tolist() == ["v1", "v2", "v3", "v4"]
    assert trace.is_start_known().tolist() == [False, False, True, True]
    assert trace.is_event().tolist() == [False, True, True, False]
    assert rows["departure_s"].dropna().tolist() == [1_539_300, 600]
    assert rows[["cpu_cores", "mem_gib"]].values.tolist() == [[1, 1.75], [2, 3.5], [8, 56], [32, 128]]
    assert rows["vm_category"].tolist() == ["Delay-insensitive", "Interactive", "Unknown", "Unknown"]
    assert rows["mean_cpu"].isna().tolist() == [False, False, False, True]
    assert trace.roles.columns() == ("subscription", "deployment")
    assert dict(report.repaired) == {"category spelt Unkown": 1, "cores >24: 32 taken": 1, "mem_gib >64: 128 taken": 1}


def test_the_category_has_a_role_on_request_only(tmp_path: Path) -> None:
    trace, _ = read_trace("azure-vm", vm_table(tmp_path / "v.csv"), category_as_feature=True)
    assert trace.roles.categories == ("vm_category",)
    assert trace.meta["known_at_end"] == ["max_cpu", "mean_cpu", "p95_max_cpu"]


@pytest.mark.parametrize(("old", "new", "rule"), [
    (",300,600,", ",300,200,", "departure before arrival"),
    (",300,600,", ",-300,600,", "time outside 0 .. 100 years"),
    (",300,600,", ",300,4e9,", "time outside 0 .. 100 years"),
    (",300,600,", ",300,,", "deleted_s not a number"),
    (",300,600,", ",nan,600,", "created_s not a number"),
    (",32.5,", ",x,", "mean_cpu not a number"),
    (",8,56", ",-8,56", "negative size"),
    (",8,56", ",nan,56", "cores neither a size nor >24"),
    (",8,56", ",>9,56", "cores neither a size nor >24"),
    (",8,56", ",8,1e300", "mem_gib neither a size nor >64"),
    ("v9,", ",", "vm missing"),
    ("v9,", "v3,", "duplicate vm"),
    (",8,56", ",8", "not 11 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, old: str, new: str, rule: str) -> None:
    row = GOOD.replace("v3,", "v9,").replace(old, new, 1)
    trace, report = read_trace("azure-vm", vm_table(tmp_path / "v.csv", GOOD, row))
    assert dict(report.refused) == {rule: 1} and len(trace) == 1
    assert report.rejected[["line", "raw"]].values.tolist() == [[2, row]]


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold vmtable\.csv or"):
        read_trace("azure-vm", tmp_path)
    with pytest.raises(ValueError, match=r"v\.csv: line 1 must .*, got 2"):
        read_trace("azure-vm", vm_table(tmp_path / "v.csv", "a,b"))
    with pytest.raises(ValueError, match="one VM deleted after time 0, got none"):
        read_trace("azure-vm", vm_table(tmp_path / "v.csv", GOOD.replace(",300,600,", ",0,0,")))


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    sample = "\n".join([*VM_ROWS, ""]).encode()
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    check_read_or_refused("azure-vm", path)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("azure-vm", DATA)
    assert (report.n_read, report.n_kept, trace.horizon_s) == (10, 10, 2_591_700)
    # Seven rows are created at 0, of which five are deleted at 2,591,700; one later VM is too.
    assert (~trace.is_start_known()).sum() == 7 and (~trace.is_event()).sum() == 6
