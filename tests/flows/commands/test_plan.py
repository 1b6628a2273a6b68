"""`sojourn lab plan`: what it prints, writes and logs, and one line with exit code 2 for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sojourn.flows.cli import app
from sojourn.flows.plan import split_history
from sojourn.flows.settings.other_jobs import PLANNED
from sojourn.flows.settings.trace import TraceSettings
from sojourn.flows.versions.promotion import read_store
from sojourn.simulator.planning import Instance, RecurringJob
from studies.planners import synthetic_day


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["lab", "plan", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def made(folder: Path, **columns: list[float]) -> Path:
    day, _ = synthetic_day(12, np.random.default_rng(0))
    path = folder / "jobs.csv"
    pd.DataFrame({
        "name": [job.name for job in day.jobs], "requested_start_s": day.requested,
        "flexibility_s": [job.flexibility for job in day.jobs], "deadline_s": day.deadlines,
        "durations_s": [";".join(map(str, job.durations)) for job in day.jobs],
        "cpu_cores": [";".join(map(str, job.usage[:, 0])) for job in day.jobs],
        "parents": [";".join(job.parents) for job in day.jobs], **columns}).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_day_is_planned_written_and_logged(tmp_path: Path) -> None:
    out, store = tmp_path / "out", tmp_path / "store"
    code, text, _ = _run(made(tmp_path), "--planner", "cospis", "--planner", "none", "--out", out, "--store", store)
    assert code == 0
    assert "cospis" in text and "against" in text and "reduction" in text
    assert sorted(path.name for path in out.iterdir()) == sorted(PLANNED)
    table = pd.read_parquet(out / "schedule.parquet")
    assert (table["start_s"] >= table["requested_start_s"]).all()
    assert (table["start_s"] <= table["latest_start_s"]).all()
    assert pd.read_csv(out / "schedule.csv").equals(table)
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["schedule"]["status"] == "optimal"
    assert [row["planner"] for row in metrics["planners"]] == ["cospis", "none", "det-p50"]
    assert (out / "schedule.png").stat().st_size > 10_000
    page = (out / "plan.html").read_text()
    assert "<h1>Plan of jobs.csv</h1>" in page and "Schedule by cospis" in page and "<script" not in page
    assert page.count("<tr>") == 1 + 3 + 1 + len(table) and page.count("data:image/png;base64,iVBOR") == 1
    runs = list(read_store(TraceSettings(store=store))._pages("tags.kind = 'plan'"))
    assert len(runs) == 1 and runs[0].data.metrics["cospis/reduction_pct"] == pytest.approx(
        metrics["planners"][0]["reduction_pct"])


@pytest.mark.slow
def test_a_day_is_planned_again(tmp_path: Path) -> None:
    day, _ = synthetic_day(12, np.random.default_rng(0))
    now = int(np.sort(day.requested)[4])
    nothing = float("nan")
    started = [float(start) if start < now else nothing for start in day.requested.tolist()]
    ended = [start + 5.0 if row % 2 and start + 5 <= now else nothing for row, start in enumerate(started)]
    code, text, _ = _run(made(tmp_path, started_s=started, ended_s=ended), "--out", tmp_path / "out", "--replan-at",
                         now, "--store", tmp_path / "store")
    assert code == 0, text
    table = pd.read_csv(tmp_path / "out" / "schedule.csv")
    assert len(table) == 12 - sum(np.isfinite(ended))
    assert (table[~table["is_running"]]["start_s"] >= now).all()
    assert (table[table["is_running"]]["start_s"] < now).all() and table["is_running"].any()
    asked = dict(zip((job.name for job in day.jobs), day.requested.tolist(), strict=True))
    assert table["requested_start_s"].tolist() == [asked[name] for name in table["name"]]  # not the time of replanning
    assert (table["moved_s"] == table["start_s"] - table["requested_start_s"]).all()


@pytest.mark.parametrize(("arguments", "words"), [
    (("--planner", "best"), "planner must be one of none, greedy, "),
    (("--against", "best"), "planner must be one of none, greedy, "),
    (("--alpha", "2"), "alpha must be from 0 to 1, got 2.0"),
    (("--n-samples", "0"), "n_samples must be at least 1, got 0"),
    (("--limit-s", "0"), "limit_s must be above 0, got 0.0"),
    (("--step-s", "0"), "step_s must be finite and above 0, got 0.0"),
    (("--held-out", "1"), "held_out must be at least 0 and below 1, got 1.0"),
    (("--n-runs", "0"), "n_runs must be at least 1, got 0"),
    (("--resource", "gpu"), "jobs.csv must have the columns name, requested_start_s, "),
    (("--capacity", "3"), "usage of job 'job 0' must fit the capacity of 3 cpu_cores, got 10"),
    (("--seed", "-1"), "seed must be at least 0 and below 2**31, got -1"),
    (("--replan-at", "3"), "replan_at must come with a column started_s"),
])
def test_bad_input_ends_with_one_line(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    code, _, err = _run(made(tmp_path), "--out", tmp_path / "out", "--store", tmp_path / "store", *arguments)
    assert code == 2
    assert err.startswith(f"error: {words}") and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    code, _, err = _run(made(tmp_path), "--out", tmp_path / "out")
    assert code == 2 and "got something else in" in err and "'thesis.txt'" in err


def test_help_names_the_planners() -> None:
    code, text, _ = _run("--help")
    assert code == 0 and all(name in text for name in ("cospis", "det-p75", "descent"))


def test_the_later_runs_are_held_out() -> None:
    day = Instance((RecurringJob("a", 0, 0, 99, np.arange(1, 11), np.ones(10)),
                    RecurringJob("b", 0, 0, 99, np.array([4]), np.ones(1))))
    past, later, n_single = split_history(day, 0.3)
    assert past.jobs[0].durations.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert later[0].durations.tolist() == [8, 9, 10]
    assert (later[1].durations.tolist(), n_single) == ([4], 1)
    both, same, _ = split_history(day, 0.0)
    assert both.jobs[0].durations.tolist() == same[0].durations.tolist() == list(range(1, 11))
    late = Instance((RecurringJob("c", 0, 0, 5, np.array([9, 9, 3]), np.ones(3)),))
    with pytest.raises(ValueError, match=r"held_out must .*, got 0.3 \(deadline of"):
        split_history(late, 0.3)
