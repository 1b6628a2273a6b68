"""Jobs of a queue from a trace: what is left out, changed, refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.features.readers import read_trace
from sojourn.features.trace import Trace
from sojourn.simulator.queueing import (
    QueueJobs,
    QueueRules,
    QueueSetting,
    parse_queue,
    queue_jobs,
    replay_queue,
    requested,
)


def log_of(folder: Path, rows: Sequence[tuple[int, ...]], max_procs: str = "8") -> Trace:
    """rows: job, submit, wait, run, allocated, requested processors, requested time, user."""
    lines = [f"; MaxProcs: {max_procs}"] if max_procs else []
    for job, submit, wait, run, procs, asked, limit, user in rows:
        lines.append(f"{job} {submit} {wait} {run} {procs} -1 -1 {asked} {limit} -1 1 {user} 1 -1 1 -1 -1 -1")
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return read_trace("swf", path)[0]


ROWS = [
    (1, 100, 5, 60, 4, 6, 90, 7),  # 4 allocated
    (2, 100, 0, 60, -1, 2, 90, 8),  # 2 requested
    (3, 110, 0, 0, 2, 2, 90, 7),  # ran for 0 s
    (4, 120, 0, 10, 16, 16, 90, 7),  # wider than the machine
    (5, 130, 0, 50, 1, 1, -1, 7),  # no limit: the longest of the log
    (6, 140, 0, 130, 1, 1, 90, 7),  # 40 s more than its limit
    (7, 150, 0, 300, 1, 1, 200, 8),  # 100 s more
]


def test_each_rule_of_cleaning_is_counted(tmp_path: Path) -> None:
    jobs = queue_jobs(log_of(tmp_path, ROWS))
    assert jobs.request_ids.tolist() == [1, 2, 5, 6, 7]
    assert jobs.submission_s.tolist() == [0, 0, 30, 40, 50]
    assert jobs.size.tolist() == [4, 2, 1, 1, 1]
    assert jobs.run_s.tolist() == [60, 60, 50, 130, 200]
    assert jobs.limit_s.tolist() == [90, 90, 200, 130, 200]
    assert np.asarray(jobs.owner).tolist() == [0, 1, 0, 0, 1]
    assert dict(jobs.counts) == {"start or end not known": 0, "ran for 0 s": 1, "wider than the machine": 1,
                                 "wider than its queue": 0, "limit missing": 1, "limit raised to the run": 1,
                                 "cut at the limit": 1}


def test_no_job_without_a_limit_is_told_by_how_long_it_runs(tmp_path: Path) -> None:
    """A run longer than the log's longest limit is no limit of its own: all without one have the same."""
    rows = [(1, 100, 0, 60, 1, 1, 90, 7), (2, 110, 0, 500, 1, 1, -1, 7), (3, 120, 0, 700, 1, 1, -1, 7),
            (4, 130, 0, 20, 1, 1, -1, 7)]
    jobs = queue_jobs(log_of(tmp_path, rows))
    assert jobs.limit_s.tolist() == [90, 700, 700, 700] and jobs.run_s.tolist() == [60, 500, 700, 20]


def test_no_processors_in_a_header_are_not_said(tmp_path: Path) -> None:
    trace = log_of(tmp_path, ROWS, "0")
    with pytest.raises(ValueError, match="must be given if the log has no MaxProcs, got '0' in its header"):
        queue_jobs(trace)


def test_raised_limits_cut_no_job(tmp_path: Path) -> None:
    jobs = queue_jobs(log_of(tmp_path, ROWS), limits="raised")
    assert jobs.run_s.tolist() == [60, 60, 50, 130, 300]
    assert jobs.limit_s.tolist() == [90, 90, 50, 130, 300]
    assert jobs.counts["cut at the limit"] == 0


def test_jobs_submitted_together_stay_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    rows = [(2, 0, 0, 9, 1, 1, 9, 1), (1, 0, 50, 9, 1, 1, 9, 2), (3, 0, 20, 9, 1, 1, 9, 1)]
    assert queue_jobs(log_of(tmp_path, rows)).request_ids.tolist() == [1, 2, 3]


def test_a_log_without_a_machine_needs_one(tmp_path: Path) -> None:
    trace = log_of(tmp_path, ROWS, "")
    with pytest.raises(ValueError, match="n_processors must be given if the log has no MaxProcs"):
        queue_jobs(trace)
    assert queue_jobs(trace, n_processors=16).size.max() == 16
    with pytest.raises(ValueError, match="limits must be one of kept, raised, got 'cut'"):
        queue_jobs(trace, n_processors=16, limits="cut")


@pytest.mark.parametrize(("column", "value", "message"), [
    (0, -1, r"submission_s must be a whole number of at least 0 and below 2\*\*40, got -1.0 \(job b\)"),
    (0, 3, r"submission_s must be at least that of the job before, got 3 \(job b\)"),
    (1, 0, r"run_s must be a whole number of at least 1 .*, got 0.0 \(job b\)"),
    (1, float("nan"), r"run_s must be a whole number .*, got nan \(job b\)"),
    (2, 4, r"limit_s must be at least run_s, got 4 \(job b\)"),
    (3, 9, r"size must be at most the machine's 8 processors, got 9 \(job b\)"),
])
def test_a_bad_job_is_named_with_its_rule(column: int, value: float, message: str) -> None:
    columns = np.array([[5.0, 5.0], [5.0, 5.0], [9.0, 9.0], [1.0, 1.0]])
    columns[column, 1] = value
    with pytest.raises(ValueError, match=message):
        QueueJobs(columns[0], columns[1], columns[2], columns[3], 8, request_ids=pd.Index(["a", "b"]))


def test_no_jobs_are_a_queue_too() -> None:
    none = np.zeros(0, np.int64)
    jobs = QueueJobs(none, none, none, none, 4)
    assert replay_queue(jobs, QueueRules(), requested(jobs)).start_s.tolist() == []


def test_queues_of_a_log_have_priorities_and_limits(tmp_path: Path) -> None:
    trace = log_of(tmp_path, ROWS)
    trace.requests["partition"] = pd.Categorical(["fast"] * 2 + ["slow"] * (len(trace.requests) - 2))
    jobs = queue_jobs(trace, queues={"fast": QueueSetting(3, 2), "slow": QueueSetting(1)})
    in_fast = jobs.request_ids.isin([1, 2])
    assert np.asarray(jobs.priority).tolist() == np.where(in_fast, 3, 1).tolist()
    assert jobs.queue_processors[1] == 2 and jobs.counts["wider than its queue"] == 1
    assert (jobs.size[in_fast] <= 2).all() and (~in_fast).any() and in_fast.any()
    assert queue_jobs(trace, queues={"fast": QueueSetting(3)}).queue_processors == (), "no limit"
    taken = jobs.take(in_fast)
    assert np.asarray(taken.priority).tolist() == [3] * len(taken)
    with pytest.raises(ValueError, match=r"queues must be of the trace \(fast, slow\), got 'fats'"):
        queue_jobs(trace, queues={"fats": QueueSetting(1)})


@pytest.mark.parametrize("text", ["fast", "fast:", ":3", "fast:-1", "fast:1:0", "fast:1.5", "fast:1:2x", ""])
def test_a_bad_queue_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"queue must be NAME:PRIORITY or NAME:PRIORITY:PROCESSORS, got '{text}'"):
        parse_queue(text)


@pytest.mark.parametrize(("setting", "message"), [
    ({"queue": np.array([0, 2]), "queue_processors": (4, 2)}, r"queue must be a place in queue_proces.*got 2 \(job 1"),
    ({"queue": np.array([0, 1]), "queue_processors": (4, 2)}, r"size must be at most the processors of its.*, got 3"),
    ({"queue_processors": (0,)}, "queue_processors must be"),
    ({"priority": np.array([0, -1])}, r"priority must be a whole number of at least 0 .*got -1 \(job 1\)"),
])
def test_bad_queues_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QueueJobs(np.array([0, 1]), np.array([5, 5]), np.array([5, 5]), np.array([1, 3]), 4, **setting)
