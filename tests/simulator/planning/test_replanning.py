"""The rest of a day: what has happened stays, and what has not is not known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_planning import problems_of
from sojourn.simulator.planning import (
    DayState,
    Instance,
    Limits,
    PlanSettings,
    RecurringJob,
    Runs,
    execute,
    executed,
    planner,
    rest_of_day,
)
from studies.planners import STUDIED, synthetic_day

RUNS = np.array([10, 20, 40]), np.array([1.0, 2.0, 4.0])
DAY = Instance((RecurringJob("a", 0, 10, 90, *RUNS), RecurringJob("b", 5, 30, 99, *RUNS, ("a",)),
                RecurringJob("c", 50, 0, 120, *RUNS, ("b",)),
                RecurringJob("d", 0, 60, 70, *RUNS)))


def state(now: int, started: dict[int, int], ended: dict[int, int]) -> DayState:
    return DayState(now, np.array([started.get(row, np.nan) for row in range(4)]),
                    np.array([ended.get(row, np.nan) for row in range(4)]))


def test_jobs_that_run_keep_their_start_and_the_pairs_that_are_longer() -> None:
    rest = rest_of_day(DAY, state(25, {0: 5, 3: 10}, {3: 22}))
    a, b, c = rest.instance.jobs
    assert rest.rows.tolist() == [0, 1, 2]
    assert rest.is_running.tolist() == [True, False, False]
    # a has run for 20: only the run of 40 is longer
    assert (a.requested_start, a.flexibility, a.durations.tolist(), a.usage.tolist()) == (5, 0, [40], [[4.0]])
    # b may start from now to 35, but a ends at 45 at the earliest
    assert (b.requested_start, b.flexibility, b.parents) == (25, 20, ("a",))
    # b ends at 55 at the earliest, so c waits until then
    assert (c.requested_start, c.flexibility) == (50, 5)
    assert rest.notes == ("job 'b' can no longer start by 35: it may start until 45",
                          "job 'c' can no longer start by 50: it may start until 55")


def test_a_job_that_outlived_its_history_runs_as_long_again() -> None:
    rest = rest_of_day(DAY, state(65, {0: 5, 3: 0}, {0: 60}))
    d = rest.instance.jobs[rest.rows.tolist().index(3)]
    assert (d.durations.tolist(), d.usage.tolist(), d.deadline) == ([130], [[4.0]], 130)
    assert rest.notes[:2] == (
        "job 'd' has run for 65, longer than all of its past runs: it is taken to run as long again",
        "job 'd' can no longer end by 70: its deadline is now 130")
    b = rest.instance.jobs[0]
    assert b.parents == ()  # a has ended


@pytest.mark.parametrize(("bad", "message"), [
    (state(5, {0: 9}, {}), "started of job 'a' must not lie after 5, got 9"),
    (state(5, {}, {0: 3}), "ended of job 'a' must lie after its start nan, got 3"),
    (state(5, {0: 3}, {0: 3}), "ended of job 'a' must lie after its start 3, got 3"),
    (state(99, dict.fromkeys(range(4), 1), dict.fromkeys(range(4), 9)), "jobs must not all have ended at 99, got 4"),
    (DayState(5, np.zeros(2, int), np.zeros(2, int)), "started must have a time for each of the 4 jobs"),
])
def test_what_cannot_be_is_refused(bad: DayState, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rest_of_day(DAY, bad)


@given(st.integers(0, 500), st.integers(0, 400))
@settings(max_examples=40)
def test_a_plan_of_the_rest_is_a_plan(seed: int, now: int) -> None:
    rng = np.random.default_rng(seed)
    day, held_out = synthetic_day(8, rng)
    durations = np.array([int(job.durations[0]) for job in held_out])
    real = executed(day, planner("greedy").plan(day).starts, Runs(durations[None], np.ones((1, 8, 1))))[0]
    started = np.where(real <= now, real, np.nan)
    ended = np.where(real + durations <= now, real + durations, np.nan)
    if not np.isnan(ended).any():
        return
    rest = rest_of_day(day, DayState(now, started, ended))
    schedule = planner("greedy").plan(rest.instance)
    shortest = np.array([int(job.durations.min()) for job in rest.instance.jobs])
    assert (schedule.starts[rest.is_running] == started[rest.rows][rest.is_running]).all()
    assert (schedule.starts[~rest.is_running] >= now).all()
    assert not [text for text in problems_of(rest.instance, schedule.starts, shortest) if "flexibility" in text]


def test_what_happens_later_does_not_change_the_rest() -> None:
    first = rest_of_day(DAY, state(25, {0: 5, 3: 10}, {3: 22}))
    # the same day, in which the future of all jobs that still run is another
    other = replace(DAY, jobs=tuple(replace(job, durations=np.where(job.durations > 20, 44, job.durations))
                                    if job.name == "d" else job for job in DAY.jobs))
    second = rest_of_day(other, state(25, {0: 5, 3: 10}, {3: 22}))
    for one, two in zip(first.instance.jobs, second.instance.jobs, strict=True):
        assert (one.name, one.requested_start, one.flexibility, one.deadline) == (
            two.name, two.requested_start, two.flexibility, two.deadline)
        assert one.durations.tolist() == two.durations.tolist()


def test_a_job_that_did_not_wait_for_its_parent_is_named() -> None:
    rest = rest_of_day(DAY, state(25, {0: 5, 1: 8}, {}))
    assert rest.notes == ("job 'b' started before its parent 'a' ended",)
    assert rest_of_day(DAY, state(25, {0: 5, 1: 16}, {0: 16})).notes == ()
    with pytest.raises(ValueError, match="now must be at least 0, got -1"):
        rest_of_day(DAY, state(-1, {}, {}))


def test_requested_starts_are_those_of_the_whole_day() -> None:
    rest = rest_of_day(DAY, state(40, {0: 5}, {0: 39}))
    assert rest.instance.requested.tolist() == [40, 50, 40] and rest.requested.tolist() == [5, 50, 0]


def test_a_job_that_runs_since_before_the_day_is_not_started_again() -> None:
    # a began 20 before the day; at 5 it has run for 25, so only its run of 40 is possible: it ends at 20
    rest = rest_of_day(DAY, state(5, {0: -20}, {}))
    a = rest.instance.jobs[0]
    assert rest.is_running.tolist() == [True, False, False, False]
    assert (a.requested_start, a.flexibility, a.durations.tolist()) == (0, 0, [20])
    assert (rest.n_before.tolist(), rest.requested.tolist()) == ([20, 0, 0, 0], [-20, 5, 50, 0])
    assert planner("greedy").plan(rest.instance).starts[0] == 0
    assert rest_of_day(DAY, state(5, {0: -1}, {})).is_running[0]
    assert rest_of_day(DAY, state(5, {0: -30}, {0: -3})).rows.tolist() == [1, 2, 3]
    # it has run for 85 at 65, longer than all of its runs: as long again from its start, 170 - 20 from the day's begin
    assert rest_of_day(DAY, state(65, {0: -20}, {})).instance.jobs[0].durations.tolist() == [150]


SPREAD = tuple(RecurringJob(f"{row}", 0, 50, 200, np.array([10]), np.array([1.0])) for row in range(6))


@pytest.mark.parametrize("name", ["greedy", "descent", "cospis", "cospis-even", "det-p50", "milp"])
def test_a_plan_that_is_as_good_is_kept(name: str) -> None:
    """Six jobs one after the other in an order that no planner would choose; a later plan changes no start."""
    planned = [50, 0, 30, 10, 40, 20]
    day = Instance(tuple(replace(job, planned_start=at) for job, at in zip(SPREAD, planned, strict=True)))
    schedule = STUDIED[name].plan(day)
    assert (schedule.starts.tolist(), schedule.peak.tolist(), schedule.moved) == (planned, [1.0], 0)
    assert STUDIED[name].plan(Instance(SPREAD)).starts.tolist() != planned
    now = replace(day.jobs[1], planned_start=12)  # begins with another: one job has to move for the peak of 1
    worse = STUDIED[name].plan(replace(day, jobs=(day.jobs[0], now, *day.jobs[2:])))
    assert worse.peak.tolist() == [1.0] and (worse.starts != day.baseline).sum() <= 2


def test_no_plan_keeps_planned_starts_and_is_measured_against_them() -> None:
    day = Instance(tuple(replace(job, planned_start=10 * row) for row, job in enumerate(SPREAD)))
    none = planner("none").plan(day)
    assert none.starts.tolist() == [0, 10, 20, 30, 40, 50] and none.peak.tolist() == [1.0]
    runs = Runs(np.full((1, 6), 10), np.ones((1, 6, 1)))
    assert execute(day, none, runs).reduction_pct.tolist() == [0.0]  # and not 83 % below six starts at once
    assert execute(Instance(SPREAD), none, runs).reduction_pct[0] == pytest.approx(100 * (1 - 1 / 6))


def test_planned_starts_wait_with_the_jobs() -> None:
    day = replace(DAY, jobs=tuple(replace(job, planned_start=at) for job, at in zip(DAY.jobs, (3, 30, 50, 20),
                                                                                    strict=True)))
    rest = rest_of_day(day, state(25, {0: 5}, {}))
    # a runs; b was planned at 30, which is to come; c keeps 50, within its flexibility; d should have begun at 20
    assert [job.planned_start for job in rest.instance.jobs] == [None, 30, 50, 25]
    assert rest.instance.baseline.tolist() == [5, 30, 50, 25]


def test_least_movement_is_from_planned_starts() -> None:
    jobs = tuple(replace(job, planned_start=30) for job in SPREAD[:2])  # both at 30: one moves by 10, either way
    schedule = planner("cospis").plan(Instance(jobs), PlanSettings(limits=Limits(is_least_moved=True)))
    assert schedule.moved == 10 and sorted(schedule.starts.tolist()) in ([20, 30], [30, 40])
