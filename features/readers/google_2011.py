"""Reads the task events of the Google cluster trace of 2011 (ClusterData2011_2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import LatestTimes, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_COLUMNS = ("time_us", "missing_info", "job", "task_index", "machine", "event", "user", "sched_class", "priority",
            "cpu", "memory", "disk", "different_machine")
_SUBMIT, _SCHEDULE, _LAST_UPDATE = 0, 1, 8
_ENDS = {2: "evict", 3: "fail", 4: "finish", 5: "kill", 6: "lost"}
_CUT = ("evict", "lost")
_START_US = 600_000_000
"""The trace starts at second 600 of its clock; earlier events are at time 0 (format document, "Times")."""
_UNKNOWN = -1
_SECOND_US = 1_000_000


@dataclass(slots=True)
class _Task:
    """The state of one task: row of its running request (-1 = none), last submit, schedulings."""

    running: int = -1
    submit_us: int = _UNKNOWN
    n_scheduled: int = 0


@dataclass(slots=True)
class _Events:
    """Requests from the events so far, column by column; times in microseconds of the file's clock."""

    tasks: dict[tuple[int, int], _Task] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    columns: dict[str, list[object]] = field(default_factory=lambda: {name: [] for name in (
        "request_id", "arrival_us", "departure_us", "cpu_cores", "mem_gib", "user", "job", "sched_class", "priority",
        "disk", "queued_s", "n_scheduled_before", "end_event")})
    first_us: int = -1
    last_us: int = 0
    latest: LatestTimes = field(default_factory=LatestTimes)

    def start(self, task: _Task, key: tuple[int, int], time_us: int, row: dict[str, object]) -> None:
        """Add a request that starts at `time_us` (-1 = unknown) as the task's running one."""
        task.running = len(self.columns["request_id"])
        is_wait_known = task.submit_us > 0 and time_us >= task.submit_us
        fields = row | {
            "request_id": f"{key[0]}-{key[1]}-{task.n_scheduled}", "arrival_us": time_us, "departure_us": _UNKNOWN,
            "queued_s": (time_us - task.submit_us) / _SECOND_US if is_wait_known else np.nan,
            "n_scheduled_before": float(task.n_scheduled), "end_event": "none"}
        for name, values in self.columns.items():
            values.append(fields[name])
        task.n_scheduled += 1

    def end(self, task: _Task, time_us: int, event: int) -> None:
        """End the running request of `task`."""
        self.columns["departure_us"][task.running] = time_us
        self.columns["end_event"][task.running] = _ENDS[event]
        task.running, task.submit_us = -1, _UNKNOWN


def read_google_2011(path: str | Path, *, censor_cut: bool = False,
                     horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one `task_events` part (.csv or .csv.gz), or of all parts in a folder, which must be contiguous.

    Each scheduling of a task is a request, `request_id` = job-index-n (n = 0 for its first): an evicted or failed task
    is submitted and scheduled again. Arrival is its schedule event (1), departure the evict, fail, finish, kill or lost
    event after it (2-6); without it, running at the horizon, the last event. A task scheduled at time 0 ran before:
    start unknown. An end on a machine without a schedule is of such a task, too, unless it was submitted later. Time 0
    of the trace is second 600 of the file, the start of its record, or the first event of later parts.

    cpu_cores, mem_gib and `disk` are shares of the largest machine (0-1), as in the file, not cores and GiB.
    Owners: user, job; categories: sched_class, priority; numbers: disk, `queued_s` (submit to
    schedule), `n_scheduled_before`. `end_event` is known only at the end and has no role.

    horizon_s: end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    censor_cut: add `is_cut` (bool): evicted or lost, so that the observed end is a competing one.
    `departure_s` stays, since the request leaves its host then and missing means "running at the horizon".

    Raises FileNotFoundError if there is no part, ValueError if one has another format or is missing.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "task_events.csv"
    >>> tail = "u,2,9,0.5,0.25,0.001,0"
    >>> _ = path.write_text(chr(10).join([f"0,,7,0,3,1,{tail}", f"610000000,,8,0,,0,{tail}",
    ...     f"620000000,,8,0,3,1,{tail}", f"650000000,,8,0,3,2,{tail}", f"700000000,,7,0,3,4,{tail}"]))
    >>> trace, report = read_google_2011(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "queued_s", "end_event"]].values.tolist()
    [['7-0-0', <NA>, 100, nan, 'finish'], ['8-0-0', 20, 50, 10.0, 'evict']]
    """
    source = Path(path)
    parts = _parts(source) if source.is_dir() else [source]
    ledger = ReadLedger()
    events = _Events()
    for part in parts:
        for rows in text_rows(part, ledger, separator=",", names=_COLUMNS, has_header=False):
            _replay(rows, events)
    n_kept = len(events.columns["request_id"])
    if not n_kept or events.last_us <= _START_US:
        counts = dict(ledger.report(0).refused)
        raise ValueError(f"{source}: must hold a scheduled task and a later event, got none; refused: {counts}")
    origin_us = _START_US if events.first_us == 0 else events.first_us
    requests = _table(events, origin_us)
    times_s = np.maximum(-(-(events.latest.kept - origin_us) // _SECOND_US), 1)
    horizon = horizon_of(times_s, horizon_s, n_rows=events.latest.n)
    requests = cut_at(requests, horizon, ledger, parts[-1].name)
    if censor_cut:
        requests["is_cut"] = requests["end_event"].isin(_CUT) & requests["departure_s"].notna()
    meta = {"source": f"Google ClusterData2011_2 task events, {len(parts)} part(s) from {parts[0].name}",
            "licence": "CC BY 4.0", "origin_s": origin_us / _SECOND_US,
            "units": "cpu_cores, mem_gib and disk are shares of the largest machine (0-1)",
            "known_at_end": ["end_event", *(["is_cut"] if censor_cut else [])]}
    roles = Roles(owners=("user", "job"), categories=("sched_class", "priority"),
                  numbers=("disk", "queued_s", "n_scheduled_before"))
    return trace_of(requests, horizon.time_s, roles, ledger, meta, is_event_log=True)


GOOGLE_2011 = Reader(
    read_google_2011,
    path="folder of contiguous task event parts, or one part",
    arrival="schedule event; none where it stands at time 0",
    departure="evict, fail, finish, kill or lost event; none without one",
    owners="`user`, `job`",
    categories="`sched_class`, `priority`",
    numbers="`disk`, `queued_s`, `n_scheduled_before`",
    no_role="`end_event`, `is_cut`",
)


def _replay(rows: TextRows, events: _Events) -> None:
    time, job, index, event, sched_class, priority = (rows.number(name) for name in (
        "time_us", "job", "task_index", "event", "sched_class", "priority"))
    cpu, memory, disk = (rows.number(name, is_required=False) for name in ("cpu", "memory", "disk"))
    rows.refuse("time inside the 600 s before the trace, or negative", (time < _START_US) & (time != 0))
    for values, rule in ((time, "time"), (job, "job"), (index, "task_index")):
        rows.refuse(f"{rule} not a whole number >= 0", (values < 0) | (values % 1 != 0))
    rows.refuse("event outside 0 .. 8", ~np.isin(event, np.arange(_LAST_UPDATE + 1)))
    rows.refuse("sched_class outside 0 .. 3", ~np.isin(sched_class, np.arange(4)))
    rows.refuse("priority outside 0 .. 11", ~np.isin(priority, np.arange(12)))
    rows.refuse("end at time 0", (time == 0) & np.isin(event, list(_ENDS)))
    rows.refuse("size outside 0 .. 1", np.any([(size < 0) | (size > 1) for size in (cpu, memory, disk)], axis=0))
    is_schedule = event == _SCHEDULE
    for name, size in (("cpu", cpu), ("memory", memory), ("disk", disk)):
        rows.repair(f"{name} missing: 0 taken", is_schedule & np.isnan(size))
    cpu, memory, disk = (np.nan_to_num(size) for size in (cpu, memory, disk))
    user, has_machine = rows.text("user"), rows.text("machine") != ""
    is_twice, is_early, is_lone = (np.zeros(len(time), bool) for _ in range(3))
    is_back, is_unknown = np.zeros(len(time), bool), np.zeros(len(time), bool)
    for i in np.flatnonzero(rows.is_kept).tolist():
        at, kind, key = int(time[i]), int(event[i]), (int(job[i]), int(index[i]))
        task = events.tasks.get(key) or events.tasks.setdefault(key, _Task())
        owner = user[i] or "missing"
        row = {"cpu_cores": cpu[i], "mem_gib": memory[i], "disk": disk[i], "job": str(key[0]),
               "user": events.names.setdefault(owner, owner), "sched_class": str(int(sched_class[i])),
               "priority": str(int(priority[i]))} if kind == _SCHEDULE or (kind in _ENDS and task.running < 0) else {}
        if kind == _SUBMIT:
            task.submit_us = at
        elif kind == _SCHEDULE:
            is_twice[i] = task.running >= 0
            if not is_twice[i]:
                events.start(task, key, at or _UNKNOWN, row)
        elif kind in _ENDS and task.running >= 0:
            is_early[i] = at < int(str(events.columns["arrival_us"][task.running]))
            if not is_early[i]:
                events.end(task, at, kind)
        elif kind in _ENDS:
            is_waiting = task.submit_us >= 0 and not has_machine[i]
            is_unknown[i] = has_machine[i] and task.submit_us <= 0 and not task.n_scheduled
            is_lone[i] = not is_waiting and not is_unknown[i]
            if is_unknown[i]:
                events.start(task, key, _UNKNOWN, row)
                events.end(task, at, kind)
        if not (is_twice[i] or is_early[i] or is_lone[i]):
            is_back[i] = at < events.last_us
            events.last_us = max(events.last_us, at)
            events.first_us = at if events.first_us < 0 else min(events.first_us, at)
    rows.refuse("scheduled again while running", is_twice)
    rows.refuse("departure before arrival", is_early)
    rows.refuse("end without a schedule", is_lone)
    events.latest.add(time[rows.is_kept])
    rows.repair("time before the row above: taken in file order", is_back)
    rows.repair("end without a schedule of a task from before the trace: start unknown", is_unknown)


def _table(events: _Events, origin_us: int) -> pd.DataFrame:
    table = pd.DataFrame({"request_id": pd.Series(events.columns.pop("request_id"), dtype="str")})
    for name in ("arrival", "departure"):
        time_us = np.array(events.columns.pop(f"{name}_us"), np.int64)
        table[f"{name}_s"] = pd.Series((time_us - origin_us) // _SECOND_US, dtype="Int64").mask(time_us < 0)
    for name in ("cpu_cores", "mem_gib", "disk", "queued_s", "n_scheduled_before"):
        table[name] = np.array(events.columns.pop(name), np.float64)
    for name in ("user", "job", "sched_class", "priority", "end_event"):
        table[name] = pd.Series(events.columns.pop(name), dtype="str").astype("category")
    return table


def _parts(folder: Path) -> list[Path]:
    numbered = {int(match[1]): path for path in folder.iterdir()
                if (match := re.fullmatch(r"(?:task_events_)?part-(\d{5})-of-\d{5}\.csv(?:\.gz)?", path.name))}
    if not numbered:
        raise FileNotFoundError(f"{folder} must hold task_events_part-00000-of-00500.csv(.gz) or later parts")
    order = sorted(numbered)
    gaps = [number for number in range(order[0], order[-1]) if number not in numbered]
    if gaps:
        raise ValueError(f"{folder}: parts must be contiguous, got none with the number {gaps[0]:05}")
    return [numbered[number] for number in order]
