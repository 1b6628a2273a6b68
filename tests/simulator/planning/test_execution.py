"""Days that are run: parents first, metrics by their definitions, and nothing held out that a plan has seen."""

from __future__ import annotations

import numpy as np
import pytest

from naive_planning import peak_by_steps
from sojourn.simulator.planning import (
    Instance,
    PlanSettings,
    RecurringJob,
    Runs,
    Schedule,
    drawn_runs,
    execute,
    executed,
    planner,
)
from studies.planners import synthetic_day

ONE = np.array([10]), np.array([2.0])


def made(starts: list[int], peak: float) -> Schedule:
    return Schedule("made", np.array(starts), np.array([peak]), "heuristic", 1, 0.0, 0.0, None, 0.0, 0, 0.0)


def test_metrics_by_hand() -> None:
    # requested: both at 0, peak 2 x 4; scheduled: one after the other. Run 0: a ends at 10, b runs 10..18, peak 4.
    # run 1: a ends at 14, so b, its child, starts at 14 and ends at 24, 4 after its deadline; peak 6
    day = Instance((RecurringJob("a", 0, 0, 30, *ONE), RecurringJob("b", 0, 15, 20, *ONE, ("a",))), step_s=5.0)
    runs = Runs(np.array([[10, 8], [14, 10]]), np.array([[[4.0], [4.0]], [[6.0], [6.0]]]))
    found = execute(day, made([0, 10], 5.0), runs)
    assert executed(day, np.array([0, 10]), runs).tolist() == [[0, 10], [0, 14]]
    assert found.peak.tolist() == [[4.0], [6.0]]
    assert found.reduction_pct.tolist() == [0.0, 0.0]  # parents come first for requested starts as well
    assert found.under_pct.tolist() == [0.0, pytest.approx(20.0)]
    assert found.over_pct.tolist() == [pytest.approx(20.0), 0.0]
    assert found.late_s.tolist() == [0.0, 4 * 5.0]
    assert found.late_pct.tolist() == [0.0, 50.0]


def test_the_reduction_is_against_requested_starts_in_the_same_run() -> None:
    day = Instance((RecurringJob("a", 0, 20, 50, *ONE), RecurringJob("b", 0, 20, 50, *ONE)))
    runs = Runs(np.array([[10, 10]]), np.array([[[3.0], [5.0]]]))
    assert execute(day, made([0, 10], 5.0), runs).reduction_pct.tolist() == [pytest.approx(100 * 3 / 8)]


def test_peaks_of_runs_are_those_by_steps() -> None:
    day, held_out = synthetic_day(10, np.random.default_rng(4))
    runs = drawn_runs(held_out, np.random.default_rng(5), 3)
    schedule = planner("greedy").plan(day)
    real, found = executed(day, schedule.starts, runs), execute(day, schedule, runs)
    for k in range(3):
        assert found.peak[k, 0] == peak_by_steps(real[k], runs.durations[k], runs.usage[k, :, 0])
        for row, own in enumerate(day.parents):
            assert all(real[k, row] >= real[k, parent] + runs.durations[k, parent] for parent in own)
    assert (real >= schedule.starts).all()


def test_held_out_runs_do_not_reach_the_plan() -> None:
    day, held_out = synthetic_day(10, np.random.default_rng(6))
    runs = drawn_runs(held_out, np.random.default_rng(0), 200)
    for row, (seen, hidden) in enumerate(zip(day.jobs, held_out, strict=True)):
        pairs = {(int(d), float(r)) for d, r in zip(hidden.durations, hidden.usage[:, 0], strict=True)}
        assert {(int(d), float(r)) for d, r in zip(runs.durations[:, row], runs.usage[:, row, 0], strict=True)} <= pairs
        assert seen.durations.tolist() != hidden.durations.tolist()


@pytest.mark.parametrize("reading", ["one-for-all", "per-job"])
def test_the_synthetic_day_is_that_of_the_paper(reading: str) -> None:
    day, held_out = synthetic_day(60, np.random.default_rng(7), reading=reading)  # type: ignore[arg-type]
    assert [job.name for job in day.jobs] == [job.name for job in held_out]
    for job in day.jobs:
        assert len(job.durations) == 50
        assert 10 <= job.durations.min() <= job.durations.max() <= 30
        assert 5 <= job.usage.min() <= job.usage.max() <= 10
        assert job.flexibility in (20, 30, 80, 120)
        assert job.deadline == job.requested_start + job.flexibility + job.durations.max()
        assert len(job.parents) <= 3
    assert max(job.requested_start for job in day.jobs) < 50 * 60
    spread = [int(np.ptp(job.durations)) for job in day.jobs]
    assert (min(spread) >= 15) == (reading == "one-for-all")
    assert planner("det-p100").plan(day, PlanSettings()).status == "optimal"


def test_a_tight_day_has_close_deadlines_that_the_longest_runs_still_meet() -> None:
    day, _ = synthetic_day(30, np.random.default_rng(8), tightness=1.0)
    loose, _ = synthetic_day(30, np.random.default_rng(8))
    assert (day.deadlines < loose.deadlines).any()
    assert planner("det-p100").plan(day, PlanSettings()).status == "optimal"
