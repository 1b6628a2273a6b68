"""Reads the instance events of the Google cluster traces of 2019 (ClusterData2019, "v3"), as BigQuery exports them.

Schema: `clusterdata_trace_format_v3.proto` of google/cluster-data, and "Google cluster-usage traces v3".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import TextRows, delimited_rows, line_blocks
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_NEEDED = ("time", "type", "collection_id", "instance_index", "cpus", "memory")
_OTHERS = ("scheduling_class", "collection_type", "priority", "alloc_collection_id", "machine_id")
_OF_COLLECTION = ("collection_id", "user", "collection_logical_name")
_SUBMIT, _SCHEDULE, _LAST_TYPE = 0, 3, 10
_ENDS = {4: "evict", 5: "fail", 6: "finish", 7: "kill", 8: "lost"}
_CUT = ("evict", "lost")
_START_US = 600_000_000
"""The trace begins at second 600 of its clock; what happened before is at time 0."""
_SECOND_US = 1_000_000
_MAX_INDEX = 2**31
_ALLOC = 1
_COLUMNS = ("time", "collection", "index", "type", "cpus", "memory", "sched_class", "priority", "is_alloc",
            "has_machine", "file", "line")


def read_google_2019(path: str | Path, *, in_allocs: bool = False, censor_cut: bool = False,
                     horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one file of `instance_events`, or of all `instance_events*.json|csv(.gz)` of a folder.

    JSON has one event a line, as BigQuery writes it: whole numbers may be texts, and null values may
    be left out. CSV has a header; nested columns are `resource_request.cpus` or `resource_request_cpus`.
    Rows may be in any order, so all events are held in memory: about 350 bytes each.

    Each scheduling of an instance is a request, `request_id` = collection-index-n (n = 0 for its first): an evicted
    task that is scheduled elsewhere is a new request. Arrival is its SCHEDULE event, departure the EVICT, FAIL, FINISH,
    KILL or LOST event after it; without it, running at the horizon, the last event. An instance scheduled at time 0 ran
    before: start unknown. So did one that ends on a machine and has no event before. Time 0 of the trace is second 600
    of its clock, or the first event of files that begin later.

    in_allocs: False reads what gets room of a machine: alloc instances (reservations), and tasks
    outside of them. True reads all tasks and no alloc instances.

    cpu_cores and mem_gib are shares of the largest machine (0-1). Owners: `user` and `logical_name` (of recurring
    jobs), if the folder has `collection_events*` too, and `job`; categories: `sched_class`, `priority`, `thing` (task
    or alloc); numbers: `queued_s` (SUBMIT to SCHEDULE), `n_scheduled_before`. `end_event` is known only at the end and
    has no role. censor_cut: add `is_cut` (bool) for evicted and lost requests, as in `google-2011`.

    horizon_s: end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    Raises FileNotFoundError if there is no file, ValueError if one has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "instance_events-000000000000.json"
    >>> event = {"collection_id": "7", "instance_index": 0, "resource_request": {"cpus": 0.5, "memory": 0.25}}
    >>> lines = [{"time": "650000000", "type": 6, **event}, {"time": "620000000", "type": 3, **event}]
    >>> _ = path.write_text(chr(10).join(map(json.dumps, lines)))
    >>> trace, report = read_google_2019(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "end_event"]].values.tolist()
    [['7-0-0', 0, 30, 0.5, 'finish']]
    """
    source = Path(path)
    files = _files(source, "instance_events") if source.is_dir() else [source]
    if not files:
        raise FileNotFoundError(f"{source} must hold instance_events*.json or .csv, plain or .gz")
    ledger = ReadLedger()
    parts: dict[str, list[np.ndarray]] = {name: [] for name in _COLUMNS}
    n_left_out = 0
    for number, file in enumerate(files):
        for rows in _rows(file, _NEEDED, _OTHERS, ledger):
            n_left_out += _take(rows, number, in_allocs, parts)
    events = _in_order(parts)
    found = _replayed(events, [file.name for file in files], ledger)
    first_us = int(found.times_us.min()) if len(found.times_us) else 0
    origin_us = _START_US if first_us == 0 else first_us
    requests = all_requests([found.table(events, origin_us)] if found.event else [], source,
                            "scheduled instance and a later event", ledger,
                            last_s=int(found.times_us.max(initial=0) > _START_US))
    horizon = horizon_of(np.maximum(-(-(found.times_us - origin_us) // _SECOND_US), 1), horizon_s)
    owners: tuple[str, ...] = ("job",)
    collections = _files(source, "collection_events") if source.is_dir() else []
    if collections:
        owners = ("user", "logical_name", "job")
        names = _names(collections, ledger)
        for place, name in enumerate(owners[:2]):
            requests[name] = [names.get(job, ("missing", "missing"))[place] for job in requests["job"]]
    requests = cut_at(requests, horizon, ledger, files[-1].name)
    if censor_cut:
        requests["is_cut"] = requests["end_event"].isin(_CUT) & requests["departure_s"].notna()
    if n_left_out:
        kind = "alloc instances" if in_allocs else "tasks inside alloc instances"
        ledger.note(f"{n_left_out:,} rows of {kind} left out (in_allocs={not in_allocs} reads them)")
    meta = {"source": f"Google ClusterData2019 instance events, {len(files)} file(s) from {files[0].name}",
            "licence": "CC BY 4.0", "origin_s": origin_us / _SECOND_US,
            "units": "cpu_cores and mem_gib are shares of the largest machine (0-1)",
            "known_at_end": ["end_event", *(["is_cut"] if censor_cut else [])]}
    roles = Roles(owners=owners, categories=("sched_class", "priority", "thing"),
                  numbers=("queued_s", "n_scheduled_before"))
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=("end_event",), is_event_log=True)


GOOGLE_2019 = Reader(
    read_google_2019,
    path="folder of `instance_events*` of the Google cluster traces of 2019 (JSON or CSV of BigQuery), or one file",
    arrival="SCHEDULE event; none where it stands at time 0",
    departure="EVICT, FAIL, FINISH, KILL or LOST event; none without one",
    owners="`user`, `logical_name` (with `collection_events*`), `job`",
    categories="`sched_class`, `priority`, `thing`",
    numbers="`queued_s`, `n_scheduled_before`",
    no_role="`end_event`, `is_cut`",
)


def _files(folder: Path, stem: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"{stem}*") if path.name.removesuffix(".gz").endswith((".json", ".csv")))


def _rows(file: Path, needed: Sequence[str], others: Sequence[str], ledger: ReadLedger) -> Iterator[TextRows]:
    """Blocks of cells under the names `needed` and `others`, an empty cell for a missing value."""
    first = next((line for _, lines in line_blocks(file) for line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        yield from _json_rows(file, [*needed, *others], ledger)
        return
    for rows in delimited_rows(file, ledger):
        names = [name.replace("resource_request.", "").replace("resource_request_", "") for name in rows.names]
        missing = [name for name in needed if name not in names]
        if missing:
            got = ", ".join(rows.names)[:200]
            raise ValueError(f"{file}: line 1 must have the columns {', '.join(needed)}, got {got!r}")
        absent = [name for name in others if name not in names]
        cells = [[*row, *[""] * len(absent)] for row in rows.cells]
        yield TextRows(file.name, [*names, *absent], rows.line, rows.raw, cells, ledger)


def _json_rows(file: Path, names: Sequence[str], ledger: ReadLedger) -> Iterator[TextRows]:
    n_good = 0
    for first_line, lines in line_blocks(file):
        raw, cells, number, wrong, wrong_raw = [], [], [], [], []
        for line_number, line in enumerate(lines, first_line):
            if not line.strip():
                continue
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict):
                sizes = event.get("resource_request")
                if isinstance(sizes, dict):
                    event |= {name: sizes.get(name) for name in ("cpus", "memory")}
                raw.append(line)
                values = [event.get(name) for name in names]
                row = [value if type(value) is str else "" if value is None else str(value) for value in values]
                if "\\u" in line:  # half of a pair of UTF-16, which no table can hold, becomes a question mark
                    row = [cell.encode("utf-8", "replace").decode() for cell in row]
                cells.append(row)
                number.append(line_number)
            else:
                wrong.append(line_number)
                wrong_raw.append(line)
        ledger.read(len(raw) + len(wrong))
        ledger.refuse("not a JSON object", file.name, np.array(wrong, np.int64), wrong_raw)
        n_good += len(raw)
        if raw:
            yield TextRows(file.name, list(names), np.array(number, np.int64), raw, cells, ledger)
    if not n_good:
        raise ValueError(f"{file}: must hold JSON objects, one a line, got none")


def _take(rows: TextRows, file: int, in_allocs: bool, parts: dict[str, list[np.ndarray]]) -> int:
    """Append one block's good events to the columns; the number of rows that `in_allocs` leaves out."""
    time, kind, collection, index = (rows.number(name) for name in _NEEDED[:4])
    cpus, memory = (rows.number(name, is_required=False) for name in ("cpus", "memory"))
    sched_class, of_alloc, priority, alloc, machine = (
        np.nan_to_num(rows.number(name, is_required=False)) for name in _OTHERS)
    rows.refuse("time inside the 600 s before the trace, or negative", (time < _START_US) & (time != 0))
    for values, rule in ((time, "time"), (collection, "collection_id"), (index, "instance_index")):
        rows.refuse(f"{rule} not a whole number >= 0", (values < 0) | (values % 1 != 0))
    rows.refuse("instance_index above 2^31", index >= _MAX_INDEX)
    rows.refuse(f"type outside 0 .. {_LAST_TYPE}", ~np.isin(kind, np.arange(_LAST_TYPE + 1)))
    rows.refuse("scheduling_class outside 0 .. 3", ~np.isin(sched_class, np.arange(4)))
    rows.refuse("collection_type neither 0 nor 1", (of_alloc != 0) & (of_alloc != _ALLOC))
    rows.refuse("priority not a whole number in 0 .. 999", (priority < 0) | (priority > 999) | (priority % 1 != 0))
    rows.refuse("end at time 0", (time == 0) & np.isin(kind, list(_ENDS)))
    rows.refuse("size outside 0 .. 1", np.any([(size < 0) | (size > 1) for size in (cpus, memory)], axis=0))
    is_left_out = (of_alloc == _ALLOC) if in_allocs else (of_alloc != _ALLOC) & (alloc > 0)
    for name, size in (("cpus", cpus), ("memory", memory)):
        rows.repair(f"{name} missing: 0 taken", (kind == _SCHEDULE) & np.isnan(size) & ~is_left_out)
    is_left_out &= rows.is_kept
    kept = rows.is_kept & ~is_left_out
    block = {"time": time, "collection": collection, "index": index, "type": kind, "cpus": np.nan_to_num(cpus),
             "memory": np.nan_to_num(memory), "sched_class": sched_class, "priority": priority,
             "is_alloc": of_alloc == _ALLOC, "has_machine": machine != 0, "file": np.full(len(time), file),
             "line": rows.line}
    whole = {"time", "collection", "index", "line"}
    for name, values in block.items():
        of = np.int64 if name in whole else values.dtype if name in ("cpus", "memory") else np.int16
        parts[name].append(values[kept].astype(of))
    return int(is_left_out.sum())


@dataclass(slots=True)
class _Found:
    """Requests of the events: lists with a value for each. Times in microseconds of the file's clock, -1 = unknown.

    event: the event that each starts with, a row of the sorted events. n_before: schedulings of its instance before.
    times_us: of all good events.
    """

    event: list[int] = field(default_factory=list)
    arrival_us: list[int] = field(default_factory=list)
    departure_us: list[int] = field(default_factory=list)
    submit_us: list[int] = field(default_factory=list)
    n_before: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    times_us: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def start(self, event: int, arrival_us: int, submit_us: int, n_before: int) -> int:
        """Add a request; its place."""
        self.event.append(event)
        self.arrival_us.append(arrival_us)
        self.departure_us.append(-1)
        self.submit_us.append(submit_us)
        self.n_before.append(n_before)
        self.end.append(-1)
        return len(self.event) - 1

    def stop(self, place: int, time_us: int, kind: int) -> None:
        """End a request."""
        self.departure_us[place], self.end[place] = time_us, kind

    def table(self, events: dict[str, np.ndarray], origin_us: int) -> pd.DataFrame:
        """All requests, times in seconds after `origin_us`."""
        of = {name: column[np.array(self.event, np.int64)] for name, column in events.items()}
        arrival_us, submit_us = np.array(self.arrival_us, np.int64), np.array(self.submit_us, np.int64)
        job = pd.Series(of["collection"]).astype(str)
        ids = job + "-" + pd.Series(of["index"]).astype(str) + "-" + pd.Series(self.n_before).astype(str)
        table = pd.DataFrame({"line": of["line"], "request_id": ids.astype("str")})
        for name, times_us in (("arrival", arrival_us), ("departure", np.array(self.departure_us, np.int64))):
            table[f"{name}_s"] = pd.Series((times_us - origin_us) // _SECOND_US, dtype="Int64").mask(times_us < 0)
        is_known = (submit_us > 0) & (submit_us <= arrival_us)
        return table.assign(
            cpu_cores=of["cpus"], mem_gib=of["memory"], job=job.astype("str"),
            sched_class=pd.Series(of["sched_class"]).astype("str"), priority=pd.Series(of["priority"]).astype("str"),
            thing=np.where(of["is_alloc"] == _ALLOC, "alloc", "task"),
            queued_s=np.where(is_known, (arrival_us - submit_us) / _SECOND_US, np.nan),
            n_scheduled_before=np.array(self.n_before, float), end_event=[_ENDS.get(kind, "none") for kind in self.end])


def _replayed(events: dict[str, np.ndarray], files: Sequence[str], ledger: ReadLedger) -> _Found:
    """Requests of events in order of instance and time; what comes out of turn is refused."""
    times, kinds, has_machine = (events[name].tolist() for name in ("time", "type", "has_machine"))
    keys = list(zip(events["collection"].tolist(), events["index"].tolist(), strict=True))
    found = _Found()
    bad: dict[str, list[int]] = {"scheduled again while running": [], "end without a schedule": []}
    n_before = 0
    key, running, submit_us, n_scheduled, held = (-1, -1), -1, -1, 0, -1
    for i, each in enumerate(keys):
        is_first = each != key
        if is_first:
            key, running, submit_us, n_scheduled, held = each, -1, -1, 0, -1
        kind, at = kinds[i], times[i]
        if kind == _SUBMIT:
            submit_us = at
        elif kind == _SCHEDULE and running >= 0:
            bad["scheduled again while running"].append(i)
        elif kind == _SCHEDULE:
            running = found.start(i, at or -1, submit_us, n_scheduled)
            n_scheduled += 1
            if held >= 0:
                found.stop(running, at, held)
                running, submit_us, held = -1, -1, -1
        elif kind in _ENDS and running >= 0:
            found.stop(running, at, kind)
            running, submit_us = -1, -1
        elif kind in _ENDS and (i + 1 < len(keys) and kinds[i + 1] == _SCHEDULE and keys[i + 1] == each
                                and times[i + 1] == at):  # it ended in the microsecond in which it began
            held = kind
        elif kind in _ENDS and is_first and has_machine[i]:
            found.stop(found.start(i, -1, -1, 0), at, kind)
            n_scheduled += 1
            n_before += 1
        elif kind in _ENDS and submit_us < 0:
            bad["end without a schedule"].append(i)
        elif kind in _ENDS:  # it was taken back while it waited
            submit_us = -1
    is_good = np.ones(len(keys), bool)
    for rule, places in bad.items():
        is_good[places] = False
        for number, name in enumerate(files):
            of = [i for i in places if events["file"][i] == number]
            raw = [f"collection {keys[i][0]}, instance {keys[i][1]}: type {kinds[i]} at {times[i]} us" for i in of]
            ledger.refuse(rule, name, events["line"][of], raw)
    ledger.repair("end without any event before it: start unknown", n_before)
    found.times_us = events["time"][is_good]
    return found


def _in_order(parts: dict[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    """All events as one table in order of instance and time; at one time ends come first, and schedules last."""
    events = {}
    for name in list(parts):
        columns = parts.pop(name)
        events[name] = np.concatenate(columns) if columns else np.zeros(0, np.int64)
    is_end = np.isin(events["type"], list(_ENDS))
    rank = np.where(is_end, 0, np.where(events["type"] == _SCHEDULE, 2, 1))
    order = np.lexsort((rank, events["time"], events["index"], events["collection"]))
    return {name: column[order] for name, column in events.items()}


def _names(files: Sequence[Path], ledger: ReadLedger) -> dict[str, tuple[str, str]]:
    """User and logical name of each collection, by its first row."""
    names: dict[str, tuple[str, str]] = {}
    for file in files:
        for rows in _rows(file, _OF_COLLECTION[:1], _OF_COLLECTION[1:], ledger):
            number = rows.number("collection_id")
            rows.refuse("collection_id not a whole number >= 0", (number < 0) | (number % 1 != 0))
            user, logical = rows.text("user"), rows.text("collection_logical_name")
            for i in np.flatnonzero(rows.is_kept).tolist():
                names.setdefault(str(int(number[i])), (user[i] or "missing", logical[i] or "missing"))
    return names
