"""Planning a day of recurring jobs whose durations and usage are uncertain: start times that keep the peak low.

May import: `jit` only; it knows no trace, host or policy.
"""

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning.job import Instance, RecurringJob
from sojourn.simulator.planning.planners import (
    PLANNERS,
    DayState,
    Executed,
    Planner,
    PlanSettings,
    RestOfDay,
    Runs,
    drawn_runs,
    execute,
    executed,
    planner,
    rest_of_day,
)
from sojourn.simulator.planning.problem import Schedule, peaks, usage_profile

__all__ = [
    "PLANNERS", "DayState", "Executed", "Instance", "Limits", "PlanSettings", "Planner", "RecurringJob",
    "RestOfDay", "Runs", "Schedule", "drawn_runs", "execute", "executed", "peaks", "planner", "rest_of_day",
    "usage_profile",
]  # fmt: skip
