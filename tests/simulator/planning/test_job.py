"""Jobs and instances: what is refused, and that the error names the job and the value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sojourn.simulator.planning import Instance, RecurringJob

GOOD = RecurringJob("a", 5, 10, 60, np.array([10, 20]), np.array([2.0, 4.0]))


@pytest.mark.parametrize(("changed", "message"), [
    ({"durations": np.array([], int), "usage": np.array([])}, "history of job 'a' must have at least one run"),
    ({"durations": np.array([10])}, "history of job 'a' must have as many durations as usages, got 1 and 2"),
    ({"durations": np.array([10, 0])}, "durations of job 'a' must be whole steps, at least 1, got .*0"),
    ({"durations": np.array([10, -3])}, "durations of job 'a' must be whole steps, at least 1, got .*-3"),
    ({"durations": np.array([10, 2.5])}, "durations of job 'a' must be whole steps, at least 1, got .*2.5"),
    ({"durations": np.array([10, np.nan])}, "durations of job 'a'"),
    ({"usage": np.array([1.0, -1.0])}, "usage of job 'a' must be finite and at least 0, got .*-1.0"),
    ({"usage": np.array([1.0, np.nan])}, "usage of job 'a' must be finite"),
    ({"requested_start": -1}, "requested_start of job 'a' must be a whole number of steps from 0 .*, got -1"),
    ({"flexibility": -7}, "flexibility of job 'a' .* got -7"),
    ({"deadline": 1 << 50}, "deadline of job 'a'"),
    ({"requested_start": 1.5}, "requested_start of job 'a' .* got 1.5"),
    ({"parents": ("a",)}, "parents of job 'a' must be other jobs"),
    ({"parents": ("b", "b")}, "parents of job 'a' must be named once"),
    ({"name": ""}, "name of a job must be a text"),
])
def test_a_bad_job_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **changed)


def later(name: str, *parents: str, **changed: Any) -> RecurringJob:
    return replace(GOOD, name=name, parents=parents, **changed)


@pytest.mark.parametrize(("jobs", "message"), [
    ((), "jobs must hold at least one job"),
    ((GOOD, GOOD), "names of jobs must differ, got 'a' twice"),
    ((GOOD, later("b", "x")), "parents of job 'b' must be jobs of the instance, got 'x'"),
    ((later("a", "b"), later("b", "a")), "parents must not form a cycle, got one through job '[ab]'"),
    ((GOOD, later("b", "a", "d"), later("c", "b"), later("d", "c"), later("e", "d")),
     "parents must not form a cycle, got one through job '[bcd]'"),
    ((later("b", deadline=14),), "deadline of job 'b' must not lie before its earliest end 15, got 14"),
    ((GOOD, later("b", "a", deadline=24)), "deadline of job 'b' must not lie before its earliest end 25, got 24"),
    ((GOOD, later("b", "a", flexibility=9)), "flexibility of job 'b' .* end at 15, got latest start 14"),
    ((GOOD, later("b", usage=np.ones((2, 3)))), r"usage of job 'b' must have 1 resources \(cpu_cores\), got 3"),
])
def test_a_bad_instance_is_refused_by_the_name_of_the_job(jobs: tuple[RecurringJob, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Instance(jobs)


def test_a_job_wider_than_the_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match=r"usage of job 'a' must .*, got 4"):
        Instance((GOOD,), capacity=np.array([3.0]))
    assert len(Instance((GOOD,), capacity=np.array([4.0]))) == 1
    with pytest.raises(ValueError, match=r"capacity must be 1 finite number.s. above 0"):
        Instance((GOOD,), capacity=np.array([0.0]))
    with pytest.raises(ValueError, match="step_s must be finite and above 0, got 0"):
        Instance((GOOD,), step_s=0)


def test_parents_come_before_children_and_shortest_runs_give_the_earliest_starts() -> None:
    # c: a ends at 5 + 10 at the earliest, then b at 15 + 10
    day = Instance((later("c", "b", flexibility=40, deadline=99), later("b", "a"), GOOD))
    assert day.order.tolist() == [2, 1, 0]
    assert day.earliest.tolist() == [25, 15, 5]
    assert day.parents == ((1,), (2,), ())


def test_usage_that_is_not_whole_is_planned_in_thousandths_of_the_largest() -> None:
    assert Instance((GOOD,)).unit.tolist() == [1.0]
    assert Instance((later("b", usage=np.array([0.5, 2.0])),)).unit.tolist() == [0.002]


def test_one_huge_job_does_not_change_the_unit_of_all() -> None:
    run = np.array([10])
    others = [RecurringJob(f"{k}", 0, 5, 20, run, np.array([24.0])) for k in range(4)]
    day = Instance((*others, RecurringJob("typo", 0, 5, 20, run, np.array([24_000_000.0]))))
    assert day.unit.tolist() == [1.0]  # and not 24,000
    day = Instance((*others, RecurringJob("half", 0, 5, 20, run, np.array([0.5])),
                    RecurringJob("typo", 0, 5, 20, run, np.array([24e6]))))
    assert day.unit.tolist() == [2.4]  # a tenth of the median job's 24
    assert Instance((*others, RecurringJob("half", 0, 5, 20, run, np.array([0.5])))).unit.tolist() == [0.024]
