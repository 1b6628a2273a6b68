"""Plans a day of recurring jobs with uncertain durations and usage: starts with a low peak.

May import: `jit` only; it is independent of traces, hosts and policies.
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
