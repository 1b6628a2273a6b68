"""Jobs to plan from a CSV or Parquet table: one row a job, its past runs in lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.simulator.planning import DayState, Instance, Job

COLUMNS = ("name", "requested_start_s", "flexibility_s", "deadline_s", "durations_s")
"""Required, besides one column for each resource."""
SEPARATOR = ";"
"""Between the values of a list in a CSV file."""


DurationsOf = Callable[[Mapping[Any, Any]], np.ndarray]
"""Durations of a job in seconds, from its row of a table."""


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
        return DayState(int(now_s // step_s), _steps(started // step_s), _steps(np.ceil(ended / step_s)))


def _steps(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def read_jobs(path: Path, *, step_s: float = 1.0, resources: Sequence[str] = ("cpu_cores",),
              capacity: Sequence[float] | None = None, durations_of: DurationsOf | None = None,
              least_runs: int = 5) -> JobTable:
    """The jobs of a table. In a CSV file lists are numbers with semicolons between them: `600;720;655`.

    Columns: name; requested_start_s, flexibility_s, deadline_s, seconds from the day's begin; durations_s and one list
    for each resource, equally long: the past runs, oldest first; optional: parents, a list of names; started_s and
    ended_s, seconds, empty where that has not happened yet.

    durations_of: gives a job with fewer than `least_runs` runs its durations in seconds, from its row; usage is then
    that of the latest run, and durations_s may be empty.

    Times become whole steps: requested starts and durations are rounded up, latest starts and deadlines down. So a job
    starts less than a step later than it could.
    """
    table = _table(path)
    missing = [name for name in (*COLUMNS, *resources) if name not in table.columns]
    if missing:
        raise ValueError(f"{path.name} must have the columns {', '.join((*COLUMNS, *resources))}, got none named "
                         f"{missing[0]!r}")
    if not (np.isfinite(step_s) and step_s > 0):
        raise ValueError(f"step_s must be finite and above 0, got {step_s!r}")
    jobs = tuple(_job(row, step_s, resources, durations_of, least_runs) for row in table.to_dict("records"))
    instance = Instance(jobs, step_s, tuple(resources), None if capacity is None else np.array(capacity, float))
    return JobTable(instance, *(_times(table, name) for name in ("started_s", "ended_s")))


def _table(path: Path) -> pd.DataFrame:
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"jobs must be a CSV or Parquet file, got {found}: {str(path)!r}")
    if path.suffix == ".csv" or path.name.endswith(".csv.gz"):
        try:
            return pd.read_csv(path, dtype={"name": str, "parents": str})
        except (ValueError, EOFError) as error:  # also of pandas: empty, not UTF-8, a quote that does not end
            raise ValueError(f"{path.name} must be a CSV file with a header, got one that cannot be read "
                             f"({error})") from error
    if path.suffix == ".parquet":
        try:
            return pd.read_parquet(path)
        except ValueError as error:  # of pyarrow: its first line names the fault
            raise ValueError(f"{path.name} must be a Parquet file, got one that cannot be read ({error})") from error
    raise ValueError(f"jobs must be a file that ends in .csv, .csv.gz or .parquet, got {path.name!r}")


def _job(row: dict[Any, Any], step_s: float, resources: Sequence[str], durations_of: DurationsOf | None,
         least_runs: int) -> Job:
    name = row["name"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"name of a job must be a text that is not empty, got {name!r}")
    times = {}
    for title in ("requested_start_s", "flexibility_s", "deadline_s"):
        value = _number(name, title, row[title])
        if not 0 <= value < 1e12:
            raise ValueError(f"{title} of job {name!r} must be from 0 to 1e12 seconds, got {value!r}")
        times[title] = value
    start = int(np.ceil(times["requested_start_s"] / step_s))
    latest = int((times["requested_start_s"] + times["flexibility_s"]) // step_s)
    durations = _list(name, "durations_s", row["durations_s"])
    if not (np.isfinite(durations) & (durations > 0)).all():
        bad = durations[~(np.isfinite(durations) & (durations > 0))][0]
        raise ValueError(f"durations_s of job {name!r} must be finite and above 0, got {float(bad)!r}")
    lists = [_list(name, resource, row[resource]) for resource in resources]
    if durations_of is not None and len(durations) < least_runs and all(map(len, lists)):
        durations = durations_of(row)
        lists = [np.repeat(values[-1:], len(durations)) for values in lists]
    for resource, values in zip(resources, lists, strict=True):
        if len(values) != len(durations):
            raise ValueError(f"history of job {name!r} must have as many durations as usages, got {len(durations)} "
                             f"in durations_s and {len(values)} in {resource}")
    parents = row.get("parents")
    return Job(name, start, max(latest - start, 0), int(times["deadline_s"] // step_s),
               np.ceil(durations / step_s - 1e-9), np.stack(lists, axis=1) if len(durations) else np.zeros((0, 1)),
               tuple(_names(parents)))


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def _number(name: str, title: str, value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = np.nan
    if not np.isfinite(found):
        raise ValueError(f"{title} of job {name!r} must be a finite number, got {value!r}")
    return found


def _list(name: str, title: str, value: Any) -> np.ndarray:
    if isinstance(value, str):
        value = [text for text in value.split(SEPARATOR) if text.strip()]
    elif _is_missing(value):
        value = []
    try:
        return np.atleast_1d(np.asarray(value, np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{title} of job {name!r} must be a list of numbers, got {value!r}") from error


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [text.strip() for text in value.split(SEPARATOR) if text.strip()]
    if _is_missing(value):
        return []
    return [str(each) for each in value]


def _times(table: pd.DataFrame, name: str) -> np.ndarray | None:
    if name not in table.columns:
        return None
    found = []
    for job, value in zip(table["name"], table[name], strict=True):
        is_missing = _is_missing(value)
        found.append(np.nan if is_missing else _number(str(job), name, value))
    return np.array(found, np.float64)
