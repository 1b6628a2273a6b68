"""The rest of a day: what has happened stays, and what has not is not known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_planning import problems_of
from sojourn.simulator.planning import DayState, Instance, Job, executed, planner, rest_of_day, synthetic_day
from sojourn.simulator.planning.execution import Runs

RUNS = np.array([10, 20, 40]), np.array([1.0, 2.0, 4.0])
DAY = Instance((Job("a", 0, 10, 90, *RUNS), Job("b", 5, 30, 99, *RUNS, ("a",)), Job("c", 50, 0, 120, *RUNS, ("b",)),
                Job("d", 0, 60, 70, *RUNS)))


def state(now: int, started: dict[int, int], ended: dict[int, int]) -> DayState:
    return DayState(now, np.array([started.get(row, -1) for row in range(4)]),
                    np.array([ended.get(row, -1) for row in range(4)]))


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
    (state(5, {}, {0: 3}), "ended of job 'a' must lie after its start -1, got 3"),
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
    started = np.where(real <= now, real, -1)
    ended = np.where(real + durations <= now, real + durations, -1)
    if (ended >= 0).all():
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
