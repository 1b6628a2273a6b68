"""A log beside a real Slurm: the scaled numbers, what a soft limit does in the replay, and what Slurm wrote."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.simulator.queueing import QueueJobs
from studies import real_slurm
from studies.real_slurm import (
    ARMS,
    RULES,
    Arm,
    ended,
    extended,
    minutes,
    replayed_arm,
    scaled,
    show,
    slowdown,
    stretches,
)

JOBS = QueueJobs(np.array([1_000, 1_099, 1_100]), np.array([10, 6_000, 5_951]), np.array([60, 6_000, 12_000]),
                 np.array([1, 2, 4]), 4, np.array([0, 1, 1]))


def test_times_are_divided_and_limits_are_the_next_whole_minute() -> None:
    small = scaled(JOBS)
    assert small.submission_s.tolist() == [0, 0, 1]
    assert small.run_s.tolist() == [1, 60, 60]  # at least 1 s; 5,951 / 100 is rounded
    assert small.limit_s.tolist() == [60, 120, 180]  # above the run: Slurm would kill a job that runs as long as it


def test_predictions_are_whole_minutes_up_to_the_limit() -> None:
    real_s = np.array([1.0, 6_000.0, 6_001.0, 90_000.0, np.nan])
    assert minutes(real_s, np.full(5, 240)).tolist() == [1, 1, 2, 4, 4]


def test_an_outlived_soft_limit_rises_by_itself_to_the_users_limit() -> None:
    curves = extended(np.array([60, 120]), np.array([180, 120]))
    assert [curves.total_at(0, uptime_s) for uptime_s in (0, 60, 120)] == [60, 120, 180]
    assert curves.total_at(1, 0) == 120


def starts_of(arm: Arm, table: pd.DataFrame, jobs: QueueJobs) -> list[int]:
    replayed = replayed_arm(arm, table, jobs)
    assert replayed is not None
    return [int(start_s) for start_s in replayed.start_s]


def test_an_arm_is_replayed_by_its_own_plan_and_order() -> None:
    """One processor; the second job waits for the first in each arm but the one that takes the shortest first."""
    table = pd.DataFrame({"limit_min": [9, 9, 9], "median_min": [2, 5, 1], "table_min": [2, 5, 1]})
    jobs = QueueJobs(np.array([0, 1, 2]), np.array([100, 280, 50]), np.full(3, 540), np.ones(3, int), 1)
    assert starts_of(ARMS["limits"], table, jobs) == [0, 100, 380]
    assert starts_of(ARMS["median"], table, jobs) == [0, 100, 380]
    assert starts_of(ARMS["limits, shortest first"], table, jobs) == [0, 100, 380]
    assert starts_of(ARMS["median, shortest first"], table, jobs) == [0, 150, 100]
    assert replayed_arm(ARMS["limits, shortest median first"], table, jobs) is None


def test_a_shorter_plan_lets_a_job_pass_that_delays_nobody() -> None:
    """Of 4 processors 2 are planned until 300 s, and a job of 4 waits for them; one of 2 and 180 s fits before that."""
    table = pd.DataFrame({"limit_min": [5, 5, 9], "median_min": [5, 5, 3], "table_min": [5, 5, 9]})
    jobs = QueueJobs(np.array([0, 1, 2]), np.array([290, 60, 100]), np.array([300, 300, 540]), np.array([2, 4, 2]), 4)
    assert starts_of(ARMS["table"], table, jobs) == [0, 290, 350]
    assert starts_of(ARMS["median"], table, jobs) == [0, 290, 2]
    assert RULES.backfilling == "depth:500"


def test_a_stretch_is_the_one_with_the_longest_waits_and_the_next_shares_no_job(
        monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("N_JOBS", 4), ("STEP", 2), ("LEAST_OWNERS", 2)):
        monkeypatch.setattr(real_slurm, name, value)
    submission_s = np.arange(12) * 20_000
    submission_s[6:10] = submission_s[6]  # at once, on a machine of one processor
    run_s = np.full(12, 10_000)
    jobs = QueueJobs(submission_s, run_s, run_s * 2, np.ones(12, int), 1, np.arange(12) % 2)
    assert stretches(jobs) == [6, 0]
    monkeypatch.setattr(real_slurm, "LONGEST_S", 399)  # the stretch at 6 ends 400 s after its begin
    assert 6 not in stretches(jobs)


def test_what_slurm_wrote_is_read_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.mktime((2026, 11, 28, 7, 0, 40, 0, 0, -1))
    line = ("JobId=3 UserId=root(0) Name=17 JobState={} Partition=main TimeLimit=2 StartTime=2026-11-28T07:00:47 "
            "EndTime=2026-11-28T07:00:49 Account= SubmitTime=2026-11-28T07:00:42 EligibleTime=2026-11-28T07:00:42 \n")
    (tmp_path / "ended.txt").write_text(line.format("COMPLETED") + line.replace("=17", "=18").replace("00:42", "00:44")
                                         .format("TIMEOUT"))
    found = ended(tmp_path / "ended.txt", begun)
    assert found.to_dict("list") == {"job": [17, 18], "state": ["COMPLETED", "TIMEOUT"], "limit_min": ["2", "2"],
                                     "submission_s": [2.0, 4.0], "start_s": [7.0, 7.0], "end_s": [9.0, 9.0]}
    found.to_csv(tmp_path / "limits.csv", index=False)
    pd.DataFrame({"job": [17, 18], "submission_s": [0, 0], "run_s": [2, 4], "size": 1, "owner": 0, "limit_min": 2,
                  "median_min": 1, "table_min": 1, "n_processors": 1}).to_csv(tmp_path / "jobs.csv", index=False)
    show(tmp_path)
    # waits of 5 and 3 s in Slurm, of 0 and 2 s in the replay; runs of 2 and 4 s: (7/2 + 7/4) / 2 and (1 + 6/4) / 2
    assert "| limits | 1 | 4.0 / 1.0 | 2.6 / 1.2 | 5 / 2 | 3, 5 | -1.000 |" in capsys.readouterr().out
    assert slowdown(np.array([5.0]), np.array([2])) == 3.5
