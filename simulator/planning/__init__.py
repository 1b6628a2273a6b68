"""Planning a day of recurring jobs whose durations and usage are uncertain: start times that keep the peak low.

May import: `jit` only; it knows no trace, host or policy.
"""

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning.job import Instance, Job
from sojourn.simulator.planning.planners import (
    PLANNERS,
    DayState,
    Executed,
    Planner,
    PlanSettings,
    RecurringDay,
    RestOfDay,
    Runs,
    drawn_runs,
    execute,
    executed,
    planner,
    recurring_day,
    recurring_key,
    rest_of_day,
)
from sojourn.simulator.planning.problem import ESTIMATORS, Schedule, peaks, usage_profile
from sojourn.simulator.planning.projects import Project, Reading, least_makespan, read_project, synthetic_day

__all__ = [
    "ESTIMATORS", "PLANNERS", "DayState", "Executed", "Instance", "Job", "Limits", "PlanSettings", "Planner", "Project",
    "Reading", "RecurringDay", "RestOfDay", "Runs", "Schedule", "drawn_runs", "execute", "executed", "least_makespan",
    "peaks", "planner", "read_project", "recurring_day", "recurring_key", "rest_of_day", "synthetic_day",
    "usage_profile",
]  # fmt: skip
