"""Planners on recurring jobs of a log: planned before a day begins, executed with what the same jobs then took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.trace import Trace
from sojourn.flows.console import Report
from sojourn.flows.evaluations.planner_rows import planner_rows
from sojourn.simulator.planning import (
    Instance,
    Limits,
    PlanSettings,
    RecurringDay,
    recurring_day,
    recurring_key,
)

DAY_S = 86_400
PLANNERS = ("none", "det-p50", "det-p100", "descent", "cospis", "cospis-even")
HISTORY_SHARE = 0.3
"""Of a log's days that are history only."""
_KEYS = ("user", "executable", "cpu_cores")
_WITHOUT_EXECUTABLE = ("user", "cpu_cores", "requested_s")


def recurring_days(trace: Trace, n_days: int, *, step_s: int = 60,
                   flexibility_s: int = 3_600) -> list[tuple[int, RecurringDay]]:
    """Days spread over the later part of a log, with at least five recurring jobs each, by number from its begin.

    A job recurs where user, executable and cores are the same; where the log has no executables, user, cores and
    requested time.
    """
    trace = trace.since_begin()
    requests = trace.requests
    columns = _KEYS if "executable" in requests else _WITHOUT_EXECUTABLE
    key = recurring_key(requests, tuple(name for name in columns if name in requests))
    last = trace.horizon_s // DAY_S - 2
    days = np.unique(np.linspace(int(HISTORY_SHARE * last), last, n_days).astype(np.int64))
    found = ((int(day), recurring_day(requests, key, int(day) * DAY_S, step_s=step_s, flexibility_s=flexibility_s))
             for day in days)
    return [(day, each) for day, each in found if each is not None and len(each.instance) >= 5]


def recurring_rows(days: Sequence[tuple[int, RecurringDay]], report: Report, *, names: Sequence[str] = PLANNERS,
                   limit_s: float = 5.0) -> pd.DataFrame:
    """One row of `plan_row` for each day and planner, with `day` and `n`."""
    rows: list[dict[str, Any]] = []
    settings = PlanSettings(limits=Limits(limit_s=limit_s))
    for done, (day, each) in enumerate(days):
        report(done, len(days))
        found = planner_rows(each.instance, each.runs, {name: (name, each.instance) for name in names}, settings,
                             "det-p50")
        rows += [{"day": day, "n": len(each.instance), **row} for row in found]
    return pd.DataFrame(rows)


def cut_history(instance: Instance, n_runs: int) -> Instance:
    """The same day with the latest `n_runs` of each history; a deadline that these runs cannot meet is moved to their
    shortest, as a user would."""
    jobs = []
    for job in instance.jobs:
        durations = job.durations[-n_runs:]
        deadline = max(job.deadline, job.requested_start + int(durations.min()))
        jobs.append(replace(job, durations=durations, usage=job.usage[-n_runs:], deadline=deadline))
    return replace(instance, jobs=tuple(jobs))
