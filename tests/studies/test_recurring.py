"""Recurring jobs of a log: their histories end before the day begins, and nothing later changes a plan."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sojourn.simulator.planning import PlanSettings, planner
from studies.planning import recurring_day, recurring_key

DAY = 86_400


def log(seed: int = 0, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 4 * DAY, n))
    arrival = submit + rng.integers(0, 600, n)
    return pd.DataFrame({
        "submit_s": submit, "arrival_s": arrival, "departure_s": arrival + rng.integers(60, 30_000, n),
        "cpu_cores": rng.choice([1.0, 4.0], n), "user": rng.integers(0, 3, n), "executable": rng.integers(0, 3, n),
        "requested_s": np.where(rng.random(n) < 0.5, 36_000.0, np.nan)})


KEY = ("user", "executable", "cpu_cores")


def test_histories_are_the_runs_of_the_key_that_had_ended() -> None:
    table = log()
    key = recurring_key(table, KEY)
    found = recurring_day(table, key, 3 * DAY, least_runs=3, most_runs=6)
    assert found is not None and len(found.instance) > 50
    for job, row in zip(found.instance.jobs, found.rows.tolist(), strict=True):
        one = table.iloc[row]
        assert 3 * DAY <= one["submit_s"] < 4 * DAY
        own = table[(table["user"] == one["user"]) & (table["executable"] == one["executable"])
                    & (table["cpu_cores"] == one["cpu_cores"]) & (table["departure_s"] <= 3 * DAY)]
        own = own.sort_values("departure_s", kind="stable").tail(6)
        assert job.durations.tolist() == np.ceil((own["departure_s"] - own["arrival_s"]) / 60).tolist()
        assert job.requested_start == (one["submit_s"] - 3 * DAY) // 60
    took = table["departure_s"] - table["arrival_s"]
    assert found.runs.durations[0].tolist() == np.ceil(took.iloc[found.rows] / 60).tolist()


@pytest.mark.parametrize("column", ["departure_s", "arrival_s"])
def test_what_happens_on_the_day_or_later_does_not_change_the_plan(column: str) -> None:
    table = log()
    key = recurring_key(table, KEY)
    first = recurring_day(table, key, 3 * DAY, max_jobs=40)
    changed = table.copy()
    is_open = changed["departure_s"] > 3 * DAY  # still running when the day begins, or not begun
    shift = np.random.default_rng(9).integers(60, 5_000, int(is_open.sum()))
    changed.loc[is_open, column] = changed.loc[is_open, column] + (shift if column == "departure_s" else -shift % 59)
    second = recurring_day(changed, key, 3 * DAY, max_jobs=40)
    assert first is not None and second is not None
    assert first.rows.tolist() == second.rows.tolist()
    for one, two in zip(first.instance.jobs, second.instance.jobs, strict=True):
        assert (one.requested_start, one.deadline, one.durations.tolist(), one.usage.tolist()) == (
            two.requested_start, two.deadline, two.durations.tolist(), two.usage.tolist())
    plans = [planner("greedy").plan(each.instance, PlanSettings()).starts.tolist() for each in (first, second)]
    assert plans[0] == plans[1]
    if column == "departure_s":
        assert first.runs.durations.tolist() != second.runs.durations.tolist()


def test_deadlines_come_from_the_requested_time() -> None:
    table = log()
    found = recurring_day(table, recurring_key(table, KEY), 3 * DAY, flexibility_s=1_800)
    assert found is not None
    for job, row in zip(found.instance.jobs, found.rows.tolist(), strict=True):
        requested = table["requested_s"].iloc[row]
        limit = int(requested // 60) if np.isfinite(requested) else None
        assert job.flexibility == 30
        if limit is not None:
            assert job.deadline == job.requested_start + 30 + limit
            assert job.durations.max() <= limit


def test_a_day_without_recurring_jobs_is_none() -> None:
    table = log()
    key = recurring_key(table, KEY)
    assert recurring_day(table, key, 9 * DAY) is None
    assert recurring_day(table, np.arange(len(table)), 3 * DAY) is None
    largest = recurring_day(table, key, 3 * DAY, max_jobs=7)
    assert largest is not None and len(largest.instance) == 7
