"""Planning one day: the schedule from all runs, and a test of the planners on later runs that they have not seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sojourn import __version__
from sojourn.flows.console import console, stage
from sojourn.flows.reports.section import Section, jobs_section, plan_figure, plan_row, plan_section, pngs, section_page
from sojourn.flows.settings.other_jobs import PlanConfig
from sojourn.flows.tracking.tracker import Tracker
from sojourn.publishing import whole_file
from sojourn.simulator.planning import (
    Executed,
    Instance,
    RecurringJob,
    RestOfDay,
    Schedule,
    drawn_runs,
    execute,
    planner,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAR_ABOVE = 10_000
"""A job that uses so many times the median's is told: it may be a typo."""


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A day, or its rest, and how it is planned."""

    config: PlanConfig
    instance: Instance
    rest: RestOfDay | None


def split_history(instance: Instance, held_out: float) -> tuple[Instance, tuple[RecurringJob, ...], int]:
    """The day with the earlier runs, its jobs with the later ones, and how many jobs have a single run, which then
    stands on both sides. held_out: share of the later ones; with 0 all runs stand on both sides.

    >>> day = Instance((RecurringJob("a", 0, 0, 9, np.array([1, 2, 3, 4]), np.ones(4)),))
    >>> past, later, _ = split_history(day, 0.3)
    >>> past.jobs[0].durations.tolist(), later[0].durations.tolist()
    ([1, 2, 3], [4])
    """
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out must be at least 0 and below 1, got {held_out!r}")
    past: list[RecurringJob] = []
    later: list[RecurringJob] = []
    n_single = 0
    for job in instance.jobs:
        n_runs = len(job.durations)
        n_single += n_runs == 1
        cut = n_runs - min(max(round(held_out * n_runs), 1), n_runs - 1)
        is_split = held_out > 0 and n_runs > 1
        for side, own in ((past, slice(None, cut if is_split else None)), (later, slice(cut if is_split else 0, None))):
            side.append(replace(job, durations=job.durations[own], usage=job.usage[own]))
    try:
        return replace(instance, jobs=tuple(past)), tuple(later), n_single
    except ValueError as error:
        raise ValueError(f"held_out must leave runs that meet the deadlines, got {held_out!r} ({error})") from error


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned day as it is logged: the planner's name, a row for each planner, the files' contents and the figure."""

    planner: str
    rows: pd.DataFrame
    metrics: dict[str, Any]
    schedule: pd.DataFrame
    figure: Figure
    page: str


def plan_day(task: PlanTask) -> Planned:
    """Print the table and write `PLANNED` into the folder `out`."""
    config, settings = task.config, task.config.planning
    names = tuple(dict.fromkeys((*config.planners, config.against)))
    past, later, n_single = split_history(task.instance, config.held_out)
    runs = drawn_runs(later, np.random.default_rng([config.seed, 1]), config.n_runs)
    with stage("plan") as report:
        schedule = planner(config.planners[0]).plan(task.instance, settings)
        tested: dict[str, Schedule] = {}
        for done, name in enumerate(names):
            report(done, len(names))
            tested[name] = planner(name).plan(past, settings) if config.held_out or name != config.planners[0] \
                else schedule
    with stage("run the days"):
        found = {name: execute(past, own, runs) for name, own in tested.items()}
        rows = pd.DataFrame([plan_row(tested[name], found[name], found[config.against]) for name in names])
    section = _section(config, rows, n_single)
    _print(task, schedule, section)
    metrics = _metrics(task, schedule, rows)
    table = schedule_table(task, schedule)
    figure = plan_figure(task.instance, schedule, runs, _title(task, schedule, found))
    drawn = pngs({"schedule": figure})
    about = "".join(f"{label.capitalize()}: {text}. " for label, text in _lines(task, schedule))
    page = section_page(f"Plan of {config.jobs.name}", about, [section, jobs_section(table, schedule.planner)],
                        drawn)
    for name, write in (("schedule.csv", lambda path: table.to_csv(path, index=False)),
                        ("schedule.parquet", lambda path: table.to_parquet(path, index=False)),
                        ("schedule.png", lambda path: path.write_bytes(drawn["schedule.png"])),
                        ("metrics.json", lambda path: path.write_text(json.dumps(metrics, indent=1) + "\n")),
                        ("plan.html", lambda path: path.write_text(page))):
        with whole_file(config.out / name) as temporary:
            write(temporary)
        console.print(f"written  {config.out / name}", soft_wrap=True)
    return Planned(schedule.planner, rows, metrics, table, figure, page)


def log_plan(tracker: Tracker, task: PlanTask, planned: Planned) -> None:
    """Log a planned day as a run of MLflow."""
    tags = {"kind": "plan", "data_hash": planned.metrics["data_hash"], "code_version": __version__}
    config = task.config
    with tracker.run(f"plan {config.jobs.name} {planned.planner}", tags) as run:
        tracker.log(run, {"jobs": str(config.jobs), "planner": planned.planner, "n_jobs": len(task.instance),
                          "step_s": task.instance.step_s, "held_out": config.held_out, **asdict(config.planning.limits),
                          "n_samples": config.n_samples, "alpha": config.alpha})
        for row in planned.rows.to_dict("records"):
            tracker.log(run, None, {f"{row['planner']}/{key}": value for key, value in row.items()
                                    if isinstance(value, float)})
        tracker.log(run, None, {key: value for key, value in planned.metrics["schedule"].items()
                                if isinstance(value, int | float)})
        tracker.log_figure(run, planned.figure, "schedule.png")
        tracker.log_text(run, planned.schedule.to_csv(index=False), "schedule.csv")
        tracker.log_text(run, planned.rows.to_csv(index=False), "planners.csv")
        tracker.log_text(run, planned.page, "plan.html")


def schedule_table(task: PlanTask, schedule: Schedule) -> pd.DataFrame:
    """One row a job: name, start_s, requested_start_s, moved_s, latest_start_s, deadline_s, median_duration_s, and
    planned_start_s where an earlier plan gave one, is_running where a day is planned again: jobs that have ended then
    have no row, and moved_s counts from the start that was requested for the whole day."""
    day, step_s = task.instance, task.instance.step_s
    requested = day.requested if task.rest is None else task.rest.requested
    n_before = np.zeros(len(day), np.int64) if task.rest is None else task.rest.n_before
    starts = schedule.starts - n_before
    table = pd.DataFrame({
        "name": [job.name for job in day.jobs], "start_s": starts * step_s,
        "requested_start_s": requested * step_s, "moved_s": (starts - requested) * step_s,
        "latest_start_s": (day.latest - n_before) * step_s, "deadline_s": day.deadlines * step_s,
        "median_duration_s": (np.array([np.median(job.durations) for job in day.jobs]) + n_before) * step_s})
    if day.is_planned:
        table["planned_start_s"] = (day.baseline - n_before) * step_s
    if task.rest is not None:
        table["is_running"] = task.rest.is_running
    return table


def _print(task: PlanTask, schedule: Schedule, section: Section) -> None:
    for label, text in _lines(task, schedule):
        console.print(f"{label:<16}{text}", soft_wrap=True)
    console.print(section, crop=False)


def _lines(task: PlanTask, schedule: Schedule) -> list[tuple[str, str]]:
    """What was planned, and what to know of it: a label and a text each."""
    day = task.instance
    peaks = ", ".join(f"{peak:g} {name}" for name, peak in zip(day.resources, schedule.peak, strict=True))
    requested = day.requested if task.rest is None else task.rest.requested
    moved = schedule.starts - (0 if task.rest is None else task.rest.n_before) - requested
    lines = [("jobs", f"{len(day)}, {int((moved > 0).sum())} of them moved, by {moved.sum() * day.step_s:,.0f} s in "
                      "all"),
             ("planned peak", f"{peaks} by {schedule.planner}, from all runs; {schedule.status}, gap "
                              f"{schedule.gap_pct:.1f} %, {schedule.seconds:.2f} s")]
    if day.is_planned:
        n_waiting = len(day) if task.rest is None else int((~task.rest.is_running).sum())
        n_moved = int((schedule.starts != day.baseline).sum())
        lines.insert(1, ("planned before", f"{n_moved} of {n_waiting} waiting jobs moved, by "
                                           f"{schedule.moved * day.step_s:,.0f} s; reductions are against their "
                                           "planned starts"))
    most = np.array([job.usage[:, 0].max() for job in day.jobs])
    if most.max() > _FAR_ABOVE * np.median(most) > 0:
        lines.append(("check", f"job {day.jobs[int(most.argmax())].name!r} uses {most.max():,.15g} {day.resources[0]}, "
                               f"{most.max() / np.median(most):,.0f} times as much as half of the jobs: a typo?"))
    if day.capacity is not None and (schedule.peak > day.capacity).any():
        lines.append(("capacity", f"{', '.join(f'{room:g}' for room in day.capacity)}: the planned peak exceeds it"))
    if schedule.reason:
        lines.append(("note", schedule.reason))
    return [*lines, *(("note", note) for note in (task.rest.notes if task.rest is not None else ()))]


def _section(config: PlanConfig, rows: pd.DataFrame, n_single: int) -> Section:
    if config.held_out:
        tested = f"Planned from the earlier runs, tested on the latest {100 * config.held_out:g} % of each job's"
        tested += f" ({n_single} jobs have one run, used for both)." if n_single else "."
    else:
        tested = "Tested on the same runs as planned from: errors are too low."
    return plan_section(rows, f"Planners on {config.n_runs} days drawn from past runs", config.against, tested)


def _metrics(task: PlanTask, schedule: Schedule, rows: pd.DataFrame) -> dict[str, Any]:
    """JSON values only; NaN becomes null."""
    config = task.config
    digest = sha256()
    for job in task.instance.jobs:
        digest.update(repr((job.name, job.requested_start, job.flexibility, job.deadline, job.parents)).encode())
        digest.update(job.durations.tobytes() + job.usage.tobytes())
    own = {"planner": schedule.planner, "status": schedule.status, "reason": schedule.reason,
           "objective": schedule.objective, "bound": schedule.bound, "gap_pct": schedule.gap_pct,
           "broken_pct": schedule.broken_pct, "moved_s": schedule.moved * task.instance.step_s,
           "seconds": schedule.seconds,
           **{f"planned_peak_{name}": float(peak)
              for name, peak in zip(task.instance.resources, schedule.peak, strict=True)}}
    if schedule.alpha is not None:
        own["alpha"] = schedule.alpha
    tested = [{str(key): None if isinstance(value, float) and np.isnan(value) else value
               for key, value in row.items()} for row in rows.to_dict("records")]
    return {"schedule": own, "held_out": config.held_out, "n_runs": config.n_runs, "against": config.against,
            "notes": list(task.rest.notes) if task.rest is not None else [], "planners": tested,
            "data_hash": digest.hexdigest()[:12]}


def _title(task: PlanTask, schedule: Schedule, found: Mapping[str, Executed]) -> str:
    reduction = found[schedule.planner].reduction_pct.mean()
    return (f"{task.config.jobs.name}: {len(task.instance)} jobs planned by {schedule.planner} ({schedule.status}); "
            f"observed peak {reduction:.1f} % below that of the requested starts on held-out runs")
