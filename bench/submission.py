"""What an entrant hands in: a folder `results/METHOD` with `config.json` and a file `TASK.csv.gz` for each task.

Every file has the rows and columns that its task fixes. What is missing, twice, extra or impossible is refused with an
error that names the file, the row, the rule and the value. Nothing in a file is a score: `evaluate` computes those.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.tasks import AGES_S, BENCH, HORIZONS_S, UPTIMES_S, VERSION, Task
from sojourn.inflated import text_of
from sojourn.publishing import whole_file
from sojourn.simulator import Workload, kernel
from sojourn.simulator.queueing import QueueJobs

RESULTS = BENCH / "results"
PREDICT_COLUMNS = ("request_id", "age_s", *(f"s_{horizon_s}" for horizon_s in HORIZONS_S))
END_COLUMNS = ("load", "arrangement", "request_id", "host", "decision_us")
QUEUE_COLUMNS = ("job_id", "start_s", "eta_low_s", "eta_high_s")
SYSTEM = "system.json"
DIVISIONS = ("closed", "open")
_CONFIG = {"method": str, "title": str, "authors": str, "division": str, "code": str, "knows_future": bool,
           "version": int, "tasks": list, "checks": dict}


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry by its folder.

    division: closed = code of this repository, run by `run`, that reads nothing but the task; open = all else.
    code: where the method is, an import path (closed) or an address (open). knows_future: an oracle, shown beside the
    ranks. tasks: names. checks: of each task the sha256 of the file whose maker passed the search for leaks.
    """

    folder: Path
    method: str
    title: str
    authors: str
    division: str
    code: str
    knows_future: bool
    tasks: tuple[str, ...]
    checks: Mapping[str, str]

    def file(self, task: str) -> Path:
        """What it hands in for a task."""
        return self.folder / f"{task}.csv.gz"

    def is_checked(self, task: str) -> bool:
        """Whether the file of a task is the one that passed the search for leaks."""
        return self.checks.get(task) == file_digest(self.file(task))


def file_digest(path: Path) -> str:
    """The sha256 of a submission's text, so that another gzip of the same text is the same."""
    return hashlib.sha256(_text(path).encode()).hexdigest()


def read_entry(folder: Path, is_new: bool = False) -> Entry:
    """The entry of a folder; ValueError that names config.json, the key, the rule and the value.

    is_new: it may have no files yet."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"an entry must have a config.json, got none in {folder}")
    try:
        config: Any = json.loads(path.read_text("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be JSON, got {error}") from None
    if not isinstance(config, dict) or set(config) != set(_CONFIG):
        got = ", ".join(config) or "none" if isinstance(config, dict) else f"a {type(config).__name__}"
        raise ValueError(f"{path} must have the keys {', '.join(_CONFIG)}, got {got}")
    for key, kind in _CONFIG.items():
        if type(config[key]) is not kind:
            raise ValueError(f"{path}: {key} must be a {kind.__name__}, got {config[key]!r}")
    if config["method"] != folder.name:
        raise ValueError(f"{path}: method must be the name of its folder, {folder.name}, got {config['method']!r}")
    if config["division"] not in DIVISIONS:
        raise ValueError(f"{path}: division must be one of {', '.join(DIVISIONS)}, got {config['division']!r}")
    if config["version"] != VERSION:
        raise ValueError(f"{path}: version must be {VERSION}, got {config['version']!r}")
    bad = [name for name in config["tasks"] if not isinstance(name, str) or not (folder / f"{name}.csv.gz").is_file()]
    if bad or not (config["tasks"] or is_new):
        raise ValueError(f"{path}: each of tasks must have a file TASK.csv.gz in the folder, got {(bad or [''])[0]!r}")
    return Entry(folder, config["method"], config["title"], config["authors"], config["division"], config["code"],
                 config["knows_future"], tuple(config["tasks"]), dict(config["checks"]))


def write_entry(entry: Entry) -> None:
    """Its config.json."""
    config = {"method": entry.method, "title": entry.title, "authors": entry.authors, "division": entry.division,
              "code": entry.code, "knows_future": entry.knows_future, "version": VERSION,
              "tasks": sorted(entry.tasks), "checks": dict(sorted(entry.checks.items()))}
    with whole_file(entry.folder / "config.json") as fresh:
        fresh.write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def read_curves(path: Path, task: Task) -> np.ndarray:
    """Survival at the horizons, float64 (n_requests, n_ages, n_horizons), of a predict task's file."""
    asked = task.asked
    table = _read(path, PREDICT_COLUMNS)
    wanted = [f"{request},{age_s}" for request, age_s in zip(asked["request_id"], asked["age_s"], strict=True)]
    place = _places(path, [f"{row[0]},{row[1]}" for row in table], wanted, "request_id,age_s")
    values = _numbers(path, table, PREDICT_COLUMNS, 2)
    _refuse(path, ~((values >= 0.0) & (values <= 1.0)), values, PREDICT_COLUMNS[2:], "from 0 to 1")
    rises = np.diff(values, axis=1, prepend=1.0) > 0.0
    _refuse(path, rises, values, PREDICT_COLUMNS[2:], "at most that of the shorter horizon")
    return values[place].reshape(-1, len(AGES_S), len(HORIZONS_S))


@dataclass(frozen=True, slots=True)
class Starts:
    """A schedule: start_s int64 (n,); eta_s: int64 (n, 2), an 80 % interval of the start, stated at submission."""

    start_s: np.ndarray
    eta_s: np.ndarray | None = None


def read_starts(path: Path, task: Task) -> Starts:
    """The starts of a queue task's file, in the order of the task's jobs; refused if they could not have been."""
    jobs, table = task.jobs, _read(path, QUEUE_COLUMNS)
    place = _places(path, [row[0] for row in table], [str(name) for name in jobs.request_ids], "job_id")
    has_eta = any(row[2] or row[3] for row in table)
    columns = QUEUE_COLUMNS if has_eta else QUEUE_COLUMNS[:2]
    values = _numbers(path, table, columns, 1)
    with np.errstate(invalid="ignore"):
        is_bad = ~((values >= 0) & (values < 2**40) & (np.floor(values) == values))
    _refuse(path, is_bad, values, columns[1:], "a whole number of seconds from 0 on")
    whole = values.astype(np.int64)[place]
    line = place + 2
    early = whole < jobs.submission_s[:, None]
    if early.any():
        row, column = (int(k) for k in np.argwhere(early)[0])
        raise ValueError(f"{path}, row {line[row]}: {columns[1 + column]} must be at least the job's submission, "
                         f"{jobs.submission_s[row]}, got {whole[row, column]} (job {jobs.request_ids[row]})")
    if has_eta and (bad := np.flatnonzero(whole[:, 1] > whole[:, 2])).size:
        raise ValueError(f"{path}, row {line[bad[0]]}: eta_high_s must be at least eta_low_s, {whole[bad[0], 1]}, got "
                         f"{whole[bad[0], 2]}")
    _check_capacity(path, jobs, whole[:, 0], line)
    return Starts(whole[:, 0], whole[:, 1:] if has_eta else None)


def _check_capacity(path: Path, jobs: QueueJobs, start_s: np.ndarray, line: np.ndarray) -> None:
    """At one second jobs end before others start."""
    n = len(jobs)
    time_s = np.concatenate([start_s, start_s + jobs.run_s])
    change = np.concatenate([jobs.size, -jobs.size])
    order = np.lexsort((change > 0, time_s))
    busy = np.cumsum(change[order])
    over = np.flatnonzero(busy > jobs.n_processors)
    if over.size:
        row = int(order[over[0]]) % n
        raise ValueError(f"{path}, row {line[row]}: processors in use must be at most {jobs.n_processors}, got "
                         f"{busy[over[0]]} at second {time_s[order[over[0]]]}, when job {jobs.request_ids[row]} starts")


Placements = Mapping[tuple[float, int], np.ndarray]
"""For each load and arrangement the host of each request, int64 (n,), from 0; -1 = rejected."""


def place_columns(task: Task) -> tuple[str, ...]:
    """The columns of a place task's file: `request_id`, and `host_LOAD_ARRANGEMENT` for each.

    The loads of one arrangement stand side by side: many hosts are then equal, and the file is smaller.
    """
    return ("request_id", *(f"host_{load}_{arrangement}" for load, arrangement in _by_arrangement(task)))


def _by_arrangement(task: Task) -> list[tuple[float, int]]:
    return sorted(task.workloads, key=lambda key: key[1])


def read_placements(path: Path, task: Task) -> Placements:
    """The hosts of a place task's file; refused if a host was too full, or had room for a rejected request."""
    columns, keys = place_columns(task), _by_arrangement(task)
    table = _read(path, columns)
    ids = _ids(task.workloads[keys[0]])
    rows = pd.Series(_places(path, [row[0] for row in table], ids.tolist(), "request_id"), ids)
    values = _hosts(path, _numbers(path, table, columns, 1), columns[1:],
                    np.array([len(task.workloads[key].hosts) for key in keys]))
    hosts = {}
    for at, key in enumerate(keys):
        own: np.ndarray = np.asarray(rows.loc[_ids(task.workloads[key])], np.int64)
        hosts[key] = values[own, at]
        _check_room(f"{path}, {columns[1 + at]}", task.workloads[key], hosts[key], own + 2)
    return {key: hosts[key] for key in task.workloads}


def read_decisions(path: Path, task: Task) -> tuple[Placements, Mapping[tuple[float, int], np.ndarray]]:
    """Of an end task's file the hosts, as `read_placements`, and of each decision its time in us, float64 (n,)."""
    table = _read(path, END_COLUMNS)
    wanted = [f"{load},{arrangement},{name}" for (load, arrangement), workload in task.workloads.items()
              for name in _ids(workload)]
    place = _places(path, [",".join(row[:3]) for row in table], wanted, "load,arrangement,request_id")
    values = _numbers(path, table, END_COLUMNS, 3)
    n_hosts = np.array([len(task.workloads[float(row[0]), int(row[1])].hosts) for row in table])[:, None]
    host = _hosts(path, values[:, :1], END_COLUMNS[3:], n_hosts)[:, 0]
    _refuse(path, ~(values[:, 1:] >= 0.0), values[:, 1:], END_COLUMNS[4:], "at least 0")
    hosts, times_us, begin = {}, {}, 0
    for key, workload in task.workloads.items():
        rows = place[begin:begin + len(workload.trace)]
        begin += len(rows)
        hosts[key], times_us[key] = host[rows], values[rows, 1]
        _check_room(str(path), workload, hosts[key], rows + 2)
    return hosts, times_us


def _ids(workload: Workload) -> pd.Index:
    return pd.Index(workload.trace.requests["request_id"].astype(str))


def _hosts(path: Path, values: np.ndarray, columns: Sequence[str], n_hosts: np.ndarray) -> np.ndarray:
    _refuse(path, ~((values >= -1) & (values < n_hosts) & (np.floor(values) == values)), values, columns,
            "a whole number from -1 (rejected) to below the number of hosts")
    return values.astype(np.int64)


def _check_room(what: str, workload: Workload, host: np.ndarray, line: np.ndarray) -> None:
    """At one second requests end before others arrive, and those arrive in the order of the trace."""
    n = len(host)
    time_s = np.concatenate([workload.departure_s, workload.placed_s])
    order = np.lexsort((np.arange(2 * n), np.repeat((0, 1), n), time_s))
    row, room = _first_fault(order, host, np.ascontiguousarray(workload.need), workload.capacity.copy())
    if row >= 0 and host[row] < 0:
        raise ValueError(f"{what}, row {line[row]}: host must not be -1 (rejected) if a host has room, got -1 "
                         f"with room on host {room} at second {workload.placed_s[row]}")
    if row >= 0:
        raise ValueError(f"{what}, row {line[row]}: host must have room for the request, got host {host[row]}, "
                         f"which has too little at second {workload.placed_s[row]}")


@kernel
def _first_fault(order: np.ndarray, host: np.ndarray, need: np.ndarray, free: np.ndarray) -> tuple[int, int]:
    """The first row that was rejected with room, and the host of that, or that has too little; -1, -1 = none. order: of
    departures, from 0, and arrivals, from n."""
    n, n_resources = need.shape
    for at in order:
        row = at % n
        where = host[row]
        if at < n and where >= 0:
            for d in range(n_resources):
                free[where, d] += need[row, d]
        elif at >= n and where >= 0:
            for d in range(n_resources):
                free[where, d] -= need[row, d]
                if free[where, d] < 0:
                    return int(row), int(where)
        elif at >= n:
            for other in range(len(free)):
                has_room = True
                for d in range(n_resources):
                    has_room = has_room and free[other, d] >= need[row, d]
                if has_room:
                    return int(row), int(other)
    return -1, -1


def write_placements(path: Path, task: Task, hosts: Placements) -> None:
    """A place task's file, in the order of the ids: equal hosts give equal bytes."""
    keys = _by_arrangement(task)
    by_id = [pd.Series(hosts[key], _ids(task.workloads[key])).sort_index() for key in keys]
    _write(path, place_columns(task), ([name, *row] for name, row in zip(
        by_id[0].index, np.stack([each.to_numpy() for each in by_id], axis=1).tolist(), strict=True)))


def write_decisions(path: Path, task: Task, hosts: Placements,
                    times_us: Mapping[tuple[float, int], np.ndarray]) -> None:
    """An end task's file, with the time of each decision, rounded to a tenth."""
    _write(path, END_COLUMNS, ([*key, *row] for key, workload in task.workloads.items() for row in zip(
        _ids(workload), hosts[key].tolist(), np.round(times_us[key], 1).tolist(), strict=True)))


def write_system(entry: Entry, task: str, system: Mapping[str, Any]) -> None:
    """`system.json` of an entry: of each end task the machine that decided, and the sha256 of the file it wrote."""
    path = entry.folder / SYSTEM
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    found[task] = {"file_sha256": file_digest(entry.file(task)), **system}
    with whole_file(path) as fresh:
        fresh.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", "utf-8")


def read_system(file: Path) -> Mapping[str, Any]:
    """The machine of an end task's file; ValueError if its folder's `system.json` is not of this file."""
    path, task = file.parent / SYSTEM, file.name.removesuffix(".csv.gz")
    try:
        found: Any = json.loads(path.read_text("utf-8"))[task]
        digest, words = found["file_sha256"], {key: found[key] for key in ("processor", "cores", "os")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} must say for {task} file_sha256, processor, cores and os, got {error!r}") from None
    if digest != file_digest(file):
        raise ValueError(f"{path}: file_sha256 of {task} must be {file_digest(file)}, got {digest!r}")
    return words


def write_totals(path: Path, request_ids: Iterable[Any], totals_s: np.ndarray) -> None:
    """The fixed curves of a place task: predicted total lifetimes from each of UPTIMES_S on, int64 (n, m)."""
    _write(path, ("request_id", *(f"u_{uptime_s}" for uptime_s in UPTIMES_S)),
           ([name, *row] for name, row in zip(request_ids, totals_s.tolist(), strict=True)))


def write_curves(path: Path, task: Task, survival: np.ndarray) -> None:
    """A predict task's file of survival (n_requests, n_ages, n_horizons), with three decimals."""
    asked = task.asked
    whole = np.rint(np.asarray(survival).reshape(len(asked), len(HORIZONS_S)) * 1_000).astype(np.int64)
    known = {value: f"{value / 1_000:g}" for value in range(1_001)}
    _write(path, PREDICT_COLUMNS, ([request, age_s, *(known.get(value, "nan") for value in row)] for request, age_s, row
                                   in zip(asked["request_id"], asked["age_s"], whole.tolist(), strict=True)))


def write_starts(path: Path, task: Task, starts: Starts) -> None:
    """A queue task's file."""
    eta: Sequence[Sequence[Any]] = [("", "")] * len(starts.start_s) if starts.eta_s is None else starts.eta_s.tolist()
    _write(path, QUEUE_COLUMNS, ([name, start_s, *interval] for name, start_s, interval in zip(
        task.jobs.request_ids, starts.start_s.tolist(), eta, strict=True)))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """The same rows give the same bytes: the gzip has no time and no name."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    with whole_file(path) as fresh:
        fresh.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


def _text(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"{path} must be a gzipped CSV file, got none")
    return text_of(path)


def _read(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The cells below the header; row 1 of an error is the header."""
    try:
        rows = list(csv.reader(io.StringIO(_text(path))))
    except csv.Error as error:
        raise ValueError(f"{path} must be a CSV file, got {error}") from None
    if not rows or rows[0] != list(columns):
        raise ValueError(f"{path}, row 1: columns must be {','.join(columns)}, got {','.join(rows[0]) if rows else ''}")
    for at, row in enumerate(rows[1:], 2):
        if len(row) != len(columns):
            raise ValueError(f"{path}, row {at}: must have {len(columns)} cells, got {len(row)}")
    return rows[1:]


def _places(path: Path, got: list[str], wanted: list[str], name: str) -> np.ndarray:
    """Of each wanted row its position in the file."""
    at: dict[str, int] = {}
    known = set(wanted)
    for row, key in enumerate(got):
        if key not in known:
            raise ValueError(f"{path}, row {row + 2}: {name} must be one that the task asks of, got {key}")
        if key in at:
            raise ValueError(f"{path}, row {row + 2}: {name} must be there once, got {key} also in row {at[key] + 2}")
        at[key] = row
    missing = [key for key in wanted if key not in at]
    if missing:
        raise ValueError(f"{path}: must have a row for each {name} of the task ({len(wanted):,}), got none for "
                         f"{missing[0]} and {len(missing) - 1:,} more")
    return np.array([at[key] for key in wanted], np.int64)


def _numbers(path: Path, table: list[list[str]], columns: Sequence[str], first: int) -> np.ndarray:
    cells = [row[first:len(columns)] for row in table]
    try:
        values = np.array(cells, np.float64)
    except ValueError:
        values = pd.DataFrame(cells).apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = (int(k) for k in bad[0])
        raise ValueError(f"{path}, row {row + 2}: {columns[first + column]} must be a finite number, got "
                         f"{cells[row][column]!r}")
    return values


def _refuse(path: Path, is_bad: np.ndarray, values: np.ndarray, columns: Sequence[str], rule: str) -> None:
    if is_bad.any():
        row, column = (int(k) for k in np.argwhere(is_bad)[0])
        raise ValueError(f"{path}, row {row + 2}: {columns[column]} must be {rule}, got {values[row, column].item()!r}")
