"""Jobs to plan from a CSV or Parquet table: one row a job, its past runs in lists. If a job has few runs, quantiles
of the lifetime that a model predicts take their place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.flows.placement.snapshot import SnapshotTable, is_missing, number_of, table_of
from sojourn.serving import Predictor
from sojourn.simulator.planning import DayState, Instance, RecurringJob

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
