"""Planning one day: jobs from a CSV or Parquet table, one row a job with its past runs in lists; the schedule from all
runs; and a test of the planners on later runs that they have not seen. If a job has few runs, quantiles of the lifetime
that a model predicts take their place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sojourn import __version__
from sojourn.flows.console import console, stage
from sojourn.flows.placement.snapshot import SnapshotTable, is_missing, number_of, table_of
from sojourn.flows.reports.section import Section, jobs_section, plan_figure, plan_row, plan_section, pngs, section_page
from sojourn.flows.settings.other_jobs import PlanConfig
from sojourn.flows.tracking.tracker import Tracker
from sojourn.publishing import whole_file
from sojourn.serving import Predictor
from sojourn.simulator.planning import (
    DayState,
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


COLUMNS = ("name", "requested_start_s", "flexibility_s", "deadline_s", "durations_s")
"""Required, besides one column for each resource."""
OPTIONAL = ("parents", "planned_start_s", "started_s", "ended_s", "request")
SEPARATOR = ";"
"""Between the values of a list in a CSV file."""
MAX_TIME_S, MAX_USAGE = 1e12, 1e9
"""Of a time and a duration, seconds, and of a run's cores, GiB or others."""

DurationsOf = Callable[[Mapping[Any, Any]], np.ndarray]
"""Durations of a job in seconds, from its row of a table."""
N_QUANTILES = 25
"""As many as COSPiS draws samples: each is then drawn once."""
LEVELS = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
"""The middle of equal shares, so that the quantiles have the distribution's mean but for its tails."""


@dataclass(frozen=True, slots=True)
class JobTable:
    """instance: in steps. started_s, ended_s: float64 (n,), seconds, NaN = not yet; None without such columns."""

    instance: Instance
    started_s: np.ndarray | None
    ended_s: np.ndarray | None

    def state_at(self, now_s: float) -> DayState:
        """What had happened at `now_s`, in steps; later starts and ends are not read."""
        if self.started_s is None:
            raise ValueError("replan_at must come with a column started_s (and ended_s) in the table, got none")
        step_s = self.instance.step_s
        last_s = float(self.instance.deadlines.max()) * step_s
        if not 0 <= now_s <= last_s:
            raise ValueError(f"replan_at must lie within the day, 0 to {last_s:g} s (the last deadline), got {now_s!r}")
        ended_s = np.full(len(self.instance), np.nan) if self.ended_s is None else self.ended_s
        started = np.where(self.started_s <= now_s, self.started_s, np.nan)
        ended = np.where(ended_s <= now_s, ended_s, np.nan)
        return DayState(int(now_s // step_s), started // step_s, np.ceil(ended / step_s))

    def check_begin(self) -> None:
        """ValueError where a job runs since before the day's begin: a plan of the whole day would start it again."""
        early = np.flatnonzero([] if self.started_s is None else self.started_s < 0)
        if len(early):
            raise ValueError("replan_at must be given if jobs run since before the day's begin (0 plans all that waits "
                             f"then), got none and job {self.instance.jobs[early[0]].name!r}")


def read_jobs(path: Path, *, step_s: float = 1.0, resources: Sequence[str] = ("cpu_cores",),
              capacity: Sequence[float] | None = None, durations_of: DurationsOf | None = None,
              least_runs: int = 5) -> JobTable:
    """The jobs of a table. In a CSV file lists are numbers with semicolons between them: `600;720;655`.

    Columns: name; requested_start_s, flexibility_s, deadline_s, seconds from the day's begin; durations_s and one list
    for each resource, equally long: the past runs, oldest first. Optional: parents, a list of names; planned_start_s,
    where an earlier plan put a job; started_s and ended_s, seconds, empty where that has not happened yet, below 0
    before the day's begin.

    durations_of: gives a job with fewer than `least_runs` runs its durations in seconds, from its row; usage is then
    that of the latest run, and durations_s may be empty.

    Times become whole steps: requested starts and durations are rounded up, latest starts and deadlines down. So a job
    starts less than a step later than it could. ValueError names the row, the column and the value.
    """
    if not (np.isfinite(step_s) and step_s > 0):
        raise ValueError(f"step_s must be finite and above 0, got {step_s!r}")
    table = _table(path, resources)
    times = {name: _times(table, name) for name in ("started_s", "ended_s")}
    rows = _Rows(table, step_s, tuple(resources), durations_of, least_runs, times["started_s"])
    jobs = tuple(map(rows.job, range(len(table))))
    if not jobs:
        raise ValueError(f"{table.file} must hold at least one job, got none")
    table.unique_ids("name")
    instance = Instance(jobs, step_s, rows.resources, None if capacity is None else np.array(capacity, float))
    return JobTable(instance, **times)


def _table(path: Path, resources: Sequence[str]) -> SnapshotTable:
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"jobs must be a CSV or Parquet file, got {found}: {str(path)!r}")
    if not path.name.endswith((".csv", ".csv.gz", ".parquet")):
        raise ValueError(f"jobs must be a file that ends in .csv, .csv.gz or .parquet, got {path.name!r}")
    return table_of(path, (*COLUMNS, *resources), OPTIONAL)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a table as jobs."""

    table: SnapshotTable
    step_s: float
    resources: tuple[str, ...]
    durations_of: DurationsOf | None
    least_runs: int
    started_s: np.ndarray | None

    def job(self, row: int) -> RecurringJob:
        """The job of a row, from 0."""
        cells = {column: values[row] for column, values in self.table.cells.items()}
        try:
            return self._job(cells, np.nan if self.started_s is None else float(self.started_s[row]))
        except ValueError as error:
            raise ValueError(f"{self.table.at(row)}: {error}") from error

    def _job(self, cells: Mapping[str, Any], began_s: float) -> RecurringJob:
        name, step_s = cells["name"], self.step_s
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"name of a job must be a text that is not empty, got {name!r}")
        requested_s, flexibility_s, deadline_s = (
            _number(name, title, cells[title], 0.0) for title in ("requested_start_s", "flexibility_s", "deadline_s"))
        start = int(np.ceil(requested_s / step_s))
        latest = int((requested_s + flexibility_s) // step_s)
        durations = _list(name, "durations_s", cells["durations_s"], 0.0, MAX_TIME_S)
        if not (durations > 0).all():
            raise ValueError(f"durations_s of job {name!r} must be finite and above 0, got "
                             f"{float(durations[durations <= 0][0])!r}")
        lists = [_list(name, resource, cells[resource], 0.0, MAX_USAGE) for resource in self.resources]
        if self.durations_of is not None and len(durations) < self.least_runs and all(map(len, lists)):
            durations = self.durations_of(cells)
            lists = [np.repeat(values[-1:], len(durations)) for values in lists]
        for resource, values in zip(self.resources, lists, strict=True):
            if len(values) != len(durations):
                raise ValueError(f"history of job {name!r} must have as many durations as usages, got "
                                 f"{len(durations)} in durations_s and {len(values)} in {resource}")
        steps, deadline = np.ceil(durations / step_s - 1e-9), int(deadline_s // step_s)
        if len(steps) and began_s < 0:
            deadline = max(deadline, start + int(steps.min()))  # which a job that runs already may well meet
        planned_s = cells.get("planned_start_s")
        planned = None if is_missing(planned_s) else round(_number(name, "planned_start_s", planned_s, 0.0) / step_s)
        return RecurringJob(name, start, max(latest - start, 0), deadline, steps,
                   np.stack(lists, axis=1) if len(durations) else np.zeros((0, 1)),
                   tuple(_names(name, cells.get("parents"))), planned)


def _times(table: SnapshotTable, column: str) -> np.ndarray | None:
    """A column of times that may be missing, float64 (n,), NaN = missing; None without the column."""
    if column not in table.cells:
        return None
    found = np.full(len(table), np.nan)
    for row, value in enumerate(table.cells[column]):
        if not is_missing(value):
            try:
                found[row] = _number(str(table.cells["name"][row]), column, value, -MAX_TIME_S)
            except ValueError as error:
                raise ValueError(f"{table.at(row)}: {error}") from error
    return found


def _number(name: str, title: str, value: Any, least: float) -> float:
    try:
        found = number_of(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{title} of job {name!r} must be a finite number, got {_shown(value)}") from None
    if not least <= found <= MAX_TIME_S:
        raise ValueError(f"{title} of job {name!r} must be from {_plain(least)} to {_plain(MAX_TIME_S)} "
                         f"seconds, got {_shown(value)}")
    return found


def _list(name: str, title: str, value: Any, least: float, most: float) -> np.ndarray:
    if isinstance(value, str):
        value = [text for text in value.split(SEPARATOR) if text.strip()]
    elif is_missing(value):
        value = []
    found = []
    for each in value if isinstance(value, list) else [value]:
        try:
            number = number_of(each)
        except (ValueError, OverflowError):
            raise ValueError(f"{title} of job {name!r} must be a list of numbers, got {_shown(each)}") from None
        if not least <= number <= most:
            raise ValueError(f"{title} of job {name!r} must be finite and from {_plain(least)} to "
                             f"{_plain(most)}, got {_shown(each)}")
        found.append(number)
    return np.array(found, np.float64)


def _names(name: str, value: Any) -> list[str]:
    if isinstance(value, str):
        return [text.strip() for text in value.split(SEPARATOR) if text.strip()]
    if is_missing(value):
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"parents of job {name!r} must be a list of names, got {_shown(value)}")
    return list(value)


def _plain(number: float) -> str:
    return f"{number:g}".replace("e+0", "e").replace("e+", "e")


def _shown(value: Any) -> str:
    return repr(value)[:80]


class ModelDurations:
    """Durations of a job by a bundle's predictor, seconds. Called with a row of a table of jobs, whose column
    `request` holds the request's attributes as JSON."""

    def __init__(self, bundle: Path, day_s: int | None = None) -> None:
        """day_s: the day's begin on the clock of the bundle's training trace; default: the end of its history."""
        self._predictor = Predictor.load(bundle)
        training = self._predictor.info()["training"]
        self._day_s = int(training.get("history_to_s", 0)) if day_s is None else day_s

    def __call__(self, row: Mapping[Any, Any]) -> np.ndarray:
        name, text = row["name"], row.get("request")
        try:
            document = json.loads(text) if isinstance(text, str) else text
        except json.JSONDecodeError as error:
            raise ValueError(f"request of job {name!r} must be a JSON object, got {text!r} ({error})") from error
        if not isinstance(document, Mapping):
            raise ValueError(f"request of job {name!r} must be a JSON object, got {text!r}")
        life = self._predictor.predict(dict(document), self._day_s + int(float(row["requested_start_s"])))
        return np.maximum([life.quantile(float(level), 0.0) for level in LEVELS], 1.0)


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
    console.print(section)


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
