"""Runs of admission: the same rows in any number of processes, paired draws, what a summary says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from sojourn.flows.admission import runs as admission_runs
from sojourn.flows.admission.admit import ratios_figure
from sojourn.flows.admission.runs import (
    Entry,
    Setting,
    SubmittedJobs,
    Task,
    admission_section,
    jobs_with_deadlines,
    run_tasks,
    summary_of,
)
from sojourn.simulator.admission import AdmissionJobs, CoreEnds, Decisions, PowerProfile, admit, performance_ratio


@dataclass(frozen=True, slots=True)
class Halved(Entry):
    """Greedy on half of the cores, which is surely worse."""

    acceptance: ClassVar[str] = "halved"

    def decisions(self, jobs: AdmissionJobs, n_cores: int, setting: Setting) -> Decisions:
        return admit(jobs, n_cores // 2, self.allocation, with_cores=False)


ENTRIES = (Entry("best-fit"), Halved("best-fit"), Entry("best-fit", True))


def _jobs(seed: int, n: int = 120) -> SubmittedJobs:
    rng = np.random.default_rng(seed)
    submission = np.sort(rng.integers(0, 40_000, n))
    return SubmittedJobs(np.array([f"j{k}" for k in range(n)]), submission, rng.integers(60, 9_000, n),
                         np.ones(n, np.int64), np.full(n, np.nan), np.arange(n))


def _tasks(n_draws: int = 2, slacks: tuple[float, ...] = (0.3, 0.9)) -> list[Task]:
    return [Task("t", day, _jobs(day), Setting(slack, n_cores=8), n_draws) for slack in slacks for day in (0, 1, 2)]


def _progress(done: int, total: int) -> None:
    assert 0 <= done <= total


def test_rows_are_those_of_single_runs_and_sequential_jobs_gain_nothing_from_backfilling() -> None:
    runs = run_tasks(_tasks(), ENTRIES, 5, 1, _progress)
    assert len(runs) == 6 * 2 * 3
    jobs = jobs_with_deadlines(_jobs(1), Setting(0.9, n_cores=8), 5, 1, 1)
    own = runs[(runs["day"] == 1) & (runs["draw"] == 1) & (runs["slack"] == 0.9)].set_index("label")["ratio"]
    assert own["greedy best-fit"] == performance_ratio(jobs, CoreEnds(8, "best-fit").offer(jobs), 8)
    assert own["greedy best-fit backfill"] == own["greedy best-fit"] < own["halved best-fit"]


@pytest.mark.slow
def test_processes_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = ENTRIES[::2]
    alone = run_tasks(_tasks(1, (0.5,)), entries, 0, 1, _progress)
    monkeypatch.setattr(admission_runs, "WORTH_PROCESSES", 0)
    shared = run_tasks(_tasks(1, (0.5,)), entries, 0, 2, _progress)
    assert shared.drop(columns="took_s").equals(alone.drop(columns="took_s"))


def test_slacks_of_a_draw_are_scaled_so_that_settings_are_paired() -> None:
    jobs = _jobs(0)
    waits = [jobs_with_deadlines(jobs, Setting(slack, sigma=0.3), 0, 0, 0).deadline_s - jobs.submission_s
             - jobs.processing_s for slack in (0.4, 0.8)]
    assert np.abs(waits[1] - 2 * waits[0]).max() <= 2


def test_a_summary_pairs_days_and_says_what_is_better() -> None:
    runs = run_tasks(_tasks(), ENTRIES, 0, 1, _progress)
    summary = summary_of(runs)
    means = runs.groupby(["slack", "label", "day"])["ratio"].mean()
    by_day = (means[0.3, "halved best-fit"] - means[0.3, "greedy best-fit"]).to_numpy()
    row = summary[(summary["slack"] == 0.3) & (summary["label"] == "halved best-fit")].iloc[0]
    assert row["difference"] == pytest.approx(by_day.mean())
    assert row["high"] - row["low"] == pytest.approx(2 * 4.302653 * by_day.std(ddof=1) / np.sqrt(3))
    section = admission_section(summary, "Admission", "three days")
    assert [cells[5] for cells in section.rows[:3]] == ["baseline", "worse", "level"]
    assert section.rows[0][-1] != "-" and section.rows[1][-1] == "-"
    assert len(ratios_figure(summary, "three days").axes[0].containers) > 3


def test_one_day_has_no_interval_and_power_no_theorem() -> None:
    power = PowerProfile(np.array([0, 20_000]), np.array([6, 2]), 200_000)
    task = Task("t", 0, _jobs(0), Setting(0.5, power=power), 1)
    runs = run_tasks([task], ENTRIES[::2], 0, 1, _progress)
    assert runs["bound"].isna().all() and (runs["n_cores"] == 6).all()
    section = admission_section(summary_of(runs), "Admission", "one day")
    assert [cells[4:6] for cells in section.rows] == [("-", "baseline"), ("-", "-")]
    assert isinstance(runs, pd.DataFrame)
