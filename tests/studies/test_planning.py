"""Evaluations of planning: rows, pictures, and histories that hold nothing of the day."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Trace
from sojourn.features.creation import default_encoder
from sojourn.features.readers import read_trace
from sojourn.simulator.planning import PlanSettings, planner
from studies.planning import (
    EVALUATIONS,
    PlanEvaluation,
    cut_history,
    day_curves,
    differences_figure,
    fitted_before,
    grid_figure,
    grid_rows,
    known_before,
    means_of_grid,
    planners_figure,
    recurring_days,
    recurring_rows,
    run_evaluation,
    short_rows,
    sizes_figure,
    summary,
    synthetic_rows,
    tight_day,
)  # fmt: skip

DAY = 86_400


def quiet(done: int, total: int) -> None:
    assert done <= total


def swf(folder: Path, late_run_s: int = 0) -> Path:
    """Three users with two programs each, some runs an hour for six days."""
    rng = np.random.default_rng(0)
    lines = ["; UnixStartTime: 0"]
    for job in range(1, 700):
        user, program = rng.integers(1, 4), rng.integers(1, 3)
        run = int(600 * user * rng.lognormal(0, 0.5)) + 60
        submit = (job - 1) * 720
        run += late_run_s if submit + run + 5 > 3 * DAY else 0
        cores = 4 * program
        lines.append(f"{job} {submit} 5 {run} {cores} -1 -1 {cores} 36000 -1 1 {user} 1 {program} 1 -1 -1 -1")
    path = folder / f"log{late_run_s}.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_synthetic_rows_and_their_pictures() -> None:
    rows = synthetic_rows("per-job", 1, quiet, names=("none", "greedy", "det-p50"))
    assert len(rows) == 6 * 3
    table = summary(rows, ["n", "seed"])
    assert table["planner"].tolist() == ["none", "greedy", "det-p50"]
    assert table.set_index("planner")["reduction_pct"]["none"] == 0.0
    assert len(planners_figure(rows, "x").axes) == 4
    assert len(sizes_figure(rows, ("none", "greedy"), "x").axes) == 4
    assert len(differences_figure({"a": table}, "x").axes) == 1


def test_the_grid_has_a_row_for_each_cell_and_day() -> None:
    rows = grid_rows((2, 4), (0.1, 0.9), 2, quiet)
    assert len(rows) == 8
    tables = dict(means_of_grid(rows))
    assert all(table.shape == (2, 2) for table in tables.values())
    assert len(grid_figure(tables, "x").axes) == 8


def test_deadlines_of_tight_days_bind() -> None:
    day, _ = tight_day(2)
    assert planner("det-p100").plan(day).status == "requested"
    assert planner("det-p50").plan(day).status == "optimal"
    strict, loose = (planner("cospis").plan(day, PlanSettings(alpha=alpha)) for alpha in (0.2, 0.8))
    assert loose.peak[0] < strict.peak[0]
    assert loose.broken_pct > strict.broken_pct > 0


@pytest.mark.slow
def test_recurring_jobs_of_a_log(tmp_path: Path) -> None:
    days = recurring_days(read(swf(tmp_path)), 9)
    assert [day for day, _ in days] == [1, 2, 3]
    rows = recurring_rows(days, quiet, names=("none", "det-p50", "greedy"))
    assert rows.groupby("day")["planner"].count().tolist() == [3, 3, 3]
    cut = cut_history(days[0][1].instance, 2)
    assert {len(job.durations) for job in cut.jobs} == {2}
    assert [job.durations[-1] for job in cut.jobs] == [job.durations[-1] for job in days[0][1].instance.jobs]


def read(path: Path) -> Trace:
    return read_trace("swf", path)[0]


def test_what_is_known_when_a_day_begins_is_the_same_whatever_comes_later(tmp_path: Path) -> None:
    one, other = read(swf(tmp_path)), read(swf(tmp_path, late_run_s=5_000))
    assert (one.requests["departure_s"] != other.requests["departure_s"]).any()
    first, second = known_before(one, 3 * DAY), known_before(other, 3 * DAY)
    assert first.horizon_s == second.horizon_s
    pd.testing.assert_frame_equal(first.requests, second.requests)


@pytest.mark.slow
def test_curves_of_a_day_are_the_same_whatever_comes_later(tmp_path: Path) -> None:
    found = []
    for late_run_s in (0, 5_000):
        trace = read(swf(tmp_path, late_run_s))
        encoder = default_encoder(trace)
        day, each = next(pair for pair in recurring_days(trace, 9) if pair[0] == 3)
        model = fitted_before(trace, encoder, 3 * DAY)
        found.append(day_curves(trace, encoder, model, each, day * DAY).quantile(0.5, 0.0))
    assert len(found[0]) > 20
    assert found[0].tolist() == found[1].tolist()


def test_bad_input_is_refused() -> None:
    task = PlanEvaluation(None, "swf", 1, 1.0)
    for name in ("recurring", "short-history"):
        with pytest.raises(ValueError, match=r"trace must .*, got none"):
            EVALUATIONS[name](task)


@pytest.mark.slow
def test_short_histories_stand_beside_the_model(tmp_path: Path) -> None:
    rows = short_rows(read(swf(tmp_path)), 9, quiet, limit_s=1.0)
    assert set(rows["planner"]) == {"history 1", "history 2", "history 3", "history 5", "history all", "model"}
    assert rows.groupby("planner")["day"].nunique().eq(3).all()


@pytest.mark.slow
def test_an_evaluation_prints_writes_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = PlanEvaluation(swf(tmp_path), "swf", 2, 0.5)
    run_evaluation("recurring", task, tmp_path / "out", tmp_path / "store")
    assert "against none" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "planning_recurring_log0.csv", "planning_recurring_log0.png"]
