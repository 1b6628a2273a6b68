"""Planners side by side on one day: each plan executed on the same runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.flows.reports.plan import plan_row
from sojourn.simulator.planning import Instance, PlanSettings, Runs, execute, planner


def planner_rows(day: Instance, runs: Runs, plans: Mapping[str, tuple[str, Instance]], settings: PlanSettings,
                 baseline: str) -> list[dict[str, Any]]:
    """One row of `plan_row` for each plan, held against `baseline`, or the first plan where that is none of them.

    day: as it is. plans: by label, a planner's name and the day as that planner sees it.
    """
    schedules = {label: planner(name).plan(seen, settings) for label, (name, seen) in plans.items()}
    found = {label: execute(day, own, runs) for label, own in schedules.items()}
    against = found.get(baseline, next(iter(found.values())))
    return [plan_row(schedules[label], found[label], against) for label in plans]
