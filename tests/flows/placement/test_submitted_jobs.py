"""Jobs of a trace by day: submission, cores, what is left out; tasks of Google's trace as rigid jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from made_jobs import swf_log
from sojourn.features import Trace
from sojourn.features.readers import read_trace
from sojourn.flows.admission.runs import DAY_S, busiest_days, jobs_by_day, submitted_jobs

GOOGLE = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "google-2011"


def test_jobs_of_a_log_are_submitted_before_they_start(tmp_path: Path) -> None:
    trace, _ = read_trace("swf", swf_log(tmp_path / "log.swf", 50, widest=3))
    jobs = submitted_jobs(trace)
    assert (np.diff(jobs.submission_s) >= 0).all()
    assert jobs.submission_s[0] == 0
    assert (trace.requests["arrival_s"].to_numpy()[jobs.row] == trace.begin_s + jobs.submission_s + 10).all()
    assert (jobs.estimate_s == 2 * jobs.processing_s).all()
    assert jobs.load_s == int((jobs.processing_s * jobs.cores).sum())


def test_days_begin_at_0_and_leave_out_what_is_short_long_or_wide(tmp_path: Path) -> None:
    trace, _ = read_trace("swf", swf_log(tmp_path / "log.swf", 400, days=3, widest=6))
    jobs = submitted_jobs(trace)
    days = jobs_by_day(jobs, 4, longest_s=8_000)
    assert list(days) == [0, 1, 2]
    for day, own in days.items():
        assert own.submission_s.min() >= 0 and own.submission_s.max() < DAY_S
        assert own.cores.max() == 4 and own.processing_s.min() >= 60 and own.processing_s.max() <= 8_000
        assert (jobs.submission_s[np.isin(jobs.names, own.names)] // DAY_S == day).all()
    is_kept = (jobs.processing_s >= 60) & (jobs.processing_s <= 8_000) & (jobs.cores <= 4)
    assert sum(map(len, days.values())) == is_kept.sum()
    assert len(busiest_days(days, 2)) == 2


def test_requests_without_a_submission_arrive_and_cores_are_rounded_up() -> None:
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": [5, 0, None], "departure_s": [90, None, 80],
                          "cpu_cores": [0.25, 1.0, 2.5], "mem_gib": [1.0] * 3})
    jobs = submitted_jobs(Trace(table, horizon_s=100))
    assert (jobs.names.tolist(), jobs.submission_s.tolist(), jobs.cores.tolist()) == (["a"], [5], [1])
    assert jobs.filled_cores() == 1 and np.isnan(jobs.estimate_s).all()


def test_tasks_of_a_google_job_are_one_rigid_job(tmp_path: Path) -> None:
    """Job 7 has two tasks, submitted at 610 and 612: task 0 runs for 30 s, is evicted, and for 50 s more; task 1 for
    70 s. Rigid: two cores for 80 s, submitted at 0, the first event. Job 8 has a task that does not end."""
    tail = "u,2,9,0.5,0.25,0.001,0"
    rows = [(610, 7, 0, "", 0), (612, 7, 1, "", 0), (612, 8, 0, "", 0), (620, 7, 0, 3, 1), (620, 7, 1, 3, 1),
            (620, 8, 0, 3, 1), (650, 7, 0, 3, 2), (655, 7, 0, "", 0), (660, 7, 0, 3, 1), (690, 7, 1, 3, 4),
            (710, 7, 0, 3, 4)]
    path = tmp_path / "task_events.csv"
    path.write_text("\n".join(f"{1_000_000 * time},,{job},{index},{machine},{event},{tail}"
                              for time, job, index, machine, event in rows) + "\n")
    trace, _ = read_trace("google-2011", path)
    jobs = submitted_jobs(trace)
    assert (jobs.names.tolist(), jobs.submission_s.tolist(), jobs.processing_s.tolist(), jobs.cores.tolist()) == (
        ["7"], [0], [80], [2])


@pytest.mark.slow
@pytest.mark.skipif(not GOOGLE.is_dir(), reason="needs the Google trace")
def test_the_google_trace_has_one_part_day_of_jobs_with_up_to_thousands_of_tasks() -> None:
    trace, _ = read_trace("google-2011", GOOGLE)
    days = jobs_by_day(submitted_jobs(trace))
    assert {day: len(jobs) for day, jobs in days.items()} == {0: 2_818}
    assert int(days[0].cores.max()) == 2_890
