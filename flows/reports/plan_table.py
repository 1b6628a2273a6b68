"""Planners side by side, on the same runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.intervals import t_half_width
from sojourn.flows.reports.section import Section
from sojourn.simulator.planning import Executed, Schedule

LEGEND = ("Reduction: of the observed peak below that of the requested starts in the same run, %, higher = better. "
          "Under: observed above the planned peak, over: below it, % of the planned peak, lower = better. Late: time "
          "of jobs behind their deadlines, seconds a run, lower = better. Against: reduction less that of {against} in "
          "the same run, points, with its 95 % interval over runs. Gap: of the planned peak to its bound, 0 = proved.")


def plan_row(schedule: Schedule, found: Executed, against: Executed) -> dict[str, Any]:
    """One planner's figures: means over runs; `against_pp` with half of its 95 % t-interval over runs."""
    difference = found.reduction_pct - against.reduction_pct
    return {
        "planner": schedule.planner, "status": schedule.status, "planned_peak": float(schedule.peak[0]),
        "observed_peak": float(found.peak[:, 0].mean()), "reduction_pct": float(found.reduction_pct.mean()),
        "against_pp": float(difference.mean()), "against_half_pp": float(t_half_width(difference[:, None])[0]),
        "under_pct": float(found.under_pct.mean()), "over_pct": float(found.over_pct.mean()),
        "late_s": float(found.late_s.mean()), "late_pct": float(found.late_pct.mean()), "gap_pct": schedule.gap_pct,
        "alpha": np.nan if schedule.alpha is None else schedule.alpha, "seconds": schedule.seconds,
        "reason": schedule.reason}


_SHOWN = (("status", "status", ""), ("planned peak", "planned_peak", ".1f"),
          ("observed peak", "observed_peak", ".1f"), ("reduction %", "reduction_pct", ".1f"),
          ("under %", "under_pct", ".1f"), ("over %", "over_pct", ".1f"), ("late s", "late_s", ".1f"),
          ("gap %", "gap_pct", ".1f"), ("seconds", "seconds", ".2f"))


def plan_section(rows: pd.DataFrame, title: str, against: str, caption: str) -> Section:
    """Rows of `plan_row` as a table."""
    titles = ("planner", *(name for name, _, _ in _SHOWN), f"against {against}")
    cells = tuple((str(row["planner"]), *(format(row[column], form) for _, column, form in _SHOWN), _paired(row))
                  for row in rows.to_dict("records"))
    return Section(title, caption, titles, cells, 2, LEGEND.format(against=against))


def jobs_section(table: pd.DataFrame, planner: str) -> Section:
    """The schedule, a row a job; `flows.jobs.plan.schedule_table` says what the columns mean. Times: h:mm:ss."""
    columns = [name for name in table.columns if name.endswith("_s")]
    cells = tuple((str(row["name"]), *(_clock(row[name]) for name in columns)) for row in table.to_dict("records"))
    titles = ("job", *(name.removesuffix("_s").replace("_", " ") for name in columns))
    return Section(f"Schedule by {planner}", "Times from the day's begin, h:mm:ss.", titles, cells, 1)


def _clock(seconds: float) -> str:
    """
    >>> _clock(3_725.0), _clock(-60)
    ('1:02:05', '-0:01:00')
    """
    whole = round(abs(seconds))
    return f"{'-' if seconds < 0 else ''}{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _paired(row: Mapping[Any, Any]) -> str:
    half = row["against_half_pp"]
    if not np.isfinite(half) or (half == 0 and row["against_pp"] == 0):
        return "-"
    return f"{row['against_pp']:+.1f} [{row['against_pp'] - half:+.1f}, {row['against_pp'] + half:+.1f}]"
