"""The alibaba-2018 reader: what a task's row means, which ends are ends, and both layouts of the table."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings

from made_files import BATCH_TASKS, batch_task_file
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data"
GOOD = BATCH_TASKS[0]
HEADER = "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem"
HEADER_2017 = "task_create_time, task_end_time, job_id, task_id, instances, status, cpus, memory"
ROWS_2017 = ("-90,-60,1,1,2,Terminated,50,0.004", "-60,20,1,2,3,Terminated,50,0.004", "10,0,2,3,1,Running,40,0.003",
             "15,60,2,4,1,Failed,40,0.003", "15,25,2,5,1,Waiting,,", "90,0,3,6,1,Running,40,0.003")


def test_rows(tmp_path: Path) -> None:
    batch_task_file(tmp_path / "batch_task.csv")
    trace, report = read_trace("alibaba-2018", tmp_path)
    rows = trace.requests
    assert trace.horizon_s == 400
    # Sorted by arrival; rows of the same second stay in file order.
    assert rows["request_id"].tolist() == ["j_1/M1", "j_2/J3_1_2", "j_3/M1", "j_1/R2_1", "j_2/task_x="]
    assert rows["departure_s"].isna().tolist() == [False, False, False, True, False]
    # plan_cpu 50 = half a core for each of the four instances; a missing plan is 0.
    assert rows["cpu_cores"].tolist() == [0.5, 0.0, 0.5, 1.0, 2.0]
    assert rows["n_instances"].tolist() == [4, 139, 1, 2, 1]
    assert rows["is_cut"].tolist() == [False, True, False, False, True]
    assert trace.roles.columns() == ("task_name", "job_name", "task_type", "n_instances")
    assert trace.meta["known_at_end"] == ["status", "is_cut"]
    assert dict(report.repaired) == {
        "plan_cpu or plan_mem missing: 0 taken": 1,
        "no end, or one before the start, of a running task: censored": 1}


def test_options(tmp_path: Path) -> None:
    path = batch_task_file(tmp_path / "tasks.csv")
    rows = read_trace("alibaba-2018", path, size="task", censor_cut=False)[0].requests
    assert rows["cpu_cores"].tolist() == [2.0, 0.0, 0.5, 2.0, 2.0]
    assert rows["mem_gib"].tolist() == [0.8, 0.0, 0.2, 0.6, 0.5]
    assert "is_cut" not in rows
    with pytest.raises(ValueError, match="size must be instance or task, got 'job'"):
        read_trace("alibaba-2018", path, size="job")


def test_a_header_is_no_row_and_the_older_layout_is_told_by_its_columns(tmp_path: Path) -> None:
    report = read_trace("alibaba-2018", batch_task_file(tmp_path / "a.csv", HEADER, *BATCH_TASKS))[1]
    assert (report.n_read, report.n_refused) == (5, 0)
    trace, report = read_trace("alibaba-2018", batch_task_file(tmp_path / "b.csv", HEADER_2017, *ROWS_2017))
    assert trace.requests["request_id"].tolist() == ["1/2", "2/3", "2/4", "3/6"]
    assert trace.requests["arrival_s"].tolist() == [-60, 10, 15, 90] and trace.horizon_s == 90
    assert trace.is_event().tolist() == [True, False, True, False]
    assert trace.roles.columns() == ("job_name", "n_instances")
    assert dict(report.refused) == {"never ran (Waiting or Ready)": 1, "departure before the trace": 1}


@pytest.mark.parametrize(("old", "new", "rule"), [
    ("Terminated", "Waiting", "never ran (Waiting or Ready)"),
    ("Terminated", "Done", "status unknown"),
    (",100,160,", ",0,160,", "start missing (0)"),
    (",100,160,", ",,160,", "start not a number"),
    (",100,160,", ",100,nan,", "end not a number"),
    (",100,160,", ",100,60,", "departure before arrival"),
    (",100,160,", ",100,0,", "departure before arrival"),
    (",100,160,", ",-9,-5,", "departure before the trace"),
    (",100,160,", ",100,160.5,", "time not a whole number within 100 years"),
    (",100,160,", ",100,4e9,", "time not a whole number within 100 years"),
    ("M9,4,", "M9,,", "n_instances not a number"),
    ("M9,4,", "M9,0,", "n_instances not a whole number >= 1"),
    ("M9,4,", "M9,1.5,", "n_instances not a whole number >= 1"),
    (",50,0.2", ",-50,0.2", "negative size"),
    (",50,0.2", ",50,1e10", "size above 1e+09"),
    (",50,0.2", ",x,0.2", "plan_cpu not a number"),
    ("M9,", ",", "name missing"),
    ("M9,", "M1,", "duplicate task"),
    (",0.2", "", "not 9 columns"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, old: str, new: str, rule: str) -> None:
    row = GOOD.replace("M1,", "M9,").replace(old, new, 1)
    trace, report = read_trace("alibaba-2018", batch_task_file(tmp_path / "t.csv", GOOD, row))
    assert dict(report.refused) == {rule: 1} and len(trace) == 1
    assert report.rejected[["line", "raw"]].values.tolist() == [[2, row]]


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold batch_task\.csv or"):
        read_trace("alibaba-2018", tmp_path)
    with pytest.raises(ValueError, match=r"t\.csv: line 1 must .*, got 2 in 'a,b'"):
        read_trace("alibaba-2018", batch_task_file(tmp_path / "t.csv", "a,b"))
    with pytest.raises(ValueError, match="got an empty file"):
        read_trace("alibaba-2018", batch_task_file(tmp_path / "t.csv", ""))
    with pytest.raises(ValueError, match="one task after time 0, got none"):
        read_trace("alibaba-2018", batch_task_file(tmp_path / "t.csv", GOOD.replace("Terminated", "Waiting")))


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    sample = "\n".join([*BATCH_TASKS, ""]).encode()
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    check_read_or_refused("alibaba-2018", path)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("alibaba-2018", DATA / "alibaba-2018" / "alibaba2018_batch_task_sample.csv.gz")
    assert (report.n_read, report.n_kept, trace.horizon_s) == (50_000, 49_915, 691_915)
    # 390 Running: 150 without an end; the other 240 and 296 Failed are cut.
    assert (~trace.is_event()).sum() == 150 and trace.requests["is_cut"].sum() == 240 + 296
    assert trace.requests["job_name"].nunique() == 14_407
    trace, report = read_trace("alibaba-2018", DATA / "alibaba-2017")
    assert (report.n_read, report.n_kept, trace.horizon_s) == (80_553, 71_588, 61_668)
    assert dict(report.refused) == {"never ran (Waiting or Ready)": 8847, "departure before arrival": 1,
                                    "departure before the trace": 117}
    assert (~trace.is_event()).sum() == 208
