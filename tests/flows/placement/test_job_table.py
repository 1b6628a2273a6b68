"""Tables of jobs: what is read, and that errors name the job and the value."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutations import EDITS, Edits, mutated, mutated_tables
from sojourn.flows import plan as planning
from sojourn.flows.plan import read_jobs
from sojourn.simulator.planning import PlanSettings, planner, rest_of_day

HEAD = "name,requested_start_s,flexibility_s,deadline_s,durations_s,cpu_cores,parents\n"


def table(folder: Path, *rows: str, head: str = HEAD) -> Path:
    path = folder / "jobs.csv"
    path.write_text(head + "\n".join(rows) + "\n")
    return path


def test_a_csv_table(tmp_path: Path) -> None:
    read = read_jobs(table(tmp_path, "a,0,60,600,90;130,2;4,", "b,100,3600,9000,30.5,1,a"))
    a, b = read.instance.jobs
    assert (a.durations.tolist(), a.usage[:, 0].tolist(), a.parents) == ([90, 130], [2.0, 4.0], ())
    assert (b.requested_start, b.flexibility, b.deadline, b.durations.tolist(), b.parents) == (
        100, 3600, 9000, [31], ("a",))
    assert read.started_s is None


def test_steps_round_starts_and_durations_up_and_ends_down(tmp_path: Path) -> None:
    # step 60: q 100 -> 2, q + f = 220 -> 3, u 650 -> 10, durations 61 -> 2, 120 -> 2
    job = read_jobs(table(tmp_path, "a,100,120,650,61;120,2;4,"), step_s=60).instance.jobs[0]
    assert (job.requested_start, job.flexibility, job.deadline, job.durations.tolist()) == (2, 1, 10, [2, 2])


def test_a_parquet_table_with_lists_and_two_resources(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    pd.DataFrame({"name": ["a", "b"], "requested_start_s": [0, 5], "flexibility_s": [9, 9], "deadline_s": [99, 99],
                  "durations_s": [[5, 6], [7]], "cpu_cores": [[1.0, 2.0], [3.0]], "mem_gib": [[8.0, 9.0], [4.0]],
                  "parents": [[], ["a"]], "started_s": [3.0, np.nan], "ended_s": [8.5, None]}).to_parquet(path)
    read = read_jobs(path, resources=("cpu_cores", "mem_gib"))
    assert read.instance.jobs[0].usage.tolist() == [[1.0, 8.0], [2.0, 9.0]]
    assert read.instance.jobs[1].parents == ("a",)
    state = read.state_at(20)
    assert (state.now, str(state.started.tolist()), str(state.ended.tolist())) == (20, "[3.0, nan]", "[9.0, nan]")
    early = read.state_at(5)
    assert np.isnan(early.ended).all()  # what is later than now is not read


@pytest.mark.parametrize(("row", "message"), [
    ("a,x,60,600,90,2,", "requested_start_s of job 'a' must be a finite number, got 'x'"),
    ("a,-5,60,600,90,2,", "requested_start_s of job 'a' must be from 0 to 1e12 seconds, got '-5'"),
    ("a,0,,600,90,2,", "flexibility_s of job 'a' must be a finite number, got ''"),
    ("a,0,60,600,,,", "history of job 'a' must have at least one run"),
    ("a,0,60,600,90;80,2,", "history of job 'a' must have as many durations as usages, got 2 in durations_s and 1 in"),
    ("a,0,60,600,90;0,2;2,", "durations_s of job 'a' must be finite and above 0, got 0"),
    ("a,0,60,600,90;x,2;2,", "durations_s of job 'a' must be a list of numbers"),
    ("a,0,60,600,90,-2,", "cpu_cores of job 'a' must be finite and from 0 to 1e9, got '-2'"),
    ("a,0,60,80,90,2,", "deadline of job 'a' must not lie before its earliest end 90, got 80"),
    ("a,0,60,600,90,2,b", "parents of job 'a' must be jobs of the instance, got 'b'"),
    (",0,60,600,90,2,", "name of a job must be a text that is not empty, got ''"),
])
def test_bad_rows_are_refused_by_name(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_jobs(table(tmp_path, row))


def test_bad_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"jobs must .*, got no such file: "):
        read_jobs(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"must have the columns name, .*, got none named 'deadline_s'"):
        read_jobs(table(tmp_path, "a,0,60,90,2", head="name,requested_start_s,flexibility_s,durations_s,cpu_cores\n"))
    odd = tmp_path / "jobs.txt"
    odd.write_text("x")
    with pytest.raises(ValueError, match=r"must be a file that ends in .csv, .csv.gz or .parquet, got 'jobs.txt'"):
        read_jobs(odd)
    broken = tmp_path / "jobs.parquet"
    broken.write_text("x")
    with pytest.raises(ValueError, match=r"jobs\.parquet must be a Parquet file"):
        read_jobs(broken)
    for content in (b"", b"\xff\xfe\x00", b'name,"a\n1'):
        (tmp_path / "odd.csv").write_bytes(content)
        with pytest.raises(ValueError, match=r"odd\.csv(, line \d+: must be| must begin with|: line 1 must be UTF-8)"):
            read_jobs(tmp_path / "odd.csv")
    with pytest.raises(FileNotFoundError, match="got a folder"):
        read_jobs(tmp_path)
    with pytest.raises(ValueError, match="step_s must be finite and above 0, got 0"):
        read_jobs(table(tmp_path, "a,0,60,600,90,2,"), step_s=0)
    with pytest.raises(ValueError, match="replan_at must come with a column started_s"):
        read_jobs(table(tmp_path, "a,0,60,600,90,2,")).state_at(5)


HEAD_AGAIN = HEAD.strip() + ",started_s\n"


@pytest.mark.parametrize(("row", "message"), [
    ("a,0,60,600,90,2,,1e300", "started_s of job 'a' must be from "),
    ("a,0,60,600,90,2,,True", "started_s of job 'a' must be a finite number, got 'True'"),
    ("a,0,60,600,90,1e300,,", r"cpu_cores of job 'a' must be finite and from 0 to 1e9, got '1e300'"),
    ("a,0,60,600,90,True,,", "cpu_cores of job 'a' must be a list of numbers, got 'True'"),
    ("a,True,60,600,90,2,,", "requested_start_s of job 'a' must be a finite number, got 'True'"),
    ("a,0,60,600,90,2,,,", "must have 8 cells as the header, got 9"),
    ("a,0,60,600," + "9" * 200_000 + ",2,,", r"must be CSV, got: field larger than field limit \(131072\)"),
])
def test_a_bad_cell_is_named_by_row_and_column(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"^jobs\.csv, line 3: {message}") as told:
        read_jobs(table(tmp_path, "b,0,60,600,90,2,,", row, head=HEAD_AGAIN))
    assert "\n" not in str(told.value) and len(str(told.value)) < 300


def test_a_nul_is_named_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"jobs\.csv: line 3 must be text, got a NUL$"):
        read_jobs(table(tmp_path, "b,0,60,600,90,2,,", "a\0b,0,60,600,90,2,,", head=HEAD_AGAIN))


def test_names_and_empty_cells_are_what_they_say(tmp_path: Path) -> None:
    read = read_jobs(table(tmp_path, "NA,0,60,600,90,2,,", "007,0,90,600,90,2,NA,", head=HEAD_AGAIN))
    assert [(job.name, job.parents) for job in read.instance.jobs] == [("NA", ()), ("007", ("NA",))]
    with pytest.raises(ValueError, match=r"jobs\.csv must hold at least one job, got none"):
        read_jobs(table(tmp_path, head=HEAD_AGAIN))


def test_a_cell_that_inflates_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(HEAD.encode() + b"a,0,60,600,") + 600 * gzip.compress(b"9;" * 524_288))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"jobs\.csv\.gz: must .*, got more"):
            read_jobs(path)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("now_s", [-5.0, float("nan"), float("inf"), 1e9])
def test_replanning_is_within_the_day(tmp_path: Path, now_s: float) -> None:
    jobs = read_jobs(table(tmp_path, "a,0,60,600,90,2,,10", head=HEAD.strip() + ",started_s\n"))
    with pytest.raises(ValueError, match=r"replan_at must lie within the day, 0 to 600 s \(the last deadline\), got"):
        jobs.state_at(now_s)
    assert jobs.state_at(600.0).started.tolist() == [10]


def test_a_job_that_runs_since_before_the_day_has_a_start_below_0(tmp_path: Path) -> None:
    # asked for yesterday, ends at 500: its deadline of 600 is met, though 4,000 s from 0 on would not meet it
    read = read_jobs(table(tmp_path, "a,0,0,600,4000,2,,-3500", "b,0,60,600,90,2,,", head=HEAD_AGAIN))
    assert read.state_at(0).started[0] == -3_500
    with pytest.raises(ValueError, match=r"^replan_at must .*, got none and job 'a'$"):
        read.check_begin()
    read_jobs(table(tmp_path, "b,0,60,600,90,2,,", head=HEAD_AGAIN)).check_begin()


def test_a_start_is_read_once_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, str]] = []
    whole = planning._number

    def counted(name: str, title: str, value: object, least: float) -> float:
        read.append((name, title))
        return whole(name, title, value, least)

    monkeypatch.setattr(planning, "_number", counted)
    read_jobs(table(tmp_path, "a,0,0,600,4000,2,,-3500", "b,0,60,600,90,2,,5", head=HEAD_AGAIN))
    assert [name for name, title in read if title == "started_s"] == ["a", "b"]


def test_planned_starts_are_read_in_steps(tmp_path: Path) -> None:
    head = HEAD.strip() + ",planned_start_s\n"
    read = read_jobs(table(tmp_path, "a,0,600,900,90,2,,120", "b,0,600,900,90,2,,", head=head), step_s=60)
    assert [job.planned_start for job in read.instance.jobs] == [2, None]
    with pytest.raises(ValueError, match=r"jobs\.csv, line 2: planned_start_s of job 'a' must be from 0 to 1e12"):
        read_jobs(table(tmp_path, "a,0,600,900,90,2,,-1", head=head))


ROWS = ["NA,0,7200,86400,600;720;690,2;3;2,8;8;9,,0,-50,",
        "b,600,7200,86400,900;800,4;4,1;2,NA,700,,", "c,9,9,99,5,1,1,,,9,20"]


@pytest.mark.slow
def test_every_cell_and_column_of_a_table_mutated(tmp_path: Path) -> None:
    """Each is planned again from or refused in one line that names the file, or the job where the day cannot be."""
    head = "name,requested_start_s,flexibility_s,deadline_s,durations_s,cpu_cores,mem_gib,parents,planned_start_s," \
           "started_s,ended_s"
    path = tmp_path / "jobs.csv"
    n_refused = n_all = 0
    for what, text in mutated_tables(head, *ROWS):
        path.write_text(text)
        n_all += 1
        try:
            read = read_jobs(path, resources=("cpu_cores", "mem_gib"), capacity=(1e9, 1e9))
            rest = rest_of_day(read.instance, read.state_at(60))
            assert planner("none").plan(rest.instance, PlanSettings(n_samples=2)).starts.min() >= 0
        except ValueError as error:
            n_refused += 1
            assert "\n" not in str(error) and len(str(error)) < 500, what
            assert any(words in str(error) for words in ("jobs.csv", "job '", "replan_at must", "step_s must")), what
        except Exception as error:
            error.add_note(what)
            raise
    assert 0.2 * n_all < n_refused < n_all


@settings(max_examples=60, deadline=None)
@given(edits=EDITS, is_gzip=st.booleans())
def test_mutated_tables_are_read_or_refused(tmp_path: Path, edits: Edits, is_gzip: bool) -> None:
    whole = "\n".join([HEAD.strip() + ",started_s", "a,0,60,600,90;130,2;4,,-5", "b,100,3600,9000,30.5,1,a,"]).encode()
    path = tmp_path / ("jobs.csv.gz" if is_gzip else "jobs.csv")
    path.write_bytes(mutated(gzip.compress(whole, mtime=0) if is_gzip else whole, edits))
    try:
        read = read_jobs(path)
    except ValueError as error:
        assert len(str(error)) < 1_000 and ("jobs.csv" in str(error) or "job" in str(error))
    else:
        assert len(read.instance) > 0
