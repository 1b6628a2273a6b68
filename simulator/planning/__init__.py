"""Planning a day of recurring jobs whose durations and usage are uncertain: start times that keep the peak low.

May import: `jit` only; it knows no trace, host or policy.
"""

from sojourn.simulator.planning._cp_sat import Limits
from sojourn.simulator.planning.execution import Executed, Runs, drawn_runs, execute, executed
from sojourn.simulator.planning.job import Instance, Job
from sojourn.simulator.planning.peaks import peaks, usage_profile
from sojourn.simulator.planning.planners import PLANNERS, Planner, PlanSettings, planner
from sojourn.simulator.planning.projects import Project, least_makespan, read_project
from sojourn.simulator.planning.recurring import RecurringDay, recurring_day, recurring_key
from sojourn.simulator.planning.replanning import DayState, RestOfDay, rest_of_day
from sojourn.simulator.planning.samples import ESTIMATORS
from sojourn.simulator.planning.schedule import Schedule
from sojourn.simulator.planning.synthetic_jobs import Reading, synthetic_day

__all__ = [
    "ESTIMATORS", "PLANNERS", "DayState", "Executed", "Instance", "Job", "Limits", "PlanSettings", "Planner", "Project",
    "Reading", "RecurringDay", "RestOfDay", "Runs", "Schedule", "drawn_runs", "execute", "executed", "least_makespan",
    "peaks", "planner", "read_project", "recurring_day", "recurring_key", "rest_of_day", "synthetic_day",
    "usage_profile",
]  # fmt: skip
