"""Predicted processing times and ends that are told, on small made jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from made_jobs import made_jobs, no_progress, swf_log
from sojourn.flows.admission.predicted import (
    ESTIMATE,
    NO_ESTIMATE,
    NOT_TOLD,
    TOLD,
    TRUE,
    plans_of,
    predicted_runs,
    predicted_section,
    predicted_summary,
    told_runs,
    told_section,
    told_summary,
)
from sojourn.flows.admission.runs import DAY_S, Setting, SubmittedJobs, jobs_by_day
from sojourn.flows.cli import app


def test_exact_plans_are_on_time_and_short_ones_late() -> None:
    days = jobs_by_day(made_jobs())
    plans = {day: plans_of(own, np.array([own.processing_s * 0.4, own.processing_s * 2.0]), (0.1, 0.9), "made")
             for day, own in days.items()}
    runs = predicted_runs(days, plans, [Setting(0.5)], 2, 0, "best-fit", no_progress)
    assert len(runs) == 2 * 3 * 2 * 6
    summary = predicted_summary(runs)
    own = summary[summary["basis"] == "run time"].set_index("label")
    late, load = own["late_jobs_pct"].to_dict(), own["accepted_load_pct"].to_dict()
    assert late["made p10 capped"] == late["made p10"]  # the estimate is at least the truth
    assert load["made p90 capped"] > load["made p90"]
    assert late[TRUE] == 0.0 < late["made p10"] and load["made p90"] < load[TRUE]
    assert own["gain_pp"].to_dict()[ESTIMATE] == 0.0
    assert (summary["on_time_pct"] + summary["late_load_pct"]).to_numpy() == pytest.approx(
        summary["accepted_load_pct"].to_numpy())
    rows = predicted_section(summary, "made").rows
    assert [row[6] for row in rows][::6] == ["baseline", "baseline"]


def test_a_job_without_an_estimate_is_planned_for_a_day() -> None:
    jobs = made_jobs(n=3)
    unknown = SubmittedJobs(jobs.names, jobs.submission_s, jobs.processing_s, jobs.cores, np.full(3, np.nan), jobs.row)
    assert plans_of(unknown, np.empty((0, 3)), (), "made")[ESTIMATE].tolist() == [DAY_S] * 3
    plans = plans_of(unknown, np.full((1, 3), 90.0), (0.5,), "made", is_estimated=False)
    assert list(plans) == [NO_ESTIMATE, TRUE, "made p50"]  # no user said a day, and nothing is capped by it


def _told(jobs: SubmittedJobs, slack: float = 0.5) -> pd.DataFrame:
    setting = Setting(slack, sigma=0.0, n_cores=1)
    runs = told_runs({0: jobs}, [setting], 1, 0, "best-fit", no_progress)
    return runs.set_index(["basis", "label"])


def test_an_end_that_is_told_makes_room_for_a_job_that_is_else_refused() -> None:
    """One core, slack 0.5 of the estimate. Job 0 takes 100 s and says 400; job 1 comes at 150, says 200 and
    must end by 150 + 200 + 100 = 450. Planned behind 400 it would end at 600; told of the end at 100, at 350."""
    jobs = SubmittedJobs(np.array(["a", "b"]), np.array([0, 150]), np.array([100, 150]), np.ones(2, np.int64),
                         np.array([400.0, 200.0]), np.arange(2))
    load = _told(jobs)["accepted_load_pct"].to_dict()
    assert load["estimate", NOT_TOLD] == 100 * 100 / 250
    assert load["estimate", TOLD] == load["estimate", TRUE] == 100.0


def test_a_told_end_starts_a_waiting_job_whose_own_end_is_told_in_turn() -> None:
    """Job 1 is planned 300 to 900 behind job 0, and may end at 900. Told of 0's end at 100, it runs 100 to 200; told
    of that, too, job 2, which comes at 250 and must end by 250 + 300 + 150 = 700, runs 250 to 550. Of the first end
    alone it would be planned 700 to 1,000."""
    jobs = SubmittedJobs(np.array(["a", "b", "c"]), np.array([0, 0, 250]), np.array([100, 100, 300]),
                         np.ones(3, np.int64), np.array([300.0, 600.0, 300.0]), np.arange(3))
    rows = _told(jobs)
    assert rows.loc[("estimate", NOT_TOLD), "accepted_jobs_pct"] == pytest.approx(100 * 2 / 3)
    assert rows.loc[("estimate", TOLD), "accepted_jobs_pct"] == 100.0


def test_estimates_that_are_true_or_too_short_leave_nothing_to_tell() -> None:
    jobs = made_jobs(n=60)
    for factor in (1.0, 0.5):
        own = SubmittedJobs(jobs.names, jobs.submission_s, jobs.processing_s, jobs.cores, jobs.processing_s * factor,
                            jobs.row)
        runs = told_runs({0: own}, [Setting(0.5)], 1, 0, "best-fit", no_progress)
        load = runs.set_index(["basis", "label"])["accepted_load_pct"].to_dict()
        for basis in ("run time", "estimate"):
            assert load[basis, TOLD] == load[basis, NOT_TOLD]
            assert factor < 1.0 or load[basis, TRUE] == load[basis, TOLD]


def test_what_told_ends_bring_is_paired_by_day() -> None:
    runs = told_runs(jobs_by_day(made_jobs()), [Setting(0.5)], 2, 0, "best-fit", no_progress)
    assert len(runs) == 3 * 2 * 2 * 3  # days, draws, bases, labels
    summary = told_summary(runs)
    own = runs[runs["basis"] == "estimate"].groupby(["label", "day"])["accepted_load_pct"].mean()
    gain = own[TOLD] - own[NOT_TOLD]
    row = summary[(summary["basis"] == "estimate") & (summary["label"] == TOLD)].iloc[0]
    assert row["gain_pp"] == pytest.approx(gain.mean()) and gain.mean() > 0
    assert row["high"] - row["low"] == pytest.approx(2 * 4.302653 * gain.std(ddof=1) / np.sqrt(3))
    assert [cells[6] for cells in told_section(summary, "made").rows][::3] == ["baseline", "baseline"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--predict", "km", "--quantile", "0.9"), ("--predict", "estimate")])
def test_the_command_writes_and_logs(tmp_path: Path, new_store: Callable[[Path], Path],
                                     options: tuple[str, ...]) -> None:
    log = swf_log(tmp_path / "jobs.swf", 800, days=6)
    result = CliRunner().invoke(app, ["lab", "admit", str(log), "--reader", "swf", *options, "--n-days", "2",
                                      "--n-draws", "1", "--out", str(tmp_path / "out"),
                                      "--store", str(new_store(tmp_path / "store"))])
    assert result.exit_code == 0, result.output
    assert "= better" in " ".join(result.stdout.split())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"km": {"summary.csv", "predicted.png"}, "estimate": {"admission.csv", "summary.csv"}}[options[1]]


@pytest.mark.parametrize(("options", "words"), [
    (("--predict", "km", "--backfill"), "predict must be given without backfilling"),
    (("--predict", "km", "--quantile", "1.5"), "quantile must be above 0 and below 1, got 1.5"),
    (("--predict", "crystal"), "predict must be estimate, bundle:FOLDER or one of km"),
])
def test_options_that_exclude_each_other(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    log = swf_log(tmp_path / "jobs.swf", 800, days=6)
    result = CliRunner().invoke(app, ["lab", "admit", str(log), "--reader", "swf", *options, "--store",
                                      str(tmp_path / "s")])
    assert result.exit_code == 2 and words in result.stderr


def test_a_log_without_estimates_has_no_ends_to_tell(tmp_path: Path) -> None:
    log = swf_log(tmp_path / "jobs.swf", 800, days=6)
    jobs = [line.split() for line in log.read_text().splitlines()[1:]]
    log.write_text("\n".join([" ".join([*job[:8], "-1", *job[9:]]) for job in jobs]) + "\n")
    result = CliRunner().invoke(app, ["lab", "admit", str(log), "--reader", "swf", "--predict", "estimate", "--store",
                                      str(tmp_path / "store")])
    assert result.exit_code == 2
    assert "predict must be a family or bundle:FOLDER for jobs.swf, whose jobs have no estimates" in result.stderr
