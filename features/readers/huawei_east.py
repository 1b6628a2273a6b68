"""Reads Huawei-East-1: creations and deletions of VMs of a month in one region of Huawei Cloud, as VMAgent uses them.

Schema: `Huawei-East-1/README.md` of huaweicloud/VM-placement-dataset, and VMAgent's docs, "Dataset"
(Sheng et al., IJCAI 2022; first used in "Learning to schedule multi-NUMA virtual machines").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import LatestTimes, all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_FILE = "Huawei-East-1.csv"
_COLUMNS = ("vmid", "cpu", "memory", "time", "type")
_CREATION, _DELETION = 0, 1
_MAX_SIZE = 1e6
_UNKNOWN = -1


def read_huawei_east(path: str | Path, *, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of `Huawei-East-1.csv(.gz)`; path: that file or its folder.

    A row is a creation (type 0) or a deletion (type 1). A VM without a deletion runs at the horizon, the last time of
    the file. A deletion without a creation is of a VM from before the file: start unknown, and its row has its size.
    Times are seconds from the file's begin, rounded to whole ones; rows must be in order of time within a VM. A `vmid`
    that is created again after its deletion is a request of its own, `vmid-n` (n = 1 for the second).

    cpu_cores, mem_gib: of the flavor. The publisher says that VMs of small flavors may share cores,
    at a ratio that no row has; nothing is scaled. There are no owners.

    horizon_s: end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "vms.csv"
    >>> _ = path.write_text(chr(10).join(["vmid,cpu,memory,time,type", "0,4,16,0.0,0", "1,1,2,5.0,0", "0,4,16,60.0,1",
    ...                                   "9,2,4,70.0,1"]))
    >>> trace, report = read_huawei_east(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [['9', <NA>, 70, 2.0, 4.0], ['0', 0, 60, 4.0, 16.0], ['1', 5, <NA>, 1.0, 2.0]]
    """
    source = Path(path)
    table = _file_in(source) if source.is_dir() else source
    ledger = ReadLedger()
    vms = _Vms()
    for rows in text_rows(table, ledger, separator=",", names=_COLUMNS, has_header=True):
        _take(rows, vms)
    requests = all_requests([vms.table()] if vms.names else [], table, "creation or deletion with a time above 0",
                            ledger, last_s=int(vms.latest.kept.max(initial=0)))
    horizon = horizon_of(vms.latest.kept, horizon_s, n_rows=vms.latest.n)
    requests = cut_at(requests, horizon, ledger, table.name)
    meta = {"source": f"Huawei-East-1 (VMAgent), {table.name}",
            "licence": "CC BY-NC (its publisher links to CC BY-NC-SA)", "known_at_end": []}
    return trace_of(requests, horizon.time_s, Roles(), ledger, meta, is_event_log=True)


HUAWEI_EAST = Reader(
    read_huawei_east,
    path="`Huawei-East-1.csv` (VMAgent), or its folder",
    arrival="creation; none without one",
    departure="deletion; none without one",
)


@dataclass(slots=True)
class _Vms:
    """Requests of the rows so far, column by column; -1 = unknown. running: name -> its running request."""

    running: dict[str, int] = field(default_factory=dict)
    n_seen: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    arrival_s: list[int] = field(default_factory=list)
    departure_s: list[int] = field(default_factory=list)
    sizes: list[tuple[float, float]] = field(default_factory=list)
    latest: LatestTimes = field(default_factory=LatestTimes)

    def add(self, name: str, line: int, arrival_s: int, departure_s: int, size: tuple[float, float]) -> None:
        """Add a request of a VM; one that has not left is the VM's running one."""
        n = self.n_seen.get(name, 0)
        self.n_seen[name] = n + 1
        if departure_s == _UNKNOWN:
            self.running[name] = len(self.names)
        self.names.append(f"{name}-{n}" if n else name)
        self.lines.append(line)
        self.arrival_s.append(arrival_s)
        self.departure_s.append(departure_s)
        self.sizes.append(size)

    def table(self) -> pd.DataFrame:
        """All requests."""
        arrival, departure = (pd.Series(times, dtype="Int64") for times in (self.arrival_s, self.departure_s))
        size = np.array(self.sizes)
        return pd.DataFrame({"line": self.lines, "request_id": pd.Series(self.names, dtype="str"),
                             "arrival_s": arrival.mask(arrival == _UNKNOWN),
                             "departure_s": departure.mask(departure == _UNKNOWN),
                             "cpu_cores": size[:, 0], "mem_gib": size[:, 1]})


def _take(rows: TextRows, vms: _Vms) -> None:
    """Add one block's creations and deletions."""
    cpu, memory, time, kind = (rows.number(name) for name in _COLUMNS[1:])
    name = rows.text("vmid")
    rows.refuse("vmid missing", name == "")
    rows.refuse("type neither 0 nor 1", (kind != _CREATION) & (kind != _DELETION))
    rows.refuse("time outside 0 .. 100 years", (time < 0) | (time > MAX_TIME_S))
    rows.refuse("negative size", (cpu < 0) | (memory < 0))
    rows.refuse(f"size above {_MAX_SIZE:g}", (cpu > _MAX_SIZE) | (memory > _MAX_SIZE))
    is_twice, is_early, is_lone, is_before = (np.zeros(len(time), bool) for _ in range(4))
    time_s = np.rint(time)
    for i in np.flatnonzero(rows.is_kept).tolist():
        at_s, who, size = int(time_s[i]), str(name[i]), (float(cpu[i]), float(memory[i]))
        running = vms.running.get(who)
        if kind[i] == _CREATION:
            is_twice[i] = running is not None
            if running is None:
                vms.add(who, int(rows.line[i]), at_s, _UNKNOWN, size)
        elif running is not None:
            is_early[i] = at_s < vms.arrival_s[running]
            if not is_early[i]:
                vms.departure_s[vms.running.pop(who)] = at_s
        else:
            is_lone[i], is_before[i] = who in vms.n_seen, who not in vms.n_seen
            if is_before[i]:
                vms.add(who, int(rows.line[i]), _UNKNOWN, at_s, size)
    rows.refuse("created again while running", is_twice)
    rows.refuse("departure before arrival", is_early)
    rows.refuse("deleted again", is_lone)
    rows.repair("deletion without a creation: start unknown", is_before)
    vms.latest.add(time_s[rows.is_kept])


def _file_in(folder: Path) -> Path:
    for name in (_FILE, f"{_FILE}.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold {_FILE} or {_FILE}.gz")
